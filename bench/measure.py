"""What a row is, and two actions timed in turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from statistics import median


class Bar(Enum):
    COMMAND = (
        "`ollim-bot reminder list` over 50 jobs, cold: ≤ 6 × `python -c pass`; nothing of asyncio, "
        "aiohttp, discord, the SDK or pydantic imported"
    )
    COMMANDS = (
        "`today`, `tasks list`, `routine list`, `cost`, `changes`, `runs`, `receipt`, `doses`, "
        "`history search`, `config`, `--help`, cold, 50 jobs: ≤ 8 × `python -c pass` each"
    )
    FIRST_SIGN = "message in → first sign on the surface: ≤ 50 ms of our own time"
    FIRST_TEXT = "added time of a turn over the bare SDK client, to first text: ≤ 30 ms"
    EDITS = (
        "edits for a 20,000 character answer: within the allowance, no 429, ≤ 1.2 × the minimum "
        "possible"
    )
    NEW_JOB = "new job file → armed: ≤ 1 s (typically < 100 ms)"
    DUE = "due moment → prompt at the model: ≤ 1 s with a warm engine"
    MANY_JOBS = (
        "10,000 jobs: start to armed; idle CPU; one edit → armed: ≤ 2 s; < 0.5 % of a core; ≤ 1 s"
    )
    NO_GROWTH = (
        "append to ledger, pending update with 10,000 others waiting: does not grow with history"
    )
    GIT = "git commit cost on the hot path: 0 (off the loop), batched"
    WEBHOOK = "webhook accepted (on disk): ≥ 500 per second on two cores"
    MEMORY = (
        "memory of our process, idle, with 1,000 jobs; after a simulated year: ≤ 120 MB; no growth"
    )
    BACKGROUND = "background runs at once: bounded; the queue drains in due order"


Action = Callable[[], object]


class Unit(StrEnum):
    SECONDS = "seconds"
    BYTES = "bytes"
    COUNT = "count"
    # Of one core, in CPU seconds for each second.
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class Result:
    """One row. `most` is the largest amount that passes, `most_times` the largest ratio, and
    `most_more` the largest difference; each is None if there is no such limit.

    `measure` is the unique name of the row, also in past runs.
    """

    measure: str
    amount: float
    baseline: str
    baseline_amount: float
    of: Bar | None = None
    most: float | None = None
    most_times: float | None = None
    most_more: float | None = None
    unit: Unit = Unit.SECONDS

    @property
    def ratio(self) -> float:
        return self.amount / self.baseline_amount

    @property
    def passes(self) -> bool:
        more = self.amount - self.baseline_amount
        return (
            (self.most is None or self.amount <= self.most)
            and (self.most_times is None or self.ratio <= self.most_times)
            and (self.most_more is None or more <= self.most_more)
        )

    @property
    def limits(self) -> str:
        """Empty without a limit."""
        most = "" if self.most is None else f"≤ {shown(self.most, self.unit)}"
        times = "" if self.most_times is None else f"≤ {self.most_times:g} ×"
        more = "" if self.most_more is None else f"≤ +{shown(self.most_more, self.unit)}"
        return ", ".join(filter(None, [most, times, more]))


def compare(
    measure: str,
    action: Action,
    baseline: str,
    baseline_action: Action,
    *,
    rounds: int,
    of: Bar | None = None,
    most_times: float | None = None,
    most_more: float | None = None,
) -> Result:
    """Medians of rounds in which the two take turns, so that a busy machine hurts both alike."""
    times: list[float] = []
    baseline_times: list[float] = []
    for _ in range(rounds):
        times.append(seconds(action))
        baseline_times.append(seconds(baseline_action))
    amount, baseline_amount = median(times), median(baseline_times)
    return Result(
        measure, amount, baseline, baseline_amount, of, most_times=most_times, most_more=most_more
    )


def seconds(action: Action) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def shown(amount: float, unit: Unit = Unit.SECONDS) -> str:
    if unit is Unit.BYTES:
        return f"{amount / 1e6:.3g} MB" if amount >= 1e6 else f"{amount / 1000:.3g} KB"
    if unit is Unit.COUNT:
        return f"{amount:.4g}"
    if unit is Unit.SHARE:
        return f"{amount * 100:.2g} %"
    for name, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if amount >= size:
            return f"{amount / size:.3g} {name}"
    return f"{amount / 1e-9:.3g} ns"
