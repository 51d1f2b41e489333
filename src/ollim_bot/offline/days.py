"""What the built-in model says of a day or a week: events, reminders, routines and tasks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from ollim_bot.domain.moments import MONTHS, WEEKDAYS, clock_time
from ollim_bot.domain.text import literal, one_line
from ollim_bot.offline import texts
from ollim_bot.offline.actions import LIST_TASKS, ListedJob, listed_jobs, shell_call, tasks_in
from ollim_bot.offline.messages import CallTool, Part, Say, ToolResult
from ollim_bot.offline.situation import Situation

_NEAR_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_WHEN = re.compile(
    r"(?:due |overdue since )?(?:(?P<near>yesterday|today|tomorrow)"
    rf"|\w{{3}} (?P<date>\d{{1,2}}) (?P<month>{'|'.join(MONTHS)})(?: (?P<year>\d{{4}}))?)"
    r"(?: (?P<clock>\d{1,2}:\d\d))?"
)
_WEEK = 7
_MOST_SHOWN = 25
_LONGEST_TITLE = 100
_FENCED = re.compile(r"<(untrusted-[0-9a-f]+)>\n(?P<text>.*)\n</\1>", re.DOTALL)
_CAL_TODAY = shell_call("cal", "today", "--json")
_CAL_TOMORROW = shell_call("cal", "upcoming", "--days", "2", "--json")
_CAL_WEEK = shell_call("cal", "upcoming", "--days", str(_WEEK), "--json")


class _Event(NamedTuple):
    """One row of `ollim-bot cal`; its title is a stranger's."""

    start: str
    end: str
    all_day: bool
    title: str
    calendar: str
    problem: str

    @property
    def day(self) -> str:
        return self.start[: len("2026-11-16")]

    @property
    def clock(self) -> str:
        return "" if self.all_day else _clock(self.start).zfill(5)

    @property
    def words(self) -> str:
        title = literal(one_line(self.title, _LONGEST_TITLE)) or texts.NO_TITLE
        return f"{self._times}: {title} ({literal(self.calendar)})"

    @property
    def _times(self) -> str:
        if self.all_day:
            return "all day"
        begin, end = _clock(self.start), _clock(self.end)
        return begin if begin == end else f"{begin}–{end}"


class _Calendar(NamedTuple):
    """The events that were found, and a sentence if the calendars could not be looked at."""

    events: list[_Event]
    failure: Sequence[str] = ()


class _Entry(NamedTuple):
    """A line of a day; without a time, it stands before the others."""

    day: date
    clock: str
    words: str


def show_today(situation: Situation) -> Part:
    """What is open, then what is on today in order of time."""
    return _show(situation, _CAL_TODAY, 0, 1, texts.TODAY, texts.NOTHING_TODAY)


def show_tomorrow(situation: Situation) -> Part:
    return _show(situation, _CAL_TOMORROW, 1, 1, texts.TOMORROW, texts.NOTHING_TOMORROW)


def show_week(situation: Situation) -> Part:
    """The events, jobs and tasks of seven days, by day."""
    return _show(situation, _CAL_WEEK, 0, _WEEK, texts.THE_WEEK, texts.NOTHING_THIS_WEEK)


def _show(
    situation: Situation, call: CallTool, first: int, count: int, head: str, nothing: str
) -> Part:
    """The answer about the days from `first` on, counted from today."""
    now = situation.prompt.moment
    jobs, calendar = listed_jobs(situation), _looked_up(call, situation)
    tasks = situation.outcome(LIST_TASKS)
    if not isinstance(jobs, list):
        return jobs
    if isinstance(calendar, CallTool):
        return calendar
    if now is None:
        return Say(texts.NO_CLOCK)
    if tasks is None and LIST_TASKS.name in situation.tools:
        return LIST_TASKS
    today = now.date()
    entries = [
        *(_Entry(date.fromisoformat(each.day), each.clock, each.words) for each in calendar.events),
        *_entries(jobs, today),
        *_entries(tasks_in(tasks.text) if tasks and not tasks.is_error else (), today),
    ]
    days = [today + timedelta(days=each) for each in range(first, first + count)]
    wanted = sorted(each for each in entries if each.day in days)
    lines = [f"- open: {title}" for title, _ in situation.prompt.open_items if today in days]
    if count == 1:
        lines += [f"- {each.words}" for each in wanted[:_MOST_SHOWN]]
    else:
        lines += _by_day(wanted[:_MOST_SHOWN], today)
    more = len(wanted) - _MOST_SHOWN
    lines += [f"and {more} more"] if more > 0 else []
    lines += _problems(calendar.events)
    return Say("\n".join([*([head, *lines] if lines else [nothing]), *calendar.failure]))


def _entries(jobs: Iterable[ListedJob], today: date) -> Iterator[_Entry]:
    """The jobs and tasks whose next moment is known; what is overdue is for today."""
    for job in jobs:
        found = _WHEN.match(job.when)
        if found is None:
            continue
        day, clock = _day(found, today), found["clock"] or ""
        is_late = day < today or job.when.startswith("overdue") or " ago)" in job.when
        if is_late:
            yield _Entry(today, "", f"{job.when}: {job.title}")
        else:
            yield _Entry(day, clock.zfill(5), f"{clock or 'due'}: {job.title}")


def _day(found: re.Match[str], today: date) -> date:
    if found["near"]:
        return today + timedelta(days=_NEAR_DAYS[found["near"]])
    month = MONTHS.index(found["month"]) + 1
    return date(int(found["year"] or today.year), month, int(found["date"]))


def _looked_up(call: CallTool, situation: Situation) -> _Calendar | CallTool:
    """What the calendars have; or the call that asks them. A failure hides nothing else."""
    result = situation.outcome(call)
    if result is None:
        return call if call.name in situation.tools else _Calendar([])
    if result.is_error:
        return _Calendar([], [texts.calendars_unseen(result.text)])
    return _Calendar(_events(result))


def _events(listed: ToolResult) -> list[_Event]:
    try:
        rows = json.loads(listed.text)["events"]
        return [_event(row) for row in rows]
    except (ValueError, KeyError, TypeError):
        return []


def _event(row: Mapping[str, object]) -> _Event:
    title = str(row["summary"])
    if quoted := _FENCED.search(title):
        title = quoted["text"]
    return _Event(
        str(row["start"]),
        str(row["end"]),
        bool(row["all_day"]),
        title,
        str(row["calendar"]),
        str(row["problem"] or ""),
    )


def _problems(events: Sequence[_Event]) -> Iterator[str]:
    problems = {event.calendar: event.problem for event in events if event.problem}
    for calendar, problem in problems.items():
        yield texts.calendar_is_old(literal(calendar), problem)


def _by_day(entries: Sequence[_Entry], today: date) -> Iterator[str]:
    for day, several in groupby(entries, key=lambda each: each.day):
        yield f"- {_day_words(day, today)}"
        yield from (f"  - {each.words}" for each in several)


def _day_words(on: date, today: date) -> str:
    near = {today: "today", today + timedelta(days=1): "tomorrow"}
    return near.get(on) or f"{WEEKDAYS[on.weekday()]} {on.day} {MONTHS[on.month - 1]}"


def _clock(moment: str) -> str:
    return clock_time(datetime.fromisoformat(moment).replace(second=0))
