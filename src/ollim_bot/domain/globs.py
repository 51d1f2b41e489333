"""Globs over paths and over words: `*` and `?` stay within a folder, `**` crosses folders.

A match reads a text once and keeps the set of all positions in the glob reached so far, so its time
grows with the length of the text for any glob.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

# A longer text matches no glob: paths, addresses and words are far shorter.
LONGEST_TEXT = 8192

# Where a folder may begin, `**/` also matches no folder.
_TOKENS = re.compile(r"(?<![^/])(?:\*\*+/)+|\*\*+|\*|\?|[^*?]+")

# They replace the wildcards of a glob while another glob is matched against it.
_ANY_FOLDERS, _ANY, _ONE = "\ue000", "\ue001", "\ue002"
_UNCLEAR = re.compile(r"[!\[\]{}(),\\\s\ue000-\ue002]")


def fits(glob: str, text: str) -> bool:
    """Whether the glob matches the text, taken literally."""
    return len(text) <= LONGEST_TEXT and _compiled(glob).matches(text)


def covers(wider: str, narrower: str) -> bool:
    """Whether a glob matches everything that another one matches; False where that is unclear."""
    if _UNCLEAR.search(narrower):
        return False
    marked = re.sub(r"\*\*+", _ANY_FOLDERS, narrower).replace("*", _ANY).replace("?", _ONE)
    return fits(wider, marked)


def fits_words(
    wanted: Sequence[str], words: Sequence[str], is_same: Callable[[str, str], bool] = fits
) -> bool:
    """Whether a pattern matches the words, one by one.

    `**` matches any number of words, and so does a `*` at the end.
    """
    reached = {*_skipping(wanted, {0})}
    for word in words:
        stays = {at for at in reached if _is_any_number(wanted, at)}
        goes_on = {
            at + 1
            for at in reached
            if at < len(wanted) and at not in stays and is_same(wanted[at], word)
        }
        reached = _skipping(wanted, stays | goes_on)
        if not reached:
            return False
    return len(wanted) in reached


def _is_any_number(wanted: Sequence[str], at: int) -> bool:
    return wanted[at : at + 1] == ["**"] or (at == len(wanted) - 1 and wanted[at] == "*")


def _skipping(wanted: Sequence[str], reached: set[int]) -> set[int]:
    """Add the positions that are reached without a further word."""
    found = set(reached)
    for at in range(len(wanted)):
        if at in found and _is_any_number(wanted, at):
            found.add(at + 1)
    return found


@dataclass(frozen=True, slots=True)
class _Glob:
    """A compiled glob: one bit for each position before a character; a wildcard is one character.

    `literals` has the positions before each plain character. At `runs` any number of characters may
    follow, at `names` any number except `/`, at `ones` exactly one. `folders` are the positions
    before a `**/`. `runs`, `names` and `folders` also reach the next position without a character,
    and `folders` the position behind its `/`.
    """

    literals: dict[str, int]
    runs: int
    names: int
    ones: int
    folders: int
    end: int

    def matches(self, text: str) -> bool:
        reached = self._with_skips(1)
        for char in text:
            reached = self._with_skips(self._after(reached, char))
            if not reached:
                return False
        return bool(reached & self.end)

    def _after(self, reached: int, char: str) -> int:
        takes = self.literals.get(char, 0)
        stays = 0 if char == "\n" else self.runs
        if char not in (f"/{_ANY_FOLDERS}"):
            stays |= self.names
            takes |= 0 if char == _ANY else self.ones
        return (reached & takes) << 1 | (reached & stays)

    def _with_skips(self, reached: int) -> int:
        while True:
            more = reached | (reached & (self.runs | self.names | self.folders)) << 1
            more |= (reached & self.folders) << 3
            if more == reached:
                return reached
            reached = more


@lru_cache(maxsize=512)
def _compiled(glob: str) -> _Glob:
    literals: dict[str, int] = {}
    masks = {"**": 0, "*": 0, "?": 0, "**/": 0}
    place = 1
    for char in _characters(glob):
        if char in masks:
            masks[char] |= place
        else:
            literals[char] = literals.get(char, 0) | place
        place <<= 1
    return _Glob(literals, masks["**"], masks["*"], masks["?"], masks["**/"], place)


def _characters(glob: str) -> Iterator[str]:
    for token in _TOKENS.findall(glob):
        if token.endswith("/") and token.startswith("**"):
            yield from ("**/", "**", "/")
        elif token.startswith("**"):
            yield "**"
        elif token in ("*", "?"):
            yield token
        else:
            yield from token
