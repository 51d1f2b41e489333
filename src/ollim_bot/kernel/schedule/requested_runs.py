"""Runs that are asked for: by the owner's command, and by calls of webhooks."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, timedelta
from itertools import count

from ollim_bot.kernel.base.clock import Clock, wait_until_set
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.conversation.background import Slots
from ollim_bot.kernel.conversation.notice_poster import DiskGate
from ollim_bot.kernel.schedule.catch_up import FILE_GONE
from ollim_bot.kernel.schedule.dispatch import Dispatcher, DueOccurrence
from ollim_bot.kernel.schedule.job_index import JobIndex, job_of
from ollim_bot.kernel.store.run_requests import RequestFolder, RunRequest
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.decision import Abandon, Circumstances, decide
from ollim_bot.kernel.values.jobs import Job
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.ports import JobRepositories

# A request that is not taken within this time belongs to a command that was killed.
_FORGOTTEN = timedelta(minutes=1)

_logger = logging.getLogger(__name__)


class RunRequests:
    """Removes a request once its occurrence is claimed: no crash loses or repeats a run."""

    def __init__(
        self,
        folder: RequestFolder,
        repositories: JobRepositories,
        dispatch: Dispatcher,
        clock: Clock,
    ) -> None:
        self._folder = folder
        self._repositories = repositories
        self._dispatch = dispatch
        self._clock = clock

    async def run(self) -> None:
        """Serve the requests of the command line and of the buttons, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._dispatch.serve_manual_runs())
            group.create_task(self._serve_command_line())

    async def _serve_command_line(self) -> None:
        while True:
            try:
                # A thread costs many times as much as a look into a folder that is nearly always
                # empty.
                if self._folder.has_any():
                    for request in await asyncio.to_thread(self._folder.all):
                        job = await asyncio.to_thread(self._wanted, request)
                        if job is not None:
                            due = DueOccurrence.by_hand(job, request.at)
                            await self._dispatch.claim_and_start(due).wait()
                        await asyncio.to_thread(self._folder.finish, request)
            except (OllimError, OSError):
                _logger.warning("The requests to run jobs could not be looked at", exc_info=True)
            await self._clock.sleep(1.0)

    def _wanted(self, request: RunRequest) -> Job | None:
        """The job to run; None if the request is too old, or the file of the job is gone."""
        is_old = self._clock.now() - request.at > _FORGOTTEN
        if is_old and not self._folder.is_taken(request):
            return None
        if not self._folder.take(request):
            return None
        try:
            job: Job = self._repositories.of(request.kind).get(request.job_id).item
            return job
        except OllimError:
            _logger.warning("What was to run now is not there", exc_info=True)
            return None


_BETWEEN_TRIES = 5.0
# A call may hold up later ones of its job for so many seconds; alone, until the limit of all runs.
_LONGEST_IN_FRONT = 480.0
_GONE = {**FILE_GONE, "why": "its file is gone, and what was sent is removed"}


class WebhookRuns:
    """Brings each accepted call to its one end, also those that an earlier process accepted.

    One background slot is left to the jobs of the clock, so that callers cannot keep them waiting.
    """

    def __init__(
        self, store: Store, index: JobIndex, dispatch: Dispatcher, gate: DiskGate, clock: Clock
    ) -> None:
        self._store = store
        self._index = index
        self._dispatch = dispatch
        self._gate = gate
        self._clock = clock
        self._place = 0
        self._waiting: dict[JobKey, deque[Occurrence]] = {}
        self._slots = Slots()
        self._order = count()

    async def run(self) -> None:
        """Take up what the last stop left, then follow what is accepted, until cancelled."""
        with self._store.changes("webhook_deliveries") as changed:
            await self._gate.commit(lambda tx: tx.webhook_deliveries.forget_all_ended())
            async with asyncio.TaskGroup() as group:
                while True:
                    changed.clear()
                    calls, self._place = await self._gate.repeat(self._accepted)
                    for one in calls:
                        key = _key_of(one)
                        if key in self._waiting:
                            self._waiting[key].append(one)
                        else:
                            self._waiting[key] = deque([one])
                            group.create_task(self._run_all_of(key))
                    await changed.wait()

    async def _accepted(self) -> tuple[list[Occurrence], int]:
        """The calls that came since the last look, and the place of the next."""
        place = self._place
        return await self._store.read(lambda tx: tx.webhook_deliveries.open_after(place))

    async def _run_all_of(self, key: JobKey) -> None:
        waiting = self._waiting[key]
        while waiting:
            await self._run(waiting.popleft(), waiting)
        del self._waiting[key]

    async def _run(self, one: Occurrence, later: Collection[Occurrence]) -> None:
        job = self._job(one)
        slot: AbstractAsyncContextManager[None] = nullcontext()
        if job is not None and not job.is_plain:
            most = (await self._gate.commit(lambda tx: tx.config.get())).bg_concurrency
            slot = self._slots.slot((0, next(self._order)), max(1, most - 1))
        async with slot:
            story = await self._gate.commit(lambda tx: tx.ledger.story(one))
            # While it waited, the file may have changed.
            job = self._job(one)
            if job is None:
                now = self._clock.now()
                decision = decide(None, Circumstances(None, now, UTC, story.progress))
                if isinstance(decision, Abandon):
                    end = LedgerRow(now, decision.state.value, one, _GONE)
                    await self._gate.commit(lambda tx: tx.ledger.append(end))
            else:
                due = DueOccurrence(job, one)
                ended = self._dispatch.resume(due, story)
                await wait_until_set(ended, self._clock, _LONGEST_IN_FRONT)
                while not ended.is_set() and not later:
                    await wait_until_set(ended, self._clock, _BETWEEN_TRIES)
                # Once it has taken long, it must not hold up those that wait behind it.
                due.overtaken.set()
                await ended.wait()
        await self._gate.commit(lambda tx: tx.webhook_deliveries.forget_data(one))

    def _job(self, one: Occurrence) -> Job | None:
        return job_of(self._index, _key_of(one))


def _key_of(call: Occurrence) -> JobKey:
    return JobKey(call.kind, call.job_id)
