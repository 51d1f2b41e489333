"""A text as messages of a limited length, also while it is being written.

A message ends where a paragraph, a line, a sentence or a word does. White space between two
messages belongs to the first one and is not shown, and neither is white space at the beginning of
the text, which Discord would take away. Within a code fence all of it is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ollim_bot.surfaces.discord.words import fences
from ollim_bot.surfaces.discord.words.fences import Fence
from ollim_bot.surfaces.discord.words.line_cuts import cut_in_line, is_row

LONGEST = 2000

# A piece that is as full as this may end with a paragraph or a line although more would fit.
_ENOUGH_PERCENT = 65
_SOLID = re.compile(r"\S")
_HEADING = re.compile(r"#{1,6}\s")


@dataclass(frozen=True, slots=True)
class Piece:
    """`source` is a part of the text; `text` is what is shown of it, with the fences added."""

    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Pieces:
    """However a text is cut into what is added, `shown` is `split` of the whole.

    `done` stays as it is, whatever is added; `rest` is what comes after it, in the fence that was
    left open. The sources of all of them and the rest are together the text. `longest` is 50 at
    least.
    """

    longest: int = LONGEST
    done: tuple[Piece, ...] = ()
    rest: str = ""
    fence: Fence | None = None

    def added(self, text: str) -> Pieces:
        rest, fence, done, begin = self.rest + text, self.fence, list[Piece](), 0
        while (end := _Scan(rest, begin, fence, self.longest).end()) is not None:
            done.append(_piece(rest[begin : end.at], fence, end.fence))
            begin, fence = end.at, end.fence
        return Pieces(self.longest, (*self.done, *done), rest[begin:], fence)

    def closed(self) -> Pieces:
        """The same where the text leaves no fence open, so that something may follow."""
        left = self._left_open()
        return self if left is None else replace(self, rest=self.rest + left.closing(self.rest))

    @property
    def shown(self) -> tuple[str, ...]:
        """Each of 1 to `longest` characters, without white space at its ends."""
        texts = tuple(piece.text for piece in self.done)
        if self.fence is None and not self.rest.strip():
            return texts
        return (*texts, _piece(self.rest, self.fence, self._left_open()).text)

    def _left_open(self) -> Fence | None:
        fence = self.fence
        for line in _lines(self.rest, 0):
            fence = _fence_after(line, fence, self.longest)
        return fence


def split(text: str, longest: int = LONGEST) -> tuple[str, ...]:
    """Empty if there is nothing to see.

    What was split of the beginning of a text stays, but for the last piece, whatever follows. A
    code fence is closed where a piece ends and opened again, with its language, in the next one.
    """
    return Pieces(longest).added(text).shown


@dataclass(frozen=True, slots=True)
class _End:
    """A place to end a piece, and the fence that is open there."""

    at: int
    fence: Fence | None


class _Scan:
    """Looks for the end of the piece that begins at `begin`.

    Where that is depends on the text up to the first character that does not fit, and on nothing
    after it.
    """

    def __init__(self, text: str, begin: int, fence: Fence | None, longest: int) -> None:
        self._text = text
        self._begin = begin
        self._fence = fence
        self._longest = longest
        solid = _SOLID.search(text, begin)
        self._solid = len(text) if solid is None else solid.start()
        self._counted_from = self._solid if fence is None else begin
        self._room = longest - (0 if fence is None else len(fence.opening))
        self._paragraph: _End | None = None
        self._line: _End | None = None
        self._is_below_heading = False
        self._is_block_empty = fence is not None

    def end(self) -> _End | None:
        """None if all fits."""
        if len(self._text) - self._counted_from <= self._room - fences.most_kept(self._longest):
            return None
        at = self._begin
        for line in _lines(self._text, at):
            kept, seen = self._kept_free(line), self._seen(line)
            if seen is not None and at + seen - self._counted_from + kept > self._room:
                fits = self._room - kept - (at - self._counted_from)
                return self._best(at, line, max(fits, 0))
            at += len(line)
            self._pass(line, at)
        return None

    def _kept_free(self, line: str) -> int:
        if self._fence is None:
            return fences.kept_free(line, self._longest)
        return self._fence.kept_free(line)

    def _seen(self, line: str) -> int | None:
        """How much of a line takes room where a piece ends with it; None if it is not shown."""
        if self._keeps_its_end(line):
            return len(line.removesuffix("\n"))
        return len(line.rstrip()) or None

    def _keeps_its_end(self, line: str) -> bool:
        """Whether the white space at the end of a line is shown where a piece ends with it."""
        if self._fence is None:
            return fences.is_fence_like(line)
        return not self._fence.is_closed_by(line, self._longest)

    def _pass(self, line: str, at: int) -> None:
        """Note what kind of a place the end of this line is; in a block that is empty, none."""
        before, self._fence = self._fence, _fence_after(line, self._fence, self._longest)
        is_blank, end = not line.strip(), _End(at, self._fence)
        if self._fence is not None and (before is None or (self._is_block_empty and is_blank)):
            self._is_block_empty = True
            return
        self._is_block_empty = False
        if at <= self._solid:
            return
        if not is_blank:
            self._is_below_heading = before is None and _HEADING.match(line) is not None
        if not self._is_below_heading or self._line is None:
            self._line = end
        if is_blank and self._fence is None and not self._is_below_heading:
            self._paragraph = end

    def _best(self, at: int, line: str, fits: int) -> _End:
        """Of the places before this line and in it; `fits` is how many of its characters fit."""
        enough = self._counted_from + self._longest * _ENOUGH_PERCENT // 100
        for end in (self._paragraph, self._line):
            if end is not None and end.at >= enough:
                return end
        is_all_counted = self._fence is not None or fences.is_fence_like(line)
        known = line[: fits + 1] if is_all_counted else _up_to_solid(line, fits)
        if self._line is not None and (self._fence is not None or is_row(known)):
            return self._line
        inside = cut_in_line(known, enough - at, may_tear=self._line is None)
        if inside is None:
            assert self._line is not None
            return self._line
        return _End(at + inside, self._fence)


def _up_to_solid(line: str, fits: int) -> str:
    """Up to the first character that does not fit; white space always does."""
    solid = _SOLID.search(line, fits)
    return line if solid is None else line[: solid.end()]


def _lines(text: str, begin: int) -> Iterator[str]:
    """Each with its newline."""
    while begin < len(text):
        end = text.find("\n", begin) + 1 or len(text)
        yield text[begin:end]
        begin = end


def _fence_after(line: str, fence: Fence | None, longest: int) -> Fence | None:
    if fence is None:
        return fences.opened_by(line, longest)
    return None if fence.is_closed_by(line, longest) else fence


def _piece(source: str, before: Fence | None, after: Fence | None) -> Piece:
    opening = "" if before is None else before.opening
    closing = "" if after is None else after.closing(source)
    return Piece(source, f"{opening}{source}{closing}".strip())
