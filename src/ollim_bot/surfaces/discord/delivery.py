"""Delivers messages to Discord, each exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import chain

from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.errors import DeliveryFailed, DeliveryUncertain, Unreachable
from ollim_bot.ports import Clock
from ollim_bot.surfaces.discord.background_tasks import BackgroundTasks, Recent, is_over
from ollim_bot.surfaces.discord.drafts import Drafts
from ollim_bot.surfaces.discord.messages import (
    NAME,
    Channel,
    Hidden,
    OutgoingMessage,
    ReceivedMessage,
)
from ollim_bot.surfaces.discord.rendering import dated, letter_of, parts_of, undated


class Revisions:
    """Edits each message until it shows what was wanted last, one edit at a time.

    What a message from before the last start shows is not known, so it is edited once. A message
    that is gone is left alone.
    """

    def __init__(self, channel: Channel, errands: BackgroundTasks) -> None:
        self._channel = channel
        self._errands = errands
        self._shown: Recent[OutgoingMessage] = Recent()
        self._wanted: dict[str, OutgoingMessage] = {}

    def shown(self, ref: str, letter: OutgoingMessage) -> None:
        """It was delivered like this."""
        self._shown.put(ref, letter)

    def knows(self, ref: str) -> bool:
        """Whether it was delivered or changed, as far as anybody remembers."""
        return ref in self._shown

    def want(self, ref: str, letter: OutgoingMessage) -> None:
        is_begun = ref in self._wanted
        self._wanted[ref] = letter
        if not is_begun:
            self._errands.send_off(self._revised(ref))

    async def _revised(self, ref: str) -> None:
        try:
            while (wanted := self._wanted[ref]) != self._shown.get(ref):
                if not await self._errands.keep_trying(lambda: self._edited(ref)):
                    self._shown.put(ref, wanted)
        finally:
            del self._wanted[ref]

    async def _edited(self, ref: str) -> None:
        """A try that comes late brings what is wanted by then."""
        letter = self._wanted[ref]
        await self._channel.edit(ref, letter)
        self._shown.put(ref, letter)


# Somebody waits for the words; but it has to be longer than rate limits keep an edit waiting.
_LONGEST_EDIT = 8.0
_LOOK_BACK = 100
_DISCORD_EPOCH = 1_420_070_400_000


class DiscordCourier:
    """A `ConfirmedChannel`."""

    name = NAME

    def __init__(
        self, channel: Channel, drafts: Drafts, errands: BackgroundTasks, clock: Clock
    ) -> None:
        self._channel = channel
        self._drafts = drafts
        self._errands = errands
        self._clock = clock
        self._revisions = Revisions(channel, errands)
        self._arrived: Recent[str] = Recent()
        self._refs: Recent[dict[int, str]] = Recent()
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
        letter, index = letter_of(part), self._index(part)
        if index == 0:
            letter = dated(letter, part.at, self._clock.now())
        ref = await self._put_in_place(part, index, letter)
        if ref is None:
            try:
                ref = await self._channel.send(letter, nonce)
            except DeliveryFailed:
                self._drafts.refused(part)
                self._leave(part.id)
                raise
        self._note(part, index, nonce, ref, letter)
        return ref

    async def find(
        self, part: ChatMessage, nonce: str, since: datetime, others: Collection[str]
    ) -> str | None:
        self._leave_behind(part)
        letter = letter_of(part)
        known = ref = self._arrived.get(nonce)
        if ref is None:
            ours = [each for each in reversed(await self._seen(since)) if each.is_ours]
            # A part that took the place of a draft has the nonce of that one.
            same_words = (
                each
                for each in ours
                if each.ref not in others
                and _says(each, letter)
                and not self._drafts.is_of_another(each.ref, part.turn)
            )
            ref = _first(each for each in ours if each.nonce == nonce) or _first(same_words)
        if ref is not None:
            # What was delivered in this life shows what it was then, whatever it is to show now.
            shows = None if known else letter
            self._note(part, self._index(part), nonce, ref, shows)
        return ref

    def changed(self, message: ChatMessage) -> None:
        """A message was posted again. What stands on Discord of it is edited soon.

        While it is still on its way, that is done after it has arrived. If it now has more or fewer
        parts than there are messages, the messages that are there show as much as they can.
        """
        ref = message.refs.get(NAME)
        if ref is None:
            return
        if not ref:
            self._drafts.announce(message)
        if not ref or message.id in self._on_its_way:
            self._newest[message.id] = message
        # What has arrived may not be written down yet.
        refs = dict(enumerate(ref.split())) or self._refs.get(message.id) or {}
        for index, part in enumerate(parts_of(message)):
            if index in refs:
                self._revisions.want(refs[index], letter_of(part))

    def knows(self, ref: str) -> bool:
        """Whether it was delivered since the start, though the log may not say so yet."""
        return self._revisions.knows(ref)

    async def caught_up(self) -> None:
        """Returns when all that is on its way now has arrived, or never will."""
        waiting = set(self._on_its_way)
        while not waiting.isdisjoint(self._on_its_way):
            self._has_moved.clear()
            await self._has_moved.wait()

    async def _put_in_place(
        self, part: ChatMessage, index: int, letter: OutgoingMessage
    ) -> str | None:
        """None if there is no draft that the part could be edited into."""
        draft = await self._drafts.take_over(part, index)
        if draft is None or draft.ref is None:
            return None
        # From here until the edit is confirmed, whatever happens, the next try sends it anew.
        self._drafts.void(part, index)
        if letter.files or (draft.shown != letter and not await self._is_edited(draft.ref, letter)):
            return None
        self._drafts.void(part, None)
        draft.shown = letter
        return draft.ref

    async def _is_edited(self, ref: str, letter: OutgoingMessage) -> bool:
        edit = self._errands.begin(self._edited(ref, letter))
        try:
            return await is_over(edit, _LONGEST_EDIT, self._clock) and edit.result()
        finally:
            edit.cancel()

    async def _edited(self, ref: str, letter: OutgoingMessage) -> bool:
        try:
            await self._channel.edit(ref, letter)
        except (DeliveryFailed, Unreachable, DeliveryUncertain):
            return False
        return True

    def _index(self, part: ChatMessage) -> int:
        """Which part of its message it is. Two parts may say the same, so identity comes first."""
        parts = self._on_its_way.get(part.id, ())
        identical = (index for index, each in enumerate(parts) if each is part)
        equal = (index for index, each in enumerate(parts) if each == part)
        return next(chain(identical, equal), 0)

    def _note(
        self, part: ChatMessage, index: int, nonce: str, ref: str, letter: OutgoingMessage | None
    ) -> None:
        """`letter` is what it shows, unless that is known."""
        is_last = index + 1 >= len(self._on_its_way.get(part.id, ()))
        self._arrived.put(nonce, ref)
        self._refs.put(part.id, {**(self._refs.get(part.id) or {}), index: ref})
        if letter is not None:
            self._revisions.shown(ref, letter)
        self._drafts.arrived(part, ref, is_last=is_last)
        newest = self._newest.get(part.id)
        now = () if newest is None else parts_of(newest)
        if index < len(now):
            self._revisions.want(ref, letter_of(now[index]))
        if is_last:
            self._leave(part.id)

    def _leave_behind(self, part: ChatMessage) -> None:
        """Messages come one after the other: those before it will not be delivered any more."""
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
        """Oldest first, all since then, and the newest in any case."""
        try:
            newest = await self._channel.newest(_LOOK_BACK)
            if len(newest) < _LOOK_BACK or newest[0].at < since:
                return newest
            return [*await self._channel.after(_ref_at(since)), *newest]
        except Hidden as hidden:
            raise DeliveryUncertain(str(hidden)) from hidden


def _first(seen: Iterable[ReceivedMessage]) -> str | None:
    return next((each.ref for each in seen), None)


def _ref_at(moment: datetime) -> str:
    """The id that a message of that moment would have."""
    return str(max(0, int(moment.timestamp() * 1000) - _DISCORD_EPOCH) << 22)


def _says(seen: ReceivedMessage, letter: OutgoingMessage) -> bool:
    card = "" if letter.card is None else letter.card.text
    same_words = undated(seen.text).split() == (letter.text or card).split()
    return same_words and len(seen.files) == len(letter.files)
