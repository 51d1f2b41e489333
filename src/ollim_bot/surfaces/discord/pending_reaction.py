"""The reaction that marks a message as being answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from ollim_bot.clock import Backoff
from ollim_bot.errors import DeliveryFailed, DeliveryUncertain, Unreachable
from ollim_bot.ports import Clock
from ollim_bot.surfaces.discord.background_tasks import FIRST_PAUSE, RecentValues
from ollim_bot.surfaces.discord.messages import DmChannel

EYES = "👀"

# Discord accepts one reaction in a quarter of a second: more of them would follow the answers.
_MOST_WANTED = 5
_TRIES = 4
_LONGEST_PAUSE = 60.0
_REMEMBERED = 500
_LOOKED_AT = 100

_logger = logging.getLogger(__name__)


class PendingReaction:
    """Sets and removes the reaction, best effort; every method but `run` returns at once.

    Removing is tried without end, setting only a few times.
    """

    def __init__(self, channel: DmChannel, clock: Clock) -> None:
        self._channel = channel
        self._clock = clock
        self._wanted: dict[str, None] = {}
        # Reactions that are set, or may be.
        self._shown: dict[str, None] = {}
        self._leaving: dict[str, None] = {}
        self._over: RecentValues[None] = RecentValues(_REMEMBERED)
        self._is_refused = False
        self._work = asyncio.Event()

    def open(self, ref: str) -> None:
        """Request the reaction, for a few of the newest messages and no answered one."""
        if self._is_refused or ref in self._over or ref in self._shown:
            return
        self._wanted[ref] = None
        while len(self._wanted) > _MOST_WANTED:
            del self._wanted[next(iter(self._wanted))]
        self._work.set()

    def adopt(self, refs: Iterable[str]) -> None:
        """Register reactions that an earlier run of the bot has set."""
        self._shown.update((ref, None) for ref in refs if ref not in self._leaving)

    def close(self, refs: Iterable[str]) -> None:
        """Remove the reaction of answered messages; one that is not set yet is never set."""
        for ref in tuple(refs):
            self._end(ref)
            if ref in self._shown:
                self._leaving[ref] = None
        self._work.set()

    def close_all(self) -> None:
        """Remove all reactions, because no message waits."""
        self.close((*self._wanted, *self._shown))

    def forget(self, ref: str) -> None:
        """Forget the reaction of a deleted message."""
        self._end(ref)
        self._drop(ref)

    async def run(self) -> None:
        """Run until cancelled; a second run continues where the first stopped."""
        while True:
            self._work.clear()
            while self._leaving or self._wanted:
                if self._leaving:
                    await self._take_away(next(iter(self._leaving)))
                else:
                    await self._set(next(iter(self._wanted)))
            await self._work.wait()

    def _end(self, ref: str) -> None:
        self._wanted.pop(ref, None)
        self._over.put(ref, None)

    def _drop(self, ref: str) -> None:
        self._shown.pop(ref, None)
        self._leaving.pop(ref, None)

    async def _set(self, ref: str) -> None:
        del self._wanted[ref]
        self._shown[ref] = None
        may_be_there = False
        for tries in range(_TRIES):
            if ref in self._over:
                break
            try:
                return await self._channel.mark(ref, EYES)
            except (Unreachable, DeliveryUncertain) as silent:
                _logger.debug("A message could not be marked: %s", silent)
                may_be_there = may_be_there or isinstance(silent, DeliveryUncertain)
            except DeliveryFailed as refused:
                self._drop(ref)
                return await self._weigh(ref, refused)
            await self._clock.sleep(2.0**tries)
        if not may_be_there:
            self._drop(ref)
        return None

    async def _weigh(self, ref: str, refused: DeliveryFailed) -> None:
        """Stop using reactions if Discord refuses one on a message that still exists."""
        try:
            newest = await self._channel.newest(_LOOKED_AT)
        except Unreachable:
            return
        if any(seen.ref == ref for seen in newest):
            _logger.warning("Discord lets no message be marked: %s", refused)
            self._is_refused = True
            self._wanted.clear()

    async def _take_away(self, ref: str) -> None:
        async for _ in Backoff(self._clock, FIRST_PAUSE, _LONGEST_PAUSE):
            if ref not in self._leaving:
                return
            try:
                await self._channel.unmark(ref, EYES)
            except (Unreachable, DeliveryUncertain) as silent:
                _logger.debug("A mark could not be taken away: %s", silent)
                continue
            except DeliveryFailed as refused:
                _logger.info("A mark cannot be taken away: %s", refused)
            self._drop(ref)
            return
