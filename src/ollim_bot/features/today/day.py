"""The day as the page shows it: what waits, what comes next, on which ground, and what is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import overload

from ollim_bot.kernel.base.job_kinds import OccurrenceKind
from ollim_bot.kernel.base.moments import (
    describe,
    duration_in_words,
    elapsed,
    midnight_after,
    short_day,
)
from ollim_bot.kernel.base.text import one_line
from ollim_bot.kernel.values.answers import why_not_undone
from ollim_bot.kernel.values.calendar import CalendarCopy, CalendarEvent, stale_words, time_words
from ollim_bot.kernel.values.cards import Button, Card, CardLine
from ollim_bot.kernel.values.due_items import (
    DueItem,
    root_in,
    settled_line,
    short_moment,
    undo_button,
    waiting_buttons,
)
from ollim_bot.kernel.values.jobs import Reminder
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.overviews import (
    UpcomingToday,
    coming_today,
    in_overdue_order,
    still_today,
    task_lines,
)
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.quiet import QuietSettings, quiet_spans
from ollim_bot.kernel.values.receipts import Receipt
from ollim_bot.kernel.values.schedule import NextMoments, ScheduledJob, Skips
from ollim_bot.kernel.values.task_cards import TaskUndo
from ollim_bot.kernel.values.tasks import Task

_LONGEST_EVENT = 100

Jobs = Mapping[tuple[OccurrenceKind, str], ScheduledJob]


@dataclass(frozen=True, slots=True)
class DayLine:
    """A thing of the day with what can be done about it.

    `at` is its moment; None where only the day counts. `until` is the end of what lasts, and
    `since` the moment from which a timer runs. `note` is what there is to say beside the title.
    `job` is the id of the job with a file behind it.
    """

    title: str
    at: datetime | None = None
    until: datetime | None = None
    since: datetime | None = None
    note: str = ""
    buttons: tuple[Button, ...] = ()
    is_skipped: bool = False
    job: str = ""


@dataclass(frozen=True, slots=True)
class PingGauge:
    """How many pings are left, when the next one is added, and how many messages are held."""

    left: int
    capacity: int
    next_at: datetime | None = None
    held: int = 0


@dataclass(frozen=True, slots=True)
class DayView:
    """What there is of a day at `now`. `next` is the first of what comes and is not skipped.

    `reach` says so if nothing but the page can show what comes.
    """

    now: datetime
    overdue: Sequence[DayLine] = ()
    next: DayLine | None = None
    later: Sequence[DayLine] = ()
    events: Sequence[DayLine] = ()
    all_day: Sequence[DayLine] = ()
    quiet: Sequence[DayLine] = ()
    tasks: Sequence[DayLine] = ()
    put_off: Sequence[DayLine] = ()
    done: Sequence[DayLine] = ()
    notes: Sequence[str] = ()
    pings: PingGauge = PingGauge(0, 0)
    receipt: Receipt | None = None
    reach: str = ""

    @property
    def title(self) -> str:
        return short_day(self.now)

    @property
    def ends(self) -> datetime:
        return midnight_after(self.now)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits, comes or was done."""
        return not any((*self._answerable(), *self.events, *self.all_day))

    @property
    def card(self) -> Card:
        """The lines with buttons as a card, so that a press here does what it does on a card."""
        lines = [line for line in self._answerable() if line.buttons]
        buttons = (
            each._replace(line=number)
            for number, line in enumerate(lines, 1)
            for each in line.buttons
        )
        texts = tuple(CardLine(line.title) for line in lines)
        return Card(f"Today, {self.title}", lines=texts, buttons=tuple(buttons))

    def _answerable(self) -> Iterator[DayLine]:
        yield from self.overdue
        yield from () if self.next is None else (self.next,)
        for lines in (self.later, self.tasks, self.put_off, self.done):
            yield from lines


def day_of(
    waiting: Sequence[DueItem],
    answered: Sequence[DueItem],
    jobs: Sequence[ScheduledJob],
    skips: Skips,
    now: datetime,
    calendars: Sequence[CalendarCopy],
    tasks: Sequence[Task],
    undos: Sequence[TaskUndo],
    quiet: QuietSettings,
    pings: PingGauge,
    receipt: Receipt | None = None,
    moments: NextMoments | None = None,
) -> DayView:
    """The day of the owner, from what `ollim-bot today` is made of; `moments` are kept ones."""
    coming = coming_today(jobs, skips, now, moments)
    first = next((number for number, each in enumerate(coming) if not each.is_skipped), None)
    following = None if first is None else coming.pop(first)
    put_off = [each for each in answered if each.is_still_put_off(now)]
    done = [each for each in answered if not each.is_put_off]
    known = frozenset(each.spec.id for each in jobs)
    # The jobs of the items, by kind and id.
    ids = {Occurrence.parse(each.occurrence).job_id for each in answered}
    found = (each for each in jobs if each.spec.id in ids) if ids else ()
    by_name: Jobs = {(each.kind, each.spec.id): each for each in found}
    events = still_today(calendars, now)
    return DayView(
        now,
        overdue=[_waiting_day_line(each, now, known) for each in in_overdue_order(waiting)],
        next=following and _coming_day_line(following, now),
        later=_ComingLines(coming, now),
        events=[_event_day_line(each, now) for each in events if not each.all_day],
        all_day=[_event_day_line(each, now) for each in events if each.all_day],
        quiet=[
            DayLine("Quiet", start, until, note=f"until {describe(until, now)}")
            for span in quiet_spans(quiet, now, midnight_after(now))
            for start, until in [[each.astimezone(now.tzinfo) for each in span]]
        ],
        tasks=[
            DayLine(each.text, buttons=each.buttons)
            for each in task_lines(tasks, undos, now, has_room=True)
        ],
        put_off=[_answered_day_line(each, now, by_name, skips, known) for each in put_off],
        done=[_answered_day_line(each, now, by_name, skips, known) for each in done],
        notes=[stale_words(copy, now) for copy in calendars if copy.is_stale(now)],
        pings=pings,
        receipt=receipt,
    )


