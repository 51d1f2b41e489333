"""Splits a command line into plain words, and refuses one that a shell might expand."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

LONGEST_COMMAND = 100_000
MOST_WORDS = 200

# Outside quotes, only letters, digits, spaces and these are plain.
_PLAIN = frozenset("-_./:=@%+,")
_LIVE_IN_DOUBLE_QUOTES = frozenset("$`\\")


def shell_words(command: str) -> tuple[str, ...] | None:
    """The words of one simple command; None if it is, or may be, anything else.

    None for chains, substitutions, variables, redirections, assignments, escapes, comments, globs,
    braces, home directories, unclosed quotes, control characters, and anything beyond the limits.
    Each returned word means only itself, in any shell with any settings.
    """
    if len(command) > LONGEST_COMMAND:
        return None
    if any(unicodedata.category(char) == "Cc" and char != "\t" for char in command):
        return None
    words: list[str] = []
    place = 0
    while place < len(command):
        if command[place] in " \t":
            place += 1
            continue
        read = _word(command, place)
        if read is None or len(words) == MOST_WORDS:
            return None
        word, place = read
        words.append(word)
    return None if words and "=" in words[0] else tuple(words)


def quoted(words: Iterable[str]) -> str:
    """A command line that every shell reads as these words: each in single quotes.

    No shell expands, aliases or otherwise replaces a single-quoted word.
    """
    return " ".join("'" + word.replace("'", "'\"'\"'") + "'" for word in words)


def _word(command: str, place: int) -> tuple[str, int] | None:
    """The word that begins at `place`, and where it ends."""
    if command[place] == "=":
        return None
    parts: list[str] = []
    while place < len(command) and command[place] not in " \t":
        char = command[place]
        if char in "'\"":
            inside = _quoted(command, place)
            if inside is None:
                return None
            parts.append(inside)
            place += len(inside) + 2
            continue
        if not (char.isalnum() or char in _PLAIN):
            return None
        parts.append(char)
        place += 1
    return "".join(parts), place


def _quoted(command: str, place: int) -> str | None:
    """The text between the quote at `place` and the next; None if a shell would expand it."""
    mark = command[place]
    end = command.find(mark, place + 1)
    if end < 0:
        return None
    inside = command[place + 1 : end]
    is_live = mark == '"' and not _LIVE_IN_DOUBLE_QUOTES.isdisjoint(inside)
    return None if is_live else inside
