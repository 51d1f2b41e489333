"""Moments and lengths of time in words, and the names of time zones."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from ollim_bot.kernel.base.text import as_code, nearest

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NEAR_DAYS = {-1: "yesterday", 0: "today", 1: "tomorrow"}
_SECOND = timedelta(seconds=1)
_MIDNIGHT = datetime(1970, 1, 1, tzinfo=UTC)


def instant(wall: datetime, zone: tzinfo) -> datetime:
    """The instant at which the clocks of `zone` show `wall`.

    A time that exists twice means the first; one that does not exist means the end of the gap.
    """
    if wall.tzinfo is not None:
        return wall.astimezone(UTC).astimezone(zone)
    first = wall.replace(tzinfo=zone, fold=0)
    # Compare with what the clocks really show at that instant.
    if first.astimezone(UTC).astimezone(first.tzinfo).replace(tzinfo=None, fold=0) == wall:
        return first
    # In a gap, fold=1 reads with the offset after the change and gives a moment before it; fold=0
    # does the opposite.
    before, after = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (1, 0))
    return clock_change(before, after, zone).astimezone(zone)


def midnight(day: date, zone: tzinfo) -> datetime:
    """The instant at which the day begins."""
    return instant(datetime(day.year, day.month, day.day), zone)


def midnight_after(now: datetime) -> datetime:
    """The instant at which the next day begins."""
    return midnight(now.date() + timedelta(days=1), now.tzinfo or UTC)


def offset_at(moment: datetime, zone: tzinfo) -> timedelta:
    """How far the clocks of `zone` are ahead of UTC at `moment`."""
    return moment.astimezone(zone).utcoffset() or timedelta()


def clock_change(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The instant in UTC at which the clocks of `zone` change between `before` and `after`.

    Both are in UTC, and exactly one change lies between them, `after` included.
    """
    offset = offset_at(after, zone)
    while after - before > _SECOND:
        middle = before + (after - before) // 2
        if offset_at(middle, zone) == offset:
            after = middle
        else:
            before = middle
    return after.replace(microsecond=0)


def elapsed(since: datetime, now: datetime) -> timedelta:
    """The real time between two instants, also across clock changes."""
    # Python subtracts two instants of one zone by their wall-clock times.
    return now.astimezone(UTC) - since.astimezone(UTC)


def later(now: datetime, length: timedelta, unit: timedelta = _SECOND) -> datetime:
    """The instant after `length` of real time, rounded up to a full `unit`, so never early."""
    exact = now.astimezone(UTC) + length
    beyond = (exact - _MIDNIGHT) % unit
    rounded_up = exact - beyond + unit if beyond else exact
    return rounded_up.astimezone(now.tzinfo)


def clock_time(moment: datetime) -> str:
    """`9:00`, `15:05`, and `15:05:30` where the seconds matter."""
    text = f"{moment.hour}:{moment.minute:02}"
    return f"{text}:{moment.second:02}" if moment.second else text


def short_clock(moment: datetime) -> str:
    """The clock time without its seconds: `9:00`."""
    return clock_time(moment.replace(second=0))


def describe(moment: datetime, now: datetime, *, is_exact: bool = False) -> str:
    """`today 15:00`, `tomorrow 9:00`, `Tue 26 Oct 09:00`, in the zone of `now`.

    The year is added where it is not this one; the seconds where they are part of the story.
    """
    local = moment.astimezone(now.tzinfo)
    if not is_exact:
        local = local.replace(second=0, microsecond=0)
    days = (local.date() - now.date()).days
    if days in _NEAR_DAYS:
        return f"{_NEAR_DAYS[days]} {clock_time(local)}"
    return f"{day_words(local, now)} {clock_time(local).zfill(8 if local.second else 5)}"


def short_day(day: date) -> str:
    """`Tue 17 Nov`."""
    return f"{WEEKDAYS[day.weekday()]} {day.day} {MONTHS[day.month - 1]}"


def day_words(day: date, now: date) -> str:
    """`Tue 17 Nov`, with the year where it is not this one."""
    return short_day(day) + ("" if day.year == now.year else f" {day.year}")


def with_dates(text: str, now: datetime) -> str:
    """The text for a later day: what it calls today, yesterday or tomorrow becomes a date.

    `now` is when the text was written. Only a day with a time, as `describe` writes it, is changed.
    """

    def dated(found: re.Match[str]) -> str:
        day = next(days for days, word in _NEAR_DAYS.items() if word == found[1])
        return f"{day_words(now + timedelta(days=day), now)} {found[2].zfill(5)}"

    return re.sub(rf"\b({'|'.join(_NEAR_DAYS.values())}) (\d{{1,2}}:\d\d)\b", dated, text)


