"""Lets the index know the moments that answers have set."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime

from ollim_bot.clock import zone_of
from ollim_bot.domain.answer_plans import with_plan
from ollim_bot.domain.job_kinds import JobKey, JobKind
from ollim_bot.domain.jobs import Routine
from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.schedule.job_index import Changes, JobIndex
from ollim_bot.store.answer_plans import follow_plans
from ollim_bot.store.store import Store

_logger = logging.getLogger(__name__)


class AnswerPlans:
    """Keeps the plans of answers in step with the jobs, and the index with the plans."""

    def __init__(self, store: Store, index: JobIndex, clock: Clock) -> None:
        self._store = store
        self._index = index
        self._clock = clock
        self._changed = asyncio.Event()
        self._watches = ExitStack()
        self._jobs: list[Routine] = []
        self._has_followed = False

    def watch(self) -> None:
        """Notice answers, and ends without any, from now on."""
        self._watches.enter_context(self._store.changes("due_items", "ledger", event=self._changed))

    def close(self) -> None:
        self._watches.close()

    def note_jobs(self) -> None:
        """To be called when jobs have changed."""
        every = (indexed.job for indexed in self._index.jobs.values())
        self._jobs = [job for job in every if isinstance(job, Routine) and job.follows_answers]
        self._changed.set()

    async def follow(self, since: datetime, *, has_moved: bool = False) -> Changes:
        """Follow the jobs and the answers; the result has the jobs with another next moment."""
        is_used = bool(self._jobs or self._index.days or not self._has_followed)
        if not (is_used and (has_moved or self._changed.is_set())):
            return Changes()
        self._changed.clear()
        before, zone, jobs = self._index.days, zone_of(self._clock), self._jobs
        try:
            self._index.days = await self._store.transact(
                lambda tx: follow_plans(tx, jobs, zone, since, has_moved=has_moved)
            )
            self._has_followed = True
        except StorageError:
            _logger.warning("What follows an answer could not be planned", exc_info=True)
            self._changed.set()
        names = {
            name
            for name in before.keys() | self._index.days.keys()
            if before.get(name) != self._index.days.get(name)
        }
        found = (self._index.jobs.get(JobKey(JobKind.ROUTINE, name)) for name in sorted(names))
        days = self._index.days
        planned = [
            replace(each, job=with_plan(each.job, days.get(each.job.spec.id)))
            for each in found
            if each is not None
        ]
        return Changes(changed=planned)
