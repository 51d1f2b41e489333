"""The machine that the bot runs on: it sleeps, is switched off, dies, and has its clock set."""

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
from chaos.years.diary import Diary
from chaos.years.disk import Killed, MortalDisk
from chaos.years.hurry import HurryingLoop, Pace, WallClock
from chaos.years.letters import Letters
from chaos.years.mind import Mind
from chaos.years.store import MortalStore
from ollim_bot.app.app import Adapters, App, Ending
from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.settings import Settings

_LONGEST_STOP = 120.0
_UP_WITHIN = 30.0


class Silence:
    """`Journal` without a history."""

    def note(self, path: Path, message: str) -> None:
        """Nobody asks for it."""


def quiet(_: Iterable[Path], stop: threading.Event) -> Iterator[Iterable[Path]]:
    """A file system that tells nothing: files are noticed by looking."""
    stop.wait()
    return iter(())


class Machine:
    """One life of the bot after the other, on the same files."""

    def __init__(
        self, home: Path, loop: HurryingLoop, start: datetime, zone: ZoneInfo, luck: Random
    ) -> None:
        self.home = home
        self.data = home / "data"
        self.zone = zone
        self.clock = WallClock(loop, start, zone)
        self.pace = Pace(loop, self.clock)
        self.record = Record(home / "record", self.data / "state")
        self.letters = Letters(self.record, self.clock, self.pace)
        self.diary = Diary(self.clock.utc, self.clock.monotonic)
        self.starts = 0
        self._loop = loop
        self._luck = luck
        self._app: App | None = None
        self._task: asyncio.Task[Ending] | None = None
        self._disk = MortalDisk(luck)
        self._store: MortalStore | None = None

    @property
    def is_on(self) -> bool:
        return self._task is not None

    async def start(self, mind: Mind) -> None:
        """It is up when the owner could be reached; a life may be shorter."""
        environment = {
            "HOME": str(self.home),
            "OLLIM_DATA_DIR": str(self.data),
            "OLLIM_TIMEZONE": str(self.zone),
            "OLLIM_WEB_PORT": "0",
        }
        self.starts += 1
        self.clock.zone = self.zone
        self._disk = MortalDisk(self._luck)
        settings = Settings.from_env(environment, cwd=self.home)
        self._store = MortalStore(settings.paths, self.clock.now, self._disk, self._paid)
        self._app = App(
            settings,
            Adapters(
                clock=self.clock,
                engine=mind,
                store=self._store,
                disk=self._disk,
                journal=Silence(),
                events=quiet,
            ),
            channels=[lambda *_: self.letters],
        )
        self.pace.stir()
        self._task = asyncio.create_task(self._app.run())
        with suppress(TimeoutError):
            async with asyncio.timeout(_UP_WITHIN):
                await self.letters.connected()
        self.diary.started()

    async def runs(self, seconds: float) -> None:
        """Let time pass; less of it, if the bot dies at a step that was chosen for it."""
        assert self._task is not None
        until = self._loop.time() + seconds
        # Not all that goes on notices the death of the disk by itself.
        death = asyncio.create_task(self._disk.death.wait())
        self.pace.stop = until
        try:
            await asyncio.wait({self._task, death}, timeout=seconds, return_when=FIRST_COMPLETED)
        finally:
            death.cancel()
        if self._task.done() and not self._disk.is_dead:
            self._task.result()
            raise AssertionError("The bot has ended by itself.")

    @property
    def has_died(self) -> bool:
        return self._disk.is_dead

    def dies_in(self, steps: int) -> None:
        self._disk.dies_in = steps

    async def waits_for(self, task: asyncio.Future[CommandAnswer]) -> None:
        """The owner, who goes on if it takes too long."""
        self.pace.stop = self._loop.time() + _UP_WITHIN
        await asyncio.wait({task}, timeout=_UP_WITHIN)

    async def is_calm(self, seconds: float) -> None:
        """Until nothing has stirred for so long."""
        while not self.has_died and self.pace.stirred_ago < seconds:
            await self.runs(seconds / 10)

    async def stop(self) -> None:
        """As the owner ends it: it has the time that it takes."""
        assert self._app is not None
        assert self._task is not None
        self._app.stop()
        await asyncio.wait({self._task}, timeout=_LONGEST_STOP)
        if not self._task.done():
            raise AssertionError("The bot does not end.")
        if not self._disk.is_dead:
            self._task.result()
            assert self._store is not None
            await self._store.close()
        await self._clear_away()

    async def kill(self, *, power_goes: bool = False) -> None:
        self._disk.die()
        await self._clear_away()
        if power_goes:
            self._disk.cut()
            self.record.note("injected_faults", {"kind": "power_cut", "where": ""})

    async def _clear_away(self) -> None:
        """What is left of a life does nothing any more, for its disk is dead."""
        self._disk.die()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=_UP_WITHIN)
            for task in others:
                if task.done() and not task.cancelled():
                    _expected(task.exception())
        if self._store is not None:
            self._store.abandon()
        self._app = self._task = self._store = None
        self.diary.stopped()

    def passes(self, seconds: float) -> None:
        """The machine sleeps or is off, or has its clock set: nothing goes on meanwhile."""
        self.diary.moves()
        self.clock.jump(seconds)
        self.diary.has_moved()

    def _paid(self, message: MessageId) -> None:
        passed, at = self.clock.monotonic(), self.clock.seconds
        self.record.note("paid", {"passed": passed, "at": at, "payment": message})


def _expected(error: BaseException | None) -> None:
    """Whatever a dying life leaves behind."""
    if error is not None and not isinstance(error, Killed | Exception | BaseExceptionGroup):
        raise error
