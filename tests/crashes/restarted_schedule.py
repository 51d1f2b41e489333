"""A bot with jobs that is run several times on the same store, job files, engine and services."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Self

from devtools.doubles.channel import FakeChatService
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine, Step
from devtools.doubles.repeating_store import RepeatingStore
from tests.crashes.matrix import rows_of
from tests.kernel.conversation.crashing import CrashingRepository, StepCounter, crashing_stores
from tests.kernel.schedule.scene import NOW, ScheduleScene, schedule_scene
from tests.kernel.store.files.data_directory import QuickDisk
from tests.stores import Stores

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.store.transaction import Transaction

# The steps between the start of the bot and the moments at which jobs are due, and before its stop.
STARTED, OVER = "the bot has started", "it is over"
_TURNS = 3


class RestartedSchedule:
    """A run lasts `seconds`, and then until `is_over`. The next run begins `away` seconds later,
    and lasts `then` seconds if they are given.

    `agent` is what the agent does in each turn; `jobs` are the texts of the job files. A bot that
    `is_new` has never run before; `prepare` is a step before the first run. `at` is the scene of
    the last run.
    """

    def __init__(
        self,
        root: Path,
        is_over: Callable[[ScheduleScene], bool],
        seconds: float,
        jobs: Mapping[str, str],
        agent: Sequence[Step] = (),
        *,
        start: datetime = NOW,
        away: float = 0.0,
        then: float | None = None,
        is_new: bool = False,
        has_service: bool = False,
        prepare: Callable[[Transaction], None] = lambda _: None,
    ) -> None:
        self.clock = ManualClock(start)
        self.store = RepeatingStore(lambda: self.clock.now(), is_repeating=False)
        self.engine = ScriptedEngine()
        self.services = [FakeChatService(self.clock)] if has_service else []
        self._root = root
        self._is_over = is_over
        self._seconds = seconds
        self._restart = start + timedelta(seconds=seconds + away)
        self._then = then or seconds
        self._is_restarted = False
        for _ in range(_TURNS if agent else 0):
            self.engine.then(*agent)
        prepare_data_directory(DataPaths(root))
        for name, text in jobs.items():
            (root / name).write_text(text)
        if not is_new:
            HeartbeatFile(DataPaths(root)).write(NOW)
        self._files = self._read_files()
        self.store.run(prepare)

    at: ScheduleScene

    def copied(self) -> Self:
        """The root stays the same: job files are known by their paths."""
        copied = copy(self)
        copied._files = self._read_files()
        copied._is_restarted = True
        copied.store = self.store.copied(lambda: copied.clock.now())
        copied.engine = self.engine.copied()
        copied.services = [each.copied(self.clock) for each in self.services]
        return copied

    def kept(self) -> Hashable:
        engine = self.engine
        return (
            self.clock.now(),
            rows_of(self.store.content()),
            tuple(self._read_files().items()),
            (len(engine.prompts), len(engine.opened), len(engine.known), repr(engine.traces)),
            tuple(repr((each.history, each.ends, each.tries)) for each in self.services),
        )

    async def run(self, counter: StepCounter) -> None:
        self._write_files()
        if self._is_restarted:
            self.clock = ManualClock(self._restart)
            self.services = [each.copied(self.clock) for each in self.services]
        async with schedule_scene(
            self.engine,
            self._root,
            clock=self.clock,
            disk=QuickDisk(),
            seen=partial(_with_crash_points, counter),
            channels=self.services,
            store=self.store,
        ) as self.at:
            await self.at.until(self._has_started)
            counter.step(STARTED)
            await self.clock.advance(self._then if self._is_restarted else self._seconds)
            await self.at.until(lambda: self._is_over(self.at))
            counter.step(OVER)
        self._is_restarted = True
        self._files = self._read_files()

    def _has_started(self) -> bool:
        return self.at.scheduler.heartbeat_age is not None and self.clock.sleeping > 1

    def _read_files(self) -> dict[Path, bytes]:
        """All files that the bot of a scenario changes."""
        paths = DataPaths(self._root)
        folders = (paths.routines, paths.reminders, paths.webhooks, paths.state)
        files = (path for folder in folders for path in sorted(folder.iterdir()))
        return {path: path.read_bytes() for path in files if path.is_file()}

    def _write_files(self) -> None:
        for path in self._read_files().keys() - self._files.keys():
            path.unlink()
        for path, content in self._files.items():
            path.write_bytes(content)


def _with_crash_points(counter: StepCounter, stores: Stores) -> Stores:
    """The stores for one run, which crashes where `counter` says."""
    reminders = CrashingRepository(stores.reminders, counter)
    repositories = replace(stores.repositories, reminders=reminders)
    return replace(crashing_stores(stores, counter), repositories=repositories)
