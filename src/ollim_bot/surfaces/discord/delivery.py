"""Delivers messages to Discord."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from ollim_bot.domain.chat import ChatMessage
from ollim_bot.errors import DeliveryUncertain
from ollim_bot.ports import Clock, MessagePart
from ollim_bot.surfaces.discord.background_tasks import RecentValues
from ollim_bot.surfaces.discord.drafts import Drafts
from ollim_bot.surfaces.discord.messages import (
    DmChannel,
    HistoryHidden,
    OutgoingMessage,
    ReceivedMessage,
)
from ollim_bot.surfaces.discord.rendering import dated, found_among, outgoing_of, parts_of

_LOOK_BACK = 100
_DISCORD_EPOCH = 1_420_070_400_000


class DiscordDelivery:
    """The delivering half of a `Channel`.

    An edit that would change nothing is not sent, as far as it is known what a message shows.
    """

    def __init__(self, channel: DmChannel, drafts: Drafts, clock: Clock) -> None:
        self._channel = channel
        self._drafts = drafts
        self._clock = clock
        self._shown: RecentValues[OutgoingMessage] = RecentValues()

    def parts(self, message: ChatMessage) -> Sequence[ChatMessage]:
        return parts_of(message)

    async def take_drafts(
        self, message: ChatMessage, parts: Sequence[ChatMessage]
    ) -> Sequence[str]:
        drafts = await self._drafts.take_over(message, [outgoing_of(part) for part in parts])
        refs = []
        for draft in drafts:
            assert draft.ref is not None
            refs.append(draft.ref)
            if draft.shown is not None:
                self._shown.put(draft.ref, draft.shown)
        return refs

    async def deliver(self, part: MessagePart) -> str:
        self._drafts.begin(part.content.id)
        outgoing = outgoing_of(part.content)
        if part.index == 0:
            outgoing = dated(outgoing, part.content.at, self._clock.now())
        ref = await self._channel.send(outgoing, part.nonce)
        self._shown.put(ref, outgoing)
        return ref

    async def find(self, part: MessagePart, since: datetime, others: Collection[str]) -> str | None:
        self._drafts.begin(part.content.id)
        outgoing = outgoing_of(part.content)
        ours = [each for each in reversed(await self._seen(since)) if each.is_ours]
        drafts = (each.ref for each in ours if self._drafts.is_draft(each.ref))
        return found_among(ours, outgoing, part.nonce, {*others, *drafts})

    async def edit(self, ref: str, content: ChatMessage) -> None:
        outgoing = outgoing_of(content)
        if self._shown.get(ref) == outgoing:
            return
        self._shown.forget(ref)
        await self._channel.edit(ref, outgoing)
        self._shown.put(ref, outgoing)

    def discard(self, refs: Sequence[str]) -> None:
        for ref in refs:
            self._drafts.remove(ref)

    def ended(self, message: ChatMessage, refs: Sequence[str]) -> None:
        self._drafts.ended(message, refs)

    async def _seen(self, since: datetime) -> Sequence[ReceivedMessage]:
        """All messages since then, and the newest in any case, oldest first."""
        try:
            newest = await self._channel.newest(_LOOK_BACK)
            if len(newest) < _LOOK_BACK or newest[0].at < since:
                return newest
            return [*await self._channel.after(_ref_at(since)), *newest]
        except HistoryHidden as hidden:
            raise DeliveryUncertain(str(hidden)) from hidden


def _ref_at(moment: datetime) -> str:
    """The id that a message of that moment would have."""
    return str(max(0, int(moment.timestamp() * 1000) - _DISCORD_EPOCH) << 22)
