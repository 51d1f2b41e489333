"""Cuts a text to what has room for it."""

from __future__ import annotations


def shortened(text: str, longest: int) -> str:
    """The text if it has at most `longest` characters, else its beginning and `…` within those."""
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"
