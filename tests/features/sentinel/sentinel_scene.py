"""A bot whose heartbeat has stopped, and a sentinel, on the same clock and data directory."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from devtools.doubles.channel import FakeChatService
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from tests.kernel.schedule.scene import NOW, ScheduleScene, schedule_scene

from ollim_bot.features.sentinel.sentinel_file import SentinelReport
from ollim_bot.features.sentinel.sentinel_process import MakeChannel, Sentinel, SentinelEnvironment
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.connection import Connect, connect
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.questions import look_into
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.ports import MessagePart

R = TypeVar("R")

LONGEST_WAIT = 5.0

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
    """The clock of the sentinel: its waits move the clock of the scene, and no call takes long.

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

    async def sleep(self, seconds: float) -> None:
        if seconds > LONGEST_WAIT:  # the limit of a call
            await asyncio.Event().wait()
        self._called()
        self.slept += seconds
        self.clock.jump(seconds)

    def _called(self) -> None:
        self.calls += 1
        if self.calls == self.kill_at:
            raise Killed
        self.on_call()


class FakeDirectChannel:
    """The chat service that the bot delivers to, without the bot."""

    def __init__(
        self,
        service: FakeChatService,
        before: Callable[[], None] = lambda: None,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        self.service = service
        self.before = before
        self.after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self.service, name)

    @asynccontextmanager
    async def sending(self, *, keeps_rows: bool) -> AsyncIterator[None]:  # noqa: ARG002
        yield

    async def deliver(self, part: MessagePart) -> str:
        self.before()
        ref = await self.service.deliver(part)
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


def of_own_loop(work: Coroutine[Any, Any, R]) -> R:
    """The result of the work in a loop of its own, while the loop of the test stands still."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


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
        notifier: FakeDesktop | None = None,
        connection: Connect = connect,
        **around: Any,
    ) -> SentinelReport:
        channels: dict[str, MakeChannel] = {}
        for each in self.services if has_channel else ():
            mine = channel is not None and channel.service is each
            one = channel if channel is not None and mine else FakeDirectChannel(each)
            channels[each.name] = lambda _store, _clock, one=one: one  # type: ignore[misc]
        surroundings = SentinelEnvironment(
            channels=channels, notify=None if notifier is None else notifier.notify, **around
        )
        clock = time or FakeSentinelClock(self.clock)
        sentinel = Sentinel(self.paths, clock, surroundings, connection)
        return of_own_loop(sentinel.run())

    def ask(self, question: Callable[[Transaction], R]) -> R:
        found = look_into(self.paths, self.clock.now(), question)
        assert found is not None
        return found


def make_scene(root: Path) -> Scene:
    clock = ManualClock(NOW)
    return Scene(root, clock, FakeChatService(clock))
