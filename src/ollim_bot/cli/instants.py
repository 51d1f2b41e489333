"""What commands ask about instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo


def zone_of(moment: datetime) -> tzinfo:
    return moment.tzinfo or UTC


def is_past(moment: datetime, now: datetime) -> bool:
    # By the real time between: two moments of one zone would be compared by their wall clocks.
    return moment.timestamp() <= now.timestamp()


def later(moment: datetime, length: timedelta) -> datetime:
    """That much real time later, in the same zone: to the second, and never early."""
    return rounded_up((moment.astimezone(UTC) + length).astimezone(moment.tzinfo))


def rounded_up(moment: datetime) -> datetime:
    """The next whole second, unless it is one."""
    exact = moment.astimezone(UTC) + timedelta(seconds=1) - timedelta.resolution
    return exact.replace(microsecond=0).astimezone(moment.tzinfo)
