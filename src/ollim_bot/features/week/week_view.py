"""The coming week on the page: rehearsed away from the loop, kept until something changes, drawn.

The drawings hold numbers only, as attributes. The lists and tables beside them say the same in
words.
"""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from html import escape
from typing import NamedTuple
from urllib.parse import quote

from ollim_bot.features.week.rehearsal_difference import (
    NOTHING_CHANGES,
    RehearsedWeek,
    rehearse_week,
)
from ollim_bot.features.week.rehearsal_findings import FindingKind
from ollim_bot.features.week.week import (
    MARK_MINUTES,
    MOST_MOMENTS,
    WeekDay,
    WeekEvent,
    WeekHour,
    WeekLine,
    WeekView,
    day_name,
    full_hour,
    week_of,
)
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import NotFound, WrongInput
from ollim_bot.kernel.base.moments import (
    WEEKDAYS,
    day_words,
    describe,
    elapsed,
    instant,
    short_clock,
)
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store.steps import pushed_to_phone, quiet_settings
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.answer_plans import with_plan_of
from ollim_bot.kernel.values.calendar import CalendarCopy, time_words
from ollim_bot.kernel.values.costs import PAST, PastCosts
from ollim_bot.kernel.values.job_form import address_of
from ollim_bot.kernel.values.ports import JobRepositories
from ollim_bot.kernel.values.schedule import ScheduledJob, key_of
from ollim_bot.kernel.values.simulation import Assumptions
from ollim_bot.kernel.values.views import View
from ollim_bot.surfaces.web.marked import (
    ViewPage,
    about,
    fold,
    joined_parts,
    section,
    show_more,
    things,
    time_html,
)

# What a rehearsal reads. The ledger has a row for each change of a job.
READ_BY_REHEARSAL = frozenset({"ledger", "config", "budget", "skips", "quiet", "zone", "channels"})

# How old a week may be: always, after a change, as a run makes several, and for another job file.
_LONGEST = timedelta(hours=1)
AFTER_CHANGE = timedelta(seconds=5)
_OF_OTHER_FILE = timedelta(seconds=1)
# A rehearsal is followed by a pause so many times as long, so that it never takes a whole core.
_PAUSE_FACTOR = 10
_HOUR = re.compile(r"\d{4}-\d\d-\d\dT\d\d", re.ASCII)


class KeptWeek(NamedTuple):
    """`week.now` is when it was rehearsed; `costs` are those of the past runs then."""

    week: RehearsedWeek
    costs: PastCosts


@dataclass(eq=False)
class WeekPlans:
    """Rehearses in a thread, one at a time; `skills` are the names of those that load.

    The bot lets a thread go on for half a millisecond at a time, so the event loop goes on.
    """

    _store: Store
    _repositories: JobRepositories
    _skills: Callable[[], Set[str]]
    _clock: Clock
    _watches: ExitStack = field(default_factory=ExitStack, init=False)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _kept: KeptWeek | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._has_changed = self._watches.enter_context(self._store.changes(*READ_BY_REHEARSAL))

    async def week(self) -> KeptWeek:
        """The coming week; it is rehearsed again if something has changed since.

        Raises `StorageError` if the jobs cannot be read.
        """
        async with self._one_at_a_time:
            return await self._fresh(None)

    async def difference(self, before: ScheduledJob | None, after: ScheduledJob | None) -> str:
        """What the coming week has other with `after` in place of `before`, in plain words.

        None is a job that is not there. Raises `StorageError` if the jobs cannot be read.
        """
        if before is None and after is None:
            return NOTHING_CHANGES
        async with self._one_at_a_time:
            kept = await self._fresh(before)
            former = None if before is None else kept.week.jobs.get(key_of(before))
            planned = None if after is None else with_plan_of(after, former)

            def compare() -> str:
                with _without_full_collections():
                    return kept.week.difference(former, planned, kept.costs).in_words()

            return await asyncio.to_thread(compare)

    async def _fresh(self, job: ScheduledJob | None) -> KeptWeek:
        """The kept week if it is as things are, and has `job` as given; else a new one."""
        kept = self._kept
        if kept is not None:
            longest = AFTER_CHANGE if self._has_changed.is_set() else _LONGEST
            if job is not None and kept.week.jobs.get(key_of(job)) != job:
                longest = _OF_OTHER_FILE
            if elapsed(kept.week.now, self._clock.now()) < longest:
                return kept
        self._has_changed.clear()
        # Two weeks at once would double what a collection of the garbage looks through.
        self._kept = None
        kept = self._kept = await asyncio.to_thread(self._rehearse)
        return kept

    def _rehearse(self) -> KeptWeek:
        now = self._clock.now()
        jobs: list[ScheduledJob] = [
            *(each.item for each in self._repositories.routines.all()),
            *(each.item for each in self._repositories.reminders.all()),
        ]
        skills = self._skills()

        def question(tx: Transaction) -> tuple[Assumptions, PastCosts]:
            skips = tx.skips.get()
            given = Assumptions(
                now,
                now.tzinfo or UTC,
                tx.budget.get(),
                tx.config.get(),
                skills=skills,
                is_skipped=skips.has if skips.moments or skips.repetitions else None,
                quiet=quiet_settings(tx, now.tzinfo),
                pushes=pushed_to_phone(tx),
            )
            return given, PastCosts(tx.usage.since(now - PAST))

        given, costs = self._store.query(question)
        with _without_full_collections():
            return KeptWeek(rehearse_week(jobs, given), costs)


