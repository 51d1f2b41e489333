"""Turns and answers on a channel in memory, with the delivery that the outbox does, in short."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

from tests.discord.fake_channel import FakeChannel

from ollim_bot.domain.chat import Author, ChatMessage, MessageId, TurnId
from ollim_bot.domain.events import AgentEvent, EndCause, TurnEnded
from ollim_bot.domain.inputs import InputId
from ollim_bot.errors import DeliveryUncertain, Unreachable
from ollim_bot.ports import TurnStart
from ollim_bot.surfaces.discord.background_tasks import BackgroundTasks
from ollim_bot.surfaces.discord.delivery import DiscordDelivery
from ollim_bot.surfaces.discord.draft_renderer import DiscordPresenter
from ollim_bot.surfaces.discord.drafts import Drafts
from ollim_bot.surfaces.discord.messages import OutgoingMessage
from ollim_bot.surfaces.discord.rendering import outgoing_of, parts_of
from ollim_bot.testing.clock import ManualClock

NOON = datetime(2026, 2, 24, 12, 0, tzinfo=UTC)


class OpenDrafts:
    """Doubles `DraftMemory`; `ever` has all that it was told of."""

    def __init__(self) -> None:
        self.refs: set[str] = set()
        self.ever: set[str] = set()

    def add_draft(self, ref: str) -> None:
        self.refs.add(ref)
        self.ever.add(ref)

    def remove_draft(self, ref: str) -> None:
        self.refs.discard(ref)


class Turn:
    """A turn that is presented. Events are taken when the clock moves, or at once by `show`."""

    def __init__(self, presenter: DiscordPresenter, start: TurnStart) -> None:
        self.id = start.turn
        self._queue: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        self.presented = asyncio.create_task(presenter.present(start, self._events()))

    async def show(self, *events: AgentEvent) -> None:
        for event in events:
            self._queue.put_nowait(event)
        await self._queue.join()

    async def end(self, cause: EndCause = EndCause.COMPLETED) -> None:
        """Returns when `present` does, which waits for no request."""
        self._queue.put_nowait(TurnEnded(cause))
        self._queue.put_nowait(None)
        async with asyncio.timeout(5):
            await self.presented

    async def _events(self) -> AsyncIterator[AgentEvent]:
        while (event := await self._queue.get()) is not None:
            yield event
            self._queue.task_done()


class Scene:
    def __init__(self) -> None:
        self.clock = ManualClock(NOON)
        self.channel = FakeChannel(self.clock)
        self.memory = OpenDrafts()
        self.in_fork = False
        self.background = BackgroundTasks(self.clock)
        self.drafts = Drafts(self.channel, self.clock, self.background, self.memory)
        self.presenter = DiscordPresenter(
            self.channel, self.drafts, self.clock, self.background, lambda: self.in_fork
        )
        self.courier = DiscordDelivery(self.channel, self.drafts, self.background, self.clock)
        self._numbers = count(1)
        self._turns: list[Turn] = []

    async def close(self) -> None:
        for turn in self._turns:
            turn.presented.cancel()
        await asyncio.gather(*(turn.presented for turn in self._turns), return_exceptions=True)
        await self.background.close()

    async def begin(self) -> Turn:
        """A turn that has shown its first sign, where that is possible."""
        number = next(self._numbers)
        start = TurnStart(TurnId(f"turn-{number}"), self.clock.now(), (InputId(f"in-{number}"),))
        turn = Turn(self.presenter, start)
        self._turns.append(turn)
        await self.clock.advance(0)
        return turn

    def answer(self, turn: Turn | None, text: str) -> ChatMessage:
        return ChatMessage(
            MessageId(f"message-{next(self._numbers)}"),
            self.clock.now(),
            Author.ASSISTANT,
            text,
            turn=None if turn is None else turn.id,
            refs={"discord": ""},
        )

    def note(self, turn: Turn, text: str) -> ChatMessage:
        return replace(self.answer(turn, text), author=Author.PROGRAM)

    async def deliver(self, message: ChatMessage) -> list[str]:
        """Post a message and hand its parts over, in order, each until it has arrived."""
        self.courier.changed(message)
        refs = []
        for index, part in enumerate(self.courier.parts(message)):
            with self.time_goes_on():
                refs.append(await self._arrived(part, nonce_of(message, index)))
        return refs

    async def _arrived(self, part: ChatMessage, nonce: str) -> str:
        for pause in (1, 2, 4, 8, 16, 32):
            try:
                return await self.courier.deliver(part, nonce)
            except (Unreachable, DeliveryUncertain):
                await self.clock.sleep(pause)
        return await self.courier.deliver(part, nonce)

    @contextmanager
    def time_goes_on(self) -> Iterator[None]:
        """So that what waits for the clock inside comes to its end."""

        async def go_on() -> None:
            while True:
                await self.clock.advance(0.1)

        going = asyncio.create_task(go_on())
        try:
            yield
        finally:
            going.cancel()

    async def settle(self) -> None:
        """Until everything that was begun is over, and some."""
        await self.clock.advance(90)

    def requests(self, *names: str) -> list[str]:
        """The calls that had an allowance to keep to."""
        return [name for name, _ in self.channel.calls if name in (names or ("send", "edit"))]


def nonce_of(message: ChatMessage, index: int) -> str:
    return hashlib.blake2s(f"{message.id} {index}".encode(), digest_size=12).hexdigest()


def letters_of(message: ChatMessage) -> list[OutgoingMessage]:
    return [outgoing_of(part) for part in parts_of(message)]


def texts_of(message: ChatMessage) -> list[str]:
    return [outgoing.text for outgoing in letters_of(message)]
