"""The ledger always has the armed jobs, and only changes are written to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from tests.kernel.conversation.failing_stores import FullDiskStore
from tests.stores import Stores, memory_stores

from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.schedule.job_index import Changes, IndexedJob
from ollim_bot.kernel.schedule.ledger_records import ArmedJobs
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.definitions import Definition
from ollim_bot.kernel.values.jobs import Job, JobSpec, Routine
from ollim_bot.kernel.values.run_history import ROSTER

NOW = datetime(2026, 2, 24, 10, tzinfo=UTC)
DAY = timedelta(days=1)


def routine(name: str, line: str = "0 9 * * *") -> Routine:
    return Routine(JobSpec(id=name, message="x"), Cron.parse(line))


def indexed(*jobs: Job) -> list[IndexedJob]:
    return [IndexedJob(job, Path(job.spec.id)) for job in jobs]


def known(stores: Stores) -> set[Definition]:
    return set(stores.state.query(lambda tx: tx.ledger.armed()).jobs.values())


def of(*jobs: Job) -> set[Definition]:
    return {Definition.of(job, UTC) for job in jobs}


async def test_only_what_has_changed_is_written() -> None:
    stores = memory_stores(NOW)
    armed = ArmedJobs(stores.state, ManualClock(NOW))
    a, b, c, d = routine("a"), routine("b"), routine("c"), routine("d")
    await armed.write_all([a, b, c], NOW, NOW)
    newer = routine("b", "0 10 * * *")
    changes = Changes(added=indexed(d), changed=indexed(newer), removed=indexed(c))
    await armed.write(changes, [a, newer, d], NOW, NOW)
    assert known(stores) == of(a, newer, d)
    assert len(stores.ledger.read().entries) == 1 + 3


async def test_after_a_write_that_failed_all_is_compared_again() -> None:
    stores = memory_stores(NOW)
    disk = FullDiskStore(stores.state, is_full=False)
    armed = ArmedJobs(disk, ManualClock(NOW))
    a, b, c = routine("a"), routine("b"), routine("c")
    await armed.write_all([a], NOW, NOW)
    disk.is_full = True
    with pytest.raises(StorageError):
        await armed.write(Changes(added=indexed(b)), [a, b], NOW, NOW)
    disk.is_full = False
    await armed.write(Changes(added=indexed(c)), [a, b, c], NOW, NOW)
    assert known(stores) == of(a, b, c)


async def test_the_whole_list_is_written_anew_each_month() -> None:
    stores = memory_stores(NOW)
    armed = ArmedJobs(stores.state, ManualClock(NOW))
    jobs = [routine(f"r{number}") for number in range(40)]
    await armed.write_all([], NOW, NOW)
    for day, job in enumerate(jobs):
        now = NOW + day * DAY
        await armed.write(Changes(added=indexed(job)), jobs[: day + 1], now, now)
    rosters = [row for row in stores.ledger.read().entries if row.state == ROSTER]
    assert len(rosters) == 2
    assert known(stores) == of(*jobs)
