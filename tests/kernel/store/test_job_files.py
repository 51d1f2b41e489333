"""Changes of job files that a commit has noted are made once, through any crash."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.kernel.conversation.crashing import (
    Crash,
    CrashingRepository,
    CrashingStore,
    StepCounter,
    each_crash,
)
from tests.kernel.store.files.data_directory import NOW
from tests.stores import Stores, memory_stores

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.changes.job_files import (
    JobFileChanges,
    add_snoozed,
    end_chain,
    remove_reminder,
)
from ollim_bot.kernel.store.transaction import JobOp
from ollim_bot.kernel.values.due_items import note_of
from ollim_bot.kernel.values.jobs import Chain, JobSpec, Reminder
from ollim_bot.kernel.values.ports import JobRepositories

HOUR = timedelta(hours=1)
TEA = Reminder(JobSpec(id="tea", message="Drink tea."), NOW)
CHECK = Reminder(JobSpec(id="check", message="Is it done?"), NOW + HOUR, Chain(3, 1, "tea"))
OTHER = Reminder(JobSpec(id="other", message="Stretch."), NOW + HOUR)

OPS = {
    "remove": (remove_reminder(TEA, "reminder:tea:1"), {"check", "other"}),
    "end the chain": (end_chain("tea", "key"), {"other", "tea"}),
    "snooze": (add_snoozed(note_of(TEA), "later", NOW + HOUR), {"check", "later", "other", "tea"}),
}


def stored() -> Stores:
    stores = memory_stores(NOW)
    for reminder in (TEA, CHECK, OTHER):
        stores.reminders.add(reminder)
    return stores


def names(stores: Stores) -> set[str]:
    return {each.item.spec.id for each in stores.reminders.all()}


async def life(stores: Stores, fate: StepCounter, step: Callable[[JobFileChanges], Any]) -> None:
    repositories = JobRepositories(
        stores.routines, CrashingRepository(stores.reminders, fate), stores.webhooks
    )
    try:
        await step(JobFileChanges(CrashingStore(stores.state, fate), repositories))
    except Crash:
        assert fate.has_crashed


@pytest.mark.parametrize("name", OPS)
async def test_a_kill_at_any_step_makes_the_change_once(name: str) -> None:
    op, expected = OPS[name]
    for fate in each_crash():
        stores = stored()
        stores.state.run(lambda tx: tx.job_ops.add(op))
        await life(stores, fate, lambda files: files.make())
        await life(stores, StepCounter(), lambda files: files.make())
        assert names(stores) == expected, fate.steps
        assert stores.state.query(lambda tx: tx.job_ops.pending()) == []
    assert len(fate.steps) > 3


async def test_what_was_moved_to_another_moment_is_not_removed() -> None:
    stores = stored()
    stores.reminders.amend("tea", {"run-at": (NOW + HOUR).isoformat()})
    stores.state.run(lambda tx: tx.job_ops.add(remove_reminder(TEA, "reminder:tea:1")))
    await JobFileChanges(stores.state, stores.repositories).make()
    assert "tea" in names(stores)


class FullRepository:
    def __init__(self, repository: Any) -> None:
        self._repository = repository

    def __getattr__(self, name: str) -> Any:
        return getattr(self._repository, name)

    def add(self, _: Reminder) -> Path:
        raise WriteFailed(Path("reminders"), "could not be written: no space left.")


async def test_a_change_that_the_disk_refuses_is_told_and_tried_again() -> None:
    stores = stored()
    op: JobOp = OPS["snooze"][0]
    stores.state.run(lambda tx: tx.job_ops.add(op))
    repositories = JobRepositories(
        stores.routines, FullRepository(stores.reminders), stores.webhooks
    )
    files = JobFileChanges(stores.state, repositories)
    assert isinstance(await files.make(op), WriteFailed)
    assert names(stores) == {"check", "other", "tea"}
    assert await JobFileChanges(stores.state, stores.repositories).make(op) is None
    assert names(stores) == {"check", "later", "other", "tea"}
