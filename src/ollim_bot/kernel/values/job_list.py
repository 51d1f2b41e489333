"""All jobs as their owner sees them in a list: when each comes, and how its last 30 days were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import NamedTuple

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import describe, describe_with_distance, short_day
from ollim_bot.kernel.base.text import FROM_UNTRUSTED, as_code, one_line
from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card
from ollim_bot.kernel.values.costs import Amount
from ollim_bot.kernel.values.hook_jobs import CalledJob
from ollim_bot.kernel.values.jobs import Job, Reminder, Routine
from ollim_bot.kernel.values.overviews import (
    CANCEL,
    PAUSE,
    RESUME,
    RUN,
    SNOOZE_JOB,
    button_data,
    first_button,
    rhythm_words,
)
from ollim_bot.kernel.values.schedule import ScheduledJob, Skips, next_moment, skipped_moment

# How many days a strip has; today is the last.
DAYS = 30
# The days of a state that a sentence names.
_MOST_NAMED = 3


class DayState(StrEnum):
    """What a day was for a job; the first that fits one of its moments."""

    MISSED = "missed"
    FAILED = "failed"
    LATE = "late"
    SKIPPED = "skipped"
    WAITING = "waiting"
    ON_TIME = "on time"
    NOTHING = "nothing due"


_WORST_FIRST = tuple(DayState)
# The states whose days are named; the others are only counted.
_NAMED = (DayState.MISSED, DayState.FAILED, DayState.LATE, DayState.SKIPPED)


class JobDay(NamedTuple):
    """A day of a strip; `why` says why a moment was skipped, or how it failed."""

    day: date
    state: DayState = DayState.NOTHING
    why: str = ""

    def __str__(self) -> str:
        """`Mon 2 Nov: it was quiet`."""
        return f"{short_day(self.day)}: {self.why}" if self.why else short_day(self.day)


class LastRun(NamedTuple):
    at: datetime
    words: str


@dataclass(frozen=True, slots=True)
class JobPast:
    """The past of a job: a strip of days, the median cost of a run, and the last run."""

    days: Sequence[JobDay] = ()
    cost: Amount | None = None
    last: LastRun | None = None

    @property
    def sentence(self) -> str:
        """`27 days on time, 1 late (Tue 3 Nov), 1 skipped (Mon 2 Nov: it was quiet)`."""
        parts = []
        for state in reversed(_WORST_FIRST):
            its = [each for each in self.days if each.state is state]
            if state in _NAMED and its:
                last = "last " * (len(its) > _MOST_NAMED)
                named = "; ".join(map(str, its[-_MOST_NAMED:]))
                parts.append(f"{len(its)} {state} ({last}{named})")
            elif state is not DayState.NOTHING and its:
                parts.append(f"{len(its)} {state}")
        return ", ".join(parts) or "nothing was due"


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job in the list; `key` finds its form. `next` begins with a moment that is overdue.

    `is_skipped` says that the first of its moments is left out.
    """

    key: str
    kind: JobKind
    title: str
    rhythm: str
    next: Sequence[datetime] = ()
    is_enabled: bool = True
    is_overdue: bool = False
    is_skipped: bool = False
    standstill: str = ""
    asks_model: bool = True
    past: JobPast = field(default_factory=JobPast)


@dataclass(frozen=True, slots=True)
class JobList:
    """The first lines of the `found` jobs that have the words and the kind, of `all` jobs.

    `problems` are sentences about files that are wrong, `warnings` about those that run.
    """

    now: datetime
    lines: Sequence[JobLine] = ()
    found: int = 0
    all: int = 0
    words: str = ""
    kind: JobKind | None = None
    problems: Sequence[str] = ()
    counts: Mapping[JobKind, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()


_SNOOZES = {"1h": "Snooze 1 h", "9am": "Next day 9:00"}


def job_card(job: Job, skips: Skips, now: datetime, webhook_port: int | None = None) -> Card:
    """One job with all that can be done with it; webhooks are called at `webhook_port`."""
    if isinstance(job, Routine | Reminder):
        is_skipped = skipped_moment(job, skips, now) is not None
        lines, buttons = [*_about(job, skips, now)], [*_buttons(job, is_skipped=is_skipped)]
    else:
        lines = [] if job.spec.enabled else ["Paused: calls are refused until it is resumed."]
        lines += facts_of(job, webhook_port) if isinstance(job, CalledJob) else ()
        cancel = Button("Cancel", CANCEL, button_data(job), ButtonStyle.DANGER)
        buttons = [first_button(job), cancel]
    mark = f" {FROM_UNTRUSTED}" if job.spec.untrusted else ""
    title = (one_line(job.spec.words, 200) or job.spec.id) + mark
    return Card(title, "\n".join(lines), buttons=tuple(buttons), job=job.spec.id)


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
    for name, fact in job.facts(port, lambda text: as_code(text, 60)):
        yield f"{name.capitalize()}: {fact}."