@contextmanager
def _without_full_collections() -> Iterator[None]:
    """Put off full collections of the garbage, which stop all threads for longer than they may."""
    young, old, oldest = gc.get_threshold()
    gc.set_threshold(young, old, 1_000_000)
    try:
        yield
    finally:
        gc.set_threshold(young, old, oldest)


class _KeptView(NamedTuple):
    """The view of a rehearsal and calendars; `length` is how long they took."""

    week: WeekView
    rehearsed: KeptWeek
    calendars: Sequence[CalendarCopy]
    length: timedelta


@dataclass(eq=False)
class WeekPanel(View[WeekView]):
    """A `View` of the week. `rehearsed` gives it, kept or new, as `WeekPlans` does."""

    _store: Store
    _rehearsed: Callable[[], Awaitable[KeptWeek]]
    _calendars: Callable[[], Sequence[CalendarCopy]]
    _clock: Clock
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _kept: _KeptView | None = field(default=None, init=False)

    async def look(self, asked: Mapping[str, str], /) -> WeekView:
        """The week; with `hour` in the address, such as `2026-11-19T15`, that hour alone."""
        hour = asked.get("hour", "")
        if hour and not _HOUR.fullmatch(hour):
            raise WrongInput("That is no hour of this week. Go back to the week.")
        async with self._one_at_a_time:
            week = await self._week()
        if not hour:
            return week
        found = [each for day in week.days for each in day.hours if each.key == hour]
        if not found:
            raise NotFound("Nothing comes in that hour any more. Go back to the week.")
        return replace(week, only=found)

    async def changes(self) -> AsyncGenerator[None, None]:
        with self._store.changes(*READ_BY_REHEARSAL) as has_changed:
            while True:
                await has_changed.wait()
                if (pause := self._pause()) > 0:
                    await self._clock.sleep(pause)
                has_changed.clear()
                yield

    def _pause(self) -> float:
        """The seconds until the next rehearsal, which is neither soon nor takes most of a core."""
        if self._kept is None:
            return 0.0
        age = elapsed(self._kept.week.now, self._clock.now())
        return (max(AFTER_CHANGE, self._kept.length * _PAUSE_FACTOR) - age).total_seconds()

    async def _week(self) -> WeekView:
        began, kept = self._clock.monotonic(), self._kept
        rehearsed = await self._rehearsed()
        calendars = await asyncio.to_thread(self._calendars)
        if kept is None or kept.rehearsed is not rehearsed or kept.calendars != calendars:
            given, rehearsal = rehearsed.week.given, rehearsed.week.rehearsal
            found, travel = rehearsed.week.findings, given.config.travel_minutes
            week = await asyncio.to_thread(
                week_of, rehearsal, found, given.quiet, calendars, travel, rehearsed.costs
            )
            length = timedelta(seconds=self._clock.monotonic() - began)
            kept = self._kept = _KeptView(week, rehearsed, calendars, length)
        return kept.week


_EMPTY = "Nothing comes in the next seven days. What you add will stand here, hour by hour."
_HINT = '<a class="back" href="/today">Add one in Today</a>'
_MOST_FINDINGS = 5
# The lines of all folded hours together, and of each of very many.
_MOST_FOLDED = 200
# A mark of so many moments has the full height.
_HIGHEST_MARK = 5


