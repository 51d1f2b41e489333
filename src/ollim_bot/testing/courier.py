"""A service on the other side, with all the ways in which it may fail, and what couriers promise.

Derive a class from the contract, say how to make the courier, and let a test runner collect it.
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


class Mishap(StrEnum):
    """What befalls a message that is handed over."""

    NONE = "none"
    REQUEST_LOST = "it does not arrive, and nobody says so"
    ANSWER_LOST = "it arrives, and nobody says so"
    LATE = "it arrives when `let_late_ones_in` is called, and nobody says so"
    FAULT = "it arrives, and the program of the courier fails"
    BROKEN_OFF = "it arrives, and the program of the courier is closed"


@dataclass(frozen=True, slots=True)
class Arrival:
    id: str
    nonce: str
    text: str
    at: datetime


class FarService:
    """Doubles `ConfirmedChannel`, and the service behind it, which lives on when the bot dies.

    Its clock is the true one, whatever the bot's says. It forgets a nonce after `remembers`; then
    nobody who reads back sees it either. With `is_hidden` it lets nobody read; `reach` is how many
    messages can be read at most. While `may_answer` is not set, everything arrives and nothing is
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
        self.history: list[Arrival] = []
        self.mishaps: deque[Mishap] = deque()
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
        """What has arrived from the bot, in order: what was doubled stands here twice."""
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
        mishap = self.mishaps.popleft() if self.mishaps else Mishap.NONE
        if mishap is Mishap.LATE:
            self._late.append((part, nonce))
        if mishap in (Mishap.LATE, Mishap.REQUEST_LOST):
            raise DeliveryUncertain("No answer came.")
        ref = self._let_in(part, nonce)
        await self.may_answer.wait()
        if mishap is Mishap.ANSWER_LOST:
            raise DeliveryUncertain("No answer came.")
        if mishap is Mishap.FAULT:
            raise RuntimeError("a courier with a fault")
        if mishap is Mishap.BROKEN_OFF:
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

    def let_late_ones_in(self) -> None:
        late, self._late = self._late, []
        for part, nonce in late:
            self._let_in(part, nonce)

    def talk_on(self, messages: int) -> None:
        """Others write there too."""
        for _ in range(messages):
            self.history.append(Arrival(str(next(self._ids)), "", "words", self._clock.now()))

    def _let_in(self, part: ChatMessage, nonce: str) -> str:
        for each in self.history:
            if each.nonce == nonce and self._is_remembered(each):
                return each.id
        arrival = Arrival(str(next(self._ids)), nonce, part.text, self._clock.now())
        self.history.append(arrival)
        return arrival.id

    def _is_same(self, arrival: Arrival, part: ChatMessage, nonce: str) -> bool:
        if self._is_remembered(arrival):
            return arrival.nonce == nonce
        return arrival.text == part.text and bool(arrival.nonce)

    def _is_remembered(self, arrival: Arrival) -> bool:
        return self._clock.now() - arrival.at < self._remembers


class CourierContract(ABC):
    """The courier's service is up, and there is nothing on it."""

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
