"""The harness of `make chaos`: it finds planted bugs, and nothing in the program without them."""

from __future__ import annotations

import math
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import pytest
from chaos.checker import check
from chaos.crash_points import CRASH_POINTS
from chaos.planted_bugs import (
    PACKAGE,
    PLANTED_BUGS,
    PlantedBug,
    problems_of_planted_bugs,
    program_with_bug,
)
from chaos.record import Record
from chaos.runner import WEIGHTS, plan, run_steps
from chaos.settling import Outcome
from chaos.shrink import shrunk
from chaos.steps import SETTLE, Step, planned_steps, read_steps, write_steps

# Two fixed seeds, which show what a change of the program breaks, and a new one.
SEEDS = (2, 8, "fresh")
FRESH = secrets.randbelow(1_000_000)
SHORT = 10.0
LONG = 60.0
# As many as a run of ten minutes has on an idle machine.
STEPS_OF_A_RUN = 200
SETTLED = Step(SETTLE)


def bug(name: str) -> PlantedBug:
    return next(each for each in PLANTED_BUGS if each.name == name)


@pytest.mark.real_process
def test_the_checker_imports_nothing_of_the_program() -> None:
    program = (
        "import sys, chaos.checker\n"
        "assert not [name for name in sys.modules if name.startswith('ollim')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


def test_the_source_contains_the_text_of_every_planted_bug() -> None:
    assert len(PLANTED_BUGS) >= 18
    assert problems_of_planted_bugs() == []


def test_a_planted_bug_whose_text_is_not_in_the_source_is_an_error() -> None:
    stale = PlantedBug("stale", "kernel/base/errors.py", "words that stand nowhere", "")
    with (
        pytest.raises(LookupError, match=r"stale: .* has its text 0 times"),
        program_with_bug(stale),
    ):
        pass


def test_a_planted_bug_is_in_the_copy_and_not_in_the_source() -> None:
    chosen = bug("a token is not reserved")
    before = (PACKAGE / chosen.file).read_text()
    with program_with_bug(chosen) as settings:
        copy = Path(settings["PYTHONPATH"]) / PACKAGE.name / chosen.file
        assert chosen.new in copy.read_text()
    assert not copy.exists()
    assert (PACKAGE / chosen.file).read_text() == before


@pytest.mark.parametrize(
    ("log", "is_right"),
    [
        ({"plain": "1", "must": "2", "other": "3"}, True),
        ({"plain": "2", "must": "1", "other": "3"}, True),
        ({"plain": "2", "other": "1"}, False),
        ({"must": "2", "plain": "1"}, False),
        ({"must": "2", "must too": "1"}, False),
        ({"plain": "1 2", "must": "3"}, True),
        ({"plain": "1 3", "must": "2"}, False),
    ],
)
def test_only_what_must_come_goes_before_others_on_discord(
    tmp_path: Path, log: Mapping[str, str], is_right: bool
) -> None:
    record = Record(tmp_path / "record", tmp_path / "state")
    for text, refs in log.items():
        row = {"id": text, "author": "background", "text": text, "refs": {"discord": refs}}
        record.note("messages", row | {"must": text.startswith("must")})
        for ref in refs.split():
            record.note("discord", {"id": ref, "is_ours": True, "text": text, "marks": []})
    assert (check(tmp_path, record.folder) == []) is is_right


def test_a_seed_has_always_the_same_steps_and_they_can_be_kept(tmp_path: Path) -> None:
    first, second = plan(7), plan(7)
    steps = [next(first) for _ in range(100)]
    assert steps == [next(second) for _ in range(100)]
    assert {step.name for step in steps} <= {*WEIGHTS, *CRASH_POINTS, SETTLE}
    write_steps(tmp_path / "steps", steps)
    assert read_steps(tmp_path / "steps") == steps


@pytest.mark.parametrize(
    "weights", [WEIGHTS, dict.fromkeys(CRASH_POINTS, 1)], ids=["actions and faults", "crash points"]
)
def test_each_step_comes_as_often_as_its_weight_before_a_new_round(
    weights: Mapping[str, int],
) -> None:
    names = [step.name for step in islice(plan(7), 2000) if step.name in weights]
    once = sum(weights.values())
    assert Counter(names[:once]) == Counter(names[once : 2 * once]) == weights


def test_the_repetitions_of_a_step_are_spread_evenly() -> None:
    weights = dict.fromkeys(("say", "kill", "travel"), 4)
    steps = islice(planned_steps(7, weights, crashes=(), crash_share=0), 100)
    names = [step.name for step in steps if step.name != SETTLE]
    for quarter in range(8):
        assert {*names[3 * quarter : 3 * quarter + 3]} == {*weights}


@pytest.mark.parametrize("chosen", PLANTED_BUGS, ids=lambda each: each.name)
def test_a_focus_changes_only_the_order_of_the_steps(chosen: PlantedBug) -> None:
    """So a usual run has the steps that find a planted bug, too."""
    steps = [step.name for step in islice(plan(7, chosen.focus), 2000) if step.name != SETTLE]
    assert {*chosen.focus} <= {*WEIGHTS, *CRASH_POINTS}
    for weights in (WEIGHTS, dict.fromkeys(CRASH_POINTS, 1)):
        names = [name for name in steps if name in weights]
        assert Counter(names[: sum(weights.values())]) == weights
    assert {*steps[: len(chosen.focus)]} <= {*chosen.focus}


async def test_steps_that_do_not_matter_are_left_out() -> None:
    steps = [Step(str(number)) for number in range(12)]
    tried: list[int] = []

    async def breaks(fewer: Sequence[Step]) -> bool:
        tried.append(len(fewer))
        return {"3", "8"} <= {step.name for step in fewer}

    assert [step.name for step in await shrunk(steps, breaks, 40)] == ["3", "8"]
    assert len(tried) <= 40


async def test_shrinking_stops_after_the_allowed_tries() -> None:
    tried: list[int] = []

    async def never(fewer: Sequence[Step]) -> bool:
        tried.append(len(fewer))
        return False

    steps = [Step(str(number)) for number in range(12)]
    assert await shrunk(steps, never, 3) == steps
    assert len(tried) == 3


@pytest.mark.chaos
@pytest.mark.minutes
async def test_a_planted_bug_is_found_by_one_step() -> None:
    with program_with_bug(bug("a token is not reserved")) as settings:
        outcome = await run_steps([Step("run a routine"), SETTLED], seconds=LONG, settings=settings)
    assert outcome.broken
    assert not outcome.is_harness_error


@pytest.mark.chaos
@pytest.mark.minutes
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_short_run_breaks_nothing(
    seed: int | str, record_property: Callable[[str, object], None]
) -> None:
    number = FRESH if isinstance(seed, str) else seed
    outcome = await run_steps(plan(number), seconds=SHORT)
    assert outcome.broken == [], description(number, outcome)
    again = f"python -m chaos --seed {number} --seconds {SHORT:g}"
    record_property("chaos", f"{len(outcome.steps)} steps, nothing broken (again: {again})")


@pytest.mark.chaos
@pytest.mark.minutes
@pytest.mark.parametrize("chosen", PLANTED_BUGS, ids=lambda each: each.name)
async def test_every_planted_bug_is_found_within_a_run(
    chosen: PlantedBug, record_property: Callable[[str, object], None]
) -> None:
    began = time.monotonic()
    with program_with_bug(chosen) as settings:
        steps = islice(plan(FRESH, chosen.focus), STEPS_OF_A_RUN)
        outcome = await run_steps(steps, seconds=math.inf, settings=settings)
    assert outcome.broken, description(FRESH, outcome)
    assert not outcome.is_harness_error, description(FRESH, outcome)
    seconds = time.monotonic() - began
    found = f"found after {seconds:.0f} s, {len(outcome.steps)} steps: {outcome.broken[0]}"
    record_property("chaos", f"{chosen.name}: {found} (seed {FRESH})")


def description(seed: int, outcome: Outcome) -> str:
    return "\n".join([f"seed {seed}", *outcome.broken, *(str(step) for step in outcome.steps)])
