"""Runs on the page: the list of them, and each with its decisions; read as the commands do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from datetime import datetime

from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.run_list import RunFilter, RunList, RunPage
from ollim_bot.errors import NotFound
from ollim_bot.ports import Clock, JobRepositories
from ollim_bot.store.day_receipts import TodayReceipts
from ollim_bot.store.run_lists import run_list
from ollim_bot.store.run_reports import run_named, said_by
from ollim_bot.store.store import Store, changes_of
from ollim_bot.store.transaction import Transaction

_MADE_OF = ("ledger", "usage", "due_items")
_USUAL = 100
_LONGEST_ID = 400

# Until when the bot surely ran; None if that is not known.
ReadHeartbeat = Callable[[], datetime | None]


def no_heartbeat() -> datetime | None:
    """For a bot whose heartbeat is not kept: the ledger says until when it ran."""
    return None


class RunListView:
    """A `View` of the newest `most` runs that fit `show`, `job` and `day`, with a receipt."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        heartbeat: ReadHeartbeat = no_heartbeat,
        receipts: TodayReceipts | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._heartbeat = heartbeat
        self._receipts = receipts or TodayReceipts()

    async def look(self, asked: Mapping[str, str]) -> RunList:
        word = asked.get("most", "")
        most = int(word) if word.isascii() and word.isdecimal() and len(word) < 6 else _USUAL
        wanted = RunFilter.read(asked, self._clock.now())
        return await asyncio.to_thread(self._read, wanted, most)

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, *_MADE_OF)

    def _read(self, wanted: RunFilter, most: int) -> RunList:
        # Read before the ledger, which then has everything that was claimed until this moment.
        watched_until, now = self._heartbeat(), self._clock.now()
        return self._store.query(
            lambda tx: run_list(tx, wanted, most, now, watched_until, self._receipts)
        )


class RunView:
    """A `View` of the run `id`, which may be short."""

    def __init__(self, store: Store, repositories: JobRepositories, clock: Clock) -> None:
        self._store = store
        self._repositories = repositories
        self._clock = clock

    async def look(self, asked: Mapping[str, str]) -> RunPage:
        return await asyncio.to_thread(self._read, asked.get("id", ""))

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, *_MADE_OF)

    def _read(self, word: str) -> RunPage:
        now = self._clock.now()

        def question(tx: Transaction) -> RunPage:
            story = run_named(tx, word[:_LONGEST_ID])
            return RunPage(now, story, said_by(tx, story), self._job(story.occurrence))

        return self._store.query(question)

    def _job(self, one: Occurrence) -> str:
        """The key of the job, if it has a file."""
        if isinstance(one.kind, JobKind):
            with suppress(NotFound):
                self._repositories.of(one.kind).text_of(one.job_id)
                return f"{one.kind}:{one.job_id}"
        return ""
