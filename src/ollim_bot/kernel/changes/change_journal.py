"""A journal that also has kept what is changed by hand and by tools that keep nothing."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.changes.file_changes import (
    TASKS,
    FileChanges,
    changer_now,
    is_watched,
    shared_file,
)
from ollim_bot.kernel.store.files import Stamp, stamp
from ollim_bot.kernel.values.agent_caller import CONVERSATION
from ollim_bot.kernel.values.changes import Changer
from ollim_bot.kernel.values.ports import Journal

# The program notes its own writes at once, and writes of the agent when the call has ended.
_GRACE_SECONDS = 3.0
_REMEMBERED_SECONDS = 60.0


class ChangeJournal:
    """A `Journal` that also has the changes kept that no writer of the program keeps itself.

    What was seen to change and is not as a writer notes it within a moment was changed by hand.
    """

    def __init__(self, journal: Journal, root: Path, clock: Clock) -> None:
        self._journal = journal
        self._root = root
        self._real_root = Path(os.path.realpath(root))
        self._clock = clock
        self._lock = threading.Lock()
        self._noted: dict[Path, tuple[float, Stamp]] = {}
        self._seen: dict[Path, float] = {}
        self._waiting: dict[str, Changer] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_more = asyncio.Event()

    def note(self, path: Path, message: str, source: str = "") -> None:
        file, now = self._real(path), self._clock.monotonic()
        with self._lock:
            self._noted.pop(file, None)
            self._noted[file] = now, stamp(file)
            while now - self._noted[oldest := next(iter(self._noted))][0] > _REMEMBERED_SECONDS:
                del self._noted[oldest]
        self._journal.note(path, message, source)
        self._keep(file, partial(_changer, message))

    def saw(self, paths: Iterable[Path]) -> None:
        """Remember that these files below the root were written or removed."""
        now = self._clock.monotonic()
        with self._lock:
            self._seen.update((path, now) for path in paths)

    def settle(self) -> float | None:
        """Journal the changes that no writer has noted in time.

        Returns in how many seconds the next change is old enough; None if there is none.
        """
        now = self._clock.monotonic()
        with self._lock:
            ripe = [path for path, at in self._seen.items() if now - at >= _GRACE_SECONDS]
            for path in ripe:
                del self._seen[path]
            files = {path: self._real(path) for path in ripe}
            # Whether the file is still as a writer of the program noted it.
            by_hand = [
                path
                for path, file in files.items()
                if file not in self._noted or self._noted[file][1] != stamp(file)
            ]
            waits = [at + _GRACE_SECONDS - now for at in self._seen.values()]
        for path in by_hand:
            self._journal.note(path, f"by hand: {path.relative_to(self._root)}")
            self._keep(files[path], lambda _: Changer.HAND)
        return min(waits, default=None)

    def _real(self, path: Path) -> Path:
        """One path for all names of a file, with the links of its folder resolved."""
        whole = self._root / path
        return Path(os.path.realpath(whole.parent), whole.name)

    def _keep(self, file: Path, changer: Callable[[str], Changer | None]) -> None:
        if not file.is_relative_to(self._real_root):
            return
        place = file.relative_to(self._real_root).as_posix()
        by = changer(place) if is_watched(place) else None
        if by is None:
            return
        with self._lock:
            self._waiting[place] = by
        # What the program did by itself is only remembered, which can wait.
        if self._loop is not None and by is not Changer.PROGRAM:
            self._loop.call_soon_threadsafe(self._has_more.set)

    async def run(self, changes: FileChanges, show: Callable[[], Awaitable[None]]) -> None:
        """Keep what changed while no bot ran and `show` it, and then keep all that is noted."""
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(changes.look)
        await show()
        try:
            while True:
                self._has_more.clear()
                await asyncio.to_thread(self.keep_noted, changes)
                await self._has_more.wait()
        finally:
            with suppress(StorageError):
                self.keep_noted(changes)

    def keep_noted(self, changes: FileChanges) -> None:
        """Keep what was noted since the last call."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for place, by in waiting.items():
            changes.look([place], by, CONVERSATION if by is Changer.AGENT else "")


def _changer(message: str, place: str) -> Changer | None:
    """Who made the change that is noted so, if no one has kept it; None if its writer keeps it."""
    if message.startswith("auto: "):
        return None if shared_file(place) is not None else Changer.AGENT
    if message.startswith("undo: "):
        return None
    if place != TASKS:
        return Changer.PROGRAM
    by = changer_now()
    return Changer.BUTTON if by is Changer.PROGRAM else by
