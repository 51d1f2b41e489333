"""The cards that tell the owner of new and changed jobs, and what an Undo answers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

from ollim_bot.domain.cards import Button, Card
from ollim_bot.domain.job_files import JobFile, UndoEnd
from ollim_bot.domain.jobs import Job, Reminder, Routine, kind_of
from ollim_bot.domain.moments import describe, describe_with_distance
from ollim_bot.domain.shortening import shortened

UNDO = "undo"
CHANGED_SINCE = "The file was changed since; nothing was undone."
NOT_ANY_MORE = "This was undone before, or is too old to be undone."

_MOMENTS = 3
_LONGEST_TITLE = 200
_LONGEST_LIST = 1000


def job_card(job: Job, now: datetime, *, is_new: bool, key: str | None) -> Card:
    """With the button to undo it, if there is a key for that."""
    verb = "added" if is_new else "changed"
    title = f"{kind_of(job).capitalize()} {verb}: {_short(job.spec.title, _LONGEST_TITLE)}"
    buttons = (Button("Undo", UNDO, key),) if key else ()
    return Card(title, "\n".join(_lines(job, now)), buttons=buttons)


def _lines(job: Job, now: datetime) -> Iterator[str]:
    if not job.spec.enabled:
        yield "It is paused, and does not run."
    elif isinstance(job, Routine):
        zone = f" ({job.spec.timezone})" if job.spec.timezone else ""
        yield f"{job.cron.explain()}{zone}."
        yield f"Next: {', '.join(describe(each, now) for each in _next(job, now))}."
    elif isinstance(job, Reminder):
        due = job.due(now.tzinfo or UTC)
        yield f"{'Due' if due > now else 'Was due'}: {describe_with_distance(due, now)}."
    else:
        yield "It runs when something is sent to it."
    if job.spec.set_by:
        yield f"Set by {job.spec.set_by} in the background, within the ping budget."
    if tools := job.spec.allowed_tools:
        listed = ", ".join(f"`{each}`" for each in tools)
        yield f"It may also use: {_short(listed, _LONGEST_LIST)}"


def _next(routine: Routine, now: datetime) -> Iterator[datetime]:
    def moments() -> Iterator[datetime]:
        moment = now
        while True:
            moment = routine.next_after(moment, now.tzinfo or UTC)
            yield moment

    return islice(moments(), _MOMENTS)


def undone(title: str, end: UndoEnd) -> str:
    """What the owner is answered; `title` is that of the card."""
    name = title.partition(": ")[2]
    match end:
        case UndoEnd.REMOVED:
            return f"Undone. “{name}” is gone again."
        case UndoEnd.RESTORED:
            return f"Undone. “{name}” is as it was before."
        case UndoEnd.CHANGED_SINCE:
            return CHANGED_SINCE
        case UndoEnd.GONE:
            return NOT_ANY_MORE


def for_agent(file: JobFile, end: UndoEnd) -> str:
    what = "was removed again" if end is UndoEnd.REMOVED else "is as it was before"
    return f"The owner has undone a change: {file} {what}."


def _short(text: str, most: int) -> str:
    return shortened(text, most)
