"""What a test leaves behind is its own failure: processes, threads, tasks, files and settings.

It is looked at when the fixtures of the test have ended, and then put in order for the next test.
What fixtures of several tests have begun before is no part of it. Processes and open files are
found in the way of Linux.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import tempfile
import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest
from tests.e2e import fork_server
from tests.kinds import is_real

# In seconds. Processes and threads that have been told to end do so within it.
GRACE, _BETWEEN_LOOKS = 5.0, 0.005
# Threads of libraries that Python does not know close their files a little after the test.
_SHORT_GRACE = 0.25
# Not the one that is guarded in virtual tests.
_sleep = time.sleep
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
_OPEN_FILES = Path("/proc/self/fd")
# The program of the engine makes these folders and leaves them.
_OF_THE_ENGINE = ("claude-", "cc-")

T = TypeVar("T")


_endings: list[Callable[[], object]] = []


def at_end_of_test(end: Callable[[], object]) -> None:
    """Call it when the fixtures of the running test have ended."""
    _endings.append(end)


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves something behind; it has its name in the failure."""
    own = None
    if "_function_scoped_runner" in request.fixturenames:
        own = request.getfixturevalue("_function_scoped_runner").get_loop()
    # What runs in a loop of several tests, such as a browser, may begin and leave what it likes.
    is_shared = "_session_scoped_runner" in request.fixturenames
    before = _Before(own, is_shared=is_shared, may_start=is_real(request.node))
    yield
    while _endings:
        _endings.pop()()
    if own is not None:
        # Its end would do so too, but that comes later.
        own.run_until_complete(own.shutdown_default_executor())
    if left := list(before.left_since()):
        pytest.fail(f"The test leaves behind {'; '.join(left)}.", pytrace=False)


class _Before:
    """The state before a test."""

    def __init__(self, loop: AbstractEventLoop | None, *, is_shared: bool, may_start: bool) -> None:
        self._loop = loop
        self._is_shared = is_shared
        self._processes = _processes() if may_start else None
        self._threads = set(threading.enumerate())
        self._temporary = _names(Path(tempfile.gettempdir()))
        self._environment = _environment()
        self._folder = os.getcwd()
        self._handlers = {each: signal.getsignal(each) for each in _SIGNALS}
        self._open_files = _open_files()

    def left_since(self) -> Iterator[str]:
        yield from self._changed_settings()
        if not self._is_shared:
            yield from self._tasks()
            yield from self._new_processes()
            yield from self._new_threads()
            yield from self._new_temporary_files()
            yield from self._new_open_files()

    def _tasks(self) -> Iterator[str]:
        if self._loop is None or not asyncio.all_tasks(self._loop):
            return
        # Those that were cancelled may still have to end.
        self._loop.run_until_complete(_wait_for_other_tasks())
        for task in asyncio.all_tasks(self._loop):
            yield f"the task {getattr(task.get_coro(), '__qualname__', task.get_name())}"

    def _new_processes(self) -> Iterator[str]:
        if self._processes is None:
            return
        before = self._processes
        for pid in _remaining(lambda: _processes() - before):
            yield f"the process {_command(pid)}"
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with suppress(OSError):
                os.waitpid(pid, 0)

    def _new_threads(self) -> Iterator[str]:
        deadline = time.monotonic() + GRACE
        for thread in set(threading.enumerate()) - self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                yield f"the thread {thread.name}"

    def _new_temporary_files(self) -> Iterator[str]:
        for name in _names(Path(tempfile.gettempdir())) - self._temporary:
            if not name.startswith(_OF_THE_ENGINE):
                yield f"{name} in the folder for temporary files"

    def _new_open_files(self) -> Iterator[str]:
        if not _remaining(lambda: _open_files() - self._open_files, _SHORT_GRACE):
            return
        # So that what is closed as garbage is warned of in this test. It takes long, so it is last.
        gc.collect()
        for number in _remaining(lambda: _open_files() - self._open_files):
            with suppress(OSError):
                yield f"an open file ({(_OPEN_FILES / number).readlink()})"

    def _changed_settings(self) -> Iterator[str]:
        if (environment := _environment()) != self._environment:
            changed = {name for name, _ in environment.items() ^ self._environment.items()}
            yield f"changes of the environment ({', '.join(sorted(changed))})"
            for name in changed:
                os.environ.pop(name, None)
            os.environ.update(self._environment)
        if os.getcwd() != self._folder:
            yield f"{os.getcwd()} as working directory"
            os.chdir(self._folder)
        for number, handler in self._handlers.items():
            if signal.getsignal(number) != handler:
                yield f"another handler of {number.name}"
                signal.signal(number, handler)


def _remaining(look: Callable[[], set[T]], grace: float | None = None) -> set[T]:
    """What is still there after the grace."""
    deadline = time.monotonic() + (GRACE if grace is None else grace)
    while (left := look()) and time.monotonic() < deadline:
        _sleep(_BETWEEN_LOOKS)
    return left


async def _wait_for_other_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=GRACE)


def _processes() -> set[int]:
    """The children of this process and of its fork server, ended or not, until waited for."""
    found: set[int] = set()
    for parent in (os.getpid(), *fork_server.processes()):
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                found.update(map(int, children.read_text().split()))
    return found


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        words = b"ended"
    return f"{pid} ({words.decode(errors='replace').strip()[:200]})"


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def _open_files() -> set[str]:
    # The listing itself is one of them, but it is closed again.
    return {name for name in _names(_OPEN_FILES) if _is_open(int(name))}


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _names(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()
