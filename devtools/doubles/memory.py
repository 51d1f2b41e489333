"""State and job files in memory, for tests of the code above them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Generic, Self, TypeVar

from devtools.doubles.repeating_store import RecordedStatements, RepeatingStore
from ollim_bot.kernel.base.errors import BadJob, ChangedMeanwhile, DuplicateId, JobNotFound
from ollim_bot.kernel.store import frontmatter
from ollim_bot.kernel.store.connection import Statements
from ollim_bot.kernel.store.inbox_rows import InboxInputs
from ollim_bot.kernel.store.job_folder import read_text
from ollim_bot.kernel.store.job_formats import REMINDERS, JobFormat
from ollim_bot.kernel.store.routine_format import ROUTINES
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.store.webhook_format import WEBHOOKS
from ollim_bot.kernel.values.inbox import Accepted, Inbox, InboxRow
from ollim_bot.kernel.values.jobs import Job, JobText, RepositoryReport, StoredJob
from ollim_bot.kernel.values.ports import JobRepositories

T = TypeVar("T")
R = TypeVar("R")
J = TypeVar("J", bound=Job)


class RecordingStore(RepeatingStore):
    """Records all rows that were appended to the inbox, in order."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(now)
        self.inbox_rows: list[InboxRow] = []
        self._attempted: list[InboxRow] = []

    def copied(self, now: Callable[[], datetime] | None = None) -> Self:
        copied = super().copied(now)
        copied.inbox_rows = [*self.inbox_rows]
        return copied

    def begin(self) -> tuple[RecordedStatements, Transaction]:
        statements, tx = super().begin()
        self._attempted = []
        tx.inbox = _RecordingInbox(statements, self._attempted)
        return statements, tx

    def run(self, step: Step[R]) -> R:
        result = super().run(step)
        self.inbox_rows += self._attempted
        return result


class _RecordingInbox(InboxInputs):
    def __init__(self, statements: Statements, rows: list[InboxRow]) -> None:
        super().__init__(statements)
        self._rows = rows

    def append(self, *rows: InboxRow) -> Inbox:
        self._rows += [
            row for row in rows if not isinstance(row, Accepted) or not self.has(row.input.id)
        ]
        return super().append(*rows)


def memory_repositories() -> JobRepositories:
    return JobRepositories(
        MemoryJobRepository(ROUTINES), MemoryJobRepository(REMINDERS), MemoryJobRepository(WEBHOOKS)
    )


class MemoryJobRepository(Generic[J]):
    def __init__(self, form: JobFormat[J]) -> None:
        self._form = form
        self._jobs: dict[str, StoredJob[J]] = {}
        self._lock = threading.Lock()

    def report(self) -> RepositoryReport[J]:
        return RepositoryReport(self.all())

    def all(self) -> Sequence[StoredJob[J]]:
        return sorted(self._jobs.values(), key=lambda stored: stored.path)

    def get(self, item_id: str) -> StoredJob[J]:
        try:
            return self._jobs[item_id]
        except KeyError:
            raise JobNotFound(self._form.kind, item_id) from None

    def add(self, item: J) -> Path:
        with self._lock:
            path = Path(f"{self._form.kind}s") / f"{item.spec.id}.md"
            if item.spec.id in self._jobs:
                raise DuplicateId(item.spec.id, [str(path), "the new file"])
            self._jobs[item.spec.id] = StoredJob(item, path)
            return path

    def amend(self, item_id: str, changes: Mapping[str, object], body: str | None = None) -> J:
        with self._lock:
            stored = self.get(item_id)
            fields = {**self._form.written(stored.item), **changes}
            kept = {name: value for name, value in fields.items() if value is not None}
            message = stored.item.spec.message if body is None else body
            job = self._form.made(kept, message)
            self._jobs[item_id] = stored._replace(item=job)
            return job

    def text_of(self, item_id: str) -> JobText:
        job, path = self.get(item_id)
        return JobText(path.name, frontmatter.render(self._form.written(job), job.spec.message))

    def rewrite(self, item_id: str, text: str, version: str) -> J:
        with self._lock:
            stored, before = self.get(item_id), self.text_of(item_id)
            if before.version != version:
                raise ChangedMeanwhile(str(stored.path))
            reading = read_text(self._form, text)
            if reading.job is None:
                raise BadJob([problem.sentence(str(stored.path)) for problem in reading.problems])
            self._jobs[item_id] = stored._replace(item=reading.job)
            return reading.job

    def remove(self, item_id: str) -> Path:
        with self._lock:
            path = self.get(item_id).path
            del self._jobs[item_id]
            return path
