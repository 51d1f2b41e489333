"""`ollim-bot rehearse --with FILE`: what a job file would change in the coming week."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from ollim_bot.cli.data import Data
from ollim_bot.cli.framework import small, title
from ollim_bot.domain.answer_plans import with_plan_of
from ollim_bot.domain.costs import PAST, PastCosts
from ollim_bot.domain.job_kinds import JobKey, JobKind
from ollim_bot.domain.rehearsal.difference import Difference
from ollim_bot.domain.rehearsal.fires import Assumptions
from ollim_bot.domain.rehearsal.week import rehearse_week
from ollim_bot.domain.schedule import ScheduledJob, key_of
from ollim_bot.domain.usage import dollars
from ollim_bot.errors import BadJob, WrongInput
from ollim_bot.plain_files import SizeLimit
from ollim_bot.store import frontmatter
from ollim_bot.store.document import BadDocument, Document
from ollim_bot.store.files import OsDisk
from ollim_bot.store.job_formats import REMINDERS, FieldProblem
from ollim_bot.store.routine_format import ROUTINES

_EXAMPLE = "Example: ollim-bot rehearse --with evening.md"


class Draft(NamedTuple):
    """The job in the file `name`, the job whose place it takes, and all jobs with it."""

    name: str
    job: ScheduledJob
    former: ScheduledJob | None
    jobs: Sequence[ScheduledJob]


def read_draft(path: Path, name: str, jobs: Sequence[ScheduledJob]) -> Draft:
    """The draft in that file, which the person calls `name`, among the present jobs.

    Raises `WrongInput`, or `BadJob` with the lines at fault.
    """
    present: Mapping[JobKey, ScheduledJob] = {key_of(job): job for job in jobs}
    job = _read_job(path, name)
    former = present.get(key_of(job))
    job = with_plan_of(job, former)
    return Draft(name, job, former, [*({**present, key_of(job): job}).values()])


def _read_job(path: Path, name: str) -> ScheduledJob:
    try:
        text = OsDisk().read(path, SizeLimit.JOB).decode("utf-8")
        document = frontmatter.parse(text)
    except OSError as refused:
        why = refused.strerror or str(refused)
        raise WrongInput(f"{name} cannot be read: {why}. {_EXAMPLE}") from None
    except UnicodeDecodeError:
        raise WrongInput(f"{name} is not UTF-8 text. {_EXAMPLE}") from None
    except BadDocument as bad:
        problem = FieldProblem(bad.reason, None, bad.line)
        raise BadJob([problem.sentence(name)]) from None
    form = REMINDERS if _is_reminder(path, document) else ROUTINES
    reading = form.read(document)
    if reading.job is None:
        raise BadJob([problem.sentence(name) for problem in reading.problems])
    return reading.job


def _is_reminder(path: Path, document: Document) -> bool:
    """By its folder; elsewhere by the field that says when it comes."""
    folder = path.resolve().parent.name
    if folder in (JobKind.ROUTINE.plural, JobKind.REMINDER.plural):
        return folder == JobKind.REMINDER.plural
    return any(name in document.fields for name in REMINDERS.moments)


def difference_of(
    draft: Draft, jobs: Sequence[ScheduledJob], given: Assumptions, data: Data
) -> Difference:
    """What the draft changes in the coming week, as if the bot had missed nothing."""
    rows = data.read(lambda tx: tx.usage.since(data.now - PAST)) or ()
    return rehearse_week(jobs, given).difference(draft.former, draft.job, PastCosts(rows))


def draft_sentence(draft: Draft, found: Difference) -> str:
    """`With evening.md in place of “Evening”: adds 7 pings a week.`."""
    place = (
        "beside your jobs"
        if draft.former is None
        else f"in place of “{title(draft.former.spec.title)}”"
    )
    return f"With {draft.name} {place}: {small(found.in_words())}"


def difference_object(found: Difference) -> dict[str, object]:
    cost = None if found.micros is None else dollars(found.micros)
    return {
        "sentence": found.in_words(),
        **{name: asdict(getattr(found, name)) for name in ("pings", "turns", "silent")},
        "heads_ups": found.heads_ups,
        "again": found.again,
        "cost_usd": cost,
        "is_included": found.is_included,
        "refused": found.refused,
        "used_up": [*found.used_up],
        "no_longer_used_up": [*found.no_longer_used_up],
        "appeared": [finding.sentence for finding in found.appeared],
        "vanished": [finding.sentence for finding in found.vanished],
    }
