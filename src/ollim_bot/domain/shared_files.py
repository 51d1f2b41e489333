"""Files that the owner and the agent both edit: profile, jobs, and their changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ollim_bot.domain.jobs import Job


class ProfileFile(StrEnum):
    IDENTITY = "IDENTITY.md"
    USER = "USER.md"


@dataclass(frozen=True, slots=True)
class Profile:
    """What stands in `IDENTITY.md` and in `USER.md`; empty where there is nothing."""

    identity: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class Names:
    user: str
    bot: str


SKILL_FILE = "SKILL.md"


class JobFolder(StrEnum):
    ROUTINES = "routines"
    REMINDERS = "reminders"
    WEBHOOKS = "webhooks"
    SKILLS = "skills"


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job, or a skill. `name` is what stands below the folder: `daily.md`, `mail/SKILL.md`."""

    folder: JobFolder
    name: str

    def __str__(self) -> str:
        return f"{self.folder}/{self.name}"

    @property
    def is_skill(self) -> bool:
        return self.folder is JobFolder.SKILLS


@dataclass(frozen=True, slots=True)
class FileReading:
    """What a text would be in a file. `problems` are sentences with file and line.

    `job` is None for a skill, and where there are problems. `tools` are its `allowed-tools`, also
    where something else is wrong, and `tools_line` is where they stand. `set_by` is what it says of
    who has set it, also where something is wrong.
    """

    problems: tuple[str, ...] = ()
    job: Job | None = None
    tools: tuple[str, ...] = ()
    tools_line: int | None = None
    set_by: str = ""


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
