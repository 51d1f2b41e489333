"""Splits long texts into pieces that Discord accepts, without breaking their markup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple
from unicodedata import category, east_asian_width

_JOINER = "\u200d"
# Skin tones, flags of regions, the second halves of Hangul syllables and of lone surrogates.
_COMBINING = (
    ("\U0001f3fb", "\U0001f3ff"),
    ("\U000e0020", "\U000e007f"),
    ("\u1160", "\u11ff"),
    ("\udc00", "\udfff"),
)
_FLAG_LETTERS = ("\U0001f1e6", "\U0001f1ff")


# Discord accepts a fence at any indentation. All kinds of white space count, since Discord removes
# them at the ends of a message, where a fence may then appear.
_FENCE_LIKE = re.compile(r"[^\S\n]*(`{3,}|~{3,})(.*)", re.DOTALL)
_CLOSING_SO_FAR = re.compile(r"[^\S\n]*(?:(?:`+|~+)\s*)?\Z")
# How far a closing line may be indented and still surely fit.
_SLACK = 4
_SENTENCE_END = re.compile(r"""[.!?…]["'”’»)\]*_`]*\s+|[。！？][」』）]*\s*""")
# Rows of tables and lists, headings, quotes and small text lose their meaning when cut.
_ROW = re.compile(r"[ \t]*(?:[-*+][ \t]|\d+[.)][ \t]|[|>#]|-#)")
# Ideographs have no space between words; a line may end anywhere between two of them.
_WORD_END = re.compile(r"(?<=[\s、，；：。！？」』）])|(?<=[ぁ-ヿ㐀-鿿])(?=[ぁ-ヿ㐀-鿿])")
LONGEST = 2000
# A longer text goes as a file too, so that it does not keep back what comes after it.
MOST_PIECES = 10
LONGEST_SHOWN = MOST_PIECES * LONGEST
_CUT_SHORT = "-# The rest does not fit here. Ask for it on the page."
# A piece this full may end with a paragraph or a line although more would fit.
_ENOUGH_PERCENT = 65
_SOLID = re.compile(r"\S")
_HEADING = re.compile(r"#{1,6}\s")


def is_character_boundary(text: str, at: int) -> bool:
    """Whether a visible character (a grapheme) begins at `at`."""
    if not 0 < at < len(text) or text[at] < "\u0300":
        return text[at - 1 : at + 1] != "\r\n"
    before, char = text[at - 1], text[at]
    if before == "\n":
        return True
    if char == _JOINER or before == _JOINER or category(char).startswith("M"):
        return False
    if any(low <= char <= high for low, high in _COMBINING):
        return False
    return not (_is_flag_letter(char) and _flag_letters_before(text, at) % 2)


def last_character_boundary(text: str, at: int) -> int:
    """The last boundary up to `at`; `at` itself if the text before it is one character."""
    return next((each for each in range(at, 0, -1) if is_character_boundary(text, each)), at)


def shortened(text: str, longest: int) -> str:
    """Cut the text to `longest` characters; a cut text ends with `…`."""
    if len(text) <= longest:
        return text
    return f"{text[: last_character_boundary(text, longest - 1)].rstrip()}…"


def _is_flag_letter(char: str) -> bool:
    low, high = _FLAG_LETTERS
    return low <= char <= high


def _flag_letters_before(text: str, at: int) -> int:
    begin = at
    while begin > 0 and _is_flag_letter(text[begin - 1]):
        begin -= 1
    return at - begin


