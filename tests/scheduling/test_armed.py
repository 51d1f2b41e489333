"""The ledger always knows which jobs are armed, and what changes is all that is written."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.scheduling.hurrying import HurryingLoop
from tests.scheduling.year import Machine
from tests.stores import Stores, memory_stores

from ollim_bot.domain.cron import Cron
from ollim_bot.domain.definitions import ROSTER, Definition
from ollim_bot.domain.jobs import Job, JobKind, JobSpec, Routine
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.run_history import CHECKPOINT, DELIVERED, History, claiming_row
from ollim_bot.errors import StorageError
from ollim_bot.schedule.job_index import Changes, IndexedJob
from ollim_bot.schedule.ledger_records import ArmedJobs
from ollim_bot.testing.memory import MemoryLedger

NOW = datetime(2026, 2, 24, 10, tzinfo=UTC)
DAY = timedelta(days=1)


def routine(name: str, line: str = "0 9 * * *") -> Routine:
    return Routine(JobSpec(id=name, message="x"), Cron.parse(line))


def booked(*jobs: Job) -> list[IndexedJob]:
    return [IndexedJob(job, Path(job.spec.id)) for job in jobs]


def known(stores: Stores) -> set[Definition]:
    return set(stores.armed_jobs().jobs.values())


def of(*jobs: Job) -> set[Definition]:
    return {Definition.of(job, UTC) for job in jobs}


class FailingLedger(MemoryLedger):
    fails = False

    def append(self, *entries: LedgerRow) -> None:
        if self.fails:
            raise StorageError(Path("ledger"), "the disk is full")
        super().append(*entries)


def test_only_what_has_changed_is_written() -> None:
    stores = memory_stores(NOW)
    armed = ArmedJobs(stores, UTC)
    a, b, c, d = routine("a"), routine("b"), routine("c"), routine("d")
    armed.write_all([a, b, c], NOW, NOW)
    newer = routine("b", "0 10 * * *")
    changes = Changes(added=booked(d), changed=booked(newer), removed=booked(c))
    armed.write(changes, [a, newer, d], NOW, NOW)
    assert known(stores) == of(a, newer, d)
    assert len(stores.ledger.read().entries) == 1 + 3


def test_after_a_write_that_failed_all_is_compared_again() -> None:
    ledger = FailingLedger()
    stores = replace(memory_stores(NOW), ledger=ledger)
    armed = ArmedJobs(stores, UTC)
    a, b, c = routine("a"), routine("b"), routine("c")
    armed.write_all([a], NOW, NOW)
    ledger.fails = True
    with pytest.raises(StorageError):
        armed.write(Changes(added=booked(b)), [a, b], NOW, NOW)
    ledger.fails = False
    armed.write(Changes(added=booked(c)), [a, b, c], NOW, NOW)
    assert known(stores) == of(a, b, c)


def test_the_whole_list_is_written_anew_each_month() -> None:
    stores = memory_stores(NOW)
    armed = ArmedJobs(stores, UTC)
    jobs = [routine(f"r{number}") for number in range(40)]
    armed.write_all([], NOW, NOW)
    for day, job in enumerate(jobs):
        now = NOW + day * DAY
        armed.write(Changes(added=booked(job)), jobs[: day + 1], now, now)
    rosters = [row for row in stores.ledger.read().entries if row.state == ROSTER]
    assert len(rosters) == 2
    assert known(stores) == of(*jobs)


@pytest.mark.parametrize("beyond", range(-3, 4))
def test_a_story_whose_beginning_is_too_long_ago_is_not_ended_again(beyond: int) -> None:
    """A start reads the newest 512 rows; they may begin in the middle of a story that has ended."""
    with asyncio.Runner(loop_factory=HurryingLoop) as runner:
        machine = Machine(runner.get_loop(), NOW, [], UTC)
        one = Occurrence.scheduled(JobKind.REMINDER, "r1", NOW)
        story = [claiming_row(one, NOW), *(LedgerRow(NOW, s, one) for s in ("running", "done"))]
        checkpoint = LedgerRow(NOW, CHECKPOINT, facts={"unfinished": []})
        others = [LedgerRow(NOW, "noted")] * (505 + beyond)
        rows = [*story, LedgerRow(NOW, DELIVERED, one), *others, checkpoint, checkpoint]
        machine.stores.ledger.append(*rows)
        runner.run(machine.watches(NOW + timedelta(minutes=1)))
        runner.run(machine.is_off(NOW + timedelta(minutes=1)))
    story_now = History.of(machine.stores.ledger.read().entries).stories[one]
    assert [row.state for row in story_now.ends] == ["done"]
