"""Files that tell the agent what to do: how they are named, and what was found in one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ollim_bot.domain.jobs import Job

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
