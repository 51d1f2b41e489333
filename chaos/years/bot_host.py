"""The machine that the bot runs on: it sleeps, is switched off, crashes, and has its clock set."""

from __future__ import annotations

import asyncio
import threading
from asyncio import FIRST_COMPLETED
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

from chaos.record import Record
from chaos.years.cost_invariant import UnrecordedCosts
from chaos.years.crashing_disk import CrashingDisk, ProcessKilled
from chaos.years.crashing_store import CrashingImmediateStore
from chaos.years.simulated_chat import SimulatedChat
from chaos.years.simulated_engine import SimulatedEngine
from chaos.years.timeline import Timeline
from chaos.years.virtual_time import VirtualTimeLoop, VirtualTimePacer, VirtualWallClock
from ollim_bot.app.app import Adapters, App, Ending
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.values.commands import CommandAnswer

_LONGEST_STOP = 120.0
_LONGEST_WAIT = 30.0


class DiscardingJournal:
    """`Journal` that keeps no history."""

    def note(self, path: Path, message: str, source: str = "") -> None:
        """Do nothing."""


def no_file_events(_: Iterable[Path], stop: threading.Event) -> Iterator[Iterable[Path]]:
    """Report no changes of files, so that the bot finds them only by reading the folders."""
    stop.wait()
    return iter(())


class BotHost:
    """Runs the bot again and again on the same files; the chat and the clock outlast each run."""

    def __init__(
        self, home: Path, loop: VirtualTimeLoop, start: datetime, zone: ZoneInfo, rng: Random
    ) -> None:
        self.home = home
        self.data = home / "data"
        self.zone = zone
        self.clock = VirtualWallClock(loop, start, zone)
        self.pacer = VirtualTimePacer(loop, self.clock)
        self.record = Record(home / "record", self.data / "state")
        self.chat = SimulatedChat(self.record, self.clock, self.pacer)
        self.timeline = Timeline(self.clock.utc, self.clock.monotonic)
        self.starts = 0
        self.unrecorded = UnrecordedCosts()
        self._loop = loop
        self._rng = rng
        self._app: App | None = None
        self._task: asyncio.Task[Ending] | None = None
        self._disk = CrashingDisk(rng)
        self._store: CrashingImmediateStore | None = None

    @property
    def is_on(self) -> bool:
        return self._task is not None

    async def start(self, engine: SimulatedEngine) -> None:
        """Return once the bot is connected to the chat, or after 30 seconds if it is not."""
        environment = {
            "HOME": str(self.home),
            "OLLIM_DATA_DIR": str(self.data),
            "OLLIM_TIMEZONE": str(self.zone),
            "OLLIM_WEB_PORT": "0",
        }
        self.starts += 1
        self.clock.zone = self.zone
        self._disk = CrashingDisk(self._rng)
        settings = Settings.from_env(environment, cwd=self.home)
        self._store = CrashingImmediateStore(
            settings.paths, self.clock.now, self._disk, self._note_payment
        )
        self._app = App(
            settings,
            Adapters(
                clock=self.clock,
                engine=engine,
                store=self._store,
                disk=self._disk,
                journal=DiscardingJournal(),
                events=no_file_events,
            ),
            channels=[lambda *_: self.chat],
        )
        self.unrecorded.note_start(engine, self._store)
        self.pacer.note_activity()
        self._task = asyncio.create_task(self._app.run())
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_WAIT):
                await self.chat.connected()
        self.timeline.note_start()

    async def run_for(self, seconds: float) -> None:
        """Let this time pass, or less if the bot crashes meanwhile."""
        assert self._task is not None
        until = self._loop.time() + seconds
        # The task of the bot does not always end by itself when the disk crashes.
        crash = asyncio.create_task(self._disk.crashed.wait())
        self.pacer.stop_at = until
        try:
            await asyncio.wait({self._task, crash}, timeout=seconds, return_when=FIRST_COMPLETED)
        finally:
            crash.cancel()
        if self._task.done() and not self._disk.has_crashed:
            self._task.result()
            raise AssertionError("The bot has ended by itself.")

    @property
    def has_crashed(self) -> bool:
        return self._disk.has_crashed

    def crash_after(self, steps: int) -> None:
        """Crash the bot after this many more steps of its disk and its database."""
        self._disk.steps_until_crash = steps

    async def wait_for(self, task: asyncio.Future[CommandAnswer]) -> None:
        """Wait for an answer to the owner, who gives up after 30 seconds."""
        self.pacer.stop_at = self._loop.time() + _LONGEST_WAIT
        await asyncio.wait({task}, timeout=_LONGEST_WAIT)

    async def wait_until_idle(self, seconds: float) -> None:
        """Wait until nothing has happened for so long, or until the bot crashes."""
        while not self.has_crashed and self.pacer.seconds_since_activity < seconds:
            await self.run_for(seconds / 10)

    async def stop(self) -> None:
        """Stop the bot as the owner does, and wait until it has ended."""
        assert self._app is not None
        assert self._task is not None
        self._app.stop()
        await asyncio.wait({self._task}, timeout=_LONGEST_STOP)
        if not self._task.done():
            raise AssertionError("The bot does not end.")
        if not self._disk.has_crashed:
            self._task.result()
            assert self._store is not None
            await self._store.close()
            self.unrecorded.killed_at = None
        await self._discard_run()

    async def kill(self, *, power_cut: bool = False) -> None:
        self.unrecorded.killed_at = self._loop.time()
        self._disk.crash()
        await self._discard_run()
        if power_cut:
            self._disk.cut_power()
            self.record.note("injected_faults", {"kind": "power_cut", "where": ""})

    async def _discard_run(self) -> None:
        """Cancel all tasks of the run; they can write nothing, since their disk has crashed."""
        self._disk.crash()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=_LONGEST_WAIT)
            for task in others:
                if task.done() and not task.cancelled():
                    _raise_unexpected(task.exception())
        if self._store is not None:
            self._store.close_connections()
        self._app = self._task = self._store = None
        self.timeline.note_stop()

    def skip_time(self, seconds: float) -> None:
        """Sleep, be off, or have the clock set: the wall time changes, and nothing runs."""
        self.timeline.before_clock_jump()
        self.clock.jump(seconds)
        self.timeline.after_clock_jump()

    def _note_payment(self, message: MessageId) -> None:
        passed, at = self.clock.monotonic(), self.clock.seconds
        self.record.note("paid", {"passed": passed, "at": at, "payment": message})


def _raise_unexpected(error: BaseException | None) -> None:
    """Raise the error of a cancelled task, unless a crash may cause it."""
    if error is not None and not isinstance(error, ProcessKilled | Exception | BaseExceptionGroup):
        raise error
