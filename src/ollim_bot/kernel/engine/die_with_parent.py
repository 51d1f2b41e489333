"""Runs the program that its arguments name, which the kernel kills when its parent dies.

It is in a process group of its own: Ctrl-C in the bot's terminal stops the bot, which then lets the
program finish.

The parent is the thread that started this script, so it must be one that stays: the thread of the
event loop. If it dies before the kernel is asked, the program finds its input closed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

# Before the program: it does not get the variables that are empty.
WITHOUT_EMPTY = "--without-empty"
_PR_SET_PDEATHSIG = 1


def main(command: list[str]) -> None:
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    environment = dict(os.environ)
    if command[0] == WITHOUT_EMPTY:
        command = command[1:]
        environment = {name: value for name, value in environment.items() if value}
    os.execve(command[0], command, environment)


if __name__ == "__main__":
    main(sys.argv[1:])
