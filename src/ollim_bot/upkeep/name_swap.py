"""Lets two folders take each other's names."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

# RENAME_EXCHANGE of Linux and RENAME_SWAP of macOS.
_SWAP = 2
_AT_CWD = -100


def swap_names(first: Path, second: Path) -> bool:
    """Exchange the two names in one step; False if the system or the disk cannot do that."""
    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(first), os.fsencode(second)
    try:
        if sys.platform == "darwin":
            code = library.renamex_np(*names, _SWAP)
        else:
            code = library.renameat2(_AT_CWD, names[0], _AT_CWD, names[1], _SWAP)
    except AttributeError:
        return False
    if code == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(first))
