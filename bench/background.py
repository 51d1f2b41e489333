"""Forty background runs due at once: how many run together, in which order, and for how long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.stores import Stores

from bench.bars import Bar
from bench.fixtures import prepared
from bench.measure import Result, Unit
from bench.turns import Scene, make_scene, watched
from ollim_bot.domain.occurrences import LedgerRow, OccurrenceState
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.offline.messages import ModelRequest, Reply, Say

MANY = 40
# They are due within so many seconds, of which a run takes more than one.
WITHIN = 4
LIMIT = 400.0
ENDS = frozenset(state.value for state in OccurrenceState if state.is_end)
# An answer takes the model so many seconds at least.
ANSWERING = 0.9
SLOWLY = Reply((Say("It is done, all of it. " * 5),), pace=0.1, chunk=11)


def measure(folder: Path) -> list[Result]:
    return asyncio.run(_measured(folder))


async def _measured(folder: Path) -> list[Result]:
    async with asyncio.timeout(LIMIT), make_scene(folder) as scene, watched(scene) as surface:
        request_times = _RequestTimes()
        scene.model.when(request_times, SLOWLY)
        _, stores = await asyncio.to_thread(prepared, scene.paths.root)
        await surface.ask("hi")
        alone = await _run(scene, stores, ["alone"])
        together = await _run(scene, stores, [f"q{number:02}" for number in range(MANY)])
    slots, one = RuntimeConfig().bg_concurrency, alone.seconds
    of, unit = Bar.BACKGROUND, Unit.COUNT
    return [
        Result(
            "runs at once", request_times.most, "the setting", slots, of, most_times=1, unit=unit
        ),
        Result("runs out of order", together.swapped(slots), "all", MANY, of, 0, unit=unit),
        Result(
            f"{MANY} runs due at once, until done",
            together.seconds,
            f"one run, {MANY} times, {slots} at once",
            one * -(-MANY // slots),
            of,
        ),
    ]


class _RequestTimes:
    """A rule of the model that records the time of each request of a run."""

    def __init__(self) -> None:
        self._at: list[float] = []

    def __call__(self, request: ModelRequest) -> bool:
        is_run = "Look after number" in request.last_user_text
        if is_run:
            self._at.append(time.monotonic())
        return is_run

    @property
    def most(self) -> int:
        """The largest number of requests that were answered at the same time."""
        return max(sum(at <= other < at + ANSWERING for other in self._at) for at in self._at)


class _Runs:
    """The ledger rows of some runs, in the order in which the runs began."""

    def __init__(self, rows: Sequence[LedgerRow]) -> None:
        self._due: list[datetime] = []
        began: dict[str, datetime] = {}
        ended: dict[str, datetime] = {}
        for row in rows:
            if row.occurrence is None or row.occurrence.scheduled_at is None:
                continue
            if row.state == OccurrenceState.RUNNING:
                began[row.occurrence.id] = row.ts
                self._due.append(row.occurrence.scheduled_at)
            elif row.state == OccurrenceState.DONE:
                ended[row.occurrence.id] = row.ts
        self.seconds = (max(ended.values()) - min(began.values())).total_seconds()

    def swapped(self, slots: int) -> int:
        """How many runs began after one that was due later, except for runs that began together."""
        return sum(
            any(due < earlier for earlier in self._due[: max(0, place - slots + 1)])
            for place, due in enumerate(self._due)
        )


async def _run(scene: Scene, stores: Stores, names: Sequence[str]) -> _Runs:
    """Run jobs that are due in another order than their names."""
    start = (datetime.now(UTC) + timedelta(seconds=3)).replace(microsecond=0)
    for number, name in enumerate(names):
        due = start + timedelta(seconds=number * 7 % len(names) * WITHIN // len(names))
        head = f'id: {name}\nrun-at: "{due.isoformat()}"\nallow-ping: false'
        text = f"---\n{head}\nupdate-main-session: freely\n---\nLook after number {number}.\n"
        (scene.paths.reminders / f"{name}.md").write_text(text)
    while True:
        rows = (await asyncio.to_thread(stores.ledger.read, start - timedelta(minutes=1))).entries
        own = [row for row in rows if row.occurrence and row.occurrence.job_id in names]
        ends = [row for row in own if row.state in ENDS]
        if len(ends) == len(names):
            assert all(row.state == OccurrenceState.DONE for row in ends), ends
            return _Runs(own)
        await asyncio.sleep(0.5)
