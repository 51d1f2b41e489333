"""The small lines that stand above and below the words of a message."""

from __future__ import annotations

import re

from ollim_bot.surfaces.discord.words.graphemes import shortened

FORK = "in a fork · apart from the main conversation"

_SMALL = "-# "
_MARKUP = re.compile(r"([\\`*_~|<>\[\]:])")


def small(line: str) -> str:
    return f"{_SMALL}{line}"


def is_small(text: str) -> bool:
    """Whether all of its lines are small ones."""
    return all(line.startswith(_SMALL) for line in text.split("\n"))


def without_small(text: str) -> str:
    """The same words, none of them small."""
    return "\n".join(line.removeprefix(_SMALL) for line in text.split("\n"))


def one_line(text: str, longest: int) -> str:
    """The words of a text on one line, without characters that cannot be seen."""
    printable = "".join(char if char.isprintable() else " " for char in text[: 4 * longest])
    return shortened(" ".join(printable.split()), longest)


def without_markup(text: str) -> str:
    """Escaped, so that each character is shown as it is and an address is no link."""
    return _MARKUP.sub(r"\\\1", text)
