"""Which processes stand above another one."""

from __future__ import annotations

from collections.abc import Iterator


def parent_of(pid: int) -> int | None:
    """The process that started this one; None if the system does not tell, or it has ended."""
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
