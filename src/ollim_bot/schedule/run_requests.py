"""Starts the jobs that the owner asks the running bot to run."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from ollim_bot.domain.jobs import Job
from ollim_bot.errors import OllimError
from ollim_bot.ports import Clock, JobRepositories
from ollim_bot.schedule.dispatch import Dispatcher, DueOccurrence
from ollim_bot.store.run_requests import RequestFolder, RunRequest

_BETWEEN_LOOKS = 1.0
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
                        await self._serve(request)
            except (OllimError, OSError):
                _logger.warning("The requests to run jobs could not be looked at", exc_info=True)
            await self._clock.sleep(_BETWEEN_LOOKS)

    async def _serve(self, request: RunRequest) -> None:
        job = await asyncio.to_thread(self._wanted, request)
        if job is not None:
            await self._dispatch.claim_and_start(DueOccurrence.by_hand(job, request.at)).wait()
        await asyncio.to_thread(self._folder.finish, request)

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
