"""A journal that also has kept what is changed by hand and by tools that keep nothing."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from ollim_bot.domain.agent_caller import CONVERSATION
from ollim_bot.domain.changes import Changer
from ollim_bot.errors import StorageError
from ollim_bot.ports import Journal
from ollim_bot.store.changes import TASKS, FileChanges, changer_now, is_watched, shared_file


class ChangeJournal:
    """A `Journal` that also has the changes kept that no writer of the program keeps itself."""

    def __init__(self, journal: Journal, root: Path) -> None:
        self._journal = journal
        self._root = Path(os.path.realpath(root))
        self._lock = threading.Lock()
        self._waiting: dict[str, Changer] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_more = asyncio.Event()

    def note(self, path: Path, message: str, source: str = "") -> None:
        self._journal.note(path, message, source)
        whole = self._root / path
        real = Path(os.path.realpath(whole.parent), whole.name)
        if not real.is_relative_to(self._root):
            return
        place = real.relative_to(self._root).as_posix()
        by = _changer(place, message) if is_watched(place) else None
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


def _changer(place: str, message: str) -> Changer | None:
    """Who made the change that is noted so, if no one has kept it; None if its writer keeps it."""
    if message.startswith("by hand: "):
        return Changer.HAND
    if message.startswith("auto: "):
        return None if shared_file(place) is not None else Changer.AGENT
    if message.startswith("undo: "):
        return None
    if place != TASKS:
        return Changer.PROGRAM
    by = changer_now()
    return Changer.BUTTON if by is Changer.PROGRAM else by
