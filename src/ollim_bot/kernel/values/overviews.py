"""What is scheduled: the cards of one job, all of a kind and today, and the day of the page."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from ollim_bot.kernel.base.job_kinds import JobKey, JobKind
from ollim_bot.kernel.base.moments import describe, midnight_after, short_day
from ollim_bot.kernel.base.text import counted, one_line
from ollim_bot.kernel.values.calendar import CalendarCopy, CalendarEvent, stale_words, time_words
from ollim_bot.kernel.values.calendar import today as events_of_day
from ollim_bot.kernel.values.cards import (
    ENSURE_LABEL,
    MOST_BUTTONS,
    MOST_ON_LINES,
    Button,
    ButtonStyle,
    Card,
    CardLine,
)
from ollim_bot.kernel.values.due_items import (
    SNOOZE,
    DueItem,
    break_down_button,
    item_key,
    settled_card,
    settled_line,
    settling_buttons,
    short_moment,
)
from ollim_bot.kernel.values.jobs import Job, JobSpec, Reminder, Routine, list_names
from ollim_bot.kernel.values.occurrences import Answer, Occurrence
from ollim_bot.kernel.values.schedule import (
    NextMoments,
    ScheduledJob,
    Skips,
    key_of,
    next_moment,
    occurrence_at,
    skipped_moment,
)
from ollim_bot.kernel.values.task_cards import TaskUndo
from ollim_bot.kernel.values.tasks import TASK, TASK_DONE, Task, in_order, is_due, task_words

# The records and tables that an overview is made of. The ledger has a row for each change of a job.
MADE_OF = frozenset({"ledger", "due_items", "skips", "overviews", "task_undos", "zone"})
J_co = TypeVar("J_co", bound=Job, covariant=True)
RUN, PAUSE, RESUME, SHOW = "job_run", "job_pause", "job_resume", "job_show"
SKIP, SNOOZE_JOB, CANCEL, ENSURE = "job_skip", "job_snooze", "job_cancel", "job_ensure"
# Shows the next page of the overdue items.
TURN = "today_page"

_LONGEST_EVENT = 100
_MOST_JOBS = 10
# Lines that routines leave to jobs that are called on their overview.
_LEFT_TO_CALLED = 3
_MOST_IN_GROUP = 6
# So many characters of what comes leave room for the other groups in one message.
_ROOM_FOR_COMING = 1500
_OVERDUE, _NEXT = "Overdue", "Next"
# The name of the line that turns the page, and words of lines that came or went since.
_PAGE, _NEW, _GONE = "page", "New", " · no longer here"
_NOTHING: Mapping[JobKind, str] = {
    JobKind.ROUTINE: "There are no routines. Tell me what to do again and again, and when.",
    JobKind.REMINDER: "There are no reminders. Tell me what to remind you of, and when.",
}


@dataclass(frozen=True, slots=True)
class OpenOverviews:
    """The newest message of each overview, by its kind: `today`, `reminders`, `routines`.

    `places` are the names of the lines of today, in order, and `hidden` are the keys of the overdue
    items on its other pages.
    """

    messages: Mapping[str, str] = field(default_factory=dict)
    places: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


class _Line(NamedTuple):
    """`name` stays the same for the same thing.

    `former` are the names of the lines whose place it takes.
    """

    text: str
    buttons: tuple[Button, ...] = ()
    name: str = ""
    former: tuple[str, ...] = ()


_Groups = Mapping[str, Sequence[_Line]]


def first_button(job: Job, *, is_skipped: bool = False) -> Button:
    """The button that is most wanted beside a job."""
    data = button_data(job)
    if not job.spec.enabled:
        return Button("Resume", RESUME, data)
    if isinstance(job, Reminder):
        return Button("Snooze 1 h", SNOOZE_JOB, f"{data}:1h")
    if not isinstance(job, Routine):
        return Button("Pause", PAUSE, data)
    return Button("Do not skip", RESUME, data) if is_skipped else Button("Skip once", SKIP, data)


def ensure_button(job: Job) -> Button:
    """Gives `must` to a reminder that may be held back."""
    return Button(ENSURE_LABEL, ENSURE, button_data(job), ButtonStyle.PRIMARY)


def rhythm_words(routine: Routine) -> str:
    zone = f" ({routine.spec.timezone})" if routine.spec.timezone else ""
    return f"{routine.rhythm.explain()}{zone}"


def button_data(job: Job) -> str:
    """What names the job in the buttons of its cards."""
    return f"{job.kind}:{job.spec.id}"


class Listed(NamedTuple, Generic[J_co]):
    """The jobs of a kind, and how many mistakes are in files of that kind."""

    jobs: Sequence[J_co]
    problems: int = 0


def jobs_card(
    kind: JobKind,
    listed: Listed[ScheduledJob],
    skips: Skips,
    now: datetime,
    called: Mapping[JobKind, Listed[Job]] = MappingProxyType({}),
    last_calls: Mapping[JobKey, datetime] = MappingProxyType({}),
) -> Card:
    """All jobs of a kind, the soonest first, and below them those that are `called`, by their kind.

    `last_calls` has the moment of the last call of each of these, if it came in the last days.
    """

    def order(job: ScheduledJob) -> tuple[float, str]:
        # An overdue reminder has no next moment, and is the most urgent of all.
        moment = next_moment(job, skips, now)
        return moment.timestamp() if moment else 0, job.spec.id

    enabled = sorted((job for job in listed.jobs if job.spec.enabled), key=order)
    sorted_jobs = [*enabled, *(job for job in listed.jobs if not job.spec.enabled)]
    sorted_called = sorted(
        (job for each in called.values() for job in each.jobs),
        key=lambda job: (not job.spec.enabled, [*called].index(job.kind), job.spec.id),
    )
    shown = sorted_jobs[: _MOST_JOBS - min(len(sorted_called), _LEFT_TO_CALLED)]
    shown_called = sorted_called[: _MOST_JOBS - len(shown)]
    groups = {
        "": [_job_line(job, skips, now) for job in shown if job.spec.enabled],
        **{
            other.plural.capitalize(): [
                _called_line(job, last_calls.get(key_of(job)), now)
                for job in shown_called
                if job.kind is other and job.spec.enabled
            ]
            for other in called
        },
        "Paused": [
            *(_job_line(job, skips, now) for job in shown if not job.spec.enabled),
            *(_called_line(job, None, now) for job in shown_called if not job.spec.enabled),
        ],
    }
    left_out = [_left_out(kind, len(sorted_jobs) - len(shown), listed.problems)]
    for other, each in called.items():
        there = sum(job.kind is other for job in shown_called)
        left_out.append(_left_out(other, len(each.jobs) - there, each.problems))
    words = " ".join(filter(None, left_out)) or ("" if shown or shown_called else _NOTHING[kind])
    kinds = [kind, *dict.fromkeys(job.kind for job in shown_called)]
    title = list_names([each.plural for each in kinds], str, "and").capitalize()
    return _overview(title, words, groups)


def _called_line(job: Job, last_call: datetime | None, now: datetime) -> _Line:
    buttons = (first_button(job), Button("More", SHOW, button_data(job)))
    title = job.spec.short_title or job.spec.id
    if last_call is None:
        return _Line(title, buttons)
    return _Line(f"{title} · called {describe(last_call, now)}", buttons)


def _job_line(job: ScheduledJob, skips: Skips, now: datetime) -> _Line:
    is_skipped = skipped_moment(job, skips, now) is not None
    buttons = (first_button(job, is_skipped=is_skipped), Button("More", SHOW, button_data(job)))
    title = job.spec.owner_title or job.spec.id
    return _Line(" · ".join((title, *_when(job, skips, now))), buttons)


def _when(job: ScheduledJob, skips: Skips, now: datetime) -> Iterator[str]:
    if isinstance(job, Routine):
        yield rhythm_words(job)
    if not job.spec.enabled:
        return
    moment = next_moment(job, skips, now)
    if isinstance(job, Reminder):
        due = job.due(now.tzinfo or UTC)
        yield describe(due, now) if moment else f"overdue since {describe(due, now)}"
    elif moment is not None:
        yield f"next {describe(moment, now)}"


def _left_out(kind: JobKind, more: int, problems: int) -> str:
    left = [counted(more, f"more {kind}")] if more else []
    if problems:
        left.append("1 mistake in a file" if problems == 1 else f"{problems} mistakes in files")
    return f"Not shown: {' and '.join(left)}. `ollim-bot {kind} list` shows all." if left else ""


def in_overdue_order(waiting: Iterable[DueItem]) -> list[DueItem]:
    """Doses first, then the newest first."""
    return sorted(waiting, key=_overdue_rank)


def _overdue_rank(item: DueItem) -> tuple[bool, float, str]:
    return not item.is_dose, -item.due.timestamp(), item.key


def hidden_on_page(waiting: Sequence[DueItem], last: DueItem | None = None) -> tuple[str, ...]:
    """The keys of the overdue items that are not on the page after `last`.

    It was the last one of the page before, answered or not; after the last page comes the first.
    """
    ordered = in_overdue_order(waiting)
    if len(ordered) <= _MOST_IN_GROUP:
        return ()
    is_next = [last is None or _overdue_rank(each) > _overdue_rank(last) for each in ordered]
    first = is_next.index(True) if any(is_next) else 0
    page = range(first, first + _MOST_IN_GROUP - 1)
    return tuple(each.key for number, each in enumerate(ordered) if number not in page)


class ShownOverview(NamedTuple):
    """A card, and the names of its lines."""

    card: Card
    places: Sequence[str] = ()


def today_overview(
    waiting: Sequence[DueItem],
    answered: Sequence[DueItem],
    jobs: Sequence[ScheduledJob],
    skips: Skips,
    now: datetime,
    calendars: Sequence[CalendarCopy] = (),
    tasks: Sequence[Task] = (),
    undos: Sequence[TaskUndo] = (),
    *,
    has_titles: bool = True,
    hidden: Collection[str] = (),
    shown: ShownOverview | None = None,
) -> ShownOverview:
    """What waits for an answer, what is on and comes today, and what was answered today.

    Of the tasks those are shown that are due, and those that a click has just settled. Without
    titles, the card holds no text of an event and no untrusted text of a job. The overdue items
    with the keys `hidden` are on other pages. What is `shown` already keeps its place.
    """

    def title_of(one: DueItem | JobSpec) -> str:
        return one.owner_title if has_titles else one.short_title

    def waiting_lines(item: DueItem) -> Iterator[_Line]:
        unanswered = " · not answered" if item.is_dose else ""
        words = f"{title_of(item)} · since {short_moment(item.due, now)}{unanswered}"
        buttons = (*settling_buttons(item), Button("Snooze 1 h", SNOOZE, f"{item.key}:1h"))
        return _item_lines(item, words, buttons, title_of(item), now)

    def answered_lines(items: Iterable[DueItem]) -> Iterator[_Line]:
        for item in items:
            taken = " · taken" if item.answer is Answer.TAKEN else ""
            words = f"{settled_line(item, now, title_of(item))}{taken}"
            buttons = settled_card(item, now).buttons
            yield from _item_lines(item, words, buttons, title_of(item), now)

    overdue = [item for item in in_overdue_order(waiting) if item.key not in hidden]
    groups = {
        _OVERDUE: [line for item in overdue for line in waiting_lines(item)],
        "Tasks": [*task_lines(tasks, undos, now)],
        "Calendar": [*_calendar_lines(calendars, now, has_titles=has_titles)],
        _NEXT: [
            _coming_line(each, title_of(each.job.spec), now)
            for each in coming_today(jobs, skips, now)
        ],
        "Put off": [*answered_lines(item for item in answered if item.is_still_put_off(now))],
        "Done": [*answered_lines(item for item in answered if not item.is_put_off)],
    }
    if hidden:
        more = sum(each.key in hidden for each in waiting)
        last = overdue[-1].key if overdue else ""
        groups[_OVERDUE].append(
            _Line(f"and {more or 'no'} more", (Button("Show more", TURN, last),), _PAGE)
        )
    is_empty = not any(groups.values())
    words = "Nothing waits for you, and nothing more comes today." if is_empty else ""
    title = f"Today, {short_day(now)}"
    few = {name: _few(name, each) for name, each in groups.items()}
    if shown is not None:
        return _kept_in_place(shown, title, words, groups, few)
    drawn = [line for group in few.values() for line in group]
    return ShownOverview(_overview(title, words, few), [line.name for line in drawn])


def _kept_in_place(
    shown: ShownOverview, title: str, words: str, groups: _Groups, few: _Groups
) -> ShownOverview:
    """The overview as it is now, with each line and each button where it was, and the new below.

    So a second tap hits the same thing, or nothing. Discord has a row for each line with buttons,
    if there are few, and counts five to a row if there are many.
    """
    every = {line.name: line for group in groups.values() for line in group}
    # A line that has taken the place of another one keeps that place.
    later = {each: line.name for line in every.values() for each in line.former}
    renamed = [each if each in every else later.get(each, each) for each in shown.places]
    # One that is there already does not come a second time.
    places = [
        old if new != old and new in shown.places else new
        for old, new in zip(shown.places, renamed, strict=True)
    ]
    drawn = [line for group in few.values() for line in group if line.name in every]
    new = [line for line in drawn if line.name not in places]
    there = {*places, *(line.name for line in new)}
    left = [line for heading in few for line in _left_of(heading, groups[heading], there)]
    every |= {line.name: line for line in left}
    new += [line for line in left if line.name not in places]
    while places and not new and places[-1] not in every:
        places.pop()
    every = {_place("more", heading): _Line("and no more") for heading in few} | every
    rows = {each.line for each in shown.card.buttons}
    are_rows = len(rows) <= MOST_BUTTONS
    lines: list[CardLine] = []
    buttons: list[Button] = []
    for number, (name, old) in enumerate(zip(places, shown.card.lines, strict=False), 1):
        had = [each for each in shown.card.buttons if each.line == number]
        line = every.get(name) or _Line(f"{old.text.removesuffix(_GONE)}{_GONE}")
        lines.append(CardLine(line.text, old.heading))
        # The next page follows the last item that was on this one.
        has = had if name == _PAGE else line.buttons
        buttons += [each._replace(is_used=True) for each in had[: max(0, len(had) - len(has))]]
        most = MOST_BUTTONS if had and are_rows else len(had)
        buttons += [each._replace(line=number) for each in has[:most]]
    for line in new:
        heading = "" if any(each.heading == _NEW for each in lines) else _NEW
        lines.append(CardLine(line.text, heading))
        if line.buttons and not (are_rows and len(rows) == MOST_BUTTONS):
            rows.add(len(lines))
            buttons += [each._replace(line=len(lines)) for each in line.buttons]
    places += [line.name for line in new]
    headed = _with_headings(lines, places, groups)
    card = Card(title, words, lines=tuple(headed), buttons=tuple(buttons[:MOST_ON_LINES]))
    return ShownOverview(card, places)


def _with_headings(
    lines: Sequence[CardLine], places: Sequence[str], groups: _Groups
) -> Iterator[CardLine]:
    """The lines, where a heading follows what has become of all lines below it."""
    group_of = {line.name: name for name, group in groups.items() for line in group}
    starts = [number for number, line in enumerate(lines) if line.heading]
    for start, end in pairwise([*starts, len(lines)]):
        first, *others = lines[start:end]
        found = {group_of[each] for each in places[start:end] if each in group_of}
        is_one = len(found) == 1 and first.heading != _NEW
        yield first._replace(heading=found.pop()) if is_one else first
        yield from others


def _place(kind: str, name: str) -> str:
    """The name of a line, without words of others."""
    return hashlib.sha256(f"{kind} {name}".encode()).hexdigest()[:12]


def task_lines(
    tasks: Sequence[Task], undos: Sequence[TaskUndo], now: datetime, *, has_room: bool = False
) -> Iterator[_Line]:
    """The tasks that are due, and those that a click has just settled.

    Each can be broken down where there is room for another button.
    """
    for task in in_order([task for task in tasks if is_due(task, now.date())]):
        done = Button("Done", TASK_DONE, task.id, ButtonStyle.SUCCESS)
        more = (break_down_button(f"{TASK}:{task.id}"),) if has_room else ()
        yield _Line(task_words(task, now.date()), (done, *more), _place("task", task.id))
    for undo in undos:
        button = undo.button._replace(label="Undo")
        yield _Line(undo.words, (button,), _place("task", undo.task.id))


def _calendar_lines(
    calendars: Sequence[CalendarCopy], now: datetime, *, has_titles: bool
) -> Iterator[_Line]:
    for event in still_today(calendars, now):
        what = one_line(event.summary, _LONGEST_EVENT) if has_titles else "busy"
        calendar = one_line(event.calendar, _LONGEST_EVENT)
        words = f"{time_words(event, now)} · {what or 'no title'} ({calendar})"
        yield _Line(words, name=_place("event", event.id))
    for copy in calendars:
        if copy.is_stale(now):
            yield _Line(stale_words(copy, now), name=_place("calendar", copy.name))


def still_today(calendars: Sequence[CalendarCopy], now: datetime) -> list[CalendarEvent]:
    """The events of today that are not over."""
    zone = now.tzinfo or UTC
    events = events_of_day(calendars, now)
    return [each for each in events if each.ends(zone).astimezone(UTC) > now.astimezone(UTC)]


def _few(heading: str, lines: Sequence[_Line]) -> Sequence[_Line]:
    """The lines of a group that are drawn; of what comes, the first few have buttons."""
    if heading == _OVERDUE:
        return lines
    most = _MOST_IN_GROUP
    if heading == _NEXT:
        ends = [*accumulate(len(each.text) for each in lines)]
        most = max(most, bisect_right(ends, _ROOM_FOR_COMING))
    shown = lines if len(lines) <= most else lines[: most - 1]
    plain = [each._replace(buttons=()) for each in shown[_MOST_IN_GROUP:]]
    left = _left_of(heading, lines, [each.name for each in shown])
    return [*shown[:_MOST_IN_GROUP], *plain, *left]


def _left_of(heading: str, lines: Sequence[_Line], shown: Collection[str]) -> Iterator[_Line]:
    """The line that says how many of the group are not shown, if any."""
    if left := sum(each.name not in shown for each in lines):
        yield _Line(f"and {left} more", name=_place("more", heading))


def _item_lines(
    item: DueItem, words: str, buttons: tuple[Button, ...], title: str, now: datetime
) -> Iterator[_Line]:
    """The line of an item, and that of the moments in whose place it asks."""
    one = Occurrence.parse(item.occurrence)
    # The line of the moment before it was due, and those of the routine's earlier moments.
    if one.kind is JobKind.REMINDER:
        former = [_place("job", f"{one.kind}:{one.job_id}")]
    else:
        moments = (Occurrence.scheduled(one.kind, one.job_id, each) for each in item.earlier)
        former = [_place("job", one.whole.id), *(item_key(each.id) for each in moments)]
    yield _Line(words, buttons, item.key, tuple(former))
    if item.earlier_count:
        listed = ", ".join(short_moment(each, now) for each in item.earlier)
        more = item.earlier_count - len(item.earlier)
        earlier = f"{title} · before: {listed}{f' and {more} more' if more else ''} · not answered"
        places = tuple(_place("earlier", each) for each in former)
        yield _Line(earlier, name=_place("earlier", item.key), former=places)


class UpcomingToday(NamedTuple):
    """A `DayMoment` of today, with what to say about it and the buttons of its job."""

    job: ScheduledJob
    moment: datetime
    is_next: bool
    more: int | None
    is_skipped: bool

    @property
    def name(self) -> str:
        """What comes often keeps its line, and so does a reminder that is moved."""
        has_one_line = isinstance(self.job, Reminder) or self.more is not None
        return button_data(self.job) if has_one_line else occurrence_at(self.job, self.moment).id

    @property
    def notes(self) -> list[str]:
        """What there is to say beside the title."""
        notes = ["skipped"] if self.is_skipped else []
        if self.more is not None and isinstance(self.job, Routine):
            rhythm = rhythm_words(self.job)
            notes.append(f"{rhythm[:1].lower()}{rhythm[1:]}")
        return [*notes, f"{self.more} more today"] if self.more else notes

    @property
    def buttons(self) -> tuple[Button, ...]:
        """What can be done about it before it comes."""
        return (first_button(self.job, is_skipped=self.is_skipped),) if self.is_next else ()


def coming_today(
    jobs: Sequence[ScheduledJob], skips: Skips, now: datetime, moments: NextMoments | None = None
) -> list[UpcomingToday]:
    """The moments of today by their time; `moments` are kept ones."""
    coming = (moments or NextMoments()).before(midnight_after(now), jobs, now)
    has_skips = bool(skips.moments or skips.repetitions)
    return [
        UpcomingToday(*each, has_skips and skips.has(occurrence_at(each.job, each.moment)))
        for each in coming
    ]


def _coming_line(coming: UpcomingToday, title: str, now: datetime) -> _Line:
    words = (short_moment(coming.moment, now), title or coming.job.spec.id, *coming.notes)
    return _Line(" · ".join(words), coming.buttons, _place("job", coming.name))


def _overview(title: str, words: str, groups: _Groups) -> Card:
    lines: list[CardLine] = []
    buttons: list[Button] = []
    for heading, group in groups.items():
        for number, line in enumerate(group):
            lines.append(CardLine(line.text, "" if number else heading))
            buttons += [each._replace(line=len(lines)) for each in line.buttons]
    return Card(title, words, lines=tuple(lines), buttons=tuple(buttons[:MOST_ON_LINES]))
