"""A bot that has stopped to beat, and the sentinel beside it, on one clock and one directory."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from tests.scheduling.scene import NOW, ScheduleScene, schedule_scene

from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.sentinel import SentinelReport
from ollim_bot.paths import DataPaths
from ollim_bot.ports import MessagePart
from ollim_bot.store.opening import look_into, open_database
from ollim_bot.store.transaction import Transaction
from ollim_bot.testing.channel import FakeChatService
from ollim_bot.testing.clock import ManualClock
from ollim_bot.testing.engine import ScriptedEngine
from ollim_bot.upkeep.direct_channels import LookUp, SentinelEnvironment
from ollim_bot.upkeep.sentinel import Sentinel

R = TypeVar("R")

PILL = "Take the blue pill."
MUST = {"must": "true", "plain": "true"}


class Killed(BaseException):
    """The process of the sentinel ends here."""


def killed() -> None:
    raise Killed


class Pause:
    """Stops the thread of `work` where it calls this object, until the test lets it go on."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reached = asyncio.Event()
        self._ended = asyncio.Event()
        self._may_go_on = threading.Event()

    def __call__(self) -> None:
        self._loop.call_soon_threadsafe(self._reached.set)
        assert self._may_go_on.wait(60)

    async def begin(self, work: Callable[[], object]) -> None:
        """Run it in a thread, and return when it stands still."""

        def run() -> None:
            try:
                work()
            finally:
                self._loop.call_soon_threadsafe(self._ended.set)

        threading.Thread(target=run).start()
        async with asyncio.timeout(60):
            await self._reached.wait()

    async def end(self) -> None:
        self._may_go_on.set()
        await self._ended.wait()


@dataclass
class SentinelTime:
    """The clock of the sentinel: sleeping moves the wall clock of the scene.

    `kill_at` is the number of the call at which the process dies; `meanwhile` is called at each.
    """

    clock: ManualClock
    kill_at: int = 0
    calls: int = 0
    slept: float = 0.0
    meanwhile: Callable[[], None] = lambda: None

    def now(self) -> datetime:
        self._called()
        return self.clock.now()

    def monotonic(self) -> float:
        return self.slept

    def sleep(self, seconds: float) -> None:
        self._called()
        self.slept += seconds
        self.clock.jump(seconds)

    def _called(self) -> None:
        self.calls += 1
        if self.calls == self.kill_at:
            raise Killed
        self.meanwhile()


@dataclass
class DirectDouble:
    """The channel of the sentinel to the service that the bot delivers to, too."""

    service: FakeChatService
    before: Callable[[], None] = lambda: None
    after: Callable[[], None] = lambda: None

    def deliver(self, message: ChatMessage, nonce: str, look: LookUp) -> str:
        part = MessagePart(message, 0, nonce)
        found = done(self.service.find(part, look.since, look.others))
        if found is not None:
            return found
        self.before()
        ref = done(self.service.deliver(part))
        self.after()
        return ref


@dataclass
class Desk:
    """A desktop; `is_there` says whether it can show notifications."""

    is_there: bool = True
    shown: list[str] = field(default_factory=list)

    def notify(self, title: str, text: str) -> bool:
        if self.is_there:
            self.shown.append(f"{title} | {text}")
        return self.is_there


def done(work: Coroutine[Any, Any, R]) -> R:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: R = ended.value
        return result
    raise AssertionError("it waits")


@dataclass
class Scene:
    root: Path
    clock: ManualClock
    service: FakeChatService

    @property
    def paths(self) -> DataPaths:
        return DataPaths(self.root)

    @asynccontextmanager
    async def bot(self, engine: ScriptedEngine | None = None) -> AsyncIterator[ScheduleScene]:
        """A life of the bot, which begins as one that was not stopped."""
        channels = [self.service]
        async with schedule_scene(
            engine or ScriptedEngine(), self.root, clock=self.clock, channels=channels
        ) as at:
            now = self.clock.now()
            at.store.run(lambda tx: tx.presence.change(lambda old: old.begun(now, None)))
            await at.advance(6)
            yield at

    async def has_died(self, **job: object) -> None:
        """A bot has run, and its file of a reminder that is due in 10 minutes is left."""
        async with self.bot() as at:
            at.remind("pill", timedelta(minutes=10), PILL, **(job or MUST))
            await at.advance(31)

    def copied(self, root: Path) -> Scene:
        """The same scene once more, in another directory."""
        shutil.copytree(self.root, root)
        clock = ManualClock(self.clock.now())
        service = FakeChatService(clock)
        service.history = [*self.service.history]
        return Scene(root, clock, service)

    def stop_cleanly(self) -> None:
        database = open_database(self.paths, self.clock.now, is_holder=False, report=lambda _: None)
        database.run(lambda tx: tx.presence.change(lambda old: old.ended(for_restart=False)))
        database.close()

    def watch(
        self,
        *,
        time: SentinelTime | None = None,
        channel: DirectDouble | None = None,
        has_channel: bool = True,
        **around: Any,
    ) -> SentinelReport:
        if has_channel:
            around["channel"] = channel or DirectDouble(self.service)
        surroundings = SentinelEnvironment(**around)
        return Sentinel(self.paths, UTC, time or SentinelTime(self.clock), surroundings).run()

    def ask(self, question: Callable[[Transaction], R]) -> R:
        found = look_into(self.paths, self.clock.now(), question)
        assert found is not None
        return found


def scene(root: Path) -> Scene:
    clock = ManualClock(NOW)
    return Scene(root, clock, FakeChatService(clock))
