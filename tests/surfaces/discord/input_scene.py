"""The owner's side of Discord with a core behind it that a test controls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from devtools.doubles.clock import ManualClock
from devtools.doubles.reception import FakeReception
from devtools.doubles.repeating_store import RepeatingStore
from tests.patience import eventually
from tests.surfaces.discord.fake_channel import FakeChannel

from ollim_bot.kernel.base.errors import Unreachable, WriteFailed
from ollim_bot.kernel.store.transaction import Step
from ollim_bot.kernel.values.surface_state import DiscordState
from ollim_bot.surfaces.discord.direct_messages import MessageCatchUp
from ollim_bot.surfaces.discord.inbound import Inbound
from ollim_bot.surfaces.discord.rendering import ReceivedMessage, RemoteFile
from ollim_bot.surfaces.discord.status_line import EYES, PendingReaction
from ollim_bot.surfaces.discord.translation import DiscordFacts

SUNDAY = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
SECONDS = 180.0
POLL = 120
SILENT = Unreachable("There is no network.")
FULL = WriteFailed(Path("inbox.jsonl"), "No space left on device.")

R = TypeVar("R")


@asynccontextmanager
async def running_tasks(*steps: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run them until the end of the context; none of them may end before it."""
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
    """Counts writes; each waits for `may_write`, and fails while `is_full`."""

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


class InputScene:
    """The inbound side of the surface. After `restart`, only the store and Discord are the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock(SUNDAY)
        self.channel = FakeChannel(self.clock)
        self.reception = FakeReception(self.clock, folder)
        self.store = SlowStore()
        self.reconnects = 0
        self.restart()

    def restart(self) -> None:
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
        """Run all parts. No message is taken before `catch_up.ready` is called."""
        parts = (
            self.facts.run(),
            self.pending_reaction.run(),
            self.inbound.run(),
            self.catch_up.run(),
        )
        async with running_tasks(*parts):
            yield

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Run all parts with a connection that was just made."""
        self.catch_up.ready()
        async with self.running():
            yield

    @asynccontextmanager
    async def taking(self) -> AsyncIterator[None]:
        """Run all parts but the catching up; each message is taken at once."""
        self.inbound.arrivals.release()
        async with running_tasks(self.facts.run(), self.pending_reaction.run(), self.inbound.run()):
            yield

    def say(self, text: str, **fields: object) -> ReceivedMessage:
        """The owner writes a message, and Discord reports it."""
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
        """Wait until so many tasks sleep on the clock."""
        await eventually(lambda: self.clock.sleeping >= sleepers)

    async def _reconnected(self) -> None:
        self.reconnects += 1


@asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[InputScene]:
    """A scene in which messages are taken, but not answered: the bot is busy."""
    scene = InputScene(folder)
    await scene.reception.change(is_busy=True)
    async with scene.taking():
        yield scene


def file(
    scene: InputScene, name: str, content: bytes = b"x", size: int | None = None
) -> RemoteFile:
    url = f"https://files.example/{name}"
    scene.channel.files[url] = content
    return RemoteFile(name, len(content) if size is None else size, url)


def left_over(scene: InputScene) -> list[Path]:
    folder = scene.folder / "fetched"
    return [*folder.iterdir()] if folder.exists() else []


async def after_an_earlier_run(scene: InputScene) -> None:
    """An earlier run has taken in a first message and ended."""
    scene.channel.say("before")
    async with scene.connected():
        await scene.until(lambda: scene.last_seen)
    scene.restart()


def reads(scene: InputScene) -> int:
    return sum(call in ("after", "newest") for call, _ in scene.channel.calls)


async def until_next_poll(scene: InputScene) -> None:
    """Wait until a round of catching up is done and only the next poll is waited for."""
    await scene.until(lambda: scene.clock.sleeping and reads(scene))
    await scene.clock.advance(0)
    assert scene.clock.sleeping
