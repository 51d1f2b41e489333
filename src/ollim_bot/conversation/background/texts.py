"""What the owner is told about background runs; a job is named as its owner knows it."""

from __future__ import annotations

from datetime import timedelta

from ollim_bot.domain.jobs import Job
from ollim_bot.domain.moments import duration_in_words
from ollim_bot.domain.shortening import shortened

_LONGEST_LABEL = 60
_LONGEST_MESSAGE = 2000

ENGINE_SILENT = "the engine stopped without a word."
STOPPED = "it was stopped before its end."
BOT_STOPPED = "the bot was stopped in the middle of it."
BUDGET_USED_UP = "the ping budget is used up"
FAULT = "the bot made a mistake. The log says more."


def label(job: Job) -> str:
    """The description, else the message, on one line and not too long for a sentence."""
    line = " ".join(job.spec.title.split())
    return shortened(line, _LONGEST_LABEL)


def failed(name: str, reason: str) -> str:
    return f"“{name}” did not work: {reason}"


def not_run(name: str, reason: str) -> str:
    return f"“{name}” was not run: {reason}"


def no_such_skill(name: str) -> str:
    return f"it needs the skill {name}, which is not there. Add skills/{name}/SKILL.md."


def without_report(name: str) -> str:
    return f"“{name}” ended without its report."


def unsaid(job: Job, why: str) -> str:
    """What the bot wanted to say by itself and may not."""
    message = shortened(" ".join(job.spec.message.split()), _LONGEST_MESSAGE)
    return f"“{label(job)}” was due and not sent, because {why}. Its text: {message}"


def took_too_long(seconds: float) -> str:
    return f"it took longer than {duration_in_words(timedelta(seconds=seconds))} and was stopped."
