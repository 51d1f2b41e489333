"""How texts are made fit for one line of a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST_TITLE = 60


def plain(text: str) -> str:
    """`text` with nothing in it that a terminal would obey."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in text)


def title(text: str) -> str:
    """One line of `text`, cut where it gets long, to stand inside a sentence."""
    line = plain(" ".join(text.split()))
    if len(line) > _LONGEST_TITLE:
        return f"{line[: _LONGEST_TITLE - 1].rstrip()}…"
    return line.rstrip(".,;: ") or line


def small(sentence: str) -> str:
    """A sentence as a part of another."""
    return sentence[:1].lower() + sentence[1:]


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """The rows as lines, each column as wide as its longest text, the last one free."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    )
