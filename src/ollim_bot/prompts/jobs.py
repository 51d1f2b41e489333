"""The prompts of jobs: tag, time, what happened meanwhile, instructions, and the task itself."""

from __future__ import annotations

from datetime import datetime

from ollim_bot.domain.jobs import Job, kind_of
from ollim_bot.domain.moments import clock_time
from ollim_bot.prompts.context import joined, timestamp
from ollim_bot.prompts.tags import job_tag


def background_prompt(
    job: Job, now: datetime, *, preamble: str, updates: str = "", late_since: datetime | None = None
) -> str:
    """Ends with the task of the job, as its file has it."""
    head = joined("\n", _tagged(job, late_since, background=True), timestamp(now), updates)
    return joined("\n\n", head, preamble, job.spec.message)


def foreground_prompt(
    job: Job,
    now: datetime,
    *,
    updates: str = "",
    chain: str = "",
    late_since: datetime | None = None,
) -> str:
    head = joined("\n", _tagged(job, late_since, background=False), timestamp(now), updates)
    return joined("\n\n", head, chain, job.spec.message)


def _tagged(job: Job, late_since: datetime | None, *, background: bool) -> str:
    tag = job_tag(kind_of(job), job.spec.id, background=background)
    if late_since is None:
        return tag
    return f"{tag} [late: was scheduled for {clock_time(late_since)}, running now]"
