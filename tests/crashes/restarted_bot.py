"""A bot that is run several times on the same stores, engine and chat service."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Self

from devtools.doubles.channel import FakeChatService
from devtools.doubles.clock import ManualClock
from devtools.doubles.memory import RecordingStore
from tests.crashes.matrix import rows_of
from tests.kernel.conversation.crashing import Crash, StepCounter, crashing_stores
from tests.kernel.conversation.delivery_scene import CrashingChannel
from tests.kernel.conversation.scene import NOW, Scene, inbox_rows, messages_of, scene
from tests.kernel.conversation.transcript_engine import ANSWER, WRITE, TranscriptEngine
from tests.stores import Stores, memory_stores, on_store

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.store.delivery_rows import Delivery
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.inbox import Ended, InboxRow, InputEnd, Taken
from ollim_bot.kernel.values.sessions import SessionChange
from ollim_bot.kernel.values.usage import micros

UPDATES = ("Mail: 3 need replies.", "The build is green.")


# What the owner does in one run of the bot.
OwnerActions = Callable[["RestartedBot", Scene], Awaitable[None]]


async def one_message(bot: RestartedBot, at: Scene) -> None:
    """The owner sends the message until it is accepted, and then waits."""
    await bot.send(at, WRITE, "m1")
    await at.quiet()
    await at.talk.notices.flush()


@dataclass
class RestartedBot:
    """All that survives a crash. By default the owner wants one thing written down.

    `rows` has all rows that the inbox ever got about it. `done` has what the owner does not do
    again in the next run: messages that were accepted, and commands. `main` is the session before
    the first run. With a `service`, which everything is delivered to, the steps of the engine do
    not count.
    """

    actions: OwnerActions = one_message
    stores: Stores = field(default_factory=lambda: memory_stores(NOW))
    engine: TranscriptEngine = field(default_factory=TranscriptEngine)
    done: set[str] = field(default_factory=set)
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    service: FakeChatService | None = None
    counter: StepCounter = field(default_factory=StepCounter)
    main: SessionId | None = None

    @property
    def store(self) -> RecordingStore:
        store = self.stores.state
        assert isinstance(store, RecordingStore)
        return store

    def copied(self) -> Self:
        """The bot as a crash at this moment leaves it, without job files: no test here has one."""
        clock = self.clock.copied()
        return replace(
            self,
            stores=on_store(self.stores, self.store.copied()),
            engine=self.engine.copied(),
            done={*self.done},
            clock=clock,
            service=self.service.copied(clock) if self.service else None,
        )

    def kept(self) -> Hashable:
        return (
            rows_of(self.store.content()),
            (repr(self.engine.transcripts), len(self.engine.effects), frozenset(self.done)),
            tuple(self.service.history) if self.service else (),
        )

    async def prepare(self, *, is_resumed: bool = False) -> None:
        """Leave the updates; with `is_resumed`, there was a conversation before."""
        if is_resumed:
            await self._ask_unrecorded("hello", "m0")
        for update in UPDATES:
            self.stores.leave_update(update, NOW)
        self.main = self.stores.session.read()

    async def run(self, counter: StepCounter) -> None:
        with suppress(Crash):
            async with self.started(counter) as at:
                await self.actions(self, at)

    async def send(self, at: Scene, text: str, name: str) -> None:
        """Send a message, unless an earlier run has accepted it."""
        if name not in self.done:
            await at.send(text, name)
            self.done.add(name)

    def forget_last(self, count: int) -> None:
        """Let the engine lose entries, unless it answered: then its transcript is complete."""
        if not self.answers:
            self.engine.forget_last(count)

    async def send_another(self, name: str = "m2") -> None:
        """Send one more message, whose prompt shows the agent all updates that still wait."""
        await self._ask_unrecorded("hello", name)

    @asynccontextmanager
    async def started(self, counter: StepCounter) -> AsyncIterator[Scene]:
        self.counter = counter
        self.engine.begin_run(StepCounter() if self.service else counter)
        channels = [CrashingChannel(self.service, counter)] if self.service else []
        stores = crashing_stores(self.stores, counter)
        async with scene(self.engine, stores=stores, clock=self.clock, channels=channels) as at:
            yield at
            await at.until(lambda: not self.undelivered)

    async def _ask_unrecorded(self, text: str, name: str) -> None:
        """Ask in a run of its own whose inbox rows are left out of `rows`."""
        rows = [*self.rows]
        async with self.started(StepCounter()) as at:
            await at.ask(text, name)
        self.rows[:] = rows

    @property
    def undelivered(self) -> list[Delivery]:
        return self.store.query(lambda tx: tx.deliveries.open("discord", 100))

    @property
    def rows(self) -> list[InboxRow]:
        return inbox_rows(self.stores)

    @property
    def answers(self) -> list[str]:
        """The complete answers to the owner's message."""
        return [each.text for each in self.log if each.text == ANSWER and not each.is_cut_off]

    @property
    def asked(self) -> list[str]:
        """The owner's message, as the message log has it."""
        return [each.text for each in self.log if each.id == "m1"]

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.log]

    @property
    def told(self) -> list[str]:
        """What the program said."""
        return [each.text for each in self.log if each.author is Author.PROGRAM]

    @property
    def log(self) -> list[ChatMessage]:
        return messages_of(self.store)

    @property
    def created(self) -> Counter[str]:
        """How often each session was logged as created."""
        events = self.stores.session_history.read().entries
        return Counter(each.session_id for each in events if each.event is SessionChange.CREATED)

    @property
    def ends(self) -> list[InputEnd]:
        return [row.end for row in self.rows if isinstance(row, Ended)]

    @property
    def attempts(self) -> int:
        return sum(isinstance(row, Taken) for row in self.rows)

    @property
    def waits(self) -> bool:
        return bool(self.stores.state.query(lambda tx: tx.inbox.get()).accepted)

    def times_shown(self, text: str) -> int:
        """How often the prompts of the transcripts contain the text."""
        return sum(prompt.count(text) for prompt in self.engine.prompts())


def check_answered(bot: RestartedBot, where: str = "") -> None:
    assert bot.asked == [WRITE], where
    assert bot.answers == [ANSWER], where
    assert bot.ends == [InputEnd.ANSWERED], where
    assert bot.engine.effects == ["written"], where
    assert [bot.times_shown(update) for update in UPDATES] == [1, 1], where
    assert bot.attempts <= 2, where
    assert not bot.waits, where
    check_costs(bot)


def check_costs(bot: RestartedBot) -> None:
    """An answer is committed with what it cost, once."""
    spent = [each.spent.cost_usd for each in bot.log if each.spent and each.spent.cost_usd]
    rows = bot.store.query(lambda tx: tx.usage.since(NOW))
    assert len({row.turn for row in rows}) == len(rows) == len(spent)
    assert sum(row.micros for row in rows) == sum(map(micros, spent))
