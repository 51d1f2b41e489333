"""Lives of the bot that end at a chosen step, for one job in one data directory."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.conversation.fate import Crash, Fate, fated
from tests.scheduling.scene import NOW, Day, day
from tests.storage.places import DataDirectory, QuickDisk
from tests.stores import Stores

from ollim_bot.paths import DataPaths
from ollim_bot.store.heartbeat import HeartbeatFile
from ollim_bot.store.reading import DATABASE
from ollim_bot.testing.channel import FakeChatService
from ollim_bot.testing.clock import ManualClock
from ollim_bot.testing.engine import ScriptedEngine, Step

_TURNS = 3


class Deaths:
    """A life that is not cut short, then one for each step at which something new has been kept.

    All that a dead bot leaves is on disk and with others, so that to die where nothing was kept
    since the step before is to die there. `steps` are those of the whole life.
    """

    def __init__(self) -> None:
        self._whole = Fate()

    @property
    def steps(self) -> list[str]:
        return self._whole.steps

    def __iter__(self) -> Iterator[tuple[int, Fate]]:
        self._whole.notes_news = True
        yield 0, self._whole
        for step in self._whole.news:
            yield step, Fate(step)


class SteppedShelf:
    """Of all that is done with a shelf, taking a file off is two steps."""

    def __init__(self, shelf: Any, fate: Fate) -> None:
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


def doomed(fate: Fate, stores: Stores) -> Stores:
    """The same stores, for one life."""
    reminders = SteppedShelf(stores.reminders, fate)
    shelves = replace(stores.shelves, reminders=reminders)
    return replace(fated(stores, fate), shelves=shelves)


def _new_directory(root: Path) -> Path:
    """All tales of a test begin in a copy of it: to make one takes several times as long."""
    if not root.exists():
        DataDirectory(root).run(lambda _: None, is_holder=True)
    return root


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

    async def live(
        self,
        fate: Fate,
        is_over: Callable[[Day], bool],
        judge: Callable[[Day], None],
        *,
        seconds: float,
    ) -> None:
        """Until it `is_over`, which is then to be judged, or until it dies."""
        path = self.root / "state" / DATABASE
        with closing(sqlite3.connect(path, check_same_thread=False)) as database, suppress(Crash):
            fate.kept = lambda: self.kept(database)
            async with day(
                self.engine,
                self.root,
                clock=self.clock,
                disk=QuickDisk(),
                seen=partial(doomed, fate),
                channels=self.channels,
            ) as at:
                # What is dead does not always say so to whoever waits.
                await at.until(lambda: fate.is_dead or at.clock.sleeping > 1)
                await at.clock.advance(seconds)
                await at.until(lambda: fate.is_dead or is_over(at))
                if not fate.is_dead:
                    judge(at)
