"""Two real bots on one PostgreSQL server: the harness finds planted bugs, and nothing else."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from itertools import islice

import pytest
from chaos.planted_bugs import PlantedBug, problems_of_planted_bugs, program_with_bug
from chaos.settling import Outcome
from chaos.standby.faults import FAULTS
from chaos.standby.machines import NO_SERVER
from chaos.standby.planted_bugs import STANDBY_BUGS
from chaos.standby.runner import plan, run_faults
from chaos.steps import SETTLE, Step
from devtools.localpostgres import find_binaries

FRESH = secrets.randbelow(1_000_000)
# The second of the lease in a test, and how many seconds the clocks of the machines are apart.
PACE, AHEAD = 0.2, 180.0
# The faults of a planted bug and the rest after them.
_STEPS_OF_A_BUG = 6


def need_server() -> None:
    """Skip the test where no server can be had; a machine that checks each change has one."""
    if find_binaries() is None:
        assert not os.environ.get("CI"), NO_SERVER
        pytest.skip(NO_SERVER)


def test_the_source_contains_the_text_of_every_planted_bug_of_the_lease() -> None:
    assert len(STANDBY_BUGS) >= 5
    assert problems_of_planted_bugs(STANDBY_BUGS) == []
    assert {step for bug in STANDBY_BUGS for step in bug.focus} <= {*FAULTS}


@pytest.mark.chaos
@pytest.mark.minutes
async def test_a_machine_that_wakes_up_after_a_take_over_sends_and_changes_nothing(
    record_property: Callable[[str, object], None],
) -> None:
    need_server()
    frozen = Step("freeze between claim and send until another leads", seed=1)
    outcome = await run_faults([frozen, Step(SETTLE)], seconds=60, pace=PACE, ahead=AHEAD)
    assert outcome.broken == [], description(outcome)
    assert sum(outcome.hits.values()) == 1
    seconds = [each.seconds for each in outcome.taken]
    assert seconds
    record_property("chaos", f"another machine sent after {seconds[0]:.1f} s, at pace {PACE:g}")


@pytest.mark.chaos
@pytest.mark.minutes
@pytest.mark.parametrize("chosen", STANDBY_BUGS, ids=lambda each: each.name)
async def test_every_planted_bug_of_the_lease_is_found(
    chosen: PlantedBug, record_property: Callable[[str, object], None]
) -> None:
    need_server()
    began = time.monotonic()
    with program_with_bug(chosen) as settings:
        steps = islice(plan(FRESH, chosen.focus), _STEPS_OF_A_BUG)
        outcome = await run_faults(steps, seconds=300, pace=PACE, ahead=AHEAD, settings=settings)
    assert outcome.broken, description(outcome)
    assert not outcome.is_harness_error, description(outcome)
    found = f"found after {time.monotonic() - began:.0f} s: {outcome.broken[0]}"
    record_property("chaos", f"{chosen.name}: {found} (seed {FRESH})")


def description(outcome: Outcome) -> str:
    return "\n".join([f"seed {FRESH}", *outcome.broken, *(str(step) for step in outcome.steps)])
