"""How long the other machine takes to send something after a kill, and after a hand-over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from chaos.standby.__main__ import last_hundredth, middle
from chaos.standby.runner import run_faults
from chaos.steps import SETTLE, Step
from devtools.localpostgres import find_binaries

from bench.measure import Result
from ollim_bot_standby.held_lease import EXPIRES_AFTER

TIMES = 5
LIMIT = 900.0
MOST_SECONDS, MOST_PLANNED = 30.0, 5.0


def measure(folder: Path) -> list[Result]:  # noqa: ARG001
    if find_binaries() is None:
        return []
    faults = [Step("kill the leader"), Step("hand over")] * TIMES
    steps = [each for fault in faults for each in (fault, Step(SETTLE))]
    outcome = asyncio.run(run_faults(steps, seconds=LIMIT))
    assert outcome.broken == [], outcome.broken
    killed = [each.seconds for each in outcome.taken if not each.is_planned]
    planned = [each.seconds for each in outcome.taken if each.is_planned]
    return [
        *_rows(f"of {len(killed)} take-overs", killed, MOST_SECONDS),
        *_rows(f"of {len(planned)} hand-overs", planned, None),
    ]


def _rows(name: str, times: Sequence[float], most: float | None) -> list[Result]:
    lease = "the lease"
    return [
        Result(f"p50 {name}, until the first message", middle(times), lease, EXPIRES_AFTER),
        Result(f"p99 {name}", last_hundredth(times), lease, EXPIRES_AFTER, most=most),
    ]
