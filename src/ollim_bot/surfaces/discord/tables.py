"""Draws Markdown tables, which Discord does not know, with even columns in a code block."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from unicodedata import category, east_asian_width

from ollim_bot.surfaces.discord.split import LONGEST, Fence, opened_by

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
    at = 0
    while at < len(lines):
        end = _table_end(lines, at) if fence is None else at
        if end > at:
            yield from _drawn(lines[at:end])
            at = end
            continue
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
    return at if any("://" in line for line in lines[at:end]) else end


def _drawn(lines: Sequence[str]) -> list[str]:
    head, _, *rows = (_cells(line) for line in lines)
    count = len(head)
    table = [[*cells, *[""] * count][:count] for cells in (head, *rows)]
    widths = [min(_WIDEST, max(map(_width, column))) for column in zip(*table, strict=True)]
    first, *others = (_row(cells, widths) for cells in table)
    return ["```", first, _GAP.join("─" * width for width in widths), *others, "```"]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell + " " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=True)
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
