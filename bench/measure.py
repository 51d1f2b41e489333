"""Timing two things in turn, and saying how they compare."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

Action = Callable[[], object]


class Unit(StrEnum):
    SECONDS = "seconds"
    BYTES = "bytes"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Result:
    """`bar` is the largest ratio that passes, `most_more` the largest difference.

    Both are None where there is none to keep.
    """

    measure: str
    amount: float
    baseline: str
    baseline_amount: float
    bar: float | None = None
    most_more: float | None = None
    unit: Unit = Unit.SECONDS

    @property
    def ratio(self) -> float:
        return self.amount / self.baseline_amount

    @property
    def passes(self) -> bool:
        more = self.amount - self.baseline_amount
        return (self.bar is None or self.ratio <= self.bar) and (
            self.most_more is None or more <= self.most_more
        )

    @property
    def bars(self) -> str:
        ratio = "" if self.bar is None else f"≤ {self.bar:g}"
        more = "" if self.most_more is None else f"≤ +{shown(self.most_more, self.unit)}"
        return " ".join(filter(None, [ratio, more]))


def compare(
    measure: str,
    action: Action,
    baseline: str,
    baseline_action: Action,
    *,
    rounds: int,
    bar: float | None = None,
) -> Result:
    """Medians of rounds in which the two take turns, so that a busy machine hurts both alike."""
    times: list[float] = []
    baseline_times: list[float] = []
    for _ in range(rounds):
        times.append(seconds(action))
        baseline_times.append(seconds(baseline_action))
    return Result(measure, median(times), baseline, median(baseline_times), bar)


def seconds(action: Action) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def table(results: list[Result]) -> str:
    rows = [("measure", "", "baseline", "", "ratio", "bar", "")]
    for result in results:
        verdict = "pass" if result.passes else "FAIL"
        rows.append(
            (
                result.measure,
                shown(result.amount, result.unit),
                result.baseline,
                shown(result.baseline_amount, result.unit),
                f"{result.ratio:.2f}",
                result.bars,
                verdict if result.bars else "",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def shown(amount: float, unit: Unit = Unit.SECONDS) -> str:
    if unit is Unit.BYTES:
        return f"{amount / 1e6:.3g} MB" if amount >= 1e6 else f"{amount / 1000:.3g} KB"
    if unit is Unit.COUNT:
        return f"{amount:.3g}"
    for name, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if amount >= size:
            return f"{amount / size:.3g} {name}"
    return f"{amount / 1e-9:.3g} ns"
