"""A service that confirms messages, all the ways in which it may fail, and what channels promise.

Derive a class from the contract, say how to make the channel, and let a test runner collect it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import count

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import DeliveryFailed, DeliveryUncertain, Unreachable
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.events import AgentEvent
from ollim_bot.kernel.values.ports import Channel, ChatService, MessagePart, Status, TurnStart

_NEWEST = 20


class DeliveryFault(StrEnum):
    """What happens to a message that is handed over."""

    NONE = "none"
    REQUEST_LOST = "it does not arrive, and no answer comes"
    ANSWER_LOST = "it arrives, and no answer comes"
    LATE = "it arrives when `deliver_late` is called, and no answer comes"
    FAULT = "it arrives, and the program of the channel fails"
    BROKEN_OFF = "it arrives, and the program of the channel is closed"


@dataclass(frozen=True, slots=True)
class ReceivedPart:
    id: str
    nonce: str
    text: str
    at: datetime


class FakeChatService:
    """Doubles `Channel`, and the service behind it, which lives on when the bot dies.

    The clock of the service is right, also if the bot's is wrong. The service forgets a nonce after
    `remembers`; reading back does not show it then, either. With `is_hidden` nothing can be read;
    `reach` is how many messages can be read at most. While `may_answer` is not set, everything
    arrives and nothing is answered. `drafts` has the ids that a turn has drawn there. `edits`
    counts the edits; `account` is the one that the service delivers to. `ends` has each message
    that came to its end, with its ids.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        name: str = "discord",
        remembers: timedelta = timedelta(minutes=3),
        longest: int = 2000,
    ) -> None:
        self.name = name
        self.account = "owner-1"
        self.history: list[ReceivedPart] = []
        self.drafts: dict[str, list[str]] = {}
        self.ends: list[tuple[MessageId, tuple[str, ...]]] = []
        self.edits = 0
        self.faults: deque[DeliveryFault] = deque()
        self.is_down = False
        self.refusal = ""
        self.is_hidden = False
        self.reach: int | None = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.tries = 0
        self.readings = 0
        self._clock = clock
        self._remembers = remembers
        self._longest = longest
        self._late: list[MessagePart] = []
        self._ids = count(1001)

    def copied(self, clock: Clock) -> FakeChatService:
        """A service with the same messages, by another clock."""
        copied = copy(self)
        copied.history = [*self.history]
        copied.drafts = {turn: [*drafts] for turn, drafts in self.drafts.items()}
        copied.ends = [*self.ends]
        copied.faults = self.faults.copy()
        copied._late = [*self._late]
        copied._clock = clock
        return copied

    @property
    def texts(self) -> list[str]:
        """The texts that arrived from the bot, in order; a doubled text is there twice."""
        return [each.text for each in self.history if each.nonce]

    def concerns(self, message: ChatMessage) -> bool:  # noqa: ARG002
        return True

    def parts(self, message: ChatMessage) -> Sequence[ChatMessage]:
        text, size = message.text, self._longest
        cuts = range(0, max(1, len(text)), size)
        return [replace(message, text=text[cut : cut + size]) for cut in cuts]

    async def run(self, _: ChatService) -> None:
        await asyncio.Event().wait()

    async def present(self, _: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        async for _event in events:
            pass

    async def changed(self, status: Status) -> None:
        pass

    async def connected(self) -> str:
        return self.account

    def draw(self, turn: str, text: str) -> str:
        """Put a draft of a turn there, as the surface does."""
        arrival = ReceivedPart(str(next(self._ids)), f"draft-{turn}", text, self._clock.now())
        self.history.append(arrival)
        self.drafts.setdefault(turn, []).append(arrival.id)
        return arrival.id

    async def take_drafts(
        self, message: ChatMessage, parts: Sequence[ChatMessage]
    ) -> Sequence[str]:
        return self.drafts.get(message.turn or "", [])[: len(parts)]

    def discard(self, refs: Sequence[str]) -> None:
        self.history = [each for each in self.history if each.id not in refs]
        for turn, drafts in self.drafts.items():
            self.drafts[turn] = [each for each in drafts if each not in refs]

    def ended(self, message: ChatMessage, refs: Sequence[str]) -> None:
        self.ends.append((message.id, tuple(refs)))

    async def edit(self, ref: str, content: ChatMessage) -> None:
        self.edits += 1
        if self.is_down:
            raise Unreachable("There is no network.")
        await self.may_answer.wait()
        known = next((index for index, each in enumerate(self.history) if each.id == ref), None)
        if known is None:
            raise DeliveryFailed("That message is gone.")
        self.history[known] = replace(self.history[known], text=content.text)

    async def deliver(self, part: MessagePart) -> str:
        self.tries += 1
        if self.is_down:
            raise Unreachable("There is no network.")
        if self.refusal:
            raise DeliveryFailed(self.refusal)
        fault = self.faults.popleft() if self.faults else DeliveryFault.NONE
        if fault is DeliveryFault.LATE:
            self._late.append(part)
        if fault in (DeliveryFault.LATE, DeliveryFault.REQUEST_LOST):
            raise DeliveryUncertain("No answer came.")
        ref = self._let_in(part)
        await self.may_answer.wait()
        if fault is DeliveryFault.ANSWER_LOST:
            raise DeliveryUncertain("No answer came.")
        if fault is DeliveryFault.FAULT:
            raise RuntimeError("a channel with a fault")
        if fault is DeliveryFault.BROKEN_OFF:
            raise asyncio.CancelledError
        return ref

    async def find(self, part: MessagePart, since: datetime, others: Collection[str]) -> str | None:
        self.readings += 1
        if self.is_down:
            raise Unreachable("There is no network.")
        await self.may_answer.wait()
        if self.is_hidden:
            raise DeliveryUncertain("Nothing can be read.")
        reach = len(self.history) if self.reach is None else self.reach
        for age, each in enumerate(reversed(self.history)):
            if age >= reach:
                raise DeliveryUncertain("There came too much after it.")
            if age >= _NEWEST and each.at < since:
                break
            if self._is_same(each, part) and each.id not in others:
                return each.id
        return None

    def deliver_late(self) -> None:
        late, self._late = self._late, []
        for part in late:
            self._let_in(part)

    def add_foreign(self, messages: int) -> None:
        """Put messages of others there."""
        for _ in range(messages):
            self.history.append(ReceivedPart(str(next(self._ids)), "", "words", self._clock.now()))

    def _let_in(self, part: MessagePart) -> str:
        for each in self.history:
            if each.nonce == part.nonce and self._is_remembered(each):
                return each.id
        arrival = ReceivedPart(
            str(next(self._ids)), part.nonce, part.content.text, self._clock.now()
        )
        self.history.append(arrival)
        return arrival.id

    def _is_same(self, arrival: ReceivedPart, part: MessagePart) -> bool:
        if self._is_remembered(arrival):
            return arrival.nonce == part.nonce
        return arrival.text == part.content.text and bool(arrival.nonce)

    def _is_remembered(self, arrival: ReceivedPart) -> bool:
        return self._clock.now() - arrival.at < self._remembers


class ChannelContract(ABC):
    """What every channel promises. The service is up, and has no messages."""

    message = ChatMessage(
        MessageId("1"), datetime(2026, 2, 24, 10, 15, tzinfo=UTC), Author.BACKGROUND, "stand up"
    )

    @abstractmethod
    def make(self) -> Channel: ...

    def part(self, channel: Channel, nonce: str = "0" * 24) -> MessagePart:
        [content] = channel.parts(self.message)
        return MessagePart(content, 0, nonce)

    def test_a_message_is_divided_in_the_same_way_each_time(self) -> None:
        channel, long = self.make(), replace(self.message, text="word " * 1000)
        assert len(channel.parts(self.message)) == 1
        assert list(channel.parts(long)) == list(channel.parts(long))

    async def test_a_message_without_a_turn_takes_no_drafts_over(self) -> None:
        channel = self.make()
        assert list(await channel.take_drafts(self.message, channel.parts(self.message))) == []

    async def test_what_was_delivered_is_found_under_the_id_that_was_given(self) -> None:
        channel = self.make()
        part = self.part(channel)
        assert await channel.find(part, self.message.at, ()) is None
        ref = await channel.deliver(part)
        assert await channel.find(part, self.message.at, ()) == ref

    async def test_another_message_that_says_the_same_is_another_one(self) -> None:
        channel = self.make()
        part, other = self.part(channel), self.part(channel, "1" * 24)
        first = await channel.deliver(part)
        assert await channel.find(other, self.message.at, {first}) is None
        second = await channel.deliver(other)
        assert second != first
        assert await channel.find(other, self.message.at, {first}) == second

    async def test_a_nonce_that_is_remembered_doubles_nothing(self) -> None:
        channel = self.make()
        part = self.part(channel)
        ref = await channel.deliver(part)
        assert await channel.deliver(part) == ref

    async def test_an_edit_can_be_repeated(self) -> None:
        channel = self.make()
        ref = await channel.deliver(self.part(channel))
        edited = replace(self.message, text="sit down")
        for _ in range(2):
            [content] = channel.parts(edited)
            await channel.edit(ref, content)

    async def test_what_never_stood_there_cannot_be_edited(self) -> None:
        channel = self.make()
        try:
            await channel.edit("1", self.message)
        except DeliveryFailed:
            return
        raise AssertionError("it was edited")
