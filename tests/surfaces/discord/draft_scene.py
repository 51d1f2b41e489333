"""Turns and answers on a channel in memory, delivered by the delivery queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

from devtools.doubles.clock import ManualClock
from devtools.doubles.repeating_store import RepeatingStore
from tests.kernel.conversation.scene import InlineExecutor
from tests.surfaces.discord.fake_channel import FakeChannel

from ollim_bot.kernel.base.ids import MessageId, TurnId
from ollim_bot.kernel.conversation.delivery import DeliveryQueue
from ollim_bot.kernel.store.delivery_rows import Delivery, DeliveryState, part_nonce
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.events import AgentEvent, EndCause, TurnEnded
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import ChatService, MessagePart, Status, TurnStart
from ollim_bot.kernel.values.taint import CarefulTime
from ollim_bot.surfaces.discord.background_tasks import BackgroundTasks
from ollim_bot.surfaces.discord.drafts import DiscordPresenter, Drafts
from ollim_bot.surfaces.discord.rendering import OutgoingMessage, outgoing_of, parts_of
from ollim_bot.surfaces.discord.surface import DiscordDelivery

NOON = datetime(2026, 2, 24, 12, 0, tzinfo=UTC)


class FakeDraftMemory:
    """Doubles `DraftMemory`; `ever` has all drafts that were ever added."""

    def __init__(self) -> None:
        self.refs: set[str] = set()
        self.ever: set[str] = set()

    def add_draft(self, ref: str) -> None:
        self.refs.add(ref)
        self.ever.add(ref)

    def remove_draft(self, ref: str) -> None:
        self.refs.discard(ref)


class PresentedTurn:
    """A turn that the presenter shows. `show` waits until its events are taken."""

    def __init__(self, presenter: DiscordPresenter, start: TurnStart, store: Store) -> None:
        self.id = start.turn
        self._store = store
        self._queue: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        self.presented = asyncio.create_task(presenter.present(start, self._events()))

    async def show(self, *events: AgentEvent) -> None:
        for event in events:
            self._queue.put_nowait(event)
        await self._queue.join()

    async def end(self, cause: EndCause = EndCause.COMPLETED) -> None:
        """End the turn and wait until `present` returns, which waits for no request."""
        posted = self._store.run(lambda tx: tx.messages.of_turn(self.id))
        messages = tuple(each.message.id for each in posted)
        self._queue.put_nowait(TurnEnded(cause, messages=messages))
        self._queue.put_nowait(None)
        async with asyncio.timeout(60):
            await self.presented

    async def _events(self) -> AsyncIterator[AgentEvent]:
        while (event := await self._queue.get()) is not None:
            yield event
            self._queue.task_done()


class FakeSurface(DiscordDelivery):
    """A `Channel` without a connection."""

    name = "discord"

    def concerns(self, message: ChatMessage) -> bool:  # noqa: ARG002
        return True

    async def run(self, _: ChatService) -> None:
        raise NotImplementedError

    async def present(self, start: TurnStart, events: AsyncIterator[AgentEvent]) -> None:
        raise NotImplementedError

    async def changed(self, status: Status) -> None:
        raise NotImplementedError

    async def connected(self) -> str:
        return "dm-1"


class DraftScene:
    """Drafts, presenter and delivery on one fake channel.

    The queue runs from the first `deliver` or `settle` on.
    """

    def __init__(self) -> None:
        self.clock = ManualClock(NOON)
        self.channel = FakeChannel(self.clock)
        self.memory = FakeDraftMemory()
        self.in_fork = False
        self.careful: CarefulTime | None = None
        self.background = BackgroundTasks(self.clock)
        self.drafts = Drafts(self.channel, self.clock, self.background, self.memory)
        self.presenter = DiscordPresenter(
            self.channel,
            self.drafts,
            self.clock,
            self.background,
            lambda: self.in_fork,
            lambda: self.careful,
        )
        self.store = RepeatingStore(self.clock.now)
        self.store.run(lambda tx: tx.channels.join("discord", ""))
        self.surface = FakeSurface(self.channel, self.drafts, self.clock)
        self._queue = DeliveryQueue(self.store, self.surface, self.clock)
        self._delivering: asyncio.Task[None] | None = None
        self._numbers = count(1)
        self._turns: list[PresentedTurn] = []

    async def close(self) -> None:
        tasks = [turn.presented for turn in self._turns]
        if self._delivering is not None:
            tasks.append(self._delivering)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.background.close()

    async def begin(self, *events: AgentEvent, seconds: float = 0.0) -> PresentedTurn:
        """Begin a turn and let it show its first draft, if the channel works.

        Then these events come, and so many seconds pass.
        """
        asyncio.get_running_loop().set_default_executor(InlineExecutor())
        number = next(self._numbers)
        start = TurnStart(TurnId(f"turn-{number}"), self.clock.now(), (InputId(f"in-{number}"),))
        turn = PresentedTurn(self.presenter, start, self.store)
        self._turns.append(turn)
        await self.clock.advance(0)
        if events:
            await turn.show(*events)
        if seconds:
            await self.clock.advance(seconds)
        return turn

    async def finish(self, turn: PresentedTurn, cause: EndCause = EndCause.COMPLETED) -> None:
        """End the turn, and let everything that was begun end."""
        await turn.end(cause)
        await self.settle()

    def answer(self, turn: PresentedTurn | None, text: str) -> ChatMessage:
        return ChatMessage(
            MessageId(f"message-{next(self._numbers)}"),
            self.clock.now(),
            Author.ASSISTANT,
            text,
            turn=None if turn is None else turn.id,
        )

    def note(self, turn: PresentedTurn, text: str) -> ChatMessage:
        return replace(self.answer(turn, text), author=Author.PROGRAM)

    def post(self, message: ChatMessage) -> None:
        """Add it to the log; the queue delivers it if it runs."""
        self.store.run(lambda tx: tx.messages.add(message))

    async def deliver(self, message: ChatMessage) -> list[str]:
        """Post a message and wait until the channel shows its newest version; gives its ids."""
        self.post(message)
        self.start()
        for seconds in (*[0.1] * 100, *[5.0] * 400):
            if self._is_shown(message.id):
                break
            await self.clock.advance(seconds)
        assert self._is_shown(message.id)
        return list(self.delivery(message.id).refs)

    def delivery(self, message_id: MessageId) -> Delivery:
        found = self.store.run(lambda tx: tx.deliveries.get("discord", message_id))
        assert found is not None
        return found

    def _is_shown(self, message_id: MessageId) -> bool:
        delivery = self.delivery(message_id)
        is_over = delivery.state is not DeliveryState.OPEN
        return is_over and delivery.shown_change == delivery.logged.change

    async def restart(self) -> None:
        """Restart the program: only stored data and the channel stay."""
        await self.pause()
        self.drafts = Drafts(self.channel, self.clock, self.background, self.memory)
        self.surface = FakeSurface(self.channel, self.drafts, self.clock)
        self._queue = DeliveryQueue(self.store, self.surface, self.clock)

    async def pause(self) -> None:
        """Stop the queue until `start`."""
        if self._delivering is not None:
            self._delivering.cancel()
            await asyncio.gather(self._delivering, return_exceptions=True)
        self._delivering = None

    def start(self) -> None:
        if self._delivering is None:
            self._delivering = asyncio.create_task(self._queue.run())

    @contextmanager
    def time_goes_on(self) -> Iterator[None]:
        """Advance the clock all the time, so that waiting inside of the context ends."""

        async def go_on() -> None:
            while True:
                await self.clock.advance(0.1)

        going = asyncio.create_task(go_on())
        try:
            yield
        finally:
            going.cancel()

    async def settle(self) -> None:
        """Let enough time pass for everything that was begun to end."""
        self.start()
        await self.clock.advance(90)

    def requests(self, *names: str) -> list[str]:
        """The names of all calls that count against the rate limit, or of these calls."""
        return [name for name, _ in self.channel.calls if name in (names or ("send", "edit"))]


def part_of(message: ChatMessage, nonce: str = "") -> MessagePart:
    """The only part of a message."""
    [content] = parts_of(message)
    return MessagePart(content, 0, nonce or part_nonce(message.id, 0))


def outgoing_messages(message: ChatMessage) -> list[OutgoingMessage]:
    return [outgoing_of(part) for part in parts_of(message)]


def texts_of(message: ChatMessage) -> list[str]:
    return [outgoing.text for outgoing in outgoing_messages(message)]