def describe_with_distance(moment: datetime, now: datetime) -> str:
    """`tomorrow 9:00 (in 18 h 30 min)`, `today 8:00 (20 min ago)`, `today 9:00 (now)`."""
    away = elapsed(now, moment)
    if abs(away) < _SECOND:
        words = "now"
    elif away > timedelta(0):
        words = f"in {duration_in_words(away)}"
    else:
        words = f"{duration_in_words(-away)} ago"
    return f"{describe(moment, now)} ({words})"


def duration_in_words(length: timedelta) -> str:
    """The two largest units, rounded: `1 min 30 s`, `20 min`, `1 h 30 min`, `3 d 4 h`.

    Seconds are counted below two minutes only.
    """
    seconds = round(length.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 120:
        return _two(seconds, 60, "min", "s")
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return _two(minutes, 60, "h", "min")
    return _two(round(seconds / 3600), 24, "d", "h")


def _two(total: int, ratio: int, large_unit: str, small_unit: str) -> str:
    large, small = divmod(total, ratio)
    return f"{large} {large_unit}" + (f" {small} {small_unit}" if small else "")


def zone_named(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown; `../x`, NUL; `Europe` is a folder
        return None


def zone_at(place: str) -> str | None:
    """The zone with that name, or of that city: `Asia/Tokyo`, `tokyo`, `New York`."""
    word = place.strip().lower().replace(" ", "_")
    names = sorted(available_timezones())
    fits = [name for name in names if word in (name.lower(), name.rpartition("/")[2].lower())]
    return next((name for name in fits if "/" in name), fits[0] if fits else None)


def near_zone(text: str) -> str | None:
    """The likely zone for a misspelt name: `berlin` and `Europe/Berln` give Europe/Berlin."""
    names = sorted(name for name in available_timezones() if not re.search("[0-9]", name))
    by_city = {name.rpartition("/")[2].lower(): name for name in names}
    by_words = by_city | {name.lower(): name for name in names}
    return by_words.get(nearest(text.lower().replace(" ", "_"), by_words) or "")


def zone_hint(text: str) -> str:
    """A suggestion to put in place of an unknown time zone."""
    near = near_zone(text)
    return f"Did you mean {near}?" if near else "Right: Europe/Berlin, or UTC."


def late_label(due: datetime, now: datetime, *, is_call: bool = False) -> str:
    """The line below a late message; `is_call` says that a call came then."""
    return f"Late: it {'came' if is_call else 'was due'} {describe(due, now)}."


def waited_label(due: datetime, now: datetime) -> str:
    """The line below a message whose turn has waited for the end of the quiet."""
    return f"It was due {describe(due, now)}, in the quiet."


_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}


def parse_length(text: str) -> timedelta:
    """A length such as `30m`, `2h` or `1d`; raises `ValueError` for anything else."""
    found = re.fullmatch(r"(?a)([0-9]{1,5}) ?(m|h|d)", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a length such as 30m")
    return int(found[1]) * _UNITS[found[2]]


def length_text(length: timedelta) -> str:
    """The inverse of `parse_length`, with the largest unit that fits."""
    unit = next(name for name, size in _UNITS.items() if name == "m" or not length % size)
    return f"{length // _UNITS[unit]}{unit}"


class Nag(NamedTuple):
    """How often an unanswered item comes again, and the pause before each time: `10m x 4`."""

    pause: timedelta
    times: int

    @classmethod
    def parse(cls, text: str) -> Nag:
        """Raises `ValueError`, with a sentence, for anything but 2 min to 24 h and 1 to 8 times."""
        pause, _, times = text.partition("x")
        try:
            nag = cls(parse_length(pause), int(times))
        except ValueError:
            raise ValueError(
                f"{as_code(text, 40)} is no pause and number. Try `10m x 4`."
            ) from None
        shortest, longest, most = timedelta(minutes=2), timedelta(days=1), 8
        right = cls(min(max(nag.pause, shortest), longest), min(max(nag.times, 1), most))
        if right == nag:
            return nag
        if nag.pause < shortest:
            why = "too often: the shortest pause is 2 minutes"
        elif nag.pause > longest:
            why = "too rare: the longest pause is 24 hours"
        else:
            why = f"not possible: it can come again 1 to {most} times"
        raise ValueError(f"{as_code(text, 40)} is {why}. Try `{right}`.")

    @property
    def in_words(self) -> str:
        times = "once" if self.times == 1 else f"{self.times} times"
        return f"every {duration_in_words(self.pause)} until you answer, at most {times}"

    def __str__(self) -> str:
        return f"{length_text(self.pause)} x {self.times}"