def week_html(week: WeekView, most: int) -> str:
    """The panel: what to look at, pings, money, and each day by the hour.

    An hour with many moments is folded, and leads to a list of its own, which has `most` lines.
    """
    parts = _one_hour(week, most) if week.only else _parts(week, most)
    return f'<div class="week">{"".join(parts)}</div>'


def _parts(week: WeekView, most: int) -> Iterator[str]:
    yield f"<h2>Week <span>until {_moment(week.until, week.now)}</span></h2>"
    if week.is_empty:
        yield f'<p class="empty">{_EMPTY}<br>{_HINT}</p>'
        return
    yield f'<p class="about">{escape(week.summary)}</p>'
    # The line of the pings has what is found about the budget as its sentence.
    found = [each for each in week.findings if each.kind is not FindingKind.BUDGET]
    if found:
        items = [f"<li><bdi>{escape(each.sentence)}</bdi></li>" for each in found[:most]]
        first, rest = "".join(items[:_MOST_FINDINGS]), "".join(items[_MOST_FINDINGS:])
        left = f"{len(found) - _MOST_FINDINGS} more"
        more = fold("findings", left, f"<ul>{rest}</ul>") if rest else ""
        yield section("week-findings", "Worth a look", f"<ul>{first}</ul>{more}", "findings")
    elif not week.findings:
        yield '<p class="clear">Nothing gets in the way of anything else.</p>'
    yield f'<div class="sums">{_pings(week)}{_money(week)}</div>'
    yield from (f'<p class="remark"><bdi>{escape(note)}</bdi></p>' for note in week.notes)
    folds = sum(hour.is_folded for day in week.days for hour in day.hours)
    each = min(MOST_MOMENTS, max(1, _MOST_FOLDED // max(folds, 1)))
    yield f'<div class="days">{"".join(_day(day, week, each) for day in week.days)}</div>'
    if not week.rehearsal.is_whole:
        until = _moment(week.until, week.now)
        yield f'<p class="remark">There is more than can be shown: this ends {until}.</p>'
    yield (
        f'<p class="remark">Played through {_moment(week.now, week.now)}, as if '
        f"{escape(week.assumed)}.</p>"
    )


def _one_hour(week: WeekView, most: int) -> Iterator[str]:
    first = week.only[0]
    end = short_clock(full_hour(first.at) + timedelta(hours=1))
    yield f"<h2>{escape(describe(first.at, week.now))} to {end}</h2>"
    yield '<p><a class="back" href="/week">Back to the week</a></p>'
    yield f'<p class="about">{" · ".join(escape(each.summary) for each in week.only)}</p>'
    lines = [line for hour in week.only for line in hour.lines(most)][:most]
    left = sum(len(hour.groups) for hour in week.only) - len(lines)
    yield things(map(_line, lines))
    yield show_more(left)


def _pings(week: WeekView) -> str:
    budget = week.start_budget
    rows = [each for each in week.budget if each.paid or each.refused]
    marked = " The circles are the refused ones." if any(each.refused for each in rows) else ""
    if not rows:
        return _sum("Pings", f"{week.budget_sentence}{marked}")
    cells = [
        (
            _hour_words(each.at, week.now),
            *map(str, (int(each.left + 1e-9), each.paid, int(each.lowest + 1e-9), each.refused)),
        )
        for each in rows
    ]
    capacity = f"One more comes every {budget.refill_rate_minutes} minutes, up to {budget.capacity}"
    heads = ("Hour", "Before", "Sent", "Least", "Refused")
    table = _table("Pings by the hour", heads, cells, f"<caption>{capacity}.</caption>")
    gauge = (
        '<div class="gauge" aria-hidden="true">'
        f"<span>{budget.capacity}</span><span>0</span>{_pings_svg(week)}</div>"
    )
    body = f"{gauge}{fold('pings', 'As a table', table)}"
    return _sum("Pings", f"{week.budget_sentence}{marked}", body)


def _money(week: WeekView) -> str:
    if not week.money.by_day:
        return _sum("Money", week.money.sentence)
    days = [
        (day_words(day.day, week.now), day.cost.in_words())
        for day in week.days
        if day.cost is not None
    ]
    table = fold("money", "By day", _table("Money by day", ("Day", "About"), days))
    return _sum("Money", week.money.sentence, table)


def _sum(heading: str, sentence: str, body: str = "") -> str:
    caption = f"<figcaption><h3>{heading}</h3><p>{escape(sentence)}</p></figcaption>"
    return f'<figure class="sum">{caption}{body}</figure>'


def _table(
    name: str, heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str = ""
) -> str:
    """A table whose rows begin with what they are about."""
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    cells = "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        f"{''.join(f'<td>{escape(cell)}</td>' for cell in rest)}</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{name}"><table>{caption}'
        f"<thead><tr>{columns}</tr></thead><tbody>{cells}</tbody></table></div>"
    )


def _day(day: WeekDay, week: WeekView, most: int) -> str:
    key = f"week-{day.day}"
    name, date = day_name(day.day, week.now), day_words(day.day, week.now)
    beside = "" if name == date else f" <span>{escape(date)}</span>"
    rows = [row for _, row in sorted(_rows(day, week, most), key=lambda one: one[0])]
    body = f"<ol>{''.join(rows)}</ol>" if rows else '<p class="about">Nothing comes.</p>'
    words = [counted(day.moments, "moment")] if day.moments else []
    if day.cost is not None and day.cost.micros:
        words.append(f"about {day.cost.in_words()}")
    facts = f'<p class="about">{escape(" · ".join(words))}</p>' if words else ""
    return section(key, f"{escape(name)}{beside}", f"{facts}{_day_svg(day, week)}{body}", "one-day")


def _rows(day: WeekDay, week: WeekView, most: int) -> Iterator[tuple[tuple[float, int], str]]:
    """The rows of a day, each with its place in it."""
    for event in day.events:
        begins = max(event.begins, day.first)
        rank = 0 if event.event.all_day else 1
        yield (0.0 if not rank else begins.timestamp(), rank), _event(event, week.now)
    for start, until in day.quiet:
        # The night belongs to the evening that it begins in.
        if start >= day.first:
            is_night = elapsed(start, until) < timedelta(days=1)
            words = short_clock(until) if is_night else describe(until, week.now)
            row = f"{_time(start)} <span>Quiet{about(f'until {words}')}</span>"
            yield (start.timestamp(), 2), f'<li class="ground quiet"><p>{row}</p></li>'
    for hour in day.hours:
        yield (hour.fires[0].at.timestamp(), 3), _hour(hour, most)


def _event(one: WeekEvent, now: datetime) -> str:
    words = f"{time_words(one.event, now)} · {one.event.calendar}{one.leave_words(now)}"
    begin = "" if one.event.all_day else f"{_time(one.begins)} "
    return (
        f'<li class="ground event"><p>{begin}<span><bdi class="what">{escape(one.title)}</bdi> '
        f'<bdi class="about">{escape(words)}</bdi></span></p></li>'
    )


def _hour(hour: WeekHour, most: int) -> str:
    """The lines of the hour; `most` is for a folded one."""
    shown = hour.lines(most if hour.is_folded else None)
    body = things(map(_line, shown))
    kinds = "hour is-quiet" if hour.is_quiet else "hour"
    if hour.is_folded:
        if len(hour.groups) > len(shown):
            whole = f"All {len(hour.fires)} moments of this hour"
            body += f'<p><a class="back" href="/week?hour={quote(hour.key)}">{whole}</a></p>'
        summary = f"{_time(hour.at)} {escape(hour.summary)}"
        body = fold(f"hour {escape(hour.key)}", summary, body)
    return f'<li class="{kinds}">{body}</li>'


def _line(line: WeekLine) -> str:
    state = " is-skipped" if line.is_skipped else " is-refused" if line.is_refused else ""
    place = escape(address_of(f"{line.job.kind}:{line.job.id}"))
    return (
        f'<li class="thing{state}"><p>{_time(line.at)} <span>'
        f'<a href="{place}"><bdi class="what">{escape(line.title)}</bdi></a>'
        f"{about(line.note)}</span></p></li>"
    )


def _moment(moment: datetime, now: datetime) -> str:
    return escape(describe(moment.replace(second=0, microsecond=0), now, is_exact=True))


def _hour_words(at: datetime, now: datetime) -> str:
    day = "today" if at.date() == now.date() else f"{WEEKDAYS[at.weekday()]} {at.day}"
    return f"{day} {short_clock(full_hour(at))}"


def _time(moment: datetime) -> str:
    return time_html(moment, short_clock(moment))


@joined_parts
def _pings_svg(week: WeekView) -> Iterator[str]:
    """The pings that are left, hour by hour, over the quiet and the days."""
    yield '<svg class="budget" aria-hidden="true" focusable="false">'
    whole = elapsed(week.now, week.until)

    def place(moment: datetime) -> float:
        return _share(elapsed(week.now, moment), whole)

    for start, until in week.quiet:
        yield _band("quiet", place(start), place(until), 76)
    for day in week.days[1:]:
        x = place(day.first)
        yield f'<line class="midnight" x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="76%"/>'
    for day in week.days:
        x, end = place(day.first), place(day.last)
        # A day that is cut short has no room for its name.
        if end - x > 8:
            name = WEEKDAYS[day.day.weekday()]
            yield f'<text x="{(x + end) / 2:.2f}%" y="100%" text-anchor="middle">{name}</text>'
    yield _levels(week)
    for each in week.budget:
        if each.refused:
            x = place(each.at)
            yield f'<circle class="refused" cx="{x:.2f}%" cy="76%" r="3.5"/>'
    yield "</svg>"


def _levels(week: WeekView) -> str:
    """A line of its own scale: 0 to the capacity, over all the hours."""
    capacity, whole = max(week.start_budget.capacity, 1), elapsed(week.now, week.until)
    points = []
    for each in week.budget:
        x = _share(elapsed(week.now, each.at), whole)
        levels = (each.left, each.lowest) if each.paid else (each.left,)
        points += [f"{x:.2f},{100 - 100 * level / capacity:.2f}" for level in levels]
    points.append(f"100,{points[-1].partition(',')[2]}")
    line = " ".join(points)
    return (
        '<svg class="levels" x="0" y="6%" width="100%" height="70%" viewBox="0 0 100 100" '
        'preserveAspectRatio="none" overflow="visible">'
        f'<polygon class="under" points="0,100 {line} 100,100"/>'
        f'<polyline class="level" points="{line}" vector-effect="non-scaling-stroke"/></svg>'
    )


@joined_parts
def _day_svg(day: WeekDay, week: WeekView) -> Iterator[str]:
    """A strip of 24 hours: the quiet, the events, and a mark where something comes."""
    midnight = instant(datetime.combine(day.day, time.min), week.rehearsal.zone)
    yield '<svg class="strip" aria-hidden="true" focusable="false">'
    for start, until in day.quiet:
        yield _band("quiet", _hour_share(midnight, start), _hour_share(midnight, until))
    for each in day.events:
        if not each.event.all_day:
            begin, end = _hour_share(midnight, each.begins), _hour_share(midnight, each.ends)
            yield _band("event", begin, max(end, begin + 1))
    for hour in (6, 12, 18):
        x = 100 * hour / 24
        yield f'<line class="tick" x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="60%"/>'
        yield f'<text x="{x:.2f}%" y="100%" text-anchor="middle">{hour}</text>'
    if day.first > midnight:
        x = _hour_share(midnight, day.first)
        yield f'<line class="now" x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="60%"/>'
    for busy in day.hours:
        for number, count in sorted(busy.marks.items()):
            at = elapsed(midnight, busy.at) + (number + 0.5) * timedelta(minutes=MARK_MINUTES)
            x = _share(at, timedelta(days=1))
            top = 60 * (1 - (0.4 + 0.6 * min(count, _HIGHEST_MARK) / _HIGHEST_MARK))
            yield f'<line class="mark" x1="{x:.2f}%" x2="{x:.2f}%" y1="{top:.0f}%" y2="60%"/>'
    yield "</svg>"


def _band(kind: str, start: float, end: float, height: int = 60) -> str:
    start, end = max(start, 0.0), min(end, 100.0)
    width = max(end - start, 0.0)
    return f'<rect class="{kind}" x="{start:.2f}%" y="0" width="{width:.2f}%" height="{height}%"/>'


def _hour_share(midnight: datetime, moment: datetime) -> float:
    return _share(elapsed(midnight, moment), timedelta(days=1))


def _share(part: timedelta, whole: timedelta) -> float:
    return 100 * (part / whole) if whole else 0.0


PAGES = (ViewPage("week", "Week", week_html, "w", "week.css", is_in_bar=True),)
