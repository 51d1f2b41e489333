"""A document with fields on top, and the YAML form of single values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ollim_bot.kernel.values.job_fields import Field as Field

# The line of the first field, below the opening `---`.
FIRST_LINE = 2


class BadDocument(Exception):
    """`line` counts from 1 in the whole file; None if the problem concerns the whole file."""

    def __init__(self, line: int | None, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


class Document(NamedTuple):
    """Keys are hyphenated, in whichever form they were written; `body` is stripped."""

    fields: Mapping[str, Field]
    body: str


def field_name(key: str) -> str:
    return key.replace("_", "-")


# The type of an unquoted scalar is that of the first pattern that matches it whole, else text.
IMPLICIT_TYPES = (
    ("bool", "true|True|TRUE|false|False|FALSE"),
    ("null", "~|null|Null|NULL|"),
    ("int", "[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"),
)
_IMPLICIT_TYPE = re.compile("|".join(f"(?P<{kind}>{form})" for kind, form in IMPLICIT_TYPES))
_READERS: Mapping[str, Callable[[str], object]] = {
    "str": str,
    "null": lambda _: None,
    "bool": lambda text: text.lower() == "true",
    "int": lambda text: int(text, 0) if text[:2] in ("0o", "0x") else int(text),
    "float": float,
}
_LONGEST_NUMBER = 30

# Compiled when they are first used: a listing writes nothing.
# Text that is written without quotes; it excludes every character with a meaning in YAML.
_BARE = r"[^\W\d_][\w ./()'+-]*"
_WORDS_WITH_A_MEANING = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_ESCAPED = "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]"


def implicit_type(text: str) -> str:
    """The type of an unquoted scalar."""
    found = _IMPLICIT_TYPE.fullmatch(text)
    return "str" if found is None else str(found.lastgroup)


def scalar(kind: str, text: str) -> object:
    """Convert a scalar.

    Raises `ValueError` for an overlong number, `KeyError` for an unknown type.
    """
    if kind == "int" and len(text) > _LONGEST_NUMBER:
        raise ValueError("a number is too long")
    return _READERS[kind](text)


def inline(value: object) -> str:
    """Write any value on one line."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(inline(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_quoted(str(k))}: {inline(v)}' for k, v in value.items())}}}"
    return json.dumps(value)


def _text(value: str) -> str:
    bare = re.fullmatch(_BARE, value) and value == value.strip() and value.isprintable()
    return value if bare and value.lower() not in _WORDS_WITH_A_MEANING else _quoted(value)


def _quoted(value: str) -> str:
    """Quote as JSON, whose strings are valid YAML once a few more characters are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(_ESCAPED, lambda sign: f"\\u{ord(sign[0]):04x}", text)
