"""Opens the job files, and applies the changes to them that a commit has noted."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from ollim_bot.domain.jobs import Job, Reminder
from ollim_bot.domain.snoozing import reminder_from
from ollim_bot.errors import DuplicateId, NotFound, OllimError
from ollim_bot.paths import DataPaths
from ollim_bot.ports import Disk, JobShelves, Journal
from ollim_bot.store.files import FileLock, OsDisk
from ollim_bot.store.job_formats import REMINDERS, ROUTINES, WEBHOOKS, JobFormat
from ollim_bot.store.job_shelf import ChooseHolder, MarkdownShelf
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import JobOp

J = TypeVar("J", bound=Job)

_logger = logging.getLogger(__name__)


def open_shelves(
    paths: DataPaths,
    journal: Journal,
    disk: Disk | None = None,
    choose_holder: ChooseHolder = lambda _rivals: 0,
) -> JobShelves:
    """Nothing is read or written yet; the data directory is prepared elsewhere."""

    def shelf(folder: Path, form: JobFormat[J]) -> MarkdownShelf[J]:
        lock = FileLock(paths.lock_of(folder))
        return MarkdownShelf(
            folder,
            form,
            lock,
            disk=disk or OsDisk(),
            journal=journal,
            choose_holder=choose_holder,
        )

    return JobShelves(
        shelf(paths.routines, ROUTINES),
        shelf(paths.reminders, REMINDERS),
        shelf(paths.webhooks, WEBHOOKS),
    )


def remove_reminder(reminder: Reminder, occurrence: str) -> JobOp:
    """Remove the reminder that was due, unless it was moved to another moment since."""
    what = {"op": "remove", "reminder": reminder.spec.id, "due": reminder.run_at.isoformat()}
    return JobOp(f"remove {occurrence}", what)


def end_chain(root: str, key: str) -> JobOp:
    """Remove the remaining checks of a chain."""
    return JobOp(f"end-chain {key}", {"op": "end_chain", "root": root})


def add_snoozed(note: str, reminder_id: str, until: datetime, key: str) -> JobOp:
    """Add a reminder again, from the note behind its buttons."""
    what = {"op": "add", "note": note, "reminder": reminder_id, "due": until.isoformat()}
    return JobOp(f"snooze {key}", what)


class JobFileChanges:
    """Applies the committed changes; applying a change again is harmless."""

    def __init__(self, store: Store, shelves: JobShelves) -> None:
        self._store = store
        self._shelves = shelves

    async def make(self, wanted: JobOp | None = None) -> OllimError | None:
        """Apply all pending changes; those that fail now are tried again next time.

        Returns why `wanted` could not be applied.
        """
        refusal: OllimError | None = None
        for op in await self._store.read(lambda tx: tx.job_ops.pending()):
            try:
                await asyncio.to_thread(self._make, op)
                await self._note_made(op)
            except OllimError as refused:
                _logger.warning("A job file could not be changed: %s", op.id, exc_info=True)
                if op == wanted:
                    refusal = refused
        return refusal

    async def _note_made(self, op: JobOp) -> None:
        await self._store.transact(lambda tx: tx.job_ops.done(op.id))

    def _make(self, op: JobOp) -> None:
        what, reminders = op.what, self._shelves.reminders
        match what["op"]:
            case "remove":
                self._remove(str(what["reminder"]), str(what["due"]))
            case "end_chain":
                for shelved in reminders.all():
                    if shelved.item.chain.parent == what["root"]:
                        self._remove(shelved.item.spec.id)
            case "add":
                due = datetime.fromisoformat(str(what["due"]))
                try:
                    reminders.add(reminder_from(str(what["note"]), str(what["reminder"]), due))
                except DuplicateId:
                    return

    def _remove(self, reminder_id: str, due: str | None = None) -> None:
        try:
            found = self._shelves.reminders.get(reminder_id).item
            if due is None or found.run_at == datetime.fromisoformat(due):
                self._shelves.reminders.remove(reminder_id)
        except NotFound:
            return
