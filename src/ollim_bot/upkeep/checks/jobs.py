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

_SKILLS = "skills"
_MEND_SKILL = "Mend the file; `ollim-bot skill list` shows whether the agent sees the skill."
_COMPARE = "If it was not you, `ollim-bot skill remove` and `ollim-bot skill add` bring it back."
_NO_EFFECT = "Leave it, it is for another program; `ollim-bot skill list` shows all skills."
_LEDGER = "ledger"
_MOST_NAMED = 5
_SHOW = "`ollim-bot runs show ID`, with the id at the front, shows what is known of it."
_ALL = "`ollim-bot runs check` names them all."
_LEFT_OUT = "They stay where they are and harm nothing; copy the file if you want to look into it."


def check_jobs(kind: JobKind, given: DoctorInput) -> Iterator[DoctorFinding]:
    report = job_report(given, JOB_TYPES[kind])
    return _jobs(kind, report, given.local_now, given.data.zone)


def check_skills(given: DoctorInput) -> Iterator[DoctorFinding]:
    skills = SkillFolder(given.data.paths.skills).read()
    for name, problems in skills.broken.items():
        yield failed(_SKILLS, does_not_load(name, "; ".join(problems)), _MEND_SKILL)
    for difference in SkillLock(given.data.paths.skills).differences():
        yield warned(_SKILLS, difference, _COMPARE)
    for skill in skills.loaded.values():
        yield from (warned(_SKILLS, warning, _NO_EFFECT) for warning in skill.warnings)
        for tool in filter(is_open, skill.tools):
            yield warned(_SKILLS, f"the skill {skill.name}: {open_problem(tool)}", _MEND_SKILL)
    jobs: Iterator[Job] = (
        one.item for form in JOB_TYPES.values() for one in job_report(given, form).jobs
    )
    for job in jobs:
        for name in skills.unusable(job.spec.skills):
            if name not in skills.broken:
                yield warned(
                    _SKILLS,
                    f"{key_of(job)} names the skill {name}, which is not there",
                    f"Write skills/{name}/SKILL.md, or take the name out: "
                    f"`ollim-bot {key_of(job).kind} show {key_of(job).id}`.",
                )
    count = len(skills.loaded)
    yield passed(_SKILLS, counted(count, "skill") if count else "none")


def check_ledger(given: DoctorInput) -> Iterator[DoctorFinding]:
    # Read first: the ledger, read afterwards, has every occurrence claimed until this heartbeat.
    watched_until = heartbeat(given.data.paths) or _shared_heartbeat(given)
    # None if the database cannot be read, which is a check of its own.
    rows = given.read(lambda tx: tx.ledger.page(0, 2**62)[0]) or ()
    wrong = check(rows, given.local_now, watched_until)
    for sentence in wrong[:_MOST_NAMED]:
        yield failed(_LEDGER, sentence, _SHOW)
    if len(wrong) > _MOST_NAMED:
        yield failed(_LEDGER, f"{len(wrong) - _MOST_NAMED} more like that", _ALL)
    if not wrong:
        runs = len({row.occurrence for row in rows if row.occurrence})
        right = f"{counted(runs, 'run')}, and nothing is missing, doubled or made up"
        yield passed(_LEDGER, right if runs else "no runs yet")


def heartbeat(paths: DataPaths) -> datetime | None:
    """When the scheduler last recorded the time."""
    return HeartbeatFile(paths).read()


def _shared_heartbeat(given: DoctorInput) -> datetime | None:
    """When the machine that leads last recorded the time; None if the rows are not shared."""
    found = given.read(lambda tx: tx.meta.get(SHARED_HEARTBEAT)) if given.is_shared else None
    return None if found is None else datetime.fromisoformat(found)


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


def _jobs(
    kind: JobKind, report: RepositoryReport[Job], now: datetime, zone: tzinfo
) -> Iterator[DoctorFinding]:
    name = kind.plural
    mend = f"Mend the file; `ollim-bot {kind} list` shows whether it is right."
    for problem in report.problems:
        yield failed(name, problem, mend)
    for warning in report.warnings:
        yield warned(name, warning, mend)
    if report.jobs or not report.problems:
        yield passed(name, _overview(kind, [one.item for one in report.jobs], now, zone))


def _overview(kind: JobKind, found: Sequence[Job], now: datetime, zone: tzinfo) -> str:
    if not found:
        return f"none; `ollim-bot {kind} add --help` shows how to add one"
    paused = sum(not job.spec.enabled for job in found)
    overdue = sum(_is_overdue(job, now, zone) for job in found)
    counts = [counted(len(found), str(kind))]
    counts += [f"{paused} paused"] if paused else []
    counts += [f"{overdue} overdue"] if overdue else []
    return f"{', '.join(counts)}{_next(found, now, zone)}"


def _next(found: Sequence[Job], now: datetime, zone: tzinfo) -> str:
    moments = (
        (next_due(job, now, zone), job.spec.short_title)
        for job in found
        if isinstance(job, Routine | Reminder)
    )
    coming = sorted((moment, title) for moment, title in moments if moment is not None)
    if not coming:
        return ""
    moment, title = coming[0]
    return f"; next {describe_with_distance(moment, now)}: {title}"


def _is_overdue(job: Job, now: datetime, zone: tzinfo) -> bool:
    is_due = isinstance(job, Reminder) and job.due(zone).astimezone(UTC) <= now.astimezone(UTC)
    return is_due and job.spec.enabled


class NoJournal:
    """The journal of a check, which writes nothing."""

    def note(self, path: Path, message: str, source: str = "") -> None:
        raise AssertionError(f"{path} was written by a check: {message} {source}")
