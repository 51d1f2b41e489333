"""The owner's side of Discord with a core behind it that a test controls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from tests.discord.fake_channel import FakeChannel

from ollim_bot.domain.surface_state import DiscordState
from ollim_bot.errors import Unreachable, WriteFailed
from ollim_bot.store.database import Step
from ollim_bot.surfaces.discord.catch_up import MessageCatchUp
from ollim_bot.surfaces.discord.facts import DiscordFacts
from ollim_bot.surfaces.discord.inbound import Inbound
from ollim_bot.surfaces.discord.messages import ReceivedMessage, RemoteFile
from ollim_bot.surfaces.discord.pending_reaction import EYES, PendingReaction
from ollim_bot.testing.clock import ManualClock
from ollim_bot.testing.reception import FakeReception
from ollim_bot.testing.repeating_store import RepeatingStore

SUNDAY = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
SECONDS = 60.0
POLL = 120
SILENT = Unreachable("There is no network.")
FULL = WriteFailed(Path("inbox.jsonl"), "No space left on device.")

R = TypeVar("R")


async def eventually(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - most of it has no event of its own
            await asyncio.sleep(0.002)


@asynccontextmanager
async def doing(*steps: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """They run until the end of the context; one that fails meanwhile fails the test."""
    tasks = [asyncio.ensure_future(step) for step in steps]
    try:
        yield
    finally:
        failed = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        assert not failed


class SlowStore(RepeatingStore):
    """Counts what is written; it waits for `may_write`, and fails while `is_full`."""

    def __init__(self) -> None:
        super().__init__(lambda: SUNDAY)
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.is_full = False
        self.begun = self.writes = 0

    @property
    def discord(self) -> DiscordState:
        return self.query(lambda tx: tx.discord.get())

    async def transact(self, step: Step[R]) -> R:
        self.begun += 1
        async with asyncio.timeout(60):
            await self.may_write.wait()
        if self.is_full:
            raise WriteFailed(Path("ollim.db"), "No space left on device.")
        self.writes += 1
        return await super().transact(step)


class Scene:
    """`begin_anew` is a new life of the program: only what is on disk, and Discord, stay."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock(SUNDAY)
        self.channel = FakeChannel(self.clock)
        self.reception = FakeReception(self.clock, folder)
        self.store = SlowStore()
        self.reconnects = 0
        self.begin_anew()

    def begin_anew(self) -> None:
        self.facts = DiscordFacts(self.store)
        self.pending_reaction = PendingReaction(self.channel, self.clock)
        self.inbound = Inbound(
            self.channel,
            self.reception,
            self.pending_reaction,
            self.facts,
            self.clock,
            self.folder / "fetched",
        )
        self.catch_up = MessageCatchUp(
            self.channel,
            self.reception,
            self.inbound,
            self.pending_reaction,
            self.facts,
            self.clock,
            reconnect=self._reconnected,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Without a word about the connection: nothing is taken before that."""
        parts = (
            self.facts.run(),
            self.pending_reaction.run(),
            self.inbound.run(),
            self.catch_up.run(),
        )
        async with doing(*parts):
            yield

    @asynccontextmanager
    async def taking(self) -> AsyncIterator[None]:
        """Without reading back: what comes is taken at once."""
        self.inbound.release()
        async with doing(self.facts.run(), self.pending_reaction.run(), self.inbound.run()):
            yield

    def say(self, text: str, **fields: object) -> ReceivedMessage:
        """The owner writes, and Discord brings it."""
        seen = self.channel.say(text, **fields)
        self.inbound.message(seen)
        return seen

    @property
    def received(self) -> list[str]:
        return [each.text for each in self.reception.received]

    @property
    def last_seen(self) -> str | None:
        return self.store.discord.last_seen

    def is_marked(self, seen: ReceivedMessage) -> bool:
        return EYES in self.channel.owner[seen.ref].marks

    async def until(self, condition: Callable[[], object]) -> None:
        await eventually(condition)

    async def until_asleep(self, sleepers: int = 1) -> None:
        """Until so many wait for the time to pass."""
        await eventually(lambda: self.clock.sleeping >= sleepers)

    async def _reconnected(self) -> None:
        self.reconnects += 1


@asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[Scene]:
    """A scene where what comes is taken, and waits."""
    scene = Scene(folder)
    await scene.reception.change(is_busy=True)
    async with scene.taking():
        yield scene


def file(scene: Scene, name: str, content: bytes = b"x", size: int | None = None) -> RemoteFile:
    url = f"https://files.example/{name}"
    scene.channel.files[url] = content
    return RemoteFile(name, len(content) if size is None else size, url)


def left_over(scene: Scene) -> list[Path]:
    folder = scene.folder / "fetched"
    return [*folder.iterdir()] if folder.exists() else []


async def had_begun(scene: Scene) -> None:
    """An earlier life has taken in a first message, and ended."""
    scene.channel.say("before")
    scene.catch_up.ready()
    async with scene.running():
        await scene.until(lambda: scene.last_seen)
    scene.begin_anew()


def reads(scene: Scene) -> int:
    return sum(call in ("after", "newest") for call, _ in scene.channel.calls)


async def at_rest(scene: Scene) -> None:
    """A round is done: only the time until the next poll is waited for."""
    await scene.until(lambda: scene.clock.sleeping and reads(scene))
    await scene.clock.advance(0)
    assert scene.clock.sleeping
