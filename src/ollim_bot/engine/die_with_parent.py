"""Becomes the program that its arguments name, and has the kernel end it with its parent.

The parent is the thread that started this program, so that has to be one that stays: the event
loop's. Should it be gone before the kernel is asked, then the program finds its input closed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(command: list[str]) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
