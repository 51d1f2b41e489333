"""Where a text may be cut without tearing apart what is seen as one character."""

from __future__ import annotations

from unicodedata import category

_JOINER = "\u200d"
# Skin tones, flags of regions, the second halves of Hangul syllables and of lone surrogates.
_CLINGING = (
    ("\U0001f3fb", "\U0001f3ff"),
    ("\U000e0020", "\U000e007f"),
    ("\u1160", "\u11ff"),
    ("\udc00", "\udfff"),
)
_FLAG_LETTERS = ("\U0001f1e6", "\U0001f1ff")


def is_seam(text: str, at: int) -> bool:
    """Whether a new character, as it is seen, begins at `at`."""
    if not 0 < at < len(text) or text[at] < "\u0300":
        return text[at - 1 : at + 1] != "\r\n"
    before, char = text[at - 1], text[at]
    if before == "\n":
        return True
    if char == _JOINER or before == _JOINER or category(char).startswith("M"):
        return False
    if any(low <= char <= high for low, high in _CLINGING):
        return False
    return not (_is_flag_letter(char) and _flag_letters_before(text, at) % 2)


def last_seam(text: str, at: int) -> int:
    """The last one not after `at`; `at` itself where all before it is one character."""
    return next((each for each in range(at, 0, -1) if is_seam(text, each)), at)


def shortened(text: str, longest: int) -> str:
    """With a `…` at its end where something was left out."""
    if len(text) <= longest:
        return text
    return f"{text[: last_seam(text, longest - 1)].rstrip()}…"


def _is_flag_letter(char: str) -> bool:
    low, high = _FLAG_LETTERS
    return low <= char <= high


def _flag_letters_before(text: str, at: int) -> int:
    begin = at
    while begin > 0 and _is_flag_letter(text[begin - 1]):
        begin -= 1
    return at - begin
