"""Passes jobs that the owner wants to run now from the buttons to the dispatcher."""

from __future__ import annotations

import asyncio
from collections import Counter

from ollim_bot.domain.jobs import Job
from ollim_bot.domain.schedule import JobKey, key_of


class ManualRuns:
    """Refuses a job that has a run already; the dispatcher notes which jobs have one."""

    def __init__(self) -> None:
        self._running: Counter[JobKey] = Counter()
        self._requested: asyncio.Queue[Job] = asyncio.Queue()
        self._waiting: set[JobKey] = set()

    def request(self, job: Job) -> bool:
        """Ask for a run of `job`; False if one runs or waits already."""
        key = key_of(job)
        if self._running[key] or key in self._waiting:
            return False
        self._waiting.add(key)
        self._requested.put_nowait(job)
        return True

    def note_start(self, key: JobKey) -> None:
        self._running[key] += 1

    def note_end(self, key: JobKey) -> None:
        self._running[key] -= 1
        if not self._running[key]:
            del self._running[key]

    async def take(self) -> Job:
        """Wait for the next request. The caller starts the job before it awaits anything else."""
        job = await self._requested.get()
        self._waiting.discard(key_of(job))
        return job
