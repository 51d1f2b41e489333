"""A chat service with all the ways in which it may fail, and the contract of couriers.

Derive a class from the contract, make the courier, and let a test runner collect it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import count

from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.errors import DeliveryFailed, DeliveryUncertain, Unreachable
from ollim_bot.ports import Clock, ConfirmedChannel

_NEWEST = 20


class DeliveryFault(StrEnum):
    """What happens to a message that is handed over."""

    NONE = "none"
    REQUEST_LOST = "it does not arrive, and no answer comes"
    ANSWER_LOST = "it arrives, and no answer comes"
    LATE = "it arrives when `deliver_late` is called, and no answer comes"
    FAULT = "it arrives, and the program of the courier fails"
    BROKEN_OFF = "it arrives, and the program of the courier is closed"


@dataclass(frozen=True, slots=True)
class DeliveredMessage:
    id: str
    nonce: str
    text: str
    at: datetime


class FakeChatService:
    """Doubles `ConfirmedChannel`, and the service behind it, which outlives the bot.

    Its clock is the true one, whatever the bot's clock says. It forgets a nonce after `remembers`;
    the nonce is then no longer visible either. With `is_hidden` it lets no one read; `reach` limits
    how many messages can be read. While `may_answer` is cleared, messages arrive and no call is
    answered.
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
        self.history: list[DeliveredMessage] = []
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
        self._late: list[tuple[ChatMessage, str]] = []
        self._ids = count(1001)

    @property
    def texts(self) -> list[str]:
        """The bot's messages in order; a duplicate is here twice."""
        return [each.text for each in self.history if each.nonce]

    def parts(self, message: ChatMessage) -> Sequence[ChatMessage]:
        text, size = message.text, self._longest
        cuts = range(0, max(1, len(text)), size)
        return [replace(message, text=text[cut : cut + size]) for cut in cuts]

    async def deliver(self, part: ChatMessage, nonce: str) -> str:
        self.tries += 1
        if self.is_down:
            raise Unreachable("There is no network.")
        if self.refusal:
            raise DeliveryFailed(self.refusal)
        fault = self.faults.popleft() if self.faults else DeliveryFault.NONE
        if fault is DeliveryFault.LATE:
            self._late.append((part, nonce))
        if fault in (DeliveryFault.LATE, DeliveryFault.REQUEST_LOST):
            raise DeliveryUncertain("No answer came.")
        ref = self._let_in(part, nonce)
        await self.may_answer.wait()
        if fault is DeliveryFault.ANSWER_LOST:
            raise DeliveryUncertain("No answer came.")
        if fault is DeliveryFault.FAULT:
            raise RuntimeError("a courier with a fault")
        if fault is DeliveryFault.BROKEN_OFF:
            raise asyncio.CancelledError
        return ref

    async def find(
        self, part: ChatMessage, nonce: str, since: datetime, others: Collection[str]
    ) -> str | None:
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
            if self._is_same(each, part, nonce) and each.id not in others:
                return each.id
        return None

    def deliver_late(self) -> None:
        late, self._late = self._late, []
        for part, nonce in late:
            self._let_in(part, nonce)

    def add_foreign(self, messages: int) -> None:
        """Add messages of other people."""
        for _ in range(messages):
            self.history.append(
                DeliveredMessage(str(next(self._ids)), "", "words", self._clock.now())
            )

    def _let_in(self, part: ChatMessage, nonce: str) -> str:
        for each in self.history:
            if each.nonce == nonce and self._is_remembered(each):
                return each.id
        arrival = DeliveredMessage(str(next(self._ids)), nonce, part.text, self._clock.now())
        self.history.append(arrival)
        return arrival.id

    def _is_same(self, arrival: DeliveredMessage, part: ChatMessage, nonce: str) -> bool:
        if self._is_remembered(arrival):
            return arrival.nonce == nonce
        return arrival.text == part.text and bool(arrival.nonce)

    def _is_remembered(self, arrival: DeliveredMessage) -> bool:
        return self._clock.now() - arrival.at < self._remembers


class CourierContract(ABC):
    """The courier's service is up and empty."""

    message = ChatMessage(
        MessageId("1"), datetime(2026, 2, 24, 10, 15, tzinfo=UTC), Author.BACKGROUND, "stand up"
    )
    nonce = "0" * 24

    @abstractmethod
    def make(self) -> ConfirmedChannel: ...

    def test_a_message_is_divided_in_the_same_way_each_time(self) -> None:
        courier, long = self.make(), replace(self.message, text="word " * 1000)
        assert len(courier.parts(self.message)) == 1
        assert list(courier.parts(long)) == list(courier.parts(long))

    async def test_what_was_delivered_is_found_under_the_id_that_was_given(self) -> None:
        courier = self.make()
        [part] = courier.parts(self.message)
        assert await courier.find(part, self.nonce, self.message.at, ()) is None
        ref = await courier.deliver(part, self.nonce)
        assert await courier.find(part, self.nonce, self.message.at, ()) == ref

    async def test_another_message_that_says_the_same_is_another_one(self) -> None:
        courier = self.make()
        [part] = courier.parts(self.message)
        first = await courier.deliver(part, self.nonce)
        assert await courier.find(part, "1" * 24, self.message.at, {first}) is None
        second = await courier.deliver(part, "1" * 24)
        assert second != first
        assert await courier.find(part, "1" * 24, self.message.at, {first}) == second

    async def test_a_nonce_that_is_remembered_doubles_nothing(self) -> None:
        courier = self.make()
        [part] = courier.parts(self.message)
        ref = await courier.deliver(part, self.nonce)
        assert await courier.deliver(part, self.nonce) == ref
