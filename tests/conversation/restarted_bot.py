"""A bot that is run several times on the same stores and the same engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Self

from tests.conversation.crashing import Crash, CrashRecorder, StepCounter, crashing_stores
from tests.conversation.scene import NOW, Scene, inbox_rows, messages_of, scene
from tests.conversation.transcript_engine import ANSWER, WRITE, TranscriptEngine
from tests.stores import Stores, memory_stores, on_store

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.inbox import Ended, InboxRow, InputEnd, Taken
from ollim_bot.domain.sessions import SessionChange
from ollim_bot.testing.memory import RecordingStore

UPDATES = ("Mail: 3 need replies.", "The build is green.")


# What the owner does in one run of the bot.
OwnerActions = Callable[["RestartedBot", Scene], Awaitable[None]]


@dataclass
class RestartedBot:
    """The stores and the engine survive a crash. The owner wants one thing written down.

    `rows` has all rows that the inbox ever got about it. `done` has what the owner does not do
    again in the next run: messages that were accepted, and commands.
    """

    stores: Stores = field(default_factory=lambda: memory_stores(NOW))
    engine: TranscriptEngine = field(default_factory=TranscriptEngine)
    done: set[str] = field(default_factory=set)

    @property
    def store(self) -> RecordingStore:
        store = self.stores.state
        assert isinstance(store, RecordingStore)
        return store

    def copied(self) -> Self:
        """The bot as a crash at this moment leaves it, without job files: no test here has one."""
        stores = on_store(self.stores, self.store.copied())
        return replace(self, stores=stores, engine=self.engine.copied(), done={*self.done})

    def kept(self) -> tuple[object, ...]:
        """Everything that survives a crash."""
        return self.store.content(), self.engine.transcripts, self.engine.effects, self.done

    async def prepare(self, *, is_resumed: bool = False) -> None:
        """Leave the updates; with `is_resumed`, there was a conversation before."""
        if is_resumed:
            await self._ask_unrecorded("hello", "m0")
        for update in UPDATES:
            self.stores.leave_update(update, NOW)

    async def run(
        self, counter: StepCounter | None = None, actions: OwnerActions | None = None
    ) -> None:
        with suppress(Crash):
            async with self.started(counter or StepCounter()) as at:
                await (actions or one_message)(self, at)

    async def crashes(self, actions: OwnerActions | None = None) -> Sequence[tuple[str, Self]]:
        """The bot as a crash at each step of this run leaves it; equal states come once."""
        recorder = CrashRecorder(self)
        await self.run(recorder, actions)
        return recorder.crashes

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
        self.engine.begin_run(counter)
        async with scene(self.engine, stores=crashing_stores(self.stores, counter)) as at:
            yield at

    async def _ask_unrecorded(self, text: str, name: str) -> None:
        """Ask in a run of its own whose inbox rows are left out of `rows`."""
        rows = [*self.rows]
        async with self.started(StepCounter()) as at:
            await at.ask(text, name)
        self.rows[:] = rows

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


async def one_message(bot: RestartedBot, at: Scene) -> None:
    """The owner sends the message until it is accepted, and then waits."""
    await bot.send(at, WRITE, "m1")
    await at.quiet()
    await at.talk.notices.flush()


def check_answered(bot: RestartedBot, where: str) -> None:
    assert bot.asked == [WRITE], where
    assert bot.answers == [ANSWER], where
    assert bot.ends == [InputEnd.ANSWERED], where
    assert bot.engine.effects == ["written"], where
    assert [bot.times_shown(update) for update in UPDATES] == [1, 1], where
    assert bot.attempts <= 2, where
    assert not bot.waits, where
