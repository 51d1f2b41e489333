"""Timing two things in turn, and saying how they compare."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

Action = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Result:
    """`bar` is the largest ratio that passes; None where there is none to keep."""

    measure: str
    seconds: float
    baseline: str
    baseline_seconds: float
    bar: float | None = None

    @property
    def ratio(self) -> float:
        return self.seconds / self.baseline_seconds

    @property
    def passes(self) -> bool:
        return self.bar is None or self.ratio <= self.bar


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
    rows = [("measure", "time", "baseline", "time", "ratio", "bar", "")]
    for result in results:
        bar = "" if result.bar is None else f"≤ {result.bar:g}"
        verdict = "" if result.bar is None else ("pass" if result.passes else "FAIL")
        rows.append(
            (
                result.measure,
                shown(result.seconds),
                result.baseline,
                shown(result.baseline_seconds),
                f"{result.ratio:.2f}",
                bar,
                verdict,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def shown(duration: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if duration >= size:
            return f"{duration / size:.3g} {unit}"
    return f"{duration / 1e-9:.3g} ns"
