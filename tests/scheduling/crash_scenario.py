"""Runs of the bot that crash at a chosen step, for one job in one data directory."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from tests.conversation.crashing import StepCounter, crashing_stores
from tests.scheduling.scene import NOW, ScheduleScene, schedule_scene
from tests.storage.data_directory import DataDirectory, QuickDisk
from tests.stores import Stores

from ollim_bot.paths import DataPaths
from ollim_bot.store.heartbeat import HeartbeatFile
from ollim_bot.store.opening import BALLAST_FILE
from ollim_bot.store.reading import DATABASE
from ollim_bot.testing.channel import FakeChatService
from ollim_bot.testing.clock import ManualClock
from ollim_bot.testing.engine import ScriptedEngine, Step

_TURNS = 3


class CrashingReminderRepository:
    """A repository with a crash point before and after the removal of a file."""

    def __init__(self, repository: Any, counter: StepCounter) -> None:
        self._repository = repository
        self._counter = counter

    def __getattr__(self, name: str) -> Any:
        self._counter.check()
        return getattr(self._repository, name)

    def remove(self, item_id: str) -> Path:
        self._counter.step("before the file is removed")
        path: Path = self._repository.remove(item_id)
        self._counter.step("after the file is removed")
        return path


def with_crash_points(counter: StepCounter, stores: Stores) -> Stores:
    """The same stores for one run, which crashes at the step of `counter`."""
    reminders = CrashingReminderRepository(stores.reminders, counter)
    repositories = replace(stores.repositories, reminders=reminders)
    return replace(crashing_stores(stores, counter), repositories=repositories)


def _new_directory(root: Path) -> Path:
    """The data directory that all scenarios of a test copy: a new one takes much longer."""
    if not root.exists():
        DataDirectory(root).run(lambda _: None, is_holder=True)
    return root


@dataclass(frozen=True)
class CrashSnapshot:
    """All that remains after a crash: the files, the engine's sessions and the sent messages."""

    where: str
    files: Path
    engine: ScriptedEngine
    channels: Sequence[FakeChatService]


@dataclass
class CrashScenario:
    """A bot that has run before, unless it `is_new`; its agent does the same in each turn."""

    root: Path
    steps: Sequence[Step] = ()
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    engine: ScriptedEngine = field(default_factory=ScriptedEngine)
    is_new: bool = False
    channels: Sequence[FakeChatService] = ()

    def __post_init__(self) -> None:
        for _ in range(_TURNS if self.steps else 0):
            self.engine.then(*self.steps)
        shutil.copytree(_new_directory(self.root.parent / "new"), self.root)
        if not self.is_new:
            HeartbeatFile(DataPaths(self.root)).write(NOW)

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def persistent_state(self, database: sqlite3.Connection) -> tuple[object, ...]:
        """What survives a crash: time, disk, and what the model and the channels were given."""
        files = (
            path for path in sorted(self.root.rglob("*")) if not path.name.startswith(DATABASE)
        )
        engine = self.engine
        return (
            self.clock.now(),
            database.execute("PRAGMA data_version").fetchone(),
            [(path, path.lstat().st_mtime_ns, path.lstat().st_size) for path in files],
            (len(engine.prompts), len(engine.opened), len(engine.known), repr(engine.traces)),
            [repr((one.history, one.drafts, one.ends, one.tries)) for one in self.channels],
        )

    def snapshot(self, where: str, files: Path) -> CrashSnapshot:
        """Copy what a crash at this moment would leave; the run goes on."""
        # The next run makes the index of the log anew, as after a power cut.
        left_out = shutil.ignore_patterns(BALLAST_FILE, f"{DATABASE}-shm")
        shutil.copytree(self.root, files, symlinks=True, ignore=left_out)
        (files / "state" / BALLAST_FILE).hardlink_to(self.root / "state" / BALLAST_FILE)
        channels = [one.copied(self.clock) for one in self.channels]
        return CrashSnapshot(where, files, self.engine.copied(), channels)

    def restore(self, snapshot: CrashSnapshot, clock: ManualClock) -> None:
        """Make the snapshot the state of this scenario, in the same directory."""
        shutil.rmtree(self.root)
        snapshot.files.rename(self.root)
        self.clock, self.engine = clock, snapshot.engine
        self.channels = [one.copied(clock) for one in snapshot.channels]

    @asynccontextmanager
    async def run(
        self, counter: StepCounter, is_over: Callable[[ScheduleScene], bool], seconds: float
    ) -> AsyncIterator[ScheduleScene]:
        """A run of the bot for so many `seconds`, and then until it `is_over`."""
        async with schedule_scene(
            self.engine,
            self.root,
            clock=self.clock,
            disk=QuickDisk(),
            seen=partial(with_crash_points, counter),
            channels=self.channels,
        ) as at:
            await at.until(lambda: at.clock.sleeping > 1)
            await at.clock.advance(seconds)
            await at.until(lambda: is_over(at))
            yield at


class SnapshotRecorder(StepCounter):
    """Crashes nowhere, and takes a snapshot at each step that changed the persistent state.

    A crash at any other step leaves the same state as a crash at the step before it.
    """

    def __init__(self, scenario: CrashScenario, database: sqlite3.Connection) -> None:
        super().__init__()
        self.snapshots: list[CrashSnapshot] = []
        self._scenario = scenario
        self._database = database
        self._last_state: object = None

    def step(self, what: str) -> None:
        super().step(what)
        state = self._scenario.persistent_state(self._database)
        if state != self._last_state:
            self._last_state = state
            files = self._scenario.root.with_name(f"crash-{len(self.snapshots)}")
            where = f"crash at step {len(self.steps)}: {what}"
            self.snapshots.append(self._scenario.snapshot(where, files))


async def crash_at_every_step(
    scenario: CrashScenario,
    is_over: Callable[[ScheduleScene], bool],
    verify: Callable[[ScheduleScene, str], None],
    *,
    seconds: float,
    away: float = 0.0,
    then: float | None = None,
) -> list[str]:
    """Run the scenario once without a crash, then restart it from each crash that it could have.

    The first run lasts so many `seconds`. Each restart begins when the bot was `away` for so long
    after the end of the first run, and lasts as long as the first, or `then` seconds. Each run is
    verified at its end. Returns the steps of the first run.
    """
    path = scenario.root / "state" / DATABASE
    with closing(sqlite3.connect(path, check_same_thread=False)) as database:
        first = SnapshotRecorder(scenario, database)
        async with scenario.run(first, is_over, seconds) as at:
            verify(at, "no crash")
    end = scenario.clock.now() + timedelta(seconds=away)
    last = scenario.snapshot("a restart after the end", scenario.root.with_name("end"))
    for snapshot in (*first.snapshots, last):
        scenario.restore(snapshot, ManualClock(end))
        async with scenario.run(StepCounter(), is_over, then or seconds) as at:
            verify(at, snapshot.where)
    return first.steps
