"""What the built-in model says of a day or a week: the owner's events, reminders and routines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from ollim_bot.domain.moments import MONTHS, WEEKDAYS
from ollim_bot.domain.text import literal, one_line
from ollim_bot.offline import texts
from ollim_bot.offline.actions import (
    ListedJob,
    listed_jobs,
    shell_call,
    show_upcoming,
    shown,
)
from ollim_bot.offline.messages import CallTool, Part, Say, ToolResult
from ollim_bot.offline.situation import Situation

_A_DAY = timedelta(days=1)
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


def show_today(situation: Situation) -> Part:
    """The events of today, and the jobs whose next moment is today or is over."""
    jobs, calendar = listed_jobs(situation), _looked_up(_CAL_TODAY, situation)
    if not isinstance(jobs, list):
        return jobs
    if isinstance(calendar, CallTool):
        return calendar
    due = [job for job in jobs if _is_today(job.when)]
    lines = [*_event_lines(calendar.events), *_job_lines(due)]
    return _answer(texts.TODAY, lines, texts.NOTHING_TODAY, calendar)


def show_tomorrow(situation: Situation) -> Part:
    """The events of tomorrow, and the jobs whose next moment is tomorrow."""
    jobs, calendar = listed_jobs(situation), _looked_up(_CAL_TOMORROW, situation)
    if not isinstance(jobs, list):
        return jobs
    if isinstance(calendar, CallTool):
        return calendar
    now = situation.prompt.moment
    day = "" if now is None else (now.date() + _A_DAY).isoformat()
    on = [event for event in calendar.events if event.day == day]
    due = [job for job in jobs if job.when.startswith("tomorrow")]
    lines = [*_event_lines(on), *_job_lines(due)]
    return _answer(texts.TOMORROW, lines, texts.NOTHING_TOMORROW, calendar)


def show_week(situation: Situation) -> Part:
    """The events of seven days by day, then all reminders and routines."""
    upcoming, calendar = show_upcoming(situation), _looked_up(_CAL_WEEK, situation)
    if not isinstance(upcoming, Say):
        return upcoming
    if isinstance(calendar, CallTool):
        return calendar
    events, now = calendar.events, situation.prompt.moment
    today = now.date() if now is not None else None
    lines = [*_by_day(events[:_MOST_SHOWN], today), *_left_out(events), *_problems(events)]
    week = [texts.THE_WEEK, *lines, ""] if lines else []
    return Say("\n".join([*week, *calendar.failure, upcoming.text]))


def _answer(head: str, lines: Sequence[str], nothing: str, calendar: _Calendar) -> Say:
    return Say("\n".join([*([head, *lines] if lines else [nothing]), *calendar.failure]))


def _looked_up(call: CallTool, situation: Situation) -> _Calendar | CallTool:
    """What the calendars have; or the call that asks them. A failure hides nothing else."""
    result = situation.outcome(call)
    if result is None:
        return call if call.name in situation.tools else _Calendar([])
    if result.is_error:
        return _Calendar([], [texts.calendars_unseen(result.text)])
    return _Calendar(_events(result))


def _is_today(when: str) -> bool:
    return when.startswith(("today", "yesterday")) or " ago)" in when


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


def _event_lines(events: Sequence[_Event]) -> Iterator[str]:
    yield from (f"- {event.words}" for event in events[:_MOST_SHOWN])
    yield from _left_out(events)
    yield from _problems(events)


def _job_lines(jobs: Sequence[ListedJob]) -> list[str]:
    return [shown(jobs)] if jobs else []


def _left_out(events: Sequence[_Event]) -> list[str]:
    more = len(events) - _MOST_SHOWN
    return [f"and {more} more"] if more > 0 else []


def _problems(events: Sequence[_Event]) -> Iterator[str]:
    problems = {event.calendar: event.problem for event in events if event.problem}
    for calendar, problem in problems.items():
        yield texts.calendar_is_old(literal(calendar), problem)


def _by_day(events: Sequence[_Event], today: date | None) -> Iterator[str]:
    days: dict[str, list[_Event]] = {}
    for event in events:
        days.setdefault(event.day, []).append(event)
    for day, several in days.items():
        yield f"- {_day_words(day, today)}"
        yield from (f"  - {event.words}" for event in several)


def _day_words(day: str, today: date | None) -> str:
    on = date.fromisoformat(day)
    near = {} if today is None else {today: "today", today + _A_DAY: "tomorrow"}
    return near.get(on) or f"{WEEKDAYS[on.weekday()]} {on.day} {MONTHS[on.month - 1]}"


def _clock(moment: str) -> str:
    return f"{datetime.fromisoformat(moment):%H:%M}"
