"""The instrument of `make chaos`: it finds what is broken, and the program as it is stands it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from chaos.planted import PACKAGE, PLANTED, Planted, all_apply, planted
from chaos.play import WEIGHTS, Outcome, play
from chaos.shrink import shrunk
from chaos.steps import SETTLE, Step, read, written
from chaos.steps import planned as plan

SEEDS = (2, 8)
# A run is part of `make test`; `make chaos` has the patience for all of the bugs.
LONG = 60.0
DEFAULT_RUN = 600.0
REST = Step(SETTLE)


def bug(name: str) -> Planted:
    return next(each for each in PLANTED if each.name == name)


def test_the_judge_knows_nothing_of_what_it_judges() -> None:
    program = (
        "import sys, chaos.checker\n"
        "assert not [name for name in sys.modules if name.startswith('ollim')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


def test_every_planted_bug_still_has_its_place_in_the_source() -> None:
    assert len(PLANTED) == 10
    assert all_apply() == []


def test_a_planted_bug_without_its_place_is_told_loudly() -> None:
    stale = Planted("stale", "errors.py", "words that stand nowhere", "")
    with pytest.raises(LookupError, match=r"stale: .* has its text 0 times"), planted(stale):
        pass


def test_a_planted_bug_is_in_the_copy_and_not_in_the_source() -> None:
    chosen = bug("a token is not reserved")
    before = (PACKAGE / chosen.file).read_text()
    with planted(chosen) as settings:
        copy = Path(settings["PYTHONPATH"]) / PACKAGE.name / chosen.file
        assert chosen.new in copy.read_text()
    assert not copy.exists()
    assert (PACKAGE / chosen.file).read_text() == before


def test_a_seed_has_always_the_same_steps_and_they_can_be_kept(tmp_path: Path) -> None:
    first, second = plan(7, WEIGHTS), plan(7, WEIGHTS)
    steps = [next(first) for _ in range(100)]
    assert steps == [next(second) for _ in range(100)]
    assert {step.name for step in steps} <= {*WEIGHTS, SETTLE}
    written(tmp_path / "steps", steps)
    assert read(tmp_path / "steps") == steps


async def test_what_does_not_matter_is_left_out() -> None:
    steps = [Step(str(number)) for number in range(12)]
    tried: list[int] = []

    async def breaks(fewer: Sequence[Step]) -> bool:
        tried.append(len(fewer))
        return {"3", "8"} <= {step.name for step in fewer}

    assert [step.name for step in await shrunk(steps, breaks, 40)] == ["3", "8"]
    assert len(tried) <= 40


async def test_no_more_is_tried_than_was_allowed() -> None:
    tried: list[int] = []

    async def never(fewer: Sequence[Step]) -> bool:
        tried.append(len(fewer))
        return False

    steps = [Step(str(number)) for number in range(12)]
    assert await shrunk(steps, never, 3) == steps
    assert len(tried) == 3


@pytest.mark.chaos
async def test_a_planted_bug_is_found_on_the_short_way() -> None:
    with planted(bug("a token is not reserved")) as settings:
        outcome = await play([Step("run a routine"), REST], seconds=LONG, settings=settings)
    assert outcome.broken
    assert not outcome.is_the_instruments_fault


@pytest.mark.chaos
async def test_the_program_stands_some_rounds(
    pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    share = float(pytestconfig.option.chaos_seconds)
    # A seed that nobody has tried before is for who waits to see what comes of it.
    fresh = (int(pytestconfig.option.chaos_seed),) if share >= LONG else ()
    for seed in (*SEEDS, *fresh):
        outcome = await play(plan(seed, WEIGHTS), seconds=share)
        assert outcome.broken == [], story(seed, outcome)
        record_property("chaos", f"seed {seed}: {len(outcome.steps)} steps, nothing broken")


@pytest.mark.chaos
@pytest.mark.minutes
@pytest.mark.parametrize("chosen", PLANTED, ids=lambda each: each.name)
async def test_every_planted_bug_is_found_within_a_default_run(
    chosen: Planted, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    seed = int(pytestconfig.option.chaos_seed)
    with planted(chosen) as settings:
        outcome = await play(plan(seed, WEIGHTS), seconds=DEFAULT_RUN, settings=settings)
    assert outcome.broken, story(seed, outcome)
    record_property("chaos", f"{chosen.name}: found in {len(outcome.steps)} steps")


def story(seed: int, outcome: Outcome) -> str:
    return "\n".join([f"seed {seed}", *outcome.broken, *(str(step) for step in outcome.steps)])
