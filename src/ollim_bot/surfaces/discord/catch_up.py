"""Finds messages that were sent while the bot was away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any

from ollim_bot.clock import Backoff
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.errors import StorageError, Unreachable
from ollim_bot.ports import ChatService, Clock
from ollim_bot.surfaces.discord.background_tasks import FIRST_PAUSE
from ollim_bot.surfaces.discord.facts import DiscordFacts
from ollim_bot.surfaces.discord.inbound import Inbound
from ollim_bot.surfaces.discord.messages import NAME, DmChannel, ReceivedMessage
from ollim_bot.surfaces.discord.pending_reaction import EYES, PendingReaction

_BETWEEN_POLLS = 120.0
_LONGEST_PAUSE = 60.0
# Discord announces no message later than this, and a missing message of this age is deleted.
_SURELY = timedelta(seconds=30)
_LOGGED = 500
_AMENDED = 100
_REPAIRED = 50
_BEFORE_ALL = "0"

_logger = logging.getLogger(__name__)


class MessageCatchUp:
    """Reads the channel back in rounds: after each connection, and every two minutes.

    Inbound messages are held back until the first round is done, and again whenever the connection
    is lost. `reconnect` is called when Discord no longer announces messages.
    """

    def __init__(
        self,
        channel: DmChannel,
        reception: ChatService,
        inbound: Inbound,
        pending_reaction: PendingReaction,
        facts: DiscordFacts,
        clock: Clock,
        *,
        reconnect: Callable[[], Awaitable[None]],
    ) -> None:
        self._channel = channel
        self._reception = reception
        self._inbound = inbound
        self._pending_reaction = pending_reaction
        self._facts = facts
        self._clock = clock
        self._reconnect = reconnect
        # Everything up to this message was read back since the start.
        self._read_to: str | None = None
        self._is_deaf = False
        self._is_repaired = False
        self._is_connected = False
        self._is_ready = asyncio.Event()
        inbound.hold()

    def lost(self) -> None:
        """Hold inbound messages: earlier ones may be missed while the connection is lost."""
        self._is_connected = False
        self._inbound.hold()

    def ready(self) -> None:
        """Start a round for a new or resumed connection, in place of one that still runs."""
        self._inbound.hold()
        self._is_connected = True
        self._is_deaf = False
        self._is_ready.set()

    async def run(self) -> None:
        """Run until cancelled: a round after each `ready`, and one at each interval."""
        await self._is_ready.wait()
        while True:
            is_poll = not self._is_ready.is_set()
            self._is_ready.clear()
            await self._unless_ready(self._round(is_poll=is_poll))
            await self._unless_ready(self._clock.sleep(_BETWEEN_POLLS))

    async def _unless_ready(self, step: Coroutine[Any, Any, None]) -> None:
        doing = asyncio.ensure_future(step)
        newer = asyncio.ensure_future(self._is_ready.wait())
        try:
            await asyncio.wait({doing, newer}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
        finally:
            doing.cancel()
            newer.cancel()
            await asyncio.gather(doing, newer, return_exceptions=True)

    async def _round(self, *, is_poll: bool) -> None:
        is_brought = False
        async for _ in Backoff(self._clock, FIRST_PAUSE, _LONGEST_PAUSE):
            try:
                if not is_brought:
                    self._inbound.hold()
                    await self._bring(is_poll=is_poll)
                    is_brought = True
                await self._amend()
                await self._repair()
                return
            except (Unreachable, StorageError) as silent:
                _logger.info("Discord cannot be read back now: %s", silent)
            if is_poll and not is_brought:
                self._go_on()

    async def _bring(self, *, is_poll: bool) -> None:
        start = self._read_to or await self._facts.last_seen()
        if start is None:
            start = await self._beginning()
            found: Sequence[ReceivedMessage] = ()
        else:
            found = await self._channel.after(start)
        logged = await self._logged(_LOGGED)
        missed = [seen for seen in found if seen.is_owners and seen.ref not in logged]
        passed = await self._facts.passed_over(missed)
        missed = [seen for seen in missed if seen.ref not in passed]
        is_deaf = any(self._was_not_brought(seen) for seen in missed)
        self._go_on(missed)
        self._read_to = found[-1].ref if found else start
        if is_poll and is_deaf and self._is_connected and not self._is_deaf:
            self._is_deaf = True
            _logger.warning("Discord brings no messages any more; the connection is made anew")
            await self._reconnect()

    async def _beginning(self) -> str:
        """On the very first start, count all earlier messages as seen; returns the newest."""
        newest = await self._channel.newest(1)
        start = newest[-1].ref if newest else _BEFORE_ALL
        self._facts.saw(start)
        return start

    def _was_not_brought(self, seen: ReceivedMessage) -> bool:
        return not self._inbound.knows(seen.ref) and self._clock.now() - seen.at > _SURELY

    def _go_on(self, missed: Sequence[ReceivedMessage] = ()) -> None:
        self._inbound.release(missed)
        if not self._is_connected:
            self._inbound.hold()

    async def _amend(self) -> None:
        """Apply missed edits and deletions of messages that still wait."""
        if not self._reception.status.is_busy:
            return
        # The log first: its messages were on Discord before Discord is asked.
        logged = await self._logged(_AMENDED)
        newest = await self._channel.newest(_AMENDED)
        there = {seen.ref: seen for seen in newest}
        for ref, message in logged.items():
            seen = there.get(ref)
            if message.author is not Author.OWNER:
                continue
            if seen is None and self._is_gone(ref, message, newest):
                self._inbound.deleted(ref)
            elif seen is not None and _is_other_than(seen, message):
                self._inbound.edited(ref, seen.text)

    def _is_gone(self, ref: str, message: ChatMessage, newest: Sequence[ReceivedMessage]) -> bool:
        is_in_reach = bool(newest) and int(ref) > int(newest[0].ref)
        return is_in_reach and self._clock.now() - message.at > _SURELY

    async def _repair(self) -> None:
        """Once: remove the reactions that the bot could not remove before it stopped."""
        if self._is_repaired:
            return
        newest = await self._channel.newest(_REPAIRED)
        self._pending_reaction.adopt(
            seen.ref for seen in newest if seen.is_owners and EYES in seen.marks
        )
        if not self._reception.status.is_busy:
            self._pending_reaction.close_all()
        self._is_repaired = True

    async def _logged(self, limit: int) -> Mapping[str, ChatMessage]:
        """The newest messages of the log, by their ids on Discord."""
        return await self._reception.by_refs(NAME, limit)


def _is_other_than(seen: ReceivedMessage, message: ChatMessage) -> bool:
    """Whether the owner has edited the message since; a forwarded message cannot be edited."""
    return seen.is_edited and seen.forwarded is None and seen.text != message.text
