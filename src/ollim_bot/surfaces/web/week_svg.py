"""The drawings of the week: the line of the ping budget, and the strip of a day.

They hold numbers only, as attributes. The lists and tables beside them say the same in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time, timedelta

from ollim_bot.domain.moments import WEEKDAYS, elapsed, instant
from ollim_bot.domain.week import MARK_MINUTES, WeekDay, WeekView

_DAY = timedelta(days=1)
# A mark of so many moments has the full height.
_HIGHEST_MARK = 5


def pings_svg(week: WeekView) -> str:
    """The pings that are left, hour by hour, over the quiet and the days."""
    return (
        '<svg class="budget" aria-hidden="true" focusable="false">'
        f"{''.join(_week_ground(week))}{_line(week)}{''.join(_refusals(week))}</svg>"
    )


def day_svg(day: WeekDay, week: WeekView) -> str:
    """A strip of 24 hours: the quiet, the events, and a mark where something comes."""
    midnight = instant(datetime.combine(day.day, time.min), week.rehearsal.zone)
    return (
        '<svg class="strip" aria-hidden="true" focusable="false">'
        f"{''.join(_day_ground(day, midnight))}{''.join(_marks(day, midnight))}</svg>"
    )


def _week_ground(week: WeekView) -> Iterator[str]:
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


def _refusals(week: WeekView) -> Iterator[str]:
    whole = elapsed(week.now, week.until)
    for each in week.budget:
        if each.refused:
            x = _share(elapsed(week.now, each.at), whole)
            yield f'<circle class="refused" cx="{x:.2f}%" cy="76%" r="3.5"/>'


def _line(week: WeekView) -> str:
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


def _day_ground(day: WeekDay, midnight: datetime) -> Iterator[str]:
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


def _marks(day: WeekDay, midnight: datetime) -> Iterator[str]:
    for hour in day.hours:
        for number, count in sorted(hour.marks.items()):
            at = elapsed(midnight, hour.at) + (number + 0.5) * timedelta(minutes=MARK_MINUTES)
            x = _share(at, _DAY)
            top = 60 * (1 - (0.4 + 0.6 * min(count, _HIGHEST_MARK) / _HIGHEST_MARK))
            yield f'<line class="mark" x1="{x:.2f}%" x2="{x:.2f}%" y1="{top:.0f}%" y2="60%"/>'


def _band(kind: str, start: float, end: float, height: int = 60) -> str:
    start, end = max(start, 0.0), min(end, 100.0)
    width = max(end - start, 0.0)
    return f'<rect class="{kind}" x="{start:.2f}%" y="0" width="{width:.2f}%" height="{height}%"/>'


def _hour_share(midnight: datetime, moment: datetime) -> float:
    return _share(elapsed(midnight, moment), _DAY)


def _share(part: timedelta, whole: timedelta) -> float:
    return 100 * (part / whole) if whole else 0.0