def _event_day_line(event: CalendarEvent, now: datetime) -> DayLine:
    title = one_line(event.summary, _LONGEST_EVENT) or "no title"
    if event.all_day:
        return DayLine(title, note=time_words(event, now))
    zone = now.tzinfo or UTC
    begins, ends = event.begins(zone).astimezone(zone), event.ends(zone).astimezone(zone)
    calendar = one_line(event.calendar, _LONGEST_EVENT)
    return DayLine(title, begins, ends, note=f"{time_words(event, now)} · {calendar}")


def gauge(budget: PingBudget, held: int, now: datetime) -> PingGauge:
    """The ping budget at `now`, with the number of messages that wait for the end of the quiet."""
    current, next_at = budget.refilled(now), None
    if current.tokens < current.capacity:
        minutes = (current.tokens + 1 - current.available) * current.refill_rate_minutes
        next_at = (now.astimezone(UTC) + timedelta(minutes=minutes)).astimezone(now.tzinfo)
    return PingGauge(current.tokens, current.capacity, next_at, held)


def _waiting_day_line(item: DueItem, now: datetime, known: Set[str]) -> DayLine:
    unanswered = " · not answered" if item.is_dose else ""
    more = item.earlier_count
    earlier = f" · {more} more before it, not answered" if more else ""
    held = " · held until the quiet ends" if item.waiting else ""
    note = f"since {short_moment(item.due, now)}{unanswered}{earlier}{held}"
    buttons = waiting_buttons(item)
    return DayLine(item.owner_title, item.due, note=note, buttons=buttons, job=_job(item, known))


def _job(item: DueItem, known: Set[str]) -> str:
    """The id of the item's job, or of the reminder that a snooze made of it, if it has a file."""
    ids = item.copy, root_in(item.note)
    return next((each for each in ids if each in known), "")


class _ComingLines(Sequence[DayLine]):
    """Makes a line when it is looked at: of ten thousand, the page shows a hundred."""

    def __init__(self, coming: Sequence[UpcomingToday], now: datetime) -> None:
        self._coming = coming
        self._now = now

    def __len__(self) -> int:
        return len(self._coming)

    @overload
    def __getitem__(self, index: int) -> DayLine: ...

    @overload
    def __getitem__(self, index: slice) -> list[DayLine]: ...

    def __getitem__(self, index: int | slice) -> DayLine | list[DayLine]:
        if isinstance(index, slice):
            return [_coming_day_line(each, self._now) for each in self._coming[index]]
        return _coming_day_line(self._coming[index], self._now)


def _coming_day_line(coming: UpcomingToday, now: datetime) -> DayLine:
    job = coming.job
    return DayLine(
        job.spec.owner_title or job.spec.id,
        coming.moment.astimezone(now.tzinfo),
        since=job.set_at if isinstance(job, Reminder) else None,
        note=" · ".join(coming.notes),
        buttons=coming.buttons,
        is_skipped=coming.is_skipped,
        job=job.spec.id,
    )


def _answered_day_line(
    item: DueItem, now: datetime, jobs: Jobs, skips: Skips, known: Set[str]
) -> DayLine:
    one = Occurrence.parse(item.occurrence)
    job = jobs.get((one.kind, one.job_id))
    is_over = bool(why_not_undone(item, now, job, skips))
    buttons = () if is_over else (undo_button(item.key),)
    words = settled_line(item, now)
    return DayLine(words, item.answered_at, buttons=buttons, job=_job(item, known))


def free_stretches(lines: Iterable[DayLine], now: datetime) -> Iterator[DayLine]:
    """The gaps of an hour and more from now on between things that have a moment, in order."""
    free_from = now
    for line in sorted((each for each in lines if each.at), key=lambda each: each.at or now):
        start, end = line.at or now, line.until or line.at or now
        if elapsed(free_from, start) >= timedelta(hours=1):
            yield DayLine(f"{duration_in_words(elapsed(free_from, start))} free", free_from, start)
        free_from = max(free_from, end)
