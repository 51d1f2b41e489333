"""Checks of the files of jobs, of the skills they name, and of the ledger of their runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TypeVar

from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.jobs import Job, Reminder, RepositoryReport, Routine
from ollim_bot.domain.ledger_check import check
from ollim_bot.domain.moments import describe_with_distance
from ollim_bot.domain.schedule import key_of, next_due
from ollim_bot.domain.skills import does_not_load
from ollim_bot.domain.text import counted
from ollim_bot.domain.tool_patterns import is_open, open_problem
from ollim_bot.paths import DataPaths
from ollim_bot.store.answer_plans import with_known_plan
from ollim_bot.store.files import FileLock, OsDisk
from ollim_bot.store.heartbeat import SHARED_HEARTBEAT, HeartbeatFile
from ollim_bot.store.job_folder import FolderWatch, MarkdownRepository
from ollim_bot.store.job_formats import JobFormat
from ollim_bot.store.job_types import JOB_TYPES
from ollim_bot.store.skill_files import SkillFolder, SkillLock
from ollim_bot.store.steps import holder_of_id
from ollim_bot.upkeep.doctor import DoctorFinding, DoctorInput, failed, passed, warned

J = TypeVar("J", bound=Job)

_MOST_NAMED = 5
_COMPARE = "If it was not you, `ollim-bot skill remove` and `ollim-bot skill add` bring it back."
_NO_EFFECT = "Leave it, it is for another program; `ollim-bot skill list` shows all skills."


def check_jobs(kind: JobKind, given: DoctorInput) -> Iterator[DoctorFinding]:
    report = job_report(given, JOB_TYPES[kind])
    yield from map(failed, report.problems)
    yield from map(warned, report.warnings)
    if report.jobs or not report.problems:
        found = [one.item for one in report.jobs]
        yield passed(_overview(kind, found, given.local_now, given.data.zone))


def check_skills(given: DoctorInput) -> Iterator[DoctorFinding]:
    skills = SkillFolder(given.data.paths.skills).read()
    for name, problems in skills.broken.items():
        yield failed(does_not_load(name, "; ".join(problems)))
    for difference in SkillLock(given.data.paths.skills).differences():
        yield warned(difference, _COMPARE)
    for skill in skills.loaded.values():
        yield from (warned(warning, _NO_EFFECT) for warning in skill.warnings)
        for tool in filter(is_open, skill.tools):
            yield warned(f"the skill {skill.name}: {open_problem(tool)}")
    for job in (one.item for form in JOB_TYPES.values() for one in job_report(given, form).jobs):
        key = key_of(job)
        for name in skills.unusable(job.spec.skills):
            if name not in skills.broken:
                take_out = f"take the name out: `ollim-bot {key.kind} show {key.id}`."
                step = f"Write skills/{name}/SKILL.md, or {take_out}"
                yield warned(f"{key} names the skill {name}, which is not there", step)
    count = len(skills.loaded)
    yield passed(counted(count, "skill") if count else "none")


def check_ledger(given: DoctorInput) -> Iterator[DoctorFinding]:
    # Read first: the ledger, read afterwards, has every occurrence claimed until this heartbeat.
    watched_until = heartbeat(given.data.paths)
    if watched_until is None and given.is_shared:
        # When the machine that leads last recorded the time.
        led_until = given.read(lambda tx: tx.meta.get(SHARED_HEARTBEAT))
        watched_until = None if led_until is None else datetime.fromisoformat(led_until)
    # None if the database cannot be read, which is a check of its own.
    rows = given.read(lambda tx: tx.ledger.page(0, 2**62)[0]) or ()
    wrong = check(rows, given.local_now, watched_until)
    yield from map(failed, wrong[:_MOST_NAMED])
    if len(wrong) > _MOST_NAMED:
        step = "`ollim-bot runs check` names them all."
        yield failed(f"{len(wrong) - _MOST_NAMED} more like that", step)
    if not wrong:
        runs = len({row.occurrence for row in rows if row.occurrence})
        right = f"{counted(runs, 'run')}, and nothing is missing, doubled or made up"
        yield passed(right if runs else "no runs yet")


def heartbeat(paths: DataPaths) -> datetime | None:
    """When the scheduler last recorded the time."""
    return HeartbeatFile(paths).read()


def job_report(given: DoctorInput, form: JobFormat[J]) -> RepositoryReport[J]:
    """All jobs of a kind, without any change on disk."""
    paths = given.data.paths
    folder = paths.jobs(form.kind)
    with given.reading() as ask:

        def choose_holder(rivals: Sequence[Job]) -> int:
            return ask(lambda tx: holder_of_id(tx, rivals)) or 0

        def plan(job: Job) -> Job:
            return ask(lambda tx: with_known_plan(tx, job)) or job

        repository = MarkdownRepository(
            FolderWatch(folder, form, OsDisk()),
            FileLock(paths.lock_of(folder)),
            journal=NoJournal(),
            choose_holder=choose_holder,
            plan=plan,
        )
        return repository.report()


def _overview(kind: JobKind, found: Sequence[Job], now: datetime, zone: tzinfo) -> str:
    if not found:
        return f"none; `ollim-bot {kind} add --help` shows how to add one"
    timed = [job for job in found if isinstance(job, Routine | Reminder)]
    waiting = [job for job in timed if isinstance(job, Reminder) and job.spec.enabled]
    counts = [counted(len(found), str(kind))]
    if paused := sum(not job.spec.enabled for job in found):
        counts.append(f"{paused} paused")
    if overdue := sum(job.due(zone).astimezone(UTC) <= now.astimezone(UTC) for job in waiting):
        counts.append(f"{overdue} overdue")
    coming = [(at, job.spec.short_title) for job in timed if (at := next_due(job, now, zone))]
    moment, title = min(coming, default=(None, ""))
    after = f"; next {describe_with_distance(moment, now)}: {title}" if moment else ""
    return f"{', '.join(counts)}{after}"


class NoJournal:
    """The journal of a check, which writes nothing."""

    def note(self, path: Path, message: str, source: str = "") -> None:
        raise AssertionError(f"{path} was written by a check: {message} {source}")
