"""Running a job now. The bot does it: the command leaves it a request, and waits to be heard."""

from __future__ import annotations

import time

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import Data, open_data
from ollim_bot.cli.jobs import initiative
from ollim_bot.cli.jobs.noun import JobNoun, S
from ollim_bot.cli.verbs import Given
from ollim_bot.cli.wording import title
from ollim_bot.errors import OllimError
from ollim_bot.storage.run_requests import RequestFolder
from ollim_bot.upkeep.instance import running_pid

_PATIENCE = 5.0
_BETWEEN_LOOKS = 0.02


def run_job(noun: JobNoun[S], given: Given, caller: Caller, *, patience: float = _PATIENCE) -> None:
    data = open_data(caller)
    if initiative.setter(caller, data) is not None:
        from ollim_bot.domain.initiative import NO_RUN

        raise OllimError(NO_RUN)
    job = noun.shelf(data).get(given["job"]).item
    if running_pid(data.paths.bot_pid) is None:
        raise OllimError("The bot is not running, and only it can run this. Start it: ollim-bot")
    if not _is_taken(noun, job.spec.id, data, patience):
        raise OllimError(
            "The bot did not answer, so nothing was run. If it is just starting or stopping, "
            "try it again in a moment."
        )
    story = f"`ollim-bot runs show {job.spec.id}` tells what comes of it."
    print(f"{noun.name.capitalize()} started: {title(job.spec.title)}. {story}", flush=True)


def _is_taken(noun: JobNoun[S], job_id: str, data: Data, patience: float) -> bool:
    """What the bot has not taken in time, it never takes."""
    folder = RequestFolder(data.paths)
    request = folder.put(noun.form.kind, job_id, data.now)
    end = time.monotonic() + patience
    try:
        while folder.is_waiting(request) and time.monotonic() < end:
            time.sleep(_BETWEEN_LOOKS)
    finally:
        is_withdrawn = folder.withdraw(request)
    return not is_withdrawn
