"""An event loop in virtual time: when nothing can run, it moves to the next timer at once.

Sockets and the threads of pools are waited for. So a pause takes no real time, and it takes its
full virtual time however busy the machine is.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import threading
import time
from concurrent.futures import Executor
from datetime import datetime, timedelta, tzinfo
from functools import cache

from devtools.doubles.clock import PoolThreads
from tests.patience import patience

# In seconds. What is on its way between two sockets of this machine arrives within it, and threads
# outside of pools get on meanwhile.
_PAUSE = 0.001
# A jump of so many seconds could end a wait as too long, so it is made only after several pauses.
_LONG_JUMP, _LONG_PAUSE, _LONG_PAUSES = 1.0, 0.01, 5
# A timer is never early, as it would be by rounding.
_LATE = 1e-6

Ready = list[tuple[selectors.SelectorKey, int]]


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`time` moves only when nothing can run, and then to the moment of the next timer."""

    def __init__(self) -> None:
        _loopback()
        self._virtual = _JumpingSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    async def shutdown_default_executor(self, *timeout: float | None) -> None:
        """End the pool at once if it is idle: else a thread is started to wait for its end."""
        pool: Executor | None = getattr(self, "_default_executor", None)
        if pool is not None and self._virtual.pool_threads.is_idle():
            pool.shutdown()
            self._default_executor = None
        await super().shutdown_default_executor(*timeout)


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = time.monotonic()
        self.pool_threads = PoolThreads()

    def select(self, timeout: float | None = None) -> Ready:
        if (ready := super().select(0)) or (timeout is not None and timeout <= 0):
            return ready
        while self.pool_threads.look():
            if ready := super().select(_PAUSE):
                return ready
        if timeout is None:
            return self._awaited()
        if self._has_company() and (ready := self._paused(timeout)):
            return ready
        self.now += timeout + _LATE
        return []

    def _awaited(self) -> Ready:
        """What comes from a socket or a thread, since there is no timer."""
        if ready := super().select(patience()):
            return ready
        raise TimeoutError("Nothing can happen any more: there is no timer, and nothing comes.")

    def _paused(self, jump: float) -> Ready:
        """What comes within the pause before a jump."""
        pauses, seconds = (_LONG_PAUSES, _LONG_PAUSE) if jump > _LONG_JUMP else (1, _PAUSE)
        for _ in range(pauses):
            _loopback().pass_byte()
            if ready := super().select(seconds):
                return ready
        return []

    def _has_company(self) -> bool:
        """Whether something comes from sockets or threads. One socket is the loop's own."""
        return len(self.get_map()) > 1 or threading.active_count() > 1


class _Loopback:
    """A connection by which the system delivers a byte no sooner than what was sent before.

    A busy system delivers later than a fixed pause expects.
    """

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            # Open until the end of the process.
            self._out = socket.create_connection(server.getsockname()).detach()
            self._in = server.accept()[0].detach()

    def pass_byte(self) -> None:
        os.write(self._out, b".")
        os.read(self._in, 1)


@cache
def _loopback_of(_: int) -> _Loopback:
    return _Loopback()


def _loopback() -> _Loopback:
    """The one of this process: a fork must not use that of its parent."""
    return _loopback_of(os.getpid())


class LoopClock:
    """A `MovableClock` by the running loop: virtual time passes on it in a virtual test."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._loop = asyncio.get_running_loop()

    def now(self) -> datetime:
        ahead = timedelta(seconds=self._loop.time() - time.monotonic())
        return datetime.now(self._zone) + ahead

    def set_zone(self, zone: tzinfo) -> None:
        self._zone = zone

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
