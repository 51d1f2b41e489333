"""How much the public server takes: so many requests at once, so many messages a day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from ollim_bot.domain.push import KEPT_FOR_MUST, PER_DAY
from ollim_bot.domain.surface_state import PushState

# Requests at once, then one per so many seconds.
BURST, REFILL = 60, 5.0
A_DAY, RESERVE = PER_DAY, KEPT_FOR_MUST
# Of a request: the clock of the server does not go exactly as ours.
_SPARE = 0.1
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 600.0


@dataclass(frozen=True, slots=True)
class Bucket:
    """The requests that the server still takes; `at` is the moment of a steady clock."""

    left: float = BURST
    at: float = 0.0

    def wait(self, now: float) -> float:
        """How many seconds until the next request is surely taken; 0 if it is at once."""
        return max(0.0, (1 + _SPARE - self._at(now).left) * REFILL)

    def taken(self, now: float) -> Bucket:
        """After one more request, which may have to wait."""
        filled = self._at(now)
        return Bucket(filled.left - 1, filled.at)

    def _at(self, now: float) -> Bucket:
        gained = max(0.0, now - self.at) / REFILL
        return Bucket(min(float(BURST), self.left + gained), max(now, self.at))


def is_room(state: PushState, now: datetime, *, must: bool) -> bool:
    """Whether the day has room for one more message: the last ones are for what must come."""
    return state.sent_on(now) < (A_DAY if must else A_DAY - RESERVE)


def is_reserve_begun(state: PushState, now: datetime) -> bool:
    """Whether from now on only what must come goes to the phone on that day."""
    return not is_room(state, now, must=False)


def is_silent(state: PushState, now: datetime) -> bool:
    """Whether the server has asked for a pause that is not over."""
    return state.quiet_until is not None and now < state.quiet_until


def next_day(now: datetime) -> datetime:
    """The moment at which the server counts from 0 again."""
    day = now.astimezone(UTC).date() + timedelta(days=1)
    return datetime.combine(day, time(), UTC)


def pause_after(refusals: int, asked: float | None) -> timedelta:
    """How long to send nothing: as asked, or longer with each refusal in a row."""
    own = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(refusals, 10))
    return timedelta(seconds=own if asked is None else max(1.0, asked))


def silent_until(now: datetime, refusals: int, asked: float | None, *, is_of_day: bool) -> datetime:
    """When the next message may be sent after a refusal; one of the whole day ends with the day."""
    if is_of_day and asked is None:
        return next_day(now)
    return now + pause_after(refusals, asked)
