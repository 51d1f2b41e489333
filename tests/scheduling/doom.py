"""Lives of the bot that end at a chosen step, for one job in one data directory."""

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
from tests.scheduling.scene import NOW, Day, day
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


class SteppedShelf:
    """Of all that is done with a shelf, taking a file off is two steps."""

    def __init__(self, shelf: Any, fate: StepCounter) -> None:
        self._shelf = shelf
        self._fate = fate

    def __getattr__(self, name: str) -> Any:
        self._fate.check()
        return getattr(self._shelf, name)

    def remove(self, item_id: str) -> Path:
        self._fate.step("before the file is removed")
        path: Path = self._shelf.remove(item_id)
        self._fate.step("after the file is removed")
        return path


def doomed(fate: StepCounter, stores: Stores) -> Stores:
    """The same stores, for one life."""
    reminders = SteppedShelf(stores.reminders, fate)
    shelves = replace(stores.shelves, reminders=reminders)
    return replace(crashing_stores(stores, fate), shelves=shelves)


def _new_directory(root: Path) -> Path:
    """All tales of a test begin in a copy of it: to make one takes several times as long."""
    if not root.exists():
        DataDirectory(root).run(lambda _: None, is_holder=True)
    return root


@dataclass(frozen=True)
class Death:
    """All that a bot leaves that dies at a step: its files, and what others have been given."""

    where: str
    files: Path
    engine: ScriptedEngine
    channels: Sequence[FakeChatService]


@dataclass
class Tale:
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

    def kept(self, database: sqlite3.Connection) -> tuple[object, ...]:
        """What outlives a death: time, disk, and what the model and the channels were given."""
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

    def die(self, where: str, files: Path) -> Death:
        """Keep what a death now would leave; the life goes on."""
        # The next life makes the index of the log anew, as after a power cut.
        left_out = shutil.ignore_patterns(BALLAST_FILE, f"{DATABASE}-shm")
        shutil.copytree(self.root, files, symlinks=True, ignore=left_out)
        (files / "state" / BALLAST_FILE).hardlink_to(self.root / "state" / BALLAST_FILE)
        channels = [one.copied(self.clock) for one in self.channels]
        return Death(where, files, self.engine.copied(), channels)

    def take_up(self, death: Death, at: ManualClock) -> None:
        """Go on after a death, in the same directory."""
        shutil.rmtree(self.root)
        death.files.rename(self.root)
        self.clock, self.engine = at, death.engine
        self.channels = [one.copied(at) for one in death.channels]

    @asynccontextmanager
    async def life(
        self, fate: StepCounter, is_over: Callable[[Day], bool], seconds: float
    ) -> AsyncIterator[Day]:
        """A life that has lasted until it `is_over`."""
        async with day(
            self.engine,
            self.root,
            clock=self.clock,
            disk=QuickDisk(),
            seen=partial(doomed, fate),
            channels=self.channels,
        ) as at:
            await at.until(lambda: at.clock.sleeping > 1)
            await at.clock.advance(seconds)
            await at.until(lambda: is_over(at))
            yield at


class UncutLife(StepCounter):
    """Notes a death for each step at which something new has been kept.

    All that a dead bot leaves is on disk and with others, so that to die where nothing was kept
    since the step before is to die there.
    """

    def __init__(self, tale: Tale, database: sqlite3.Connection) -> None:
        super().__init__()
        self.deaths: list[Death] = []
        self._tale = tale
        self._database = database
        self._seen: object = None

    def step(self, what: str) -> None:
        super().step(what)
        kept = self._tale.kept(self._database)
        if kept != self._seen:
            self._seen = kept
            files = self._tale.root.with_name(f"death-{len(self.deaths)}")
            where = f"crash at step {len(self.steps)}: {what}"
            self.deaths.append(self._tale.die(where, files))


async def whenever_it_dies(
    tale: Tale,
    is_over: Callable[[Day], bool],
    judge: Callable[[Day, str], None],
    *,
    seconds: float,
    away: float = 0.0,
    then: float | None = None,
) -> list[str]:
    """Tell the tale without a death, then take it up again after each death that it could have.

    A life lasts so many `seconds`; one after a death begins when the first has ended and the bot
    was `away`, and lasts as long, or until `then`. Gives the steps of the life without a death.
    """
    path = tale.root / "state" / DATABASE
    with closing(sqlite3.connect(path, check_same_thread=False)) as database:
        life = UncutLife(tale, database)
        async with tale.life(life, is_over, seconds) as at:
            judge(at, "no crash")
    end = tale.clock.now() + timedelta(seconds=away)
    last = tale.die("a restart after the end", tale.root.with_name("end"))
    for death in (*life.deaths, last):
        tale.take_up(death, ManualClock(end))
        async with tale.life(StepCounter(), is_over, then or seconds) as at:
            judge(at, death.where)
    return life.steps
