"""Finds what could pose as ours in a text, however it is disguised."""

from __future__ import annotations

import re
import unicodedata

_LINE_BREAKS = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")

# Controls, formats (zero-width characters are among them) and marks; and letters without a shape.
_UNSEEN = frozenset(["Cc", "Cf", "Mn", "Me"])
_SHAPELESS = frozenset("\u115f\u1160\u3164\uffa0")

_ALIKE = str.maketrans(
    {**dict.fromkeys("【〔〖〘〚⟦❲⁅", "["), **dict.fromkeys("】〕〗〙〛⟧❳⁆", "]")}
    | {**dict.fromkeys("∶꞉ː", ":"), **dict.fromkeys("‹〈⟨《", "<"), "−": "-"}
)

TAG_NAMES = (
    "(?:routine|reminder)(?:-bg)?|webhook|fork-started|fork-timeout|stale-fork|late|button|system"
)

# Each alternative ends where the first character stands that looks like ours. What begins a line
# may have backslashes before it, so that one more can always be told from those that were typed.
_OURS = re.compile(
    rf"""
    (?= \[ [ ]* (?: {TAG_NAMES} | image ) [ ]* [:\]] )
    | (?= \[ [ ]* \d{{4}} - \d\d )
    | (?= < [ ]* (?: / [ ]* )? (?: system-reminder | untrusted ) )
    | ^ [ ]* \\* (?= recent [ ]+ background [ ]+ updates | attached [ ]+ files [ ]* : )
    | \A \s* \\* (?= > )
    """,
    re.VERBOSE | re.MULTILINE,
)


def lookalikes(text: str) -> list[int]:
    """Where something begins that reads as a tag, a time, a header or a quote of ours."""
    plain, places = _plain(text)
    return list(dict.fromkeys(places[found.end()] for found in _OURS.finditer(plain)))


def _plain(text: str) -> tuple[str, list[int]]:
    """The text as a hasty eye reads it, and for each of its characters the place it came from."""
    table = {char: _plain_character(char) for char in set(text)}
    plain, places = [], []
    for place, char in enumerate(text):
        seen = table[char]
        plain.append(seen)
        places.extend([place] * len(seen))
    return "".join(plain), places


def _plain_character(char: str) -> str:
    if char.isspace():
        return "\n" if char in _LINE_BREAKS else " "
    folded = unicodedata.normalize("NFKD", char).translate(_ALIKE).casefold()
    return "".join(map(_seen, folded))


def _seen(char: str) -> str:
    kind = unicodedata.category(char)
    if kind in _UNSEEN or char in _SHAPELESS:
        return ""
    return "-" if kind == "Pd" else char
