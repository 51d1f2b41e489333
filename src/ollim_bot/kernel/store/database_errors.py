"""What the database can refuse, in sentences for a person.

StorageError
├── WriteFailed
│   ├── Busy              another process held the database for too long
│   ├── DiskFull          no room
│   ├── DatabaseReadOnly  the disk or the file cannot be written
│   └── DiskFailing       the disk reports an error
├── Unreadable
│   └── Damaged           the content is not a whole database
├── OtherSchema           made by another version
└── NoDatabase            there is none yet
OutcomeUnknown            a SystemExit: the process must not go on
NotLeading                a SystemExit: this process may not lead any more
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ollim_bot.kernel.base.errors import StorageError, Unreadable, WriteFailed

# The exit code of a process that leads no more; its supervisor starts it again, as a standby.
NOT_LEADING = 75


class Busy(WriteFailed):
    def __init__(self, path: Path) -> None:
        super().__init__(path, "is in use by another ollim-bot command. Nothing was changed.")


class DiskFull(WriteFailed):
    def __init__(self, path: Path) -> None:
        super().__init__(path, "could not be written: no space left. Nothing was changed.")


class DatabaseReadOnly(WriteFailed):
    def __init__(self, path: Path) -> None:
        super().__init__(path, "could not be written: it is read-only. Nothing was changed.")


class DiskFailing(WriteFailed):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, f"could not be used: {reason}. Nothing was changed.")


class Damaged(Unreadable):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, f"is damaged: {reason}.")


class OtherSchema(StorageError):
    def __init__(self, path: Path, found: int, known: int) -> None:
        newer = "newer" if found > known else "other"
        super().__init__(
            path,
            f"belongs to a {newer} version of ollim-bot (schema {found}; this one knows {known}). "
            "Start the bot of this version once, or update ollim-bot.",
        )
        self.found = found
        self.known = known


class NoDatabase(StorageError):
    def __init__(self, path: Path) -> None:
        super().__init__(path, "does not exist yet. Start the bot once: it makes the database.")


class OutcomeUnknown(SystemExit):
    """A commit failed and its outcome is unknown; the next start finds it out."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path}: it is not known whether a change was written ({reason}). "
            "ollim-bot ends now; the next start finds out."
        )


class NotLeading(SystemExit):
    """The lease is not this process's any more; the refused step has changed nothing."""

    def __init__(self, path: Path, reason: str = "another machine leads since") -> None:
        super().__init__(f"{path}: {reason}. ollim-bot ends here.")
        self.code = NOT_LEADING


def translated(path: Path, error: sqlite3.Error) -> StorageError:
    """The error of this module that corresponds to what SQLite reported."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary == sqlite3.SQLITE_FULL:
        return DiskFull(path)
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Busy(path)
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return DatabaseReadOnly(path)
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Damaged(path, str(error))
    return DiskFailing(path, str(error))


def is_not_committed(error: sqlite3.Error) -> bool:
    """Whether an error of COMMIT means for certain that nothing was committed."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)
