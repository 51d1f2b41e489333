"""Reads a command line as plain words, or not at all if a shell might read more into it."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

# Outside quotes, whatever is neither a letter, a digit, a space nor one of these is unclear.
_PLAIN = frozenset("-_./:=@%+,")
_GLOB = frozenset("*?")
_BRACKETS = frozenset("[]{}")
_LIVE_IN_DOUBLE_QUOTES = frozenset("$`\\")


@dataclass(frozen=True, slots=True)
class Word:
    """`has_glob`: a `*` or `?` in it stands for file names."""

    text: str
    has_glob: bool = False


def shell_words(command: str) -> tuple[Word, ...] | None:
    """The words of one simple command; None if it is, or may be, anything else.

    Chains, substitutions, variables, redirections, assignments, escapes, comments, braces, home
    directories, unclosed quotes and control characters are all anything else.
    """
    if any(unicodedata.category(char) == "Cc" and char != "\t" for char in command):
        return None
    words, place = [], 0
    while place < len(command):
        if command[place] in " \t":
            place += 1
            continue
        read = _word(command, place)
        if read is None:
            return None
        word, place = read
        words.append(word)
    return None if words and "=" in words[0].text else tuple(words)


def _word(command: str, place: int) -> tuple[Word, int] | None:
    """The word that begins here, and where it ends."""
    if command[place] == "=":
        return None
    text, has_glob = "", False
    while place < len(command) and command[place] not in " \t":
        char = command[place]
        if char in "'\"":
            quoted = _quoted(command, place)
            if quoted is None:
                return None
            text += quoted
            place += len(quoted) + 2
            continue
        if not (char.isalnum() or char in _PLAIN or char in _GLOB):
            return None
        has_glob = has_glob or char in _GLOB
        text += char
        place += 1
    # Within a glob, a quoted bracket would have to be told from one that is not.
    is_unclear = has_glob and not _BRACKETS.isdisjoint(text)
    return None if is_unclear else (Word(text, has_glob), place)


def _quoted(command: str, place: int) -> str | None:
    """What stands between the quote here and the next; None if that is not all there is to it."""
    mark = command[place]
    end = command.find(mark, place + 1)
    if end < 0:
        return None
    inside = command[place + 1 : end]
    is_live = mark == '"' and not _LIVE_IN_DOUBLE_QUOTES.isdisjoint(inside)
    return None if is_live else inside
