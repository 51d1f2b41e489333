"""The card of one job, with all that can be done with it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from ollim_bot.domain.cards import Button, ButtonStyle, Card
from ollim_bot.domain.hook_jobs import CalledJob
from ollim_bot.domain.jobs import Job, Reminder, Routine
from ollim_bot.domain.moments import describe, describe_with_distance
from ollim_bot.domain.overviews import (
    CANCEL,
    PAUSE,
    RESUME,
    RUN,
    SNOOZE_JOB,
    button_data,
    first_button,
    first_called_button,
    next_moment,
    rhythm_words,
    skipped_moment,
)
from ollim_bot.domain.schedule import ScheduledJob, Skips
from ollim_bot.domain.text import FROM_UNTRUSTED, as_code, one_line

_LONGEST_NAME = 60
_LONGEST_TITLE = 200
_SNOOZES = {"1h": "Snooze 1 h", "9am": "Next day 9:00"}


def job_card(job: Job, skips: Skips, now: datetime, webhook_port: int | None = None) -> Card:
    """One job with all that can be done with it; webhooks are called at `webhook_port`."""
    if isinstance(job, Routine | Reminder):
        is_skipped = skipped_moment(job, skips, now) is not None
        lines, buttons = _about(job, skips, now), _buttons(job, is_skipped=is_skipped)
    else:
        lines, buttons = _about_called(job, webhook_port), _called_buttons(job)
    mark = f" {FROM_UNTRUSTED}" if job.spec.untrusted else ""
    title = (one_line(job.spec.words, _LONGEST_TITLE) or job.spec.id) + mark
    return Card(title, "\n".join(lines), buttons=tuple(buttons), job=job.spec.id)


def _about_called(job: Job, port: int | None) -> Iterator[str]:
    if not job.spec.enabled:
        yield "Paused: calls are refused until it is resumed."
    if isinstance(job, CalledJob):
        yield from facts_of(job, port)


def _called_buttons(job: Job) -> Iterator[Button]:
    yield first_called_button(job)
    yield Button("Cancel", CANCEL, button_data(job), ButtonStyle.DANGER)


def _about(job: ScheduledJob, skips: Skips, now: datetime) -> Iterator[str]:
    if isinstance(job, Routine):
        yield f"{rhythm_words(job)}."
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
        elif skipped is None and isinstance(job, Routine):
            yield f"It {job.standstill}."
    if job.spec.set_by:
        yield f"Set by {job.spec.set_by} in the background, within the ping budget."


def _buttons(job: ScheduledJob, *, is_skipped: bool) -> Iterator[Button]:
    name = button_data(job)
    yield Button("Run now", RUN, name)
    if not job.spec.enabled:
        yield Button("Resume", RESUME, name)
    else:
        if isinstance(job, Reminder):
            waits = _SNOOZES.items()
            yield from (Button(label, SNOOZE_JOB, f"{name}:{wait}") for wait, label in waits)
        else:
            yield first_button(job, is_skipped=is_skipped)
        yield Button("Pause", PAUSE, name)
    yield Button("Cancel", CANCEL, name, ButtonStyle.DANGER)


def facts_of(job: CalledJob, port: int | None) -> Iterator[str]:
    """The facts as lines of a card."""
    for name, fact in job.facts(port, lambda text: as_code(text, _LONGEST_NAME)):
        yield f"{name.capitalize()}: {fact}."
