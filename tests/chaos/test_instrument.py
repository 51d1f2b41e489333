"""The instrument of `make chaos`: it finds what is broken, and the program as it is stands it."""

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
from chaos.planted import PACKAGE, PLANTED, Planted, all_apply, planted
from chaos.play import WEIGHTS, Outcome, plan, play
from chaos.points import POINTS
from chaos.shrink import shrunk
from chaos.steps import SETTLE, Step, read, written

# Two that are always the same, so that a change is judged by what it changed, and a new one.
SEEDS = (2, 8, "fresh")
FRESH = secrets.randbelow(1_000_000)
SHARE = 10.0
LONG = 60.0
# What a run of ten minutes has on a machine that does nothing else; a busy one may take longer.
STEPS_OF_A_RUN = 200
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
    assert len(PLANTED) >= 10
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
    first, second = plan(7), plan(7)
    steps = [next(first) for _ in range(100)]
    assert steps == [next(second) for _ in range(100)]
    assert {step.name for step in steps} <= {*WEIGHTS, *POINTS, SETTLE}
    written(tmp_path / "steps", steps)
    assert read(tmp_path / "steps") == steps


@pytest.mark.parametrize("weights", [WEIGHTS, dict.fromkeys(POINTS, 1)], ids=["deeds", "points"])
def test_each_has_its_turns_before_any_comes_again(weights: Mapping[str, int]) -> None:
    names = [step.name for step in islice(plan(7), 2000) if step.name in weights]
    once = sum(weights.values())
    assert Counter(names[:once]) == Counter(names[once : 2 * once]) == weights


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
@pytest.mark.minutes
async def test_a_planted_bug_is_found_on_the_short_way() -> None:
    with planted(bug("a token is not reserved")) as settings:
        outcome = await play([Step("run a routine"), REST], seconds=LONG, settings=settings)
    assert outcome.broken
    assert not outcome.is_the_instruments_fault


@pytest.mark.chaos
@pytest.mark.minutes
@pytest.mark.parametrize("seed", SEEDS)
async def test_the_program_stands_some_rounds(
    seed: int | str, record_property: Callable[[str, object], None]
) -> None:
    number = FRESH if isinstance(seed, str) else seed
    outcome = await play(plan(number), seconds=SHARE)
    assert outcome.broken == [], story(number, outcome)
    again = f"python -m chaos --seed {number} --seconds {SHARE:g}"
    record_property("chaos", f"{len(outcome.steps)} steps, nothing broken (again: {again})")


@pytest.mark.chaos
@pytest.mark.minutes
@pytest.mark.parametrize("chosen", PLANTED, ids=lambda each: each.name)
async def test_every_planted_bug_is_found_within_a_run(
    chosen: Planted, record_property: Callable[[str, object], None]
) -> None:
    began = time.monotonic()
    with planted(chosen) as settings:
        steps = islice(plan(FRESH), STEPS_OF_A_RUN)
        outcome = await play(steps, seconds=math.inf, settings=settings)
    assert outcome.broken, story(FRESH, outcome)
    assert not outcome.is_the_instruments_fault, story(FRESH, outcome)
    seconds = time.monotonic() - began
    found = f"found after {seconds:.0f} s, {len(outcome.steps)} steps: {outcome.broken[0]}"
    record_property("chaos", f"{chosen.name}: {found} (seed {FRESH})")


def story(seed: int, outcome: Outcome) -> str:
    return "\n".join([f"seed {seed}", *outcome.broken, *(str(step) for step in outcome.steps)])
