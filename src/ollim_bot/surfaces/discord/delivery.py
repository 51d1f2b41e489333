"""Delivers messages to Discord, each exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import chain

from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.errors import DeliveryFailed, DeliveryUncertain, Unreachable
from ollim_bot.ports import Clock
from ollim_bot.surfaces.discord.background_tasks import (
    BackgroundTasks,
    RecentValues,
    finishes_within,
)
from ollim_bot.surfaces.discord.drafts import Drafts
from ollim_bot.surfaces.discord.messages import (
    NAME,
    DmChannel,
    HistoryHidden,
    OutgoingMessage,
    ReceivedMessage,
)
from ollim_bot.surfaces.discord.rendering import dated, outgoing_of, parts_of, undated

# The owner waits for the answer, but rate limits may delay an edit by several seconds.
_LONGEST_EDIT = 8.0
_LOOK_BACK = 100
_DISCORD_EPOCH = 1_420_070_400_000


class MessageEdits:
    """Edits each message until it shows its newest content, one edit at a time.

    The content of a message from before the start is unknown, so it is edited once. A message that
    is gone is left alone.
    """

    def __init__(self, channel: DmChannel, background: BackgroundTasks) -> None:
        self._channel = channel
        self._background = background
        self._shown: RecentValues[OutgoingMessage] = RecentValues()
        self._wanted: dict[str, OutgoingMessage] = {}

    def shown(self, ref: str, outgoing: OutgoingMessage) -> None:
        """Record the delivered content of a message."""
        self._shown.put(ref, outgoing)

    def knows(self, ref: str) -> bool:
        """Whether the message was delivered or edited recently, since the start."""
        return ref in self._shown

    def want(self, ref: str, outgoing: OutgoingMessage) -> None:
        is_begun = ref in self._wanted
        self._wanted[ref] = outgoing
        if not is_begun:
            self._background.start(self._revised(ref))

    async def _revised(self, ref: str) -> None:
        try:
            while (wanted := self._wanted[ref]) != self._shown.get(ref):
                if not await self._background.keep_trying(lambda: self._edited(ref)):
                    self._shown.put(ref, wanted)
        finally:
            del self._wanted[ref]

    async def _edited(self, ref: str) -> None:
        """Read the wanted content at each try, so that a late try sends the newest."""
        outgoing = self._wanted[ref]
        await self._channel.edit(ref, outgoing)
        self._shown.put(ref, outgoing)


class DiscordDelivery:
    """A `Courier`."""

    name = NAME

    def __init__(
        self, channel: DmChannel, drafts: Drafts, background: BackgroundTasks, clock: Clock
    ) -> None:
        self._channel = channel
        self._drafts = drafts
        self._background = background
        self._clock = clock
        self._revisions = MessageEdits(channel, background)
        self._arrived: RecentValues[str] = RecentValues()
        self._refs: RecentValues[dict[int, str]] = RecentValues()
        self._on_its_way: dict[MessageId, Sequence[ChatMessage]] = {}
        self._newest: dict[MessageId, ChatMessage] = {}
        self._has_moved = asyncio.Event()

    def parts(self, message: ChatMessage) -> Sequence[ChatMessage]:
        parts = self._on_its_way[message.id] = parts_of(message)
        self._drafts.announce(message)
        return parts

    async def deliver(self, part: ChatMessage, nonce: str) -> str:
        known = self._arrived.get(nonce)
        if known is not None:
            return known
        self._leave_behind(part)
        outgoing, index = outgoing_of(part), self._index(part)
        if index == 0:
            outgoing = dated(outgoing, part.at, self._clock.now())
        ref = await self._put_in_place(part, index, outgoing)
        if ref is None:
            try:
                ref = await self._channel.send(outgoing, nonce)
            except DeliveryFailed:
                self._drafts.refused(part)
                self._leave(part.id)
                raise
        self._note(part, index, nonce, ref, outgoing)
        return ref

    async def find(
        self, part: ChatMessage, nonce: str, since: datetime, others: Collection[str]
    ) -> str | None:
        self._leave_behind(part)
        outgoing = outgoing_of(part)
        known = ref = self._arrived.get(nonce)
        if ref is None:
            ours = [each for each in reversed(await self._seen(since)) if each.is_ours]
            # A part that was edited into a draft has the nonce of the draft.
            same_words = (
                each
                for each in ours
                if each.ref not in others
                and _says(each, outgoing)
                and not self._drafts.is_of_another(each.ref, part.turn)
            )
            ref = _first(each for each in ours if each.nonce == nonce) or _first(same_words)
        if ref is not None:
            # A part that was delivered since the start keeps its recorded content.
            shows = None if known else outgoing
            self._note(part, self._index(part), nonce, ref, shows)
        return ref

    def changed(self, message: ChatMessage) -> None:
        """Edit the message on Discord, soon, to show its new content.

        A message that is still being delivered is edited after it has arrived. If its number of
        parts has changed, the existing messages show as much as they can.
        """
        ref = message.refs.get(NAME)
        if ref is None:
            return
        if not ref:
            self._drafts.announce(message)
        if not ref or message.id in self._on_its_way:
            self._newest[message.id] = message
        # The refs of a part that has just arrived may not be in the log yet.
        refs = dict(enumerate(ref.split())) or self._refs.get(message.id) or {}
        for index, part in enumerate(parts_of(message)):
            if index in refs:
                self._revisions.want(refs[index], outgoing_of(part))

    def knows(self, ref: str) -> bool:
        """Whether it was delivered since the start, although the log may not say so yet."""
        return self._revisions.knows(ref)

    async def caught_up(self) -> None:
        """Return when every message that is being delivered now has arrived or was given up."""
        waiting = set(self._on_its_way)
        while not waiting.isdisjoint(self._on_its_way):
            self._has_moved.clear()
            await self._has_moved.wait()

    async def _put_in_place(
        self, part: ChatMessage, index: int, outgoing: OutgoingMessage
    ) -> str | None:
        """Edit the part into a draft; None if there is no draft for it."""
        draft = await self._drafts.take_over(part, index)
        if draft is None or draft.ref is None:
            return None
        # Until the edit is confirmed, the next try must send a new message.
        self._drafts.void(part, index)
        if outgoing.files or (
            draft.shown != outgoing and not await self._is_edited(draft.ref, outgoing)
        ):
            return None
        self._drafts.void(part, None)
        draft.shown = outgoing
        return draft.ref

    async def _is_edited(self, ref: str, outgoing: OutgoingMessage) -> bool:
        edit = self._background.begin(self._edited(ref, outgoing))
        try:
            return await finishes_within(edit, _LONGEST_EDIT, self._clock) and edit.result()
        finally:
            edit.cancel()

    async def _edited(self, ref: str, outgoing: OutgoingMessage) -> bool:
        try:
            await self._channel.edit(ref, outgoing)
        except (DeliveryFailed, Unreachable, DeliveryUncertain):
            return False
        return True

    def _index(self, part: ChatMessage) -> int:
        """The position among the parts, by identity first: two parts may be equal."""
        parts = self._on_its_way.get(part.id, ())
        identical = (index for index, each in enumerate(parts) if each is part)
        equal = (index for index, each in enumerate(parts) if each == part)
        return next(chain(identical, equal), 0)

    def _note(
        self, part: ChatMessage, index: int, nonce: str, ref: str, outgoing: OutgoingMessage | None
    ) -> None:
        """`outgoing` is what the message shows, or None if that is recorded already."""
        is_last = index + 1 >= len(self._on_its_way.get(part.id, ()))
        self._arrived.put(nonce, ref)
        self._refs.put(part.id, {**(self._refs.get(part.id) or {}), index: ref})
        if outgoing is not None:
            self._revisions.shown(ref, outgoing)
        self._drafts.arrived(part, ref, is_last=is_last)
        newest = self._newest.get(part.id)
        now = () if newest is None else parts_of(newest)
        if index < len(now):
            self._revisions.want(ref, outgoing_of(now[index]))
        if is_last:
            self._leave(part.id)

    def _leave_behind(self, part: ChatMessage) -> None:
        """Messages come in order: earlier ones will not be delivered any more."""
        waiting = list(self._on_its_way)
        for each in waiting[: waiting.index(part.id)] if part.id in waiting else ():
            self._leave(each)

    def _leave(self, message_id: MessageId) -> None:
        self._on_its_way.pop(message_id, None)
        self._newest = {
            name: each for name, each in self._newest.items() if name in self._on_its_way
        }
        self._has_moved.set()

    async def _seen(self, since: datetime) -> Sequence[ReceivedMessage]:
        """Oldest first: all messages since then, and the newest in any case."""
        try:
            newest = await self._channel.newest(_LOOK_BACK)
            if len(newest) < _LOOK_BACK or newest[0].at < since:
                return newest
            return [*await self._channel.after(_ref_at(since)), *newest]
        except HistoryHidden as hidden:
            raise DeliveryUncertain(str(hidden)) from hidden


def _first(seen: Iterable[ReceivedMessage]) -> str | None:
    return next((each.ref for each in seen), None)


def _ref_at(moment: datetime) -> str:
    """The id that a message of that moment would have."""
    return str(max(0, int(moment.timestamp() * 1000) - _DISCORD_EPOCH) << 22)


def _says(seen: ReceivedMessage, outgoing: OutgoingMessage) -> bool:
    card = "" if outgoing.card is None else outgoing.card.text
    same_words = undated(seen.text).split() == (outgoing.text or card).split()
    return same_words and len(seen.files) == len(outgoing.files)
