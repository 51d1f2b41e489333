"""Every request to the phone's server: in a thread, and no more of them than it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TypeVar

from ollim_bot.domain.push import KEPT_FOR_MUST, PER_DAY
from ollim_bot.domain.surface_state import PushState
from ollim_bot.errors import Unreachable
from ollim_bot.ports import Clock
from ollim_bot.store.store import Store
from ollim_bot.surfaces.ntfy.client import TooMany

R = TypeVar("R")

# Requests at once, then one per so many seconds.
BURST, REFILL = 60, 5.0
# Of a request: the clock of the server does not go exactly as ours.
_SPARE = 0.1
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 600.0
# A request that would wait for longer is made later.
_LONGEST_WAIT = 30.0
_LATER = "The server of the phone takes no more requests for now."


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
    return state.sent_on(now) < (PER_DAY if must else PER_DAY - KEPT_FOR_MUST)


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


class Requests:
    """`state` is the stored one as it was last seen."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.state = PushState()
        self._store = store
        self._clock = clock
        self._bucket = Bucket(at=clock.monotonic())
        self._refusals = 0

    async def call(self, work: Callable[[], R]) -> R:
        """The result of a request, after a wait of seconds if need be.

        Raises `Unreachable` without a request while the server wants none.
        """
        await self.turn()
        try:
            result = await asyncio.to_thread(work)
        except TooMany as refused:
            await self.fall_silent(refused)
            raise
        self._refusals = 0
        return result

    async def turn(self) -> None:
        """Return when one more request may be made."""
        now = self._clock.monotonic()
        wait = self._bucket.wait(now)
        if is_silent(self.state, self._clock.now()) or wait > _LONGEST_WAIT:
            raise Unreachable(_LATER)
        self._bucket = self._bucket.taken(now)
        if wait:
            await self._clock.sleep(wait)

    async def fall_silent(self, refused: TooMany) -> None:
        """Keep the pause that the server wants, also across a restart."""
        now = self._clock.now()
        until = now + pause_after(self._refusals, refused.wait)
        if refused.is_of_day and refused.wait is None:
            until = next_day(now)
        self._refusals += 1
        self.state = await self._store.transact(
            lambda tx: tx.push.change(lambda state: state.silent_until(until))
        )
