"""Texts of others inside our own words, which they must not be able to pose as."""

from __future__ import annotations

import re
import unicodedata

from ollim_bot.domain.shortening import shortened

_UNSEEN = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
_MARKUP = re.compile(r"([\\`*_~|<>\[\]:#])")
# Families of emoji are joined by the one, words of Persian parted by the other.
_JOINERS = "\u200c\u200d"


def visible(text: str, *, besides: str = "\n\t") -> str:
    """With a code for what cannot be seen, or makes other text look different than it is.

    The characters in `besides` stay as they are.
    """
    return "".join(
        each if each in besides or _is_seen(each) else f"\\u{ord(each):04x}" for each in text
    )


def fenced(text: str) -> str:
    """Visible, and with nothing in it that could end a fence."""
    return re.sub("`{3,}", lambda run: "\u200b".join(run[0]), visible(text))


def one_line(text: str, longest: int) -> str:
    """Its beginning, visible, on one line of so many characters at most."""
    words = " ".join(text.split())[: longest + 1]
    return shortened(visible(words, besides=_JOINERS), longest)


def as_code(text: str, longest: int) -> str:
    """On one line and between backticks, which it cannot end."""
    return f"`{one_line(text, longest).replace('`', chr(0x2035))}`"


def literal(text: str) -> str:
    """Escaped, so that markdown shows each character as it is."""
    return _MARKUP.sub(r"\\\1", text)


def _is_seen(char: str) -> bool:
    return unicodedata.category(char) not in _UNSEEN
