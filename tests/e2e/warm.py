"""Starts the bot in processes that have its program loaded already, which is most of a start.

They are forked from one that did nothing but load it. That a start from nothing works as well is
shown by `test_starting.py`, and by every restart, which loads anew.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from io import TextIOWrapper
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Protocol

_LOADED = ("ollim_bot.cli.main", "ollim_bot.cli.start", "tests.e2e.killable")
_OFTEN = 0.01


class Process(Protocol):
    """What a process of asyncio can do, as far as it is needed here."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def send_signal(self, signal: int) -> None: ...

    async def wait(self) -> int: ...


class WarmProcess:
    def __init__(self, process: ForkServerProcess) -> None:
        assert process.pid is not None
        self._process = process
        self.pid = process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, signal: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal)

    async def wait(self) -> int:
        # Not in a thread, which would stay behind where nobody waits any longer.
        while (code := self.returncode) is None:  # noqa: ASYNC110 - it rings no bell
            await asyncio.sleep(_OFTEN)
        return code


def _program() -> None:
    import_module("ollim_bot.cli.main").run()


async def started(
    home: Path,
    environment: Mapping[str, str],
    output: Path,
    run: Callable[[], None] = _program,
) -> WarmProcess:
    """The bot, in its home and with this environment alone; all that it prints is appended."""
    context = get_context("forkserver")
    context.set_forkserver_preload(list(_LOADED))
    arguments = (str(home), dict(environment), str(output), run)
    process = context.Process(target=_run, args=arguments)
    await asyncio.to_thread(process.start)
    return WarmProcess(process)


def _run(home: str, environment: Mapping[str, str], output: str, run: Callable[[], None]) -> None:
    os.chdir(home)
    os.environ.clear()
    os.environ.update(environment)
    kept = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(kept, 1)
    os.dup2(kept, 2)
    os.close(kept)
    assert isinstance(sys.stdout, TextIOWrapper)
    sys.stdout.reconfigure(encoding="utf-8")
    sys.argv = ["ollim-bot"]
    run()
