"""Programs that go into the background: they stay below the bot, so that the agent's limits hold.

Only Linux can do so. Elsewhere a program whose parent has ended belongs to the system at once.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ollim_bot.kernel.base.processes import children_of_this

_SET, _GET = 36, 37
# In seconds: how often adopted ones that have ended are looked for, and how long one may take to
# end at the end of the bot.
_EVERY, _GRACE = 30.0, 2.0
_LOOK = 0.05


def _ask(question: int, value: object) -> None:
    ctypes.CDLL(None).prctl(question, value, 0, 0, 0)


def adopt(*, adopts: bool = True) -> None:
    """Be the parent of all below this process whose own parent ends from now on."""
    if sys.platform == "linux":
        _ask(_SET, int(adopts))


@contextmanager
def passing_on() -> Iterator[None]:
    """What loses its parent inside belongs to the system: it outlives this process."""
    adopts = ctypes.c_int(0)
    if sys.platform == "linux":
        _ask(_GET, ctypes.byref(adopts))
    adopt(adopts=False)
    try:
        yield
    finally:
        adopt(adopts=bool(adopts.value))


class Orphans:
    """Adopts until `end`, and clears away one by one those that have ended."""

    def __init__(self) -> None:
        self._ended: set[int] = set()
        self._is_over = threading.Event()

    def adopt(self) -> None:
        adopt()
        threading.Thread(target=self._run, name="orphans", daemon=True).start()

    def end(self) -> None:
        """Adopt no more, and end those that still run, but for git, which finishes what it writes.

        Call it when the programs of the bot itself have ended.
        """
        self._is_over.set()
        adopt(adopts=False)
        for number in (signal.SIGTERM, signal.SIGKILL):
            latest = time.monotonic() + _GRACE
            while (running := [*self._running()]) and time.monotonic() < latest:
                for pid in running:
                    with suppress(OSError):
                        os.kill(pid, number)
                time.sleep(_LOOK)

    def clear(self) -> None:
        """Clear away what had ended already at the last call: the parent of others does it sooner.

        A program that the bot started itself is waited for by what started it.
        """
        ended = {pid for pid in children_of_this() if _has_ended(pid)}
        for pid in ended & self._ended:
            with suppress(OSError):
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
        self._ended = ended

    def _run(self) -> None:
        while not self._is_over.wait(_EVERY):
            self.clear()

    def _running(self) -> Iterator[int]:
        return (pid for pid in children_of_this(but="git") if not _has_ended(pid))


def _has_ended(pid: int) -> bool:
    """Whether the child only waits to be cleared away, which this call does not do."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except OSError:
        return True
