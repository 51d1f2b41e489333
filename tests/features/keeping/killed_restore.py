"""Run as a program: restore a backup in child processes, and kill each at another crash point.

Argument: a folder with the home `first` and a `backup.tar.gz`. Each crash point gets a copy of the
home, named after its number. A crash point is before each system call that changes a name, and
before each new file. One child runs to the end and counts the crash points.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.features.keeping.backups import NOW, Home

_CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "ctypes.dlsym", "os.utime"}


class FileChangeCrashPoint:
    """Kills this process at the file change of the given number, seen by an audit hook."""

    def __init__(self, number: int) -> None:
        self._crash_at = number
        self.passed = 0
        sys.addaudithook(self._on_audit_event)

    def _on_audit_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        is_new_file = (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
        )
        if event in _CHANGES or is_new_file:
            self.passed += 1
            if self.passed == self._crash_at:
                os.kill(os.getpid(), signal.SIGKILL)


def restore_until_killed(folder: Path, number: int) -> int:
    """Restore in a child process that is killed at this crash point; return how many it reached."""
    shutil.copytree(folder / "first", folder / str(number), symlinks=True)
    home = Home(folder / str(number), NOW + timedelta(hours=1))
    home.write("USER.md", "later")
    child = os.fork()
    if child == 0:
        crash_point = FileChangeCrashPoint(number)
        home.restore(folder / "backup.tar.gz")
        (folder / "count").write_text(str(crash_point.passed))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return int((folder / "count").read_text()) if status == 0 else number


def main() -> None:
    folder = Path(sys.argv[1])
    count = restore_until_killed(folder, 1_000_000)
    # Before the final exchange all crash points leave the same state, so a few of them are enough.
    for number in sorted({*range(1, count, count // 6), *range(count - 16, count + 1)}):
        restore_until_killed(folder, number)
        print(number, flush=True)


if __name__ == "__main__":
    main()
