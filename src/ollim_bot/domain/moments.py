"""Moments: from wall-clock times to instants, and back to the words a person uses.

A wall-clock time is a `datetime` without a zone; an instant is one with a zone.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def instant(wall: datetime, zone: tzinfo) -> datetime:
    """The instant at which the clocks of `zone` show `wall`.

    A time that exists twice means the first; one that does not exist means the end of the gap.
    """
    if wall.tzinfo is not None:
        return wall.astimezone(zone)
    first = wall.replace(tzinfo=zone, fold=0)
    if _shown(first) == wall:
        return first
    return _end_of_gap(wall, zone)


def _shown(moment: datetime) -> datetime:
    """What the clocks really show at the instant that `moment` stands for."""
    return moment.astimezone(UTC).astimezone(moment.tzinfo).replace(tzinfo=None, fold=0)


def _end_of_gap(wall: datetime, zone: tzinfo) -> datetime:
    # In a gap, fold=1 reads with the offset after the change and lands before it, fold=0 the
    # other way round; the change lies between the two, and is the first instant with fold=0's
    # later wall time.
    before = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    after = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    offset = after.astimezone(zone).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) // 2
        if middle.astimezone(zone).utcoffset() == offset:
            after = middle
        else:
            before = middle
    return after.replace(microsecond=0).astimezone(zone)


def clock_time(moment: datetime) -> str:
    """`9:00`, `15:05`, and `15:05:30` where the seconds matter."""
    text = f"{moment.hour}:{moment.minute:02}"
    return f"{text}:{moment.second:02}" if moment.second else text


def describe(moment: datetime, now: datetime) -> str:
    """`today 15:00`, `tomorrow 9:00`, `Tue 26 Oct 9:00`, in the zone of `now`.

    The year is added where it is not this one.
    """
    local = moment.astimezone(now.tzinfo)
    days = (local.date() - now.date()).days
    named = {-1: "yesterday", 0: "today", 1: "tomorrow"}.get(days)
    if named is None:
        named = f"{WEEKDAYS[local.weekday()]} {local.day} {MONTHS[local.month - 1]}"
        if local.year != now.year:
            named += f" {local.year}"
    return f"{named} {clock_time(local)}"


def describe_with_distance(moment: datetime, now: datetime) -> str:
    """`tomorrow 9:00 (in 18 h 30 min)`, `today 8:00 (20 min ago)`."""
    away = moment - now
    words = (
        f"in {duration_in_words(away)}"
        if away >= timedelta(0)
        else f"{duration_in_words(-away)} ago"
    )
    return f"{describe(moment, now)} ({words})"


def duration_in_words(length: timedelta) -> str:
    """The two largest units: `45 s`, `20 min`, `1 h 30 min`, `3 d 4 h`."""
    seconds = round(length.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return _two(seconds // 60, "min", seconds % 60, "s")
    if seconds < 86400:
        return _two(seconds // 3600, "h", seconds % 3600 // 60, "min")
    return _two(seconds // 86400, "d", seconds % 86400 // 3600, "h")


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit}" + (f" {small} {small_unit}" if small else "")
