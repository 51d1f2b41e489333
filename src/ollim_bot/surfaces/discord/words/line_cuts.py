"""Where a line that is too long for one message is cut."""

from __future__ import annotations

import re

from ollim_bot.surfaces.discord.words.fences import is_fence_like
from ollim_bot.surfaces.discord.words.graphemes import is_seam, last_seam

_SENTENCE_END = re.compile(r"""[.!?…]["'”’»)\]*_`]*\s+|[。！？][」』）]*\s*""")
# Rows of tables and lists, headings, quotes and small text: only the whole line has its meaning.
_ROW = re.compile(r"[ \t]*(?:[-*+][ \t]|\d+[.)][ \t]|[|>#]|-#)")
# Ideographs have no space between words; a line may end anywhere between two of them.
_WORD_END = re.compile(r"(?<=[\s、，；：。！？」』）])|(?<=[ぁ-ヿ㐀-鿿])(?=[ぁ-ヿ㐀-鿿])")


def is_row(line: str) -> bool:
    """Whether it should begin in a new message rather than be cut."""
    return " | " in line or _ROW.match(line) is not None or is_fence_like(line)


def cut_in_line(line: str, enough: int, *, may_tear: bool) -> int | None:
    """How many characters stay; the last one is where the next message begins at the latest.

    After a sentence that ends not before `enough`, else after a word. A word is torn only if
    `may_tear` and nothing stands before it; otherwise None.
    """
    # A part of such a line alone could open or close a fence.
    if not is_fence_like(line):
        sentence = _last(_SENTENCE_END, line)
        if sentence is not None and sentence >= enough:
            return sentence
        word = _last(_WORD_END, line)
        if word is not None:
            return word
    return last_seam(line, len(line) - 1) if may_tear else None


def _last(kind: re.Pattern[str], line: str) -> int | None:
    """The end of the last one that leaves something on both sides."""
    first = len(line) - len(line.lstrip())
    ends = [found.end() for found in kind.finditer(line)]
    return next(
        (end for end in reversed(ends) if first < end < len(line) and is_seam(line, end)), None
    )
