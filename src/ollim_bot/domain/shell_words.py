"""Reads a command line as plain words, or not at all if a shell might read more into it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

LONGEST_COMMAND = 100_000
MOST_WORDS = 200

# Outside quotes, whatever is neither a letter, a digit, a space nor one of these is unclear.
_PLAIN = frozenset("-_./:=@%+,")
_LIVE_IN_DOUBLE_QUOTES = frozenset("$`\\")


def shell_words(command: str) -> tuple[str, ...] | None:
    """The words of one simple command; None if it is, or may be, anything else.

    Chains, substitutions, variables, redirections, assignments, escapes, comments, globs, braces,
    home directories, unclosed quotes and control characters are all anything else: no word stands
    for more than itself in any shell, whatever its settings. So is what is longer than the limits.
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

    No shell expands, aliases or otherwise replaces what stands in them.
    """
    return " ".join("'" + word.replace("'", "'\"'\"'") + "'" for word in words)


def _word(command: str, place: int) -> tuple[str, int] | None:
    """The word that begins here, and where it ends."""
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
    """What stands between the quote here and the next; None if that is not all there is to it."""
    mark = command[place]
    end = command.find(mark, place + 1)
    if end < 0:
        return None
    inside = command[place + 1 : end]
    is_live = mark == '"' and not _LIVE_IN_DOUBLE_QUOTES.isdisjoint(inside)
    return None if is_live else inside
