"""A year of the whole schedule: each moment of a watched clock has the one end that it must have.

The machine sleeps, is switched off in the middle of work, and has its clock set; jobs come, change
and go. With `--chaos-seconds 60` or more it is a year of more jobs, and mostly awake.
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
from tests.domain.cron_oracle import MINUTE
from tests.scheduling.hurrying import HurryingLoop
from tests.scheduling.year import Machine
from tests.scheduling.year_plan import (
    DAY,
    END,
    HOME,
    START,
    End,
    Plan,
    Size,
    Step,
    Version,
    a_plan,
    ends_by,
    some_jobs,
)

from ollim_bot.domain.jobs import JobKind
from ollim_bot.domain.ledger_check import check
from ollim_bot.domain.occurrences import SkipReason
from ollim_bot.domain.run_history import History, RunStory

LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
SHORT = Size(
    [HOME, LORD_HOWE], routines=8, reminders=80, longest_gap=12 * DAY, longest_watch=DAY / 3
)
OTHERS = [ZoneInfo("Europe/Berlin"), ZoneInfo("America/Santiago"), ZoneInfo("Asia/Kolkata")]
LONG = Size(
    [HOME, LORD_HOWE, *OTHERS],
    routines=200,
    reminders=2000,
    longest_gap=2 * DAY,
    longest_watch=1.5 * DAY,
)
LONG_RUN = 60.0

# The ledger of this year is in memory, and grows as it must.
OF_THE_LEDGER = {"LedgerRow", "Occurrence", "dict", "list"}


async def lived(machine: Machine, plan: Plan, versions: Sequence[Version]) -> list[Counter[str]]:
    """How much of what was in memory after each month."""
    in_memory: dict[int, Counter[str]] = {}
    for number, (step, until) in enumerate(plan):
        machine.book.put(*(each.job for each in versions if each.since == number))
        if step is Step.WATCH:
            await machine.watches(until)
            if until.month not in in_memory:
                in_memory[until.month] = objects()
        elif step is Step.OFF:
            await machine.is_off(until)
        else:
            machine.sleeps(until)
    await machine.is_off(END)
    return [*in_memory.values()]


def objects() -> Counter[str]:
    gc.collect()
    kept = (each for each in gc.get_objects() if not is_about_classes(each) and not is_dead(each))
    names = (type(each).__name__ for each in kept)
    return Counter(name for name in names if name not in OF_THE_LEDGER)


def is_dead(each: object) -> bool:
    """A connection to SQLite keeps up to 200 references to cursors that are gone."""
    return type(each) is weakref.ref and each() is None


def is_about_classes(each: object) -> bool:
    """Of what the interpreter remembers about abstract classes, and forgets at times."""
    about = each.__callback__ if type(each) is weakref.ref else each
    return type(about) is BuiltinFunctionType and about.__name__ == "_destroy"


def end_of(story: RunStory, expected: End | None) -> End:
    """As the ledger has it; with the second of its claim where that must be a certain one."""
    assert len(story.ends) == 1, story
    end, reason = story.ends[0], story.ends[0].facts.get("reason")
    is_timed = expected is not None and expected.claimed_at is not None
    claimed_at = story.rows[0].ts.replace(microsecond=0) if is_timed else None
    return End(end.state, str(reason) if reason else None, claimed_at)


def is_overlapped(story: RunStory, stories: Iterable[RunStory]) -> bool:
    """Whether it gave way to one that the last stop had kept from beginning, which ran then."""
    if story.ends[0].facts.get("reason") != SkipReason.OVERLAP.value:
        return False
    claimed = story.rows[0].ts
    job = story.occurrence.job_id
    others = (each for each in stories if each.occurrence.job_id == job and each is not story)
    rows = (row for each in others for row in each.rows if row.state == "running")
    return any(abs(row.ts - claimed) < MINUTE for row in rows)


def differences(
    expected: Mapping[str, End], found: Mapping[str, End]
) -> list[tuple[str, End | None, End | None]]:
    names = sorted(expected.keys() | found.keys())
    pairs = ((name, expected.get(name), found.get(name)) for name in names)
    return [(name, wanted, had) for name, wanted, had in pairs if wanted != had]


def growth(in_memory: Sequence[Counter[str]], size: Size) -> Counter[str]:
    """Of what there was more of in a month than in another, by more than jobs come and go."""
    usual = len(size.zones) * size.reminders // 4
    names = set().union(*in_memory)
    counts = {name: [month[name] for month in in_memory] for name in names}
    spreads = {name: max(each) - min(each) for name, each in counts.items()}
    return Counter({name: spread for name, spread in spreads.items() if spread > usual})


def test_in_a_year_every_moment_has_its_one_end(pytestconfig: pytest.Config) -> None:
    option = pytestconfig.option
    size, luck = LONG if option.chaos_seconds >= LONG_RUN else SHORT, Random(option.chaos_seed)
    # What earlier tests have left is not looked through with each month.
    gc.collect()
    gc.freeze()
    plan = a_plan(luck, size)
    versions = some_jobs(luck, size, plan)
    moments = sorted({moment for version in versions for moment in version.moments})
    with asyncio.Runner(loop_factory=HurryingLoop) as runner:
        machine = Machine(runner.get_loop(), START, moments, HOME)
        in_memory = runner.run(lived(machine, plan, versions))
    rows = machine.stores.ledger.read().entries
    stories = {one.id: story for one, story in History.of(rows).stories.items()}
    expected = ends_by(plan, versions)
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
    assert machine.book.all() == []
    # Caches that have a bound fill in the first months.
    assert growth(in_memory[4:], size) == {}
