"""Opens the job files, and applies the changes to them that a commit has noted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from ollim_bot.kernel.base.errors import DuplicateId, NotFound, OllimError, StorageError
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.file_changes import FileChanges
from ollim_bot.kernel.store.files import FileLock, OsDisk
from ollim_bot.kernel.store.job_folder import ChooseHolder, JobFileIndex, MarkdownRepository
from ollim_bot.kernel.store.job_formats import REMINDERS, JobFormat
from ollim_bot.kernel.store.job_types import JOB_TYPES
from ollim_bot.kernel.store.routine_format import ROUTINES
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import JobOp, JobOps
from ollim_bot.kernel.store.webhook_format import WEBHOOKS
from ollim_bot.kernel.values.due_items import note_of, reminder_from
from ollim_bot.kernel.values.jobs import Job, Reminder
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.ports import Disk, JobRepositories, Journal

J = TypeVar("J", bound=Job)
JobFolders = Mapping[JobKind, JobFileIndex[Any]]

# The checks that the end of a chain has removed.
_CHECKS = "checks"

_logger = logging.getLogger(__name__)


def job_folders(paths: DataPaths, disk: Disk | None = None) -> JobFolders:
    """The folders of all kinds, for all who look at the jobs of one process."""
    disk = disk or OsDisk()
    return {kind: JobFileIndex(paths.jobs(kind), form, disk) for kind, form in JOB_TYPES.items()}


def open_repositories(
    paths: DataPaths,
    journal: Journal,
    disk: Disk | None = None,
    choose_holder: ChooseHolder = lambda _rivals: 0,
    folders: JobFolders | None = None,
    plan: Callable[[Job], Job] = lambda job: job,
    changes: FileChanges | None = None,
) -> JobRepositories:
    """Nothing is read or written yet; the data directory is prepared elsewhere.

    `folders` are those of `job_folders`, if others in this process look at them, too.
    """
    opened = folders or job_folders(paths, disk)

    def repository(folder: Path, form: JobFormat[J]) -> MarkdownRepository[J]:
        more = {} if changes is None else {"keep": changes.keeping}
        return MarkdownRepository(
            opened[form.kind],
            FileLock(paths.lock_of(folder)),
            journal=journal,
            choose_holder=choose_holder,
            plan=plan,
            **more,
        )

    named = (ROUTINES, REMINDERS, WEBHOOKS)
    return JobRepositories(
        repository(paths.routines, ROUTINES),
        repository(paths.reminders, REMINDERS),
        repository(paths.webhooks, WEBHOOKS),
        {
            kind: repository(paths.jobs(kind), form)
            for kind, form in JOB_TYPES.items()
            if form not in named
        },
    )


def read_all(repositories: JobRepositories) -> None:
    """Read all job files, for those who look at them next; a folder that cannot be read waits."""
    for each in repositories.by_kind.values():
        with suppress(OllimError):
            each.report()


def remove_reminder(reminder: Reminder, occurrence: str) -> JobOp:
    """Remove the reminder that was due, unless it was moved to another moment since."""
    what = {"op": "remove", "reminder": reminder.spec.id, "due": reminder.run_at.isoformat()}
    return JobOp(f"remove {occurrence}", what)


def is_removed_after(ops: JobOps, occurrence: str) -> bool:
    """Whether the program removes the file of a reminder, because this occurrence is over."""
    return ops.find(f"remove {occurrence}") is not None


def end_chain(root: str, key: str) -> JobOp:
    """Remove the remaining checks of a chain."""
    return JobOp(f"end-chain {key}", {"op": "end_chain", "root": root})


def bring_back_chain(ops: JobOps, ended: JobOp) -> None:
    """Add the checks again that the change `ended` has removed, or give it up in time."""
    found = ops.find(ended.id)
    if found is None:
        return
    op, _ = found
    ops.done(op.id)
    checks = op.what.get(_CHECKS)
    for number, check in enumerate(checks if isinstance(checks, list) else ()):
        ops.add(JobOp(f"bring back {number} {op.id}", check))


def add_snoozed(note: str, reminder_id: str, until: datetime) -> JobOp:
    """Add a reminder again, from the note of its item."""
    return JobOp(f"snooze {reminder_id}", _adding(note, reminder_id, until))


def remove_copy(reminder_id: str, until: datetime) -> JobOp:
    """Remove the reminder that a snooze has made, unless it was moved since."""
    what = {"op": "remove", "reminder": reminder_id, "due": until.isoformat()}
    return JobOp(f"unsnooze {reminder_id}", what)


def _adding(note: str, reminder_id: str, due: datetime) -> dict[str, object]:
    return {"op": "add", "note": note, "reminder": reminder_id, "due": due.isoformat()}


class JobFileChanges:
    """Applies the committed changes; applying a change again is harmless.

    `limited` takes from a reminder that a row brings what no row may give.
    """

    def __init__(
        self,
        store: Store,
        repositories: JobRepositories,
        limited: Callable[[Reminder], Reminder] | None = None,
    ) -> None:
        self._store = store
        self._repositories = repositories
        self._limited = limited
        # A change and the one that undoes it must not overtake each other.
        self._one_at_a_time = asyncio.Lock()

    async def make(self, wanted: JobOp | None = None) -> OllimError | None:
        """Apply all pending changes; those that fail now are tried again next time.

        Returns why `wanted` could not be applied.
        """
        refusal: OllimError | None = None
        async with self._one_at_a_time:
            for op in await self._store.read(lambda tx: tx.job_ops.pending()):
                try:
                    if op.what["op"] == "end_chain" and _CHECKS not in op.what:
                        await self._note_checks(op)
                    await asyncio.to_thread(self._apply, op)
                    await self._store.transact(lambda tx, op=op: tx.job_ops.done(op.id))  # type: ignore[misc]
                except OllimError as refused:
                    _logger.warning("A job file could not be changed: %s", op.id, exc_info=True)
                    if op == wanted:
                        refusal = refused
        return refusal

    def job_of(self, occurrence: str) -> Job | None:
        """The job of the occurrence as it is now; None if it is gone. Reads from disk."""
        one = Occurrence.parse(occurrence)
        try:
            found: Job = self._repositories.of(JobKind(one.kind)).get(one.job_id).item
        except (OllimError, ValueError):
            return None
        return found

    async def follow(self) -> None:
        """Apply what another process has committed, until cancelled."""
        with self._store.changes("job_ops") as has_changed:
            while True:
                await has_changed.wait()
                has_changed.clear()
                with suppress(StorageError):
                    await self.make()

    async def _note_checks(self, op: JobOp) -> None:
        """Commit what the end of a chain removes, before it does, so that it can come back."""
        found = await asyncio.to_thread(self._checks, str(op.what["root"]))
        if found:
            checks = [_adding(note_of(each), each.spec.id, each.run_at) for each in found]
            noted = JobOp(op.id, {**op.what, _CHECKS: checks})
            await self._store.transact(lambda tx: tx.job_ops.describe(noted))

    def _checks(self, root: str) -> list[Reminder]:
        found = (each.item for each in self._repositories.reminders.all())
        return [each for each in found if each.chain.parent == root]

    def _apply(self, op: JobOp) -> None:
        what, reminders = op.what, self._repositories.reminders
        match what["op"]:
            case "remove":
                self._remove(str(what["reminder"]), str(what["due"]))
            case "end_chain":
                for check in self._checks(str(what["root"])):
                    self._remove(check.spec.id)
            case "add":
                due = datetime.fromisoformat(str(what["due"]))
                new = reminder_from(str(what["note"]), str(what["reminder"]), due)
                try:
                    reminders.add(self._limited(new) if self._limited else new)
                except DuplicateId:
                    return

    def _remove(self, reminder_id: str, due: str | None = None) -> None:
        try:
            found = self._repositories.reminders.get(reminder_id).item
            if due is None or found.run_at == datetime.fromisoformat(due):
                self._repositories.reminders.remove(reminder_id)
        except NotFound:
            return
