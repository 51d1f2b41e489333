"""One data directory and one engine, through several lives of the bot."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Self

from tests.conversation.fate import Crash, Fate, Witness, fated
from tests.conversation.recalling import ANSWER, WRITE, RecallingEngine
from tests.conversation.scene import NOW, Scene, inbox_rows, messages_of, scene
from tests.stores import Stores, memory_stores, on_store

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.inbox import Ended, InboxRow, InputEnd, Taken
from ollim_bot.domain.sessions import SessionChange
from ollim_bot.testing.memory import RecordingStore

UPDATES = ("Mail: 3 need replies.", "The build is green.")


Life = Callable[["Story", Scene], Awaitable[None]]


@dataclass
class Story:
    """The owner wants one thing written down. `rows` is all that the inbox ever got about it.

    `done` is what the owner does not do again: messages that were accepted, and commands.
    """

    stores: Stores = field(default_factory=lambda: memory_stores(NOW))
    engine: RecallingEngine = field(default_factory=RecallingEngine)
    done: set[str] = field(default_factory=set)

    @property
    def store(self) -> RecordingStore:
        store = self.stores.state
        assert isinstance(store, RecordingStore)
        return store

    def copied(self) -> Self:
        """The story as a death at this moment leaves it. None of the stories has a job file."""
        stores = on_store(self.stores, self.store.copied())
        return replace(self, stores=stores, engine=self.engine.copied(), done={*self.done})

    def kept(self) -> tuple[object, ...]:
        """All that outlives a death."""
        return self.store.content(), self.engine.records, self.engine.effects, self.done

    async def begin(self, *, is_resumed: bool = False) -> None:
        """`is_resumed`: there was a conversation before."""
        if is_resumed:
            await self._apart("hello", "m0")
        for update in UPDATES:
            self.stores.leave_update(update, NOW)

    async def live(self, fate: Fate | None = None, live: Life | None = None) -> None:
        with suppress(Crash):
            async with self.life(fate or Fate()) as at:
                await (live or one_message)(self, at)

    async def deaths(self, live: Life | None = None) -> Sequence[tuple[str, Self]]:
        """What a death at each step of this life leaves, once where that is the same."""
        witness = Witness(self)
        await self.live(witness, live)
        return witness.deaths

    async def send(self, at: Scene, text: str, name: str) -> None:
        """Until it is accepted."""
        if name not in self.done:
            await at.send(text, name)
            self.done.add(name)

    def forget_last(self, count: int) -> None:
        """By the time that it has given its answer, the engine has written down all of it."""
        if not self.answers:
            self.engine.forget_last(count)

    async def go_on(self, name: str = "m2") -> None:
        """What the agent does not know yet, it learns with the next message."""
        await self._apart("hello", name)

    @asynccontextmanager
    async def life(self, fate: Fate) -> AsyncIterator[Scene]:
        self.engine.begin_life(fate)
        async with scene(self.engine, stores=fated(self.stores, fate)) as at:
            yield at

    async def _apart(self, text: str, name: str) -> None:
        rows = [*self.rows]
        async with self.life(Fate()) as at:
            await at.ask(text, name)
        self.rows[:] = rows

    @property
    def rows(self) -> list[InboxRow]:
        return inbox_rows(self.stores)

    @property
    def answers(self) -> list[str]:
        """The whole ones to the one message."""
        return [each.text for each in self.log if each.text == ANSWER and not each.is_cut_off]

    @property
    def asked(self) -> list[str]:
        """What the owner wrote about the one thing, as the message log has it."""
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
        """In prompts that were taken for good."""
        return sum(prompt.count(text) for prompt in self.engine.prompts())


async def one_message(story: Story, at: Scene) -> None:
    """The owner sends the message until it is accepted, and then waits."""
    await story.send(at, WRITE, "m1")
    await at.quiet()
    await at.talk.notices.flush()


def check_answered(story: Story, where: str) -> None:
    assert story.asked == [WRITE], where
    assert story.answers == [ANSWER], where
    assert story.ends == [InputEnd.ANSWERED], where
    assert story.engine.effects == ["written"], where
    assert [story.times_shown(update) for update in UPDATES] == [1, 1], where
    assert story.attempts <= 2, where
    assert not story.waits, where
