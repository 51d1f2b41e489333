"""Starts the bot in forked processes that have its program loaded, which saves most of the time.

The server process is forked before any test runs, so that it has no threads. `test_starting.py`
starts the bot in a new interpreter, and so does every restart of the bot.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import ModuleType
from typing import NoReturn, Protocol

_PRELOADED = ("ollim_bot.surfaces.terminal.main", "ollim_bot.app.start", "tests.e2e.killable_bot")
_POLL_SECONDS = 0.01

Program = Callable[[], None]


class Process(Protocol):
    """The part of `asyncio.subprocess.Process` that the tests use."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def send_signal(self, signal: int) -> None: ...

    async def wait(self) -> int: ...


class ForkedProcess:
    def __init__(self, pid: int, exit_code: Callable[[int], int | None]) -> None:
        self.pid = pid
        self._exit_code = exit_code

    @property
    def returncode(self) -> int | None:
        return self._exit_code(self.pid)

    def send_signal(self, signal: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal)

    async def wait(self) -> int:
        # Not in a thread, which would stay behind after a cancellation.
        while (code := self.returncode) is None:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(_POLL_SECONDS)
        return code


class ForkServer:
    """A process that forks itself to start others; it ends with its parent."""

    def __init__(self) -> None:
        self._connection, server_end = Pipe()
        self._exit_codes: dict[int, int] = {}
        self.pid = os.fork()
        if self.pid == 0:
            self._connection.close()
            _serve(server_end)
        server_end.close()

    def start(
        self, home: Path, environment: Mapping[str, str], output: Path, run: Program
    ) -> ForkedProcess:
        # As a fork by this process would, since it is one for those who watch processes.
        sys.audit("os.fork")
        self._connection.send((str(home), dict(environment), str(output), run))
        while True:
            pid, code = self._connection.recv()
            if code is None:
                return ForkedProcess(pid, self._exit_code)
            self._exit_codes[pid] = code

    def _exit_code(self, pid: int) -> int | None:
        while self._connection.poll():
            ended, code = self._connection.recv()
            self._exit_codes[ended] = code
        return self._exit_codes.get(pid)


_fork_servers: list[ForkServer] = []


def prepare() -> None:
    """Start the fork server of this process, which must have no threads yet."""
    _fork_servers[:] = [ForkServer()]


def processes() -> list[int]:
    """The pids of the fork servers of this process."""
    return [each.pid for each in _fork_servers]


def _program() -> None:
    import_module("ollim_bot.surfaces.terminal.main").run()


async def start_bot(
    home: Path, environment: Mapping[str, str], output: Path, run: Program = _program
) -> ForkedProcess:
    """Start the bot in `home` with only this environment; its output is appended to `output`."""
    (server,) = _fork_servers
    return server.start(home, environment, output, run)


def _serve(requests: Connection) -> NoReturn:
    """Send the pid of each process that starts, and the pid and exit code of each that ends."""
    # Else processes that a bot starts with `multiprocessing` would load pytest as main module.
    sys.modules["__main__"] = ModuleType("__main__")
    running: dict[int, ForkProcess] = {}
    try:
        while True:
            for ready in wait([requests, *running]):
                if isinstance(ready, int):
                    ended = running.pop(ready)
                    ended.join()
                    requests.send((ended.pid, ended.exitcode))
                    continue
                given = requests.recv()
                for name in _PRELOADED:
                    import_module(name)
                begun = ForkProcess(target=_run, args=given)
                begun.start()
                running[begun.sentinel] = begun
                requests.send((begun.pid, None))
    except (EOFError, OSError, KeyboardInterrupt):
        pass
    finally:
        for each in running.values():
            each.kill()
        os._exit(0)


def _run(home: str, environment: Mapping[str, str], output: str, run: Program) -> None:
    os.chdir(home)
    os.environ.clear()
    os.environ.update(environment)
    kept = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(kept, 1)
    os.dup2(kept, 2)
    os.close(kept)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, "utf-8", "backslashreplace", closefd=False)
    sys.argv = ["ollim-bot"]
    run()
