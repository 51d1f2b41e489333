"""Watches the clock for a fork in which nothing is said any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ollim_bot.conversation.forks.kept import KeptFork
from ollim_bot.domain.forks import Fork, Idleness
from ollim_bot.ports import Clock

_SHORTEST = 0.001
_BETWEEN_LOOKS = 5.0


class IdleWatch:
    """`is_due` is called when a fork was idle for as long as it may be; it is not while it talks.

    `is_quiet` says whether nobody is being answered and nothing waits.
    """

    def __init__(
        self,
        kept: KeptFork,
        clock: Clock,
        *,
        is_quiet: Callable[[], bool],
        is_due: Callable[[Fork], Awaitable[None]],
    ) -> None:
        self._kept = kept
        self._clock = clock
        self._is_quiet = is_quiet
        self._is_due = is_due

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            change = asyncio.ensure_future(self._kept.next_change())
            alarm = asyncio.ensure_future(self._alarm())
            try:
                await asyncio.wait({change, alarm}, return_when=asyncio.FIRST_COMPLETED)
                if alarm.done():
                    alarm.result()
                    await change
            finally:
                change.cancel()
                alarm.cancel()

    async def _alarm(self) -> None:
        fork = self._kept.fork
        if fork is None:
            await asyncio.Event().wait()
            return
        while fork.verdict(now := self._clock.now()) is Idleness.KEEP:
            if fork.last_activity > now:
                # The clock was set back: it must not keep the fork open for as long as that.
                await self._kept.change(lambda one: one.rested(now))
                return
            await self._clock.sleep(max(fork.remaining(now).total_seconds(), _SHORTEST))
        while not self._is_quiet():
            await self._clock.sleep(_BETWEEN_LOOKS)
        await self._is_due(fork)
