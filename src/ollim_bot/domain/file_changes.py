"""What became of a file that says what the agent does or is, and the wish to have that undone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ollim_bot.domain.job_files import JobFile
from ollim_bot.domain.profile import ProfileFile

# `str()` of it is its path below the data directory.
OwnersFile = JobFile | ProfileFile


@dataclass(frozen=True, slots=True)
class FileChange:
    """`before` and `after` are None where there is no file; `key` is 8 hexadecimal characters.

    `by` says where the agent called the command that made the change, as in `CALLED_BY`; it is
    empty for every other change.
    """

    key: str
    file: OwnersFile
    before: str | None
    after: str | None
    at: datetime
    by: str = ""


class UndoEnd(StrEnum):
    """What came of the wish to have a change undone."""

    REMOVED = "removed"
    RESTORED = "restored"
    CHANGED_SINCE = "changed since"
    GONE = "gone"
