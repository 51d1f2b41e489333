"""When it is quiet: the daily hours, and what the owner chose for now.

A reminder that is set for a quiet moment comes then; its confirmation offers the end of the quiet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from ollim_bot.kernel.base.moments import instant

IN_QUIET_HOURS = "in your quiet hours"
# The action of a button that makes it quiet until the moment in its data.
QUIET = "quiet"

_TIME = (
    r"(?P<hour{0}>[01]?[0-9]|2[0-3])(?:[:.h](?P<minute{0}>[0-5][0-9])|h)?(?: ?(?P<half{0}>[ap])m)?"
)
_HOURS = re.compile(
    rf"(?:from )?{_TIME.format(1)} ?(?:-|–|to|until) ?{_TIME.format(2)}", re.IGNORECASE
)
_DAY = timedelta(days=1)
_NOON = 12


@dataclass(frozen=True, slots=True)
class QuietHours:
    """The same span of every day, by the owner's clock; it may pass midnight."""

    start: time
    end: time

    @classmethod
    def parse(cls, text: str) -> QuietHours:
        """Read `22:00-07:00`, `22-7` or `10pm to 7.30am`; raises `ValueError` for anything else.

        Two bare numbers that could both be on a clock of 12 hours, such as `10-7`, are refused.
        """
        found = _HOURS.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"{text!r} are no hours such as 22:00-07:00")
        hours = cls(_time(found, 1), _time(found, 2))
        is_bare = not any(
            found[f"{part}{which}"] for part in ("minute", "half") for which in (1, 2)
        )
        if is_bare and all(1 <= each.hour <= _NOON for each in (hours.start, hours.end)):
            raise ValueError(f"{text!r} can be read in two ways")
        if hours.start == hours.end:
            raise ValueError(f"{text!r} has no length")
        return hours

    def __str__(self) -> str:
        return f"{self.start:%H:%M}-{self.end:%H:%M}"

    def has(self, wall: time) -> bool:
        """Whether a clock that shows `wall` shows a time within the hours."""
        if self.start < self.end:
            return self.start <= wall < self.end
        return wall >= self.start or wall < self.end

    def end_at(self, moment: datetime, zone: tzinfo) -> datetime | None:
        """The end, in UTC, of the night that `moment` lies in; None if it lies in none."""
        today = moment.astimezone(zone).date()
        for day in (today - _DAY, today):
            start, end = self.night(day, zone)
            if start <= moment < end:
                return end
        return None

    def night(self, day: date, zone: tzinfo) -> tuple[datetime, datetime]:
        """When the night of that day begins and ends, in UTC."""
        last = day if self.start < self.end else day + _DAY
        walls = datetime.combine(day, self.start), datetime.combine(last, self.end)
        start, end = (instant(wall, zone).astimezone(UTC) for wall in walls)
        return start, end


def _time(found: re.Match[str], which: int) -> time:
    hour, half = int(found[f"hour{which}"]), (found[f"half{which}"] or "").lower()
    if half and not 1 <= hour <= _NOON:
        raise ValueError(f"{hour} is not on a clock of 12 hours")
    if half:
        hour = hour % _NOON + (_NOON if half == "p" else 0)
    return time(hour, int(found[f"minute{which}"] or 0))


@dataclass(frozen=True, slots=True)
class QuietChoice:
    """What the owner chose for now: quiet until a moment, or no quiet hours until a moment."""

    until: datetime | None = None
    lifted_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class QuietSettings:
    """Everything that says when it is quiet. `zone` is the owner's."""

    zone: tzinfo
    hours: QuietHours | None = None
    choice: QuietChoice = QuietChoice()

    def _end_at(self, moment: datetime) -> datetime | None:
        chosen, lifted = self.choice.until, self.choice.lifted_until
        if chosen is not None and moment < chosen:
            return chosen.astimezone(UTC)
        if self.hours is None or (lifted is not None and moment < lifted):
            return None
        return self.hours.end_at(moment, self.zone)


def quiet_until(settings: QuietSettings, moment: datetime) -> datetime | None:
    """When the quiet that holds at `moment` ends, in the owner's zone; None if none holds."""
    end = None
    latest = settings._end_at(moment.astimezone(UTC))
    # Quiet hours may begin before the chosen quiet ends.
    while latest is not None:
        end, latest = latest, settings._end_at(latest)
    return None if end is None else end.astimezone(settings.zone)


def quiet_spans(
    settings: QuietSettings, start: datetime, end: datetime
) -> Sequence[tuple[datetime, datetime]]:
    """The quiet from `start` on: when each begins, before `end`, and when it ends, in UTC."""
    begins = [start.astimezone(UTC)]
    if settings.hours is not None:
        day, last = (each.astimezone(settings.zone).date() for each in (start, end))
        while day <= last:
            begins.append(settings.hours.night(day, settings.zone)[0])
            day += _DAY
        if settings.choice.lifted_until is not None:
            begins.append(settings.choice.lifted_until.astimezone(UTC))
    spans: list[tuple[datetime, datetime]] = []
    for begin in sorted(begins):
        is_new = begins[0] <= begin < end and (not spans or begin >= spans[-1][1])
        until = quiet_until(settings, begin) if is_new else None
        if until is not None:
            spans.append((begin, until.astimezone(UTC)))
    return spans


def is_quiet(settings: QuietSettings, moment: datetime) -> bool:
    return settings._end_at(moment.astimezone(UTC)) is not None


def ended_now(settings: QuietSettings, now: datetime) -> QuietChoice:
    """The choice after which it is not quiet at `now`: the hours hold again from their next day."""
    hours = settings.hours
    return QuietChoice(lifted_until=None if hours is None else hours.end_at(now, settings.zone))
