"""A year of the whole schedule: each occurrence has exactly one end, the one that it must have.

The machine sleeps, is switched off in the middle of work, and has its clock set; jobs are added,
changed and removed. With `--chaos-seconds 60` or more, there are more jobs and shorter gaps.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from types import BuiltinFunctionType
from zoneinfo import ZoneInfo

import pytest
from tests.kernel.schedule.simulated_machine import SimulatedMachine
from tests.kernel.schedule.virtual_time import IdleAwareLoop
from tests.kernel.schedule.year_plan import (
    DAY,
    END,
    HOME,
    START,
    ExpectedEnd,
    JobVersion,
    Plan,
    PlanStep,
    YearSize,
    expected_ends,
    random_jobs,
    random_plan,
)
from tests.kernel.values.cron_oracle import MINUTE

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.ledger_check import check
from ollim_bot.kernel.values.occurrences import SkipReason
from ollim_bot.kernel.values.run_history import History, RunStory

LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
SHORT = YearSize(
    [HOME, LORD_HOWE], routines=8, reminders=80, longest_gap=12 * DAY, longest_watch=DAY / 3
)
OTHERS = [ZoneInfo("Europe/Berlin"), ZoneInfo("America/Santiago"), ZoneInfo("Asia/Kolkata")]
LONG = YearSize(
    [HOME, LORD_HOWE, *OTHERS],
    routines=200,
    reminders=2000,
    longest_gap=2 * DAY,
    longest_watch=1.5 * DAY,
)
LONG_RUN = 60.0

# The ledger of this test is in memory, and grows with each row.
TYPES_OF_THE_LEDGER = {"LedgerRow", "Occurrence", "dict", "list"}


async def run_year(
    machine: SimulatedMachine, plan: Plan, versions: Sequence[JobVersion]
) -> list[Counter[str]]:
    """Returns how many object_counts of which type were in memory, once a month."""
    in_memory: dict[int, Counter[str]] = {}
    for number, (step, until) in enumerate(plan):
        machine.index.put(*(each.job for each in versions if each.since == number))
        if step is PlanStep.WATCH:
            await machine.run(until)
            if until.month not in in_memory:
                in_memory[until.month] = object_counts()
        elif step is PlanStep.OFF:
            await machine.switch_off(until)
        else:
            machine.sleep(until)
    await machine.switch_off(END)
    return [*in_memory.values()]


def object_counts() -> Counter[str]:
    gc.collect()
    kept = (
        each
        for each in gc.get_objects()
        if not is_about_classes(each) and not is_dead_reference(each)
    )
    names = (type(each).__name__ for each in kept)
    return Counter(name for name in names if name not in TYPES_OF_THE_LEDGER)


def is_dead_reference(each: object) -> bool:
    """A connection to SQLite keeps up to 200 references to cursors that are gone."""
    return type(each) is weakref.ref and each() is None


def is_about_classes(each: object) -> bool:
    """Whether the interpreter made it for its cache about abstract classes."""
    about = each.__callback__ if type(each) is weakref.ref else each
    return type(about) is BuiltinFunctionType and about.__name__ == "_destroy"


def end_of(story: RunStory, expected: ExpectedEnd | None) -> ExpectedEnd:
    """The end in the ledger, with the second of its claim if one is expected."""
    assert len(story.ends) == 1, story
    end, reason = story.ends[0], story.ends[0].facts.get("reason")
    is_timed = expected is not None and expected.claimed_at is not None
    claimed_at = story.rows[0].ts.replace(microsecond=0) if is_timed else None
    return ExpectedEnd(end.state, str(reason) if reason else None, claimed_at)


def is_overlapped(story: RunStory, stories: Iterable[RunStory]) -> bool:
    """Whether it was skipped for an older occurrence that a stop had delayed and that ran then."""
    if story.ends[0].facts.get("reason") != SkipReason.OVERLAP.value:
        return False
    claimed = story.rows[0].ts
    job = story.occurrence.job_id
    others = (each for each in stories if each.occurrence.job_id == job and each is not story)
    rows = (row for each in others for row in each.rows if row.state == "running")
    return any(abs(row.ts - claimed) < MINUTE for row in rows)


def differences(
    expected: Mapping[str, ExpectedEnd], found: Mapping[str, ExpectedEnd]
) -> list[tuple[str, ExpectedEnd | None, ExpectedEnd | None]]:
    names = sorted(expected.keys() | found.keys())
    pairs = ((name, expected.get(name), found.get(name)) for name in names)
    return [(name, wanted, had) for name, wanted, had in pairs if wanted != had]


def growth(in_memory: Sequence[Counter[str]], size: YearSize) -> Counter[str]:
    """Types whose count differs between months by more than the number of jobs does."""
    usual = len(size.zones) * size.reminders // 4
    names = set().union(*in_memory)
    counts = {name: [month[name] for month in in_memory] for name in names}
    spreads = {name: max(each) - min(each) for name, each in counts.items()}
    return Counter({name: spread for name, spread in spreads.items() if spread > usual})


def test_in_a_year_every_moment_has_its_one_end(pytestconfig: pytest.Config) -> None:
    option = pytestconfig.option
    size, rng = LONG if option.chaos_seconds >= LONG_RUN else SHORT, Random(option.chaos_seed)
    # The monthly counts leave out the object_counts of earlier tests.
    gc.collect()
    gc.freeze()
    plan = random_plan(rng, size)
    versions = random_jobs(rng, size, plan)
    moments = sorted({moment for version in versions for moment in version.moments})
    with asyncio.Runner(loop_factory=IdleAwareLoop) as runner:
        machine = SimulatedMachine(runner.get_loop(), START, moments, HOME)
        in_memory = runner.run(run_year(machine, plan, versions))
    rows = machine.stores.ledger.read().entries
    stories = {one.id: story for one, story in History.of(rows).stories.items()}
    expected = expected_ends(plan, versions)
    found = {
        name: end_of(story, expected.get(name))
        for name, story in stories.items()
        if not is_overlapped(story, stories.values())
    }
    expected = {name: end for name, end in expected.items() if name in found or name not in stories}
    assert differences(expected, found)[:5] == []
    assert check(rows, END, END) == []
    done = Counter(name for name, end in expected.items() if end.state == "done")
    said = Counter(one.id for one in machine.agent.said if one.kind is JobKind.REMINDER)
    assert said == Counter(name for name in done if name.startswith("reminder"))
    assert machine.index.all() == []
    # Bounded caches fill in the first months.
    assert growth(in_memory[4:], size) == {}
