"""Tells when files of the data directory change."""

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
    Set,
)
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from watchfiles import watch

from ollim_bot.paths import DataPaths
from ollim_bot.ports import Clock

SCAN_SECONDS = 10.0

_RETRY_SECONDS = 60.0
_MOMENT = 0.2
# A burst of changes is one signal, which comes this many milliseconds after its first at the most.
_LONGEST_BURST = 100
_PAUSE_AFTER_BURST = 40
_HEARTBEAT = 250

# The paths of each burst as it comes, and now and then nothing, until the event is set.
Events = Callable[[Iterable[Path], threading.Event], Iterator[Iterable[Path]]]

# Each folder that is there, and what tells it from another that took its place.
_Ground = Mapping[Path, tuple[int, int]]


def file_events(folders: Iterable[Path], stop: threading.Event) -> Iterator[Iterable[Path]]:
    """What changes directly in the folders. Raises where the system cannot say."""
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
    """Says when something in the data directory may have changed: in the folders of jobs and of
    skills, and in the directory itself.

    It is an iterator without end, and never misses a change: one that nobody waited for is said
    when somebody does. Where the system tells nothing, and in any case, it says so every 10 s.
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
        self._stirred = asyncio.Event()
        self._is_listening = False
        self._is_told = False

    def __aiter__(self) -> AsyncIterator[None]:
        return self

    async def __anext__(self) -> None:
        await self.wait()

    async def wait(self, at_most: float = SCAN_SECONDS) -> bool:
        """Until something may have changed, or the seconds have passed.

        True if the system is listened to and has told of nothing.
        """
        alarm = asyncio.create_task(self._clock.sleep(at_most))
        stir = asyncio.create_task(self._stirred.wait())
        try:
            await asyncio.wait((alarm, stir), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _ended(alarm, stir)
        is_calm = self._is_listening and not self._stirred.is_set()
        self._stirred.clear()
        return is_calm

    async def run(self) -> None:
        """Listen to the system until cancelled; without it, there is only the looking."""
        while True:
            ground = await asyncio.to_thread(_ground, self._paths)
            try:
                await self._listen(ground)
            except FileNotFoundError:
                # A folder went away just before it could be listened to.
                await self._clock.sleep(_MOMENT)
            except (OSError, RuntimeError) as trouble:
                await self._say(trouble)
                await self._clock.sleep(_RETRY_SECONDS)

    async def _listen(self, ground: _Ground) -> None:
        """Until a folder is another one than it was."""
        async with self._heard(ground) as moved:
            checking = asyncio.create_task(self._moved_unheard(ground))
            try:
                await asyncio.wait((moved, checking), return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _ended(checking)
            if moved.done():
                moved.result()
        self._stirred.set()

    async def _moved_unheard(self, ground: _Ground) -> None:
        while await asyncio.to_thread(_ground, self._paths) == ground:
            await self._clock.sleep(SCAN_SECONDS)

    @asynccontextmanager
    async def _heard(self, ground: _Ground) -> AsyncIterator[asyncio.Future[None]]:
        """The future is done when a folder has moved, and fails when the events do."""
        loop = asyncio.get_running_loop()
        moved: asyncio.Future[None] = loop.create_future()
        stop = threading.Event()

        def hear() -> None:
            try:
                for number, burst in enumerate(self._events(ground, stop)):
                    paths = frozenset(burst)
                    # With the first sign the listening has begun: what came before was not heard.
                    if paths or number == 0:
                        loop.call_soon_threadsafe(self._hear, moved, paths)
                if not stop.is_set():
                    raise RuntimeError("it has fallen silent")
            except Exception as trouble:  # noqa: BLE001 - handed over to the one who waits
                loop.call_soon_threadsafe(_fail, moved, trouble)

        # Its own, since it is in use for as long as the bot runs.
        thread = threading.Thread(target=hear, name="watcher", daemon=True)
        thread.start()
        try:
            yield moved
        finally:
            self._is_listening = False
            stop.set()
            moved.cancel()
            await asyncio.shield(asyncio.to_thread(thread.join))

    def _hear(self, moved: asyncio.Future[None], paths: Set[Path]) -> None:
        self._is_listening = not moved.done()
        self._stirred.set()
        if not moved.done() and any(map(self._is_ground, paths)):
            moved.set_result(None)

    def _is_ground(self, path: Path) -> bool:
        return path in _folders(self._paths) or path.parent == self._paths.skills

    async def _say(self, trouble: Exception) -> None:
        if self._is_told:
            return
        self._is_told = True
        reason = getattr(trouble, "strerror", None) or str(trouble)
        await self._tell(
            f"The system does not tell when files change ({reason}). Edits of routines and "
            f"reminders are noticed within {SCAN_SECONDS:.0f} seconds instead of at once."
        )


def _folders(paths: DataPaths) -> Sequence[Path]:
    """Each is watched without what lies deeper: `state/` is busy, and nobody's concern here."""
    return paths.root, paths.routines, paths.reminders, paths.webhooks, paths.skills


def _ground(paths: DataPaths) -> _Ground:
    ground: dict[Path, tuple[int, int]] = {}
    for folder in _folders(paths):
        with suppress(OSError):
            ground[folder] = _identity(folder)
    with suppress(OSError), os.scandir(paths.skills) as skills:
        for skill in skills:
            with suppress(OSError):
                if skill.is_dir():
                    ground[Path(skill.path)] = _identity(Path(skill.path))
    return ground


def _identity(folder: Path) -> tuple[int, int]:
    status = os.stat(folder)
    return status.st_dev, status.st_ino


def _fail(moved: asyncio.Future[None], trouble: Exception) -> None:
    if not moved.done():
        moved.set_exception(trouble)


async def _ended(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
