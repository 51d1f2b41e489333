"""The table that a run prints: first the bars of the contract in their order, then the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bench.bars import Bar
from bench.measure import Result, shown
from bench.past_runs import UsualRatio

Cells = tuple[str, ...]

_HEAD: Cells = ("", "measure", "", "baseline", "", "ratio", "usual", "limit", "")


def table(results: Sequence[Result], past: Mapping[str, UsualRatio], *, is_whole: bool) -> str:
    """`is_whole` says that all parts have run; then a bar without a row is named too."""
    of_bars = [row for bar in Bar for row in _of_bar(bar, results, past, is_whole=is_whole)]
    rest = [_cells(each, past) for each in results if each.of is None]
    widths = _widths([_HEAD, *(row for row in of_bars if len(row) > 1), *rest])
    blocks = [("The bars", of_bars), ("The rest", rest)]
    lines = []
    for title, rows in blocks:
        if rows:
            lines += [title, _line(_HEAD, widths), *(_line(row, widths) for row in rows), ""]
    return "\n".join(lines).rstrip()


def _of_bar(
    bar: Bar, results: Sequence[Result], past: Mapping[str, UsualRatio], *, is_whole: bool
) -> Iterator[Cells]:
    """The bar in the words of the contract, followed by its measures."""
    number = list(Bar).index(bar) + 1
    rows = [_cells(each, past) for each in results if each.of is bar]
    if rows or is_whole:
        yield (f"{number}. {bar.value}",)
    yield from rows
    if is_whole and not rows:
        yield ("   NOT MEASURED",)


def _cells(result: Result, past: Mapping[str, UsualRatio]) -> Cells:
    before = past.get(result.measure)
    verdict = ("pass" if result.passes else "FAIL") if result.limits else ""
    slower = "SLOWER" if before is not None and before.is_worse(result.ratio) else ""
    return (
        "  ",
        result.measure,
        shown(result.amount, result.unit),
        result.baseline,
        shown(result.baseline_amount, result.unit),
        f"{result.ratio:.2f}",
        "" if before is None else f"{before.usual:.2f}",
        result.limits,
        " ".join(filter(None, [verdict, slower])),
    )


def _widths(rows: Sequence[Cells]) -> list[int]:
    return [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]


def _line(row: Cells, widths: Sequence[int]) -> str:
    if len(row) == 1:
        return row[0]
    cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return " ".join(cells).rstrip()