@dataclass(frozen=True, slots=True)
class Fence:
    """A code fence; `marker` opens and closes it."""

    marker: str
    language: str = ""

    @property
    def opening(self) -> str:
        return f"{self.marker}{self.language}\n"

    def closing(self, text: str) -> str:
        """What to add after `text`, which ends within this fence."""
        return self.marker if text.endswith("\n") else f"\n{self.marker}"

    def is_closed_by(self, line: str, longest: int) -> bool:
        """A marker alone on its line, at least as long as this one, closes the fence."""
        word = line.strip()
        is_marker = word.startswith(self.marker) and not word.strip(self.marker[0])
        return is_marker and len(word) <= share_of(longest)

    def kept_free(self, line: str) -> int:
        """How many characters to reserve after a line that is in this fence.

        The number never shrinks as the line grows, so that the cut does not depend on how much of
        the text has arrived. It includes room for a line that closes the fence: at the beginning of
        the next piece that line would leave an empty block.
        """
        closing = 1 + len(self.marker)
        if len(line.rstrip() or line) <= closing + _SLACK and _CLOSING_SO_FAR.match(line):
            return closing
        return 2 * closing + _SLACK


def is_fence_like(line: str) -> bool:
    """Whether the line begins like a fence."""
    return _FENCE_LIKE.match(line) is not None


def opened_by(line: str, longest: int) -> Fence | None:
    """None if the line opens no fence, or one whose marker or language is too long."""
    found = _FENCE_LIKE.match(line)
    if found is None:
        return None
    marker, about = found[1], found[2].rstrip()
    if max(len(marker), len(about)) > share_of(longest) or (marker[0] == "`" and "`" in about):
        return None
    # A language that begins like the marker would change the marker.
    return Fence(marker, "".join(about.split()[:1]).lstrip(marker[0]))


def kept_free(line: str, longest: int) -> int:
    """As `Fence.kept_free`, for a line outside a fence that may open one."""
    found = _FENCE_LIKE.match(line)
    return 0 if found is None else 1 + min(len(found[1]), share_of(longest))


def share_of(longest: int) -> int:
    """The longest marker, and the longest language, of a fence."""
    return longest // 8


def most_kept(longest: int) -> int:
    """The most that is reserved after any line."""
    return 2 * (1 + share_of(longest)) + _SLACK


def is_row(line: str) -> bool:
    """Whether the line should move to the next piece rather than be cut."""
    return " | " in line or _ROW.match(line) is not None or is_fence_like(line)


def cut_in_line(line: str, enough: int, *, may_tear: bool) -> int | None:
    """How many characters of the line stay; its last character does not fit.

    The cut is after a sentence that ends at `enough` or later, else after a word. A word is cut
    only with `may_tear`; otherwise None.
    """
    # A part of a fence-like line could open or close a fence.
    if not is_fence_like(line):
        sentence = _last(_SENTENCE_END, line)
        if sentence is not None and sentence >= enough:
            return sentence
        word = _last(_WORD_END, line)
        if word is not None:
            return word
    return last_character_boundary(line, len(line) - 1) if may_tear else None


def _last(kind: re.Pattern[str], line: str) -> int | None:
    """The end of the last match that leaves text on both sides."""
    first = len(line) - len(line.lstrip())
    ends = [found.end() for found in kind.finditer(line)]
    return next(
        (
            end
            for end in reversed(ends)
            if first < end < len(line) and is_character_boundary(line, end)
        ),
        None,
    )


class PieceEnd(NamedTuple):
    """A place to end a piece, and the fence that is open there."""

    at: int
    fence: Fence | None


_BEGINNING = PieceEnd(0, None)


def piece_ends(text: str, longest: int, after: PieceEnd = _BEGINNING) -> Iterator[PieceEnd]:
    """Where the pieces of the text end, but for the last one."""
    while (end := _Scan(text, *after, longest).end()) is not None:
        yield end
        after = end


