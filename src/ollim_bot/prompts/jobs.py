"""The prompts of jobs: tag, time, what happened meanwhile, instructions, and the task itself."""

from __future__ import annotations

from datetime import datetime

from ollim_bot.domain.inputs import JobTurn
from ollim_bot.domain.jobs import Job, ReportMode, kind_of
from ollim_bot.domain.moments import MONTHS, WEEKDAYS
from ollim_bot.prompts.context import clock, joined, timestamp
from ollim_bot.prompts.preamble import Briefing, chain_section
from ollim_bot.prompts.tags import job_tag, neutralised


def background_prompt(
    job: Job, now: datetime, *, preamble: str, updates: str = "", late_since: datetime | None = None
) -> str:
    """Ends with the task of the job. `preamble` ends with a line that says where it begins."""
    tag = job_tag(kind_of(job), job.spec.id, background=True)
    head = joined("\n", joined(" ", tag, _late(late_since, now)), timestamp(now), updates)
    return joined("\n\n", head, preamble, neutralised(job.spec.message))


def foreground_prompt(turn: JobTurn, now: datetime, updates: str = "") -> str:
    """A turn of the main conversation; of all instructions only those of a chain are needed."""
    tag = job_tag(turn.kind, turn.job, background=False)
    head = joined("\n", joined(" ", tag, _late(turn.late_since, now)), timestamp(now), updates)
    chain = chain_section(Briefing(ReportMode.FREELY, allow_ping=True, chain=turn.chain))
    return joined("\n\n", head, chain, neutralised(turn.body))


def _late(since: datetime | None, now: datetime) -> str:
    """On the clocks of `now`; with the day, if it was another one."""
    if since is None:
        return ""
    local = since.astimezone(now.tzinfo)
    day = f"{WEEKDAYS[local.weekday()]} {local.day} {MONTHS[local.month - 1]} "
    moment = clock(local) if local.date() == now.date() else day + clock(local)
    return f"[late: was scheduled for {moment}, running now]"
