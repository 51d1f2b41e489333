"""Reports when files of the data directory change."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from pathlib import Path

from watchfiles import watch

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.paths import DataPaths

SCAN_SECONDS = 10.0

# A burst of changes is one signal, sent at most this many milliseconds after the first change.
_LONGEST_BURST = 100
_PAUSE_AFTER_BURST = 40
_HEARTBEAT = 250

# Yields the paths of each burst of changes, and empty bursts in between, until the event is set.
Events = Callable[[Iterable[Path], threading.Event], Iterator[Iterable[Path]]]

# Each existing folder, with an identity that differs for a later folder of the same name.
_Folders = Mapping[Path, tuple[int, int]]


def file_events(folders: Iterable[Path], stop: threading.Event) -> Iterator[Iterable[Path]]:
    """Yield the changes directly in the folders. Raises if the system cannot report them."""
    bursts = watch(
        *folders,
        watch_filter=None,
        debounce=_LONGEST_BURST,
        step=_PAUSE_AFTER_BURST,
        stop_event=stop,
        rust_timeout=_HEARTBEAT,
        yield_on_timeout=True,
        raise_interrupt=False,
        recursive=False,
        ignore_permission_denied=True,
    )
    return ([Path(path) for _, path in burst] for burst in bursts)


class Watcher:
    """Reports when the data directory itself or a folder of jobs or skills may have changed.

    It is an endless iterator and misses no change: a change that comes while no caller waits is
    reported to the next caller. It also reports every 10 s, for systems that report nothing.
    """

    def __init__(
        self,
        paths: DataPaths,
        clock: Clock,
        tell: Callable[[str], Awaitable[object]],
        *,
        events: Events = file_events,
    ) -> None:
        self._paths = paths
        self._clock = clock
        self._tell = tell
        self._events = events
        self.woken = asyncio.Event()
        self._is_listening = False
        self._is_told = False

    def __aiter__(self) -> AsyncIterator[None]:
        return self

    async def __anext__(self) -> None:
        await self.wait()

    async def wait(self, at_most: float = SCAN_SECONDS) -> bool:
        """Wait until something may have changed, or until the seconds have passed.

        True if the system reports changes and has reported none.
        """
        alarm = asyncio.create_task(self._clock.sleep(at_most))
        stir = asyncio.create_task(self.woken.wait())
        try:
            await asyncio.wait((alarm, stir), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _ended(alarm, stir)
        is_calm = self._is_listening and not self.woken.is_set()
        self.woken.clear()
        return is_calm

    async def run(self) -> None:
        """Listen to the system until cancelled."""
        while True:
            folders = await asyncio.to_thread(_identities, self._paths)
            try:
                await self._listen(folders)
            except FileNotFoundError:
                # A folder was removed just before the listening began.
                await self._clock.sleep(0.2)
            except (OSError, RuntimeError) as trouble:
                await self._say(trouble)
                await self._clock.sleep(60.0)

    async def _listen(self, folders: _Folders) -> None:
        """Listen until a folder is replaced or goes away."""
        loop, stop = asyncio.get_running_loop(), threading.Event()
        ended: asyncio.Future[Exception | None] = loop.create_future()

        def hear() -> None:
            loop.call_soon_threadsafe(ended.set_result, self._hear(folders, loop, stop))

        # A thread of the pool would be occupied for as long as the bot runs.
        thread = threading.Thread(target=hear, name="watcher", daemon=True)
        thread.start()
        checking = asyncio.create_task(self._moved_unheard(folders))
        try:
            await asyncio.wait((ended, checking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._is_listening = False
            stop.set()
            await _ended(checking)
            await asyncio.shield(asyncio.to_thread(thread.join))
        if ended.done() and (trouble := ended.result()) is not None:
            raise trouble
        self.woken.set()

    async def _moved_unheard(self, folders: _Folders) -> None:
        while await asyncio.to_thread(_identities, self._paths) == folders:
            await self._clock.sleep(SCAN_SECONDS)

    def _hear(
        self, folders: _Folders, loop: asyncio.AbstractEventLoop, stop: threading.Event
    ) -> Exception | None:
        """Report changes, in a thread, until told to stop, or until a folder is touched itself."""
        watched, skills = _watched(self._paths), self._paths.skills
        try:
            for number, burst in enumerate(self._events(folders, stop)):
                paths = frozenset(burst)
                # Changes before the first burst were not reported.
                if paths or number == 0:
                    loop.call_soon_threadsafe(self._wake)
                if any(path in watched or path.parent == skills for path in paths):
                    return None
        except Exception as trouble:  # noqa: BLE001 - raised by the waiting task
            return trouble
        return None if stop.is_set() else RuntimeError("it has fallen silent")

    def _wake(self) -> None:
        self._is_listening = True
        self.woken.set()

    async def _say(self, trouble: Exception) -> None:
        if self._is_told:
            return
        self._is_told = True
        reason = getattr(trouble, "strerror", None) or str(trouble)
        await self._tell(
            f"The system does not tell when files change ({reason}). Edits of routines and "
            f"reminders are noticed within {SCAN_SECONDS:.0f} seconds instead of at once."
        )


def _watched(paths: DataPaths) -> Sequence[Path]:
    """The folders to watch, without subfolders, because `state/` changes all the time."""
    return paths.root, *map(paths.jobs, JobKind), paths.skills


def _identities(paths: DataPaths) -> _Folders:
    folders: dict[Path, tuple[int, int]] = {}
    for folder in _watched(paths):
        with suppress(OSError):
            folders[folder] = _identity(folder)
    with suppress(OSError), os.scandir(paths.skills) as skills:
        for skill in skills:
            with suppress(OSError):
                if skill.is_dir():
                    folders[Path(skill.path)] = _identity(Path(skill.path))
    return folders


def _identity(folder: Path) -> tuple[int, int]:
    status = os.stat(folder)
    return status.st_dev, status.st_ino


async def _ended(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
