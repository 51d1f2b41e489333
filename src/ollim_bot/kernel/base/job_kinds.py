"""The kinds of job, and of what else has moments.

It loads nothing else, because every command needs to know them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Self


class JobKind(StrEnum):
    """A kind of job, and what the lists of commands say about it.

    Jobs of a kind that `has_moments` come due by themselves; all others run when they are called.
    """

    about: str
    has_moments: bool

    def __new__(cls, name: str, about: str = "", has_moments: bool = False) -> Self:
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.about = about
        kind.has_moments = has_moments
        return kind

    ROUTINE = "routine", "things that repeat", True
    REMINDER = "reminder", "things that come once, at their time", True
    WEBHOOK = "webhook", "jobs that another program starts"

    @property
    def plural(self) -> str:
        """The name of several, and of the folder below the data directory with their files."""
        return f"{self.value}s"


class EventKind(StrEnum):
    """What has moments in the ledger and is no job: the events of the owner's calendars."""

    EVENT = "event"

    @property
    def has_moments(self) -> bool:
        return True


# What the ledger tells about.
OccurrenceKind = JobKind | EventKind


class JobKey(NamedTuple):
    """Identifies a job; ids are unique only within a kind."""

    kind: OccurrenceKind
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"
