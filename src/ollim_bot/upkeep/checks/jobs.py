"""Whether the jobs can run, and when the next one does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from typing import TypeVar

from ollim_bot.domain.jobs import JobKind, Reminder, Routine
from ollim_bot.domain.moments import describe_with_distance
from ollim_bot.domain.schedule import ScheduledJob, key_of, next_due
from ollim_bot.ports import ShelfReport
from ollim_bot.upkeep.findings import Finding, counted, failed, passed, warned

SKILLS = "skills"
_MEND_SKILL = "Mend the file; until then the skill may not work as meant."

J = TypeVar("J", Routine, Reminder)


def jobs(kind: JobKind, report: ShelfReport[J], now: datetime, zone: tzinfo) -> Iterator[Finding]:
    name = f"{kind}s"
    mend = f"Mend the file; `ollim-bot {kind} list` shows whether it is right."
    for problem in report.problems:
        yield failed(name, problem, mend)
    for warning in report.warnings:
        yield warned(name, warning, mend)
    if report.jobs or not report.problems:
        yield passed(name, _overview(kind, [one.item for one in report.jobs], now, zone))


def skills(
    there: Collection[str], problems: Iterable[str], wanting: Iterable[ScheduledJob]
) -> Iterator[Finding]:
    """`there` are the names of those that there are, `wanting` the jobs that may name some."""
    wrong = list(problems)
    for problem in wrong:
        yield failed(SKILLS, problem, _MEND_SKILL)
    for job in wanting:
        for name in job.spec.skills:
            if name not in there:
                yield warned(
                    SKILLS,
                    f"{key_of(job)} names the skill {name}, which is not there",
                    f"Write skills/{name}/SKILL.md, or take the name out of the job.",
                )
    yield passed(SKILLS, counted(len(there), "skill") if there else "none")


def _overview(kind: JobKind, found: Sequence[ScheduledJob], now: datetime, zone: tzinfo) -> str:
    if not found:
        return f"none; `ollim-bot {kind} add --help` shows how to add one"
    paused = sum(not job.spec.enabled for job in found)
    overdue = sum(_is_overdue(job, now, zone) for job in found)
    counts = [counted(len(found), str(kind))]
    counts += [f"{paused} paused"] if paused else []
    counts += [f"{overdue} overdue"] if overdue else []
    return f"{', '.join(counts)}{_next(found, now, zone)}"


def _next(found: Sequence[ScheduledJob], now: datetime, zone: tzinfo) -> str:
    moments = ((next_due(job, now, zone), job.spec.short_title) for job in found)
    coming = sorted((moment, title) for moment, title in moments if moment is not None)
    if not coming:
        return ""
    moment, title = coming[0]
    return f"; next {describe_with_distance(moment, now)}: {title}"


def _is_overdue(job: ScheduledJob, now: datetime, zone: tzinfo) -> bool:
    is_due = isinstance(job, Reminder) and job.due(zone).astimezone(UTC) <= now.astimezone(UTC)
    return is_due and job.spec.enabled