def split(text: str, longest: int = LONGEST, foot: str = "") -> tuple[str, ...]:
    """Split the text with the lines of `foot` below it; empty if nothing in it is visible.

    Each piece has 1 to `longest` characters, which are at least 50, without white space at its
    ends. Text that is added later changes only the last piece. A code fence is closed where a piece
    ends and opened again, with its language, in the next one; the foot is outside of any.
    """
    ends = [_BEGINNING, *piece_ends(text, longest)]
    if foot:
        text = f"{text}{_closing(text, ends[-1], longest)}\n{foot}"
        ends += piece_ends(text, longest, ends[-1])
    shown = [
        f"{_opening(begin)}{(source := text[begin.at : end.at])}"
        f"{end.fence.closing(source) if end.fence else ''}".strip()
        for begin, end in pairwise(ends)
    ]
    at, fence = ends[-1]
    if fence is not None or text[at:].strip():
        last = f"{_opening(ends[-1])}{text[at:]}{_closing(text, ends[-1], longest)}"
        shown.append(last.strip())
    return tuple(shown)


def _opening(begin: PieceEnd) -> str:
    return "" if begin.fence is None else begin.fence.opening


def _closing(text: str, begin: PieceEnd, longest: int) -> str:
    """What closes the fence that the text leaves open in its last piece."""
    fence = begin.fence
    for line in _lines(text, begin.at):
        fence = _fence_after(line, fence, longest)
    return "" if fence is None else fence.closing(text[begin.at :])


def is_too_long(text: str, pieces: Sequence[str]) -> bool:
    """Whether one message cannot show the text, of which at least the beginning is in `pieces`."""
    return len(text) > LONGEST_SHOWN or len(pieces) > MOST_PIECES


def split_notice(text: str) -> tuple[str, ...]:
    """Split a text that is in no log; of a text that is too long, the beginning."""
    pieces = split(text[: LONGEST_SHOWN + 1])
    if not is_too_long(text, pieces):
        return pieces
    return (*pieces[: MOST_PIECES - 1], _CUT_SHORT)


