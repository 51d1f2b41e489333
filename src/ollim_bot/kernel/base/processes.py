"""Which processes stand above another one, and directly below this one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

if sys.platform == "darwin":
    import ctypes

# Of macOS: what is asked of `proc_pidinfo`, how long its answer is, where in it the parent stands.
_BSD_INFO, _LENGTH, _PARENT = 3, 136, slice(16, 20)


def parent_of(pid: int) -> int | None:
    """The process that started this one; None if the system does not tell, or it has ended."""
    if sys.platform == "darwin":
        info = ctypes.create_string_buffer(_LENGTH)
        told = ctypes.CDLL(None).proc_pidinfo(pid, _BSD_INFO, ctypes.c_uint64(0), info, _LENGTH)
        return int.from_bytes(info.raw[_PARENT], sys.byteorder) if told == _LENGTH else None
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as status:
            # The program's name is in parentheses, and may itself contain some.
            return int(status.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def line_of(pid: int) -> Iterator[int]:
    """The process and those above it, nearest first, as far as the system tells."""
    above: int | None = pid
    while above is not None and above > 1:
        yield above
        above = parent_of(above)


def children_of_this(but: str = "") -> Iterator[int]:
    """The children of this process, leaving out those of a name; none if the system lists none."""
    for listing in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, listing.read_text().split()):
                if not (but and _name_of(child) == but):
                    yield child


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
