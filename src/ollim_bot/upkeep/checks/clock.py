"""Whether the clock can be trusted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from ollim_bot.domain.moments import MONTHS, WEEKDAYS, duration_in_words
from ollim_bot.upkeep.findings import Finding, failed, passed, warned

NAME = "clock"
_SET = "Set the clock of this machine right; until then nothing comes on time."
# Older than this program, whatever it shows.
_IMPOSSIBLE = datetime(2026, 1, 1, tzinfo=UTC)
_A_HAIR = timedelta(minutes=2)


def clock(now: datetime, zone: str, last_seen: datetime | None) -> Iterator[Finding]:
    """`now` is in the owner's zone; `last_seen` is when the bot last wrote down the time."""
    if now < _IMPOSSIBLE:
        yield failed(NAME, f"it shows {now:%Y-%m-%d}, which cannot be", _SET)
    elif last_seen is not None and last_seen > now + _A_HAIR:
        ahead = duration_in_words(last_seen.astimezone(UTC) - now.astimezone(UTC))
        yield warned(NAME, f"it shows {ahead} less than when the bot last looked", _SET)
    else:
        day = f"{WEEKDAYS[now.weekday()]} {now.day} {MONTHS[now.month - 1]} {now.year}"
        yield passed(NAME, f"{day} {now:%H:%M}, {zone}")
