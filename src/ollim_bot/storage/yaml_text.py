"""Values as YAML on one line, written so that they are read back as the same values."""

from __future__ import annotations

import json
import re

# What a person would leave without quotes, kept far from everything that YAML reads as a sign.
_BARE = re.compile(r"[^\W\d_][\w ./()'+-]*")
_WORDS_WITH_A_MEANING = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def inline(value: object) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(inline(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_quoted(str(k))}: {inline(v)}' for k, v in value.items())}}}"
    return json.dumps(value)


def _text(value: str) -> str:
    bare = _BARE.fullmatch(value) and value == value.strip() and value.isprintable()
    return value if bare and value.lower() not in _WORDS_WITH_A_MEANING else _quoted(value)


def _quoted(value: str) -> str:
    """JSON's strings are YAML's too, but for a few signs that YAML wants escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return _ESCAPED.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)