class _Scan:
    """Looks for the end of the piece that begins at `begin`.

    The end depends only on the text up to the first character that does not fit.
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
        self._enough = self._counted_from + longest * _ENOUGH_PERCENT // 100
        self._paragraph: PieceEnd | None = None
        self._line: PieceEnd | None = None
        self._is_below_heading = False
        self._is_block_empty = fence is not None

    def end(self) -> PieceEnd | None:
        """The end of the piece; None if the whole text fits."""
        if len(self._text) - self._counted_from <= self._room - most_kept(self._longest):
            return None
        at = self._begin
        for line in _lines(self._text, at):
            fence, seen = self._fence, self._seen(line)
            kept = kept_free(line, self._longest) if fence is None else fence.kept_free(line)
            if seen is not None and at + seen - self._counted_from + kept > self._room:
                fits = self._room - kept - (at - self._counted_from)
                return self._best(at, line, max(fits, 0))
            at += len(line)
            self._pass(line, at)
        return None

    def _seen(self, line: str) -> int | None:
        """How much room the line takes at the end of a piece; None if it is not shown there."""
        fence = self._fence
        # Whether white space at the end of the line is shown at the end of a piece.
        if is_fence_like(line) if fence is None else not fence.is_closed_by(line, self._longest):
            return len(line.removesuffix("\n"))
        return len(line.rstrip()) or None

    def _pass(self, line: str, at: int) -> None:
        """Record the end of the line as a candidate, unless it is in an empty code block."""
        before, self._fence = self._fence, _fence_after(line, self._fence, self._longest)
        is_blank, end = not line.strip(), PieceEnd(at, self._fence)
        if self._fence is not None and (before is None or (self._is_block_empty and is_blank)):
            self._is_block_empty = True
            return
        self._is_block_empty = False
        if at <= self._solid:
            return
        if not is_blank:
            self._is_below_heading = before is None and _HEADING.match(line) is not None
        # A heading moves on with what it is about, unless the piece would then be short.
        if not self._is_below_heading or self._line is None or self._line.at < self._enough:
            self._line = end
        if is_blank and self._fence is None and not self._is_below_heading:
            self._paragraph = end

    def _best(self, at: int, line: str, fits: int) -> PieceEnd:
        """Choose among the candidates before the line and in it, of which `fits` characters fit."""
        for end in (self._paragraph, self._line):
            if end is not None and end.at >= self._enough:
                return end
        is_all_counted = self._fence is not None or is_fence_like(line)
        known = line[: fits + 1] if is_all_counted else _up_to_solid(line, fits)
        if self._line is not None and (self._fence is not None or is_row(known)):
            return self._line
        inside = cut_in_line(known, self._enough - at, may_tear=self._line is None)
        if inside is None:
            assert self._line is not None
            return self._line
        return PieceEnd(at + inside, self._fence)


def _up_to_solid(line: str, fits: int) -> str:
    """Cut after the first character that does not fit; white space always fits."""
    solid = _SOLID.search(line, fits)
    return line if solid is None else line[: solid.end()]


def _lines(text: str, begin: int) -> Iterator[str]:
    """The lines from `begin` on, each with its newline."""
    while begin < len(text):
        end = text.find("\n", begin) + 1 or len(text)
        yield text[begin:end]
        begin = end


def _fence_after(line: str, fence: Fence | None, longest: int) -> Fence | None:
    if fence is None:
        return opened_by(line, longest)
    return None if fence.is_closed_by(line, longest) else fence


_BAR = re.compile(r"(?<!\\)\|")
_DASHES = re.compile(r":?-+:?")
_STRONG = "**"
# A longer cell sticks out, so that one long cell does not make every row long.
_WIDEST = 24
_GAP = "  "


def with_tables(text: str) -> str:
    """The text with its tables drawn. A table with an address stays, since code has no links."""
    lines = text.split("\n")
    return "\n".join(_drawn_lines(lines)) if any(map(_is_rule, lines)) else text


def _is_rule(line: str) -> bool:
    """Whether it is the line below the heads of the columns, such as `|---|:-:|`."""
    if "|" not in line or "-" not in line or line.strip("|:- \t\r"):
        return False
    return all(map(_DASHES.fullmatch, _cells(line)))


def _drawn_lines(lines: Sequence[str]) -> Iterator[str]:
    fence: Fence | None = None
    at = undrawn = 0
    while at < len(lines):
        if fence is None and at >= undrawn and (end := _table_end(lines, at)) > at:
            if not any("://" in line for line in lines[at:end]):
                yield from _drawn(lines[at:end])
                at = end
                continue
            undrawn = end
        line = lines[at]
        if fence is None:
            fence = opened_by(line, LONGEST)
        elif fence.is_closed_by(line, LONGEST):
            fence = None
        yield line
        at += 1


def _table_end(lines: Sequence[str], at: int) -> int:
    """Where the table that begins at `at` ends; `at` if none begins there."""
    heads = lines[at : at + 2]
    if len(heads) < 2 or "|" not in heads[0] or not _is_rule(heads[1]):
        return at
    if len(_cells(heads[0])) != len(_cells(heads[1])):
        return at
    end = at + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    return end


def _drawn(lines: Sequence[str]) -> list[str]:
    head, _, *rows = (_cells(line) for line in lines)
    widths = [0] * len(head)
    for cells in (head, *rows):
        for column, cell in enumerate(cells[: len(head)]):
            widths[column] = max(widths[column], min(_WIDEST, _width(cell)))
    first, *others = (_row(cells, widths) for cells in (head, *rows))
    return ["```", first, _GAP.join("─" * width for width in widths), *others, "```"]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell + " " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=False)
    )
    return _GAP.join(padded).rstrip()


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [_plain(cell) for cell in _BAR.split(inner)]


def _plain(cell: str) -> str:
    """The words of a cell: code shows no markup, and backticks could end it."""
    words = cell.replace("\\|", "|").replace("`", "").strip()
    is_strong = len(words) > 4 and words.startswith(_STRONG) and words.endswith(_STRONG)
    return words[2:-2] if is_strong else words


def _width(text: str) -> int:
    """How many columns the text takes."""
    return sum(
        2 if east_asian_width(char) in "WF" else 1
        for char in text
        if not category(char).startswith("M")
    )
