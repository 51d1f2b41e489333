"""The files that the owner and the agent both edit: profile, jobs, skills."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Self

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.jobs import Job

SKILLS = "skills"
SKILL_FILE = "SKILL.md"


class ProfileFile(StrEnum):
    IDENTITY = "IDENTITY.md"
    USER = "USER.md"


@dataclass(frozen=True, slots=True)
class Profile:
    """The contents of `IDENTITY.md` and `USER.md`; empty if a file is missing."""

    identity: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class Names:
    user: str
    bot: str


class JobFolder(str):
    """The name of a folder with jobs of one kind, or of that with the skills.

    Raises `ValueError` for any other name.
    """

    __slots__ = ()

    ROUTINES: ClassVar[JobFolder]
    REMINDERS: ClassVar[JobFolder]
    WEBHOOKS: ClassVar[JobFolder]
    SKILLS: ClassVar[JobFolder]

    def __new__(cls, name: str) -> Self:
        if name != SKILLS and name not in [kind.plural for kind in JobKind]:
            raise ValueError(f"{name!r} is no folder of jobs or skills")
        return str.__new__(cls, name)

    @property
    def kind(self) -> JobKind | None:
        """The kind of its jobs; None for skills."""
        return next((kind for kind in JobKind if kind.plural == self), None)


JobFolder.ROUTINES = JobFolder(JobKind.ROUTINE.plural)
JobFolder.REMINDERS = JobFolder(JobKind.REMINDER.plural)
JobFolder.WEBHOOKS = JobFolder(JobKind.WEBHOOK.plural)
JobFolder.SKILLS = JobFolder(SKILLS)


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job or a skill. `name` is its path below the folder: `daily.md`, `mail/SKILL.md`."""

    folder: JobFolder
    name: str

    def __str__(self) -> str:
        return f"{self.folder}/{self.name}"

    @property
    def is_skill(self) -> bool:
        return self.folder == SKILLS


@dataclass(frozen=True, slots=True)
class FileReading:
    """A text, parsed as the content of a file. `problems` are sentences with file and line.

    `job` is None for a skill, and if there are problems. `tools` are its `allowed-tools`, and
    `tools_line` is their line. `tools`, `set_by` and `untrusted` are read even if something else is
    wrong.
    """

    problems: tuple[str, ...] = ()
    job: Job | None = None
    tools: tuple[str, ...] = ()
    tools_line: int | None = None
    set_by: str = ""
    untrusted: str = ""


# `str()` gives its path below the data directory.
SharedFile = JobFile | ProfileFile


@dataclass(frozen=True, slots=True)
class FileChange:
    """`before` and `after` are None for a missing file; `key` is 8 hexadecimal characters.

    `by` is the value of `CALLED_BY` if the agent ran the command that made the change, and empty
    otherwise.
    """

    key: str
    file: SharedFile
    before: str | None
    after: str | None
    at: datetime
    by: str = ""
