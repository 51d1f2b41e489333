"""The cards that show one scheduled job each, with its buttons."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from ollim_bot.domain.cards import Button, ButtonStyle, Card
from ollim_bot.domain.jobs import Reminder, Routine, kind_of
from ollim_bot.domain.moments import describe, describe_with_distance
from ollim_bot.domain.owner_choices import Skips
from ollim_bot.domain.schedule import ScheduledJob, next_due, occurrence_at
from ollim_bot.domain.text import one_line

RUN, PAUSE, RESUME = "job_run", "job_pause", "job_resume"
SKIP, SNOOZE, CANCEL = "job_skip", "job_snooze", "job_cancel"

_LONGEST_TITLE = 200
_SNOOZES = {"1h": "Snooze 1 h", "9am": "Next day 9:00"}


def next_moment(job: ScheduledJob, skips: Skips, now: datetime) -> datetime | None:
    """The first moment that is not skipped; None if there is none."""
    moment = next_due(job, now, now.tzinfo or UTC)
    if moment is not None and skips.has(occurrence_at(job, moment)):
        return next_due(job, moment, now.tzinfo or UTC)
    return moment


def skipped_moment(job: ScheduledJob, skips: Skips, now: datetime) -> datetime | None:
    """The moment that a skip would leave out; None if there is none."""
    moment = next_due(job, now, now.tzinfo or UTC)
    is_skipped = moment is not None and skips.has(occurrence_at(job, moment))
    return moment if is_skipped else None


def job_overview(job: ScheduledJob, skips: Skips, now: datetime) -> Card:
    is_skipped = skipped_moment(job, skips, now) is not None
    return Card(
        _title(job),
        "\n".join(_lines(job, skips, now)),
        buttons=tuple(_buttons(job, is_skipped=is_skipped)),
    )


def _title(job: ScheduledJob) -> str:
    return one_line(job.spec.title, _LONGEST_TITLE) or job.spec.id


def _lines(job: ScheduledJob, skips: Skips, now: datetime) -> Iterator[str]:
    if isinstance(job, Routine):
        zone = f" ({job.spec.timezone})" if job.spec.timezone else ""
        yield f"{job.cron.explain()}{zone}."
    if not job.spec.enabled:
        yield "Paused: it does not run until it is resumed."
    elif isinstance(job, Reminder):
        due = job.due(now.tzinfo or UTC)
        word = "Due" if due.astimezone(UTC) > now.astimezone(UTC) else "Overdue since"
        yield f"{word}: {describe_with_distance(due, now)}."
    else:
        skipped, following = skipped_moment(job, skips, now), next_moment(job, skips, now)
        if skipped is not None:
            yield f"Skipped: {describe(skipped, now)}."
        if following is not None:
            yield f"Next: {describe_with_distance(following, now)}."
    if job.spec.set_by:
        yield f"Set by {job.spec.set_by} in the background, within the ping budget."


def _buttons(job: ScheduledJob, *, is_skipped: bool) -> Iterator[Button]:
    name = f"{kind_of(job)}:{job.spec.id}"
    yield Button("Run now", RUN, name)
    if not job.spec.enabled:
        yield Button("Resume", RESUME, name)
    else:
        if isinstance(job, Reminder):
            yield from (Button(label, SNOOZE, f"{name}:{wait}") for wait, label in _SNOOZES.items())
        elif is_skipped:
            yield Button("Do not skip", RESUME, name)
        else:
            yield Button("Skip once", SKIP, name)
        yield Button("Pause", PAUSE, name)
    yield Button("Cancel", CANCEL, name, ButtonStyle.DANGER)
