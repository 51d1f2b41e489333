"""Two kinds of test: virtual ones, which run in this process and in virtual time, and real ones.

A virtual test is deterministic: it starts no process and never waits for the wall clock. One that
does either without a mark fails, and the failure names the mark that it needs.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, ParamSpec, TypeVar

import pytest
from tests.virtual_loop import VirtualTimeLoop

REAL_MARKS = {
    "real_process": "starts processes",
    "own_process": "runs the bot in a process of its own",
    "real_engine": "starts the program of the engine",
    "browser": "shows the page in a browser",
    "terminal": "types into a terminal",
    "real_time": "waits by the wall clock",
    "chaos": "kills real processes at random moments",
}

_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec"})
P = ParamSpec("P")
T = TypeVar("T")

_ROOT = Path(__file__).resolve().parents[1]


_noting: list[bool] = [True]


def made_once(make: Callable[P, T]) -> Callable[P, T]:
    """Cache what several tests share. To make it is no part of the test that needs it first."""

    @cache
    def made(*arguments: P.args, **named: P.kwargs) -> T:
        _noting.append(False)
        try:
            return make(*arguments, **named)
        finally:
            _noting.pop()

    return made  # type: ignore[return-value]


def is_real(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(mark) for mark in REAL_MARKS)


class KindGuard:
    """A plugin that gives each test a loop of its kind, and fails a virtual test that is none.

    What a test does is noted and not refused, so that it ends in good order.
    """

    def __init__(self) -> None:
        self._is_virtual = False
        self._noted: dict[str, str] = {}
        sys.addaudithook(self._note_start)
        time.sleep = self._noting_sleep(time.sleep)  # type: ignore[assignment]
        threading.Condition.wait = _noting_wait(  # type: ignore[method-assign]
            threading.Condition.wait, self._note
        )

    def pytest_configure(self, config: pytest.Config) -> None:
        for mark, meaning in REAL_MARKS.items():
            config.addinivalue_line("markers", f"{mark}: the test {meaning}")

    def pytest_asyncio_loop_factories(self) -> Mapping[str, Callable[[], Any]]:
        return {"kind": self._new_loop}

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        return VirtualTimeLoop() if self._is_virtual else asyncio.SelectorEventLoop()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._is_virtual = not is_real(item)
        self._noted.clear()
        try:
            return (yield)
        finally:
            self._is_virtual = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, None, None]:
        yield
        if self._noted:
            mark, deed = next(iter(self._noted.items()))
            pytest.fail(f"A virtual test {deed}. Mark it with `{mark}`.", pytrace=False)

    def _note_start(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_virtual and event in _STARTS:
            program = str(arguments[0]) if event == "subprocess.Popen" else ""
            self._note(_mark_of(program), "starts a process")

    def _noting_sleep(self, sleep: Callable[[float], None]) -> Callable[[float], None]:
        def noted(seconds: float) -> None:
            if seconds > 0:
                self._note("real_time", f"sleeps for {seconds:g} s")
            sleep(seconds)

        return noted

    def _note(self, mark: str, deed: str) -> None:
        if self._is_virtual and _noting[-1]:
            self._noted.setdefault(mark, f"{deed}, at {_place(sys._getframe(2))}")


def _noting_wait(
    wait: Callable[..., bool], note: Callable[[str, str], None]
) -> Callable[..., bool]:
    def noted(condition: threading.Condition, timeout: float | None = None) -> bool:
        is_notified = wait(condition, timeout)
        # Other threads may wait: the test goes on meanwhile.
        is_main = threading.current_thread() is threading.main_thread()
        if timeout and not is_notified and is_main:
            note("real_time", f"waits for {timeout:g} s")
        return is_notified

    return noted


def _mark_of(program: str) -> str:
    if Path(program).name == "claude":
        return "real_engine"
    return "browser" if "playwright" in program else "real_process"


def _place(frame: FrameType | None) -> str:
    """The innermost line of this project, outside of this file."""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(_ROOT) and ".venv" not in path.parts and path != Path(__file__):
            return f"{path.relative_to(_ROOT)}:{frame.f_lineno}"
        frame = frame.f_back
    return "a line of a library"
