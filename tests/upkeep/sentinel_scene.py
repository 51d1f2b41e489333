"""A bot whose heartbeat has stopped, and a sentinel, on the same clock and data directory."""

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

from devtools.doubles.channel import FakeChatService
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from tests.scheduling.scene import NOW, ScheduleScene, schedule_scene

from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.sentinel import SentinelReport
from ollim_bot.paths import DataPaths
from ollim_bot.ports import MessagePart
from ollim_bot.store.connection import Connect, connect
from ollim_bot.store.opening import open_database
from ollim_bot.store.questions import look_into
from ollim_bot.store.transaction import Transaction
from ollim_bot.upkeep.direct_channels import LookUp, SentinelEnvironment
from ollim_bot.upkeep.sentinel import Sentinel

R = TypeVar("R")

PILL = "Take the blue pill."
MUST = {"must": "true", "plain": "true"}


class Killed(BaseException):
    """Stands for a kill of the sentinel's process."""


def kill() -> None:
    raise Killed


class ThreadPause:
    """Blocks the thread that calls this object, until `resume`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reached = asyncio.Event()
        self._ended = asyncio.Event()
        self._may_go_on = threading.Event()

    def __call__(self) -> None:
        self._loop.call_soon_threadsafe(self._reached.set)
        assert self._may_go_on.wait(60)

    async def run_until_paused(self, work: Callable[[], object]) -> None:
        """Run `work` in a thread, and return when it has called this object."""

        def run() -> None:
            try:
                work()
            finally:
                self._loop.call_soon_threadsafe(self._ended.set)

        threading.Thread(target=run).start()
        async with asyncio.timeout(60):
            await self._reached.wait()

    async def resume(self) -> None:
        self._may_go_on.set()
        await self._ended.wait()


@dataclass
class FakeSentinelClock:
    """The clock of the sentinel. `sleep` moves the clock of the scene instead of waiting.

    `kill_at` is the number of the call that raises `Killed`. Every other call runs `on_call`.
    """

    clock: ManualClock
    kill_at: int = 0
    calls: int = 0
    slept: float = 0.0
    on_call: Callable[[], None] = lambda: None

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
        self.on_call()


@dataclass
class FakeDirectChannel:
    """The sentinel's own channel to the chat service that the bot delivers to."""

    service: FakeChatService
    before: Callable[[], None] = lambda: None
    after: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        return self.service.name

    def deliver(self, message: ChatMessage, nonce: str, look: LookUp) -> str:
        part = MessagePart(message, 0, nonce)
        found = result_of(self.service.find(part, look.since, look.others))
        if found is not None:
            return found
        self.before()
        ref = result_of(self.service.deliver(part))
        self.after()
        return ref


@dataclass
class FakeDesktop:
    """`is_available` says whether the desktop can show notifications."""

    is_available: bool = True
    shown: list[str] = field(default_factory=list)

    def notify(self, title: str, text: str) -> bool:
        if self.is_available:
            self.shown.append(f"{title} | {text}")
        return self.is_available


def result_of(work: Coroutine[Any, Any, R]) -> R:
    """The result of a coroutine that never waits for anything."""
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
    phone: FakeChatService | None = None

    @property
    def services(self) -> list[FakeChatService]:
        return [each for each in (self.service, self.phone) if each is not None]

    @property
    def paths(self) -> DataPaths:
        return DataPaths(self.root)

    @asynccontextmanager
    async def bot(self, engine: ScriptedEngine | None = None) -> AsyncIterator[ScheduleScene]:
        """A run of the bot after a run that was not stopped cleanly."""
        channels = self.services
        async with schedule_scene(
            engine or ScriptedEngine(), self.root, clock=self.clock, channels=channels
        ) as at:
            now = self.clock.now()
            at.store.run(lambda tx: tx.presence.change(lambda old: old.begun(now, None)))
            await at.advance(6)
            yield at

    async def run_bot_and_crash(self, **job: object) -> None:
        """Run a bot that sets a reminder for 10 minutes later, and ends without a clean stop."""
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

    def run_sentinel(
        self,
        *,
        time: FakeSentinelClock | None = None,
        channel: FakeDirectChannel | None = None,
        has_channel: bool = True,
        connection: Connect = connect,
        **around: Any,
    ) -> SentinelReport:
        if has_channel:
            made = [FakeDirectChannel(each) for each in self.services]
            others = [each for each in made if channel is None or each.name != channel.name]
            around["channels"] = others if channel is None else [channel, *others]
        surroundings = SentinelEnvironment(**around)
        clock = time or FakeSentinelClock(self.clock)
        return Sentinel(self.paths, UTC, clock, surroundings, connection).run()

    def ask(self, question: Callable[[Transaction], R]) -> R:
        found = look_into(self.paths, self.clock.now(), question)
        assert found is not None
        return found


def make_scene(root: Path) -> Scene:
    clock = ManualClock(NOW)
    return Scene(root, clock, FakeChatService(clock))
