"""Run as a program: in one child process per moment, restore a backup until it is killed there.

Argument: a folder with the home `first` and a `backup.tar.gz`; each moment gets a copy of the home,
which is named after it. The moments are those before each call of the operating system that changes
a name, and before each new file. One child lives to the end, to count them.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.upkeep.backups import NOW, Home

_CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "ctypes.dlsym", "os.utime"}


class Moments:
    """Kills this process at the change of the given number; the interpreter tells of each."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.passed = 0
        sys.addaudithook(self._come)

    def _come(self, event: str, arguments: tuple[Any, ...]) -> None:
        is_new_file = (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
        )
        if event in _CHANGES or is_new_file:
            self.passed += 1
            if self.passed == self._number:
                os.kill(os.getpid(), signal.SIGKILL)


def restored(folder: Path, number: int) -> int:
    """Restore in a child process that dies at that moment; returns how many it lived through."""
    shutil.copytree(folder / "first", folder / str(number), symlinks=True)
    home = Home(folder / str(number), NOW + timedelta(hours=1))
    home.write("USER.md", "later")
    child = os.fork()
    if child == 0:
        moments = Moments(number)
        home.restore(folder / "backup.tar.gz")
        (folder / "count").write_text(str(moments.passed))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return int((folder / "count").read_text()) if status == 0 else number


def main() -> None:
    folder = Path(sys.argv[1])
    count = restored(folder, 1_000_000)
    # Until the exchange at the end each moment leaves the same: a folder that is not in place yet.
    for number in sorted({*range(1, count, count // 6), *range(count - 16, count + 1)}):
        restored(folder, number)
        print(number, flush=True)


if __name__ == "__main__":
    main()
