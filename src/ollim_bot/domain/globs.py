"""Globs over paths: `*` and `?` stay within a folder, `**` crosses folders."""

from __future__ import annotations

import re

_TOKENS = re.compile(r"(?<![^/])\*\*+/|\*\*+|\*|\?|[^*?]+")

# Stand-ins for the wildcards of a glob while another glob is matched against it.
_ANY_FOLDERS, _ANY, _ONE = "\ue000", "\ue001", "\ue002"
_UNCLEAR = re.compile(r"[!\[\]{}(),\\\s\ue000-\ue002]")


def fits(glob: str, text: str) -> bool:
    """Whether a text, taken as it is, is one of those that a glob stands for."""
    return _pattern(glob).fullmatch(text) is not None


def covers(wider: str, narrower: str) -> bool:
    """Whether a glob stands for everything that another one does; False where that is unclear."""
    if _UNCLEAR.search(narrower):
        return False
    marked = re.sub(r"\*\*+", _ANY_FOLDERS, narrower).replace("*", _ANY).replace("?", _ONE)
    return _pattern(wider).fullmatch(marked) is not None


def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile("".join(_translated(token) for token in _TOKENS.findall(glob)))


def _translated(token: str) -> str:
    if token.startswith("**"):
        return "(?:.*/)?" if token.endswith("/") else ".*"
    if token == "*":
        return f"[^/{_ANY_FOLDERS}]*"
    if token == "?":
        return f"[^/{_ANY_FOLDERS}{_ANY}]"
    return re.escape(token)
