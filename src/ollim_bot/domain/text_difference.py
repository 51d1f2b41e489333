"""What has changed in a text, in a few lines for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ollim_bot.domain.visible_text import one_line

_MOST_LINES = 6
_LONGEST_LINE = 160
# How much that is the same is shown before the first thing that is not.
_LEAD = 30


def difference(before: str, after: str) -> tuple[list[str], int]:
    """Its first lines, `- ` before what was taken away and `+ ` before what came, visible and cut.

    Also says how many further lines lie between the first and the last change. Lines without words
    are left out. Takes time in proportion to the texts, whatever they hold.
    """
    gone, come = _changed(_lines(before), _lines(after))
    start = _start(gone, come)
    shown = [*_marked("-", gone, start), *_marked("+", come, start)]
    return shown, len(gone) + len(come) - len(shown)


def _lines(text: str) -> list[str]:
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return [line for line in lines if line]


def _changed(before: list[str], after: list[str]) -> tuple[list[str], list[str]]:
    """Without the lines that both begin with, and those that both end with."""
    head = _same(before, after)
    before, after = before[head:], after[head:]
    tail = _same(before[::-1], after[::-1])
    return before[: len(before) - tail], after[: len(after) - tail]


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _start(gone: Sequence[str], come: Sequence[str]) -> int:
    """From where on the first lines are shown: a change far behind in a long line is seen."""
    if not gone or not come:
        return 0
    same = _same(gone[0], come[0])
    return same - _LEAD if same > _LONGEST_LINE - _LEAD else 0


def _marked(mark: str, lines: Sequence[str], start: int) -> Iterator[str]:
    for number, line in enumerate(lines[:_MOST_LINES]):
        words = f"…{line[start:]}" if number == 0 and start else line
        yield f"{mark} {one_line(words, _LONGEST_LINE)}"
