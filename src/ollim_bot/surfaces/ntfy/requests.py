"""Every request to the phone's server: in a thread, and no more of them than it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from ollim_bot.domain.surface_state import PushState
from ollim_bot.errors import Unreachable
from ollim_bot.ports import Clock
from ollim_bot.store.store import Store
from ollim_bot.surfaces.ntfy.allowance import Bucket, is_silent, silent_until
from ollim_bot.surfaces.ntfy.client import TooMany

R = TypeVar("R")

# A request that would wait for longer is made later.
_LONGEST_WAIT = 30.0
_LATER = "The server of the phone takes no more requests for now."


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
        until = silent_until(now, self._refusals, refused.wait, is_of_day=refused.is_of_day)
        self._refusals += 1
        self.state = await self._store.transact(
            lambda tx: tx.push.change(lambda state: state.silent_until(until))
        )
