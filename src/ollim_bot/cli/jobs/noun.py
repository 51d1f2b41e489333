"""What sets one kind of scheduled job apart from another on the command line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Generic, TypeVar

from ollim_bot.cli.data import Data
from ollim_bot.cli.jobs.flags import Flag
from ollim_bot.cli.verbs import Given
from ollim_bot.data_paths import DataPaths
from ollim_bot.domain.jobs import Reminder, Routine
from ollim_bot.storage.jobs.form import JobFormat
from ollim_bot.storage.jobs.shelf import MarkdownShelf

S = TypeVar("S", bound=Routine | Reminder)


class JobNoun(ABC, Generic[S]):
    """Every `now` is in the owner's zone, but for `when_given`: that one is in the job's.

    `say_when` shows how the flags say when the job is due.
    """

    form: JobFormat[S]
    flags: tuple[Flag, ...]
    say_when: str
    add_example: str
    edit_example: str

    @property
    def name(self) -> str:
        return self.form.kind.value

    @property
    def plural(self) -> str:
        return f"{self.name}s"

    def shelf(self, data: Data) -> MarkdownShelf[S]:
        return data.shelf(self.folder(data.paths), self.form)

    def next(self, job: S, now: datetime) -> datetime | None:
        """None while it is paused."""
        return next(self.upcoming(job, now)) if job.spec.enabled else None

    @abstractmethod
    def folder(self, paths: DataPaths) -> Path: ...

    @abstractmethod
    def when_given(self, given: Given, now: datetime) -> dict[str, object]:
        """The fields that say when, or none if the flags do not say."""

    @abstractmethod
    def upcoming(self, job: S, now: datetime) -> Iterator[datetime]:
        """The moments at which it is due, paused or not."""

    @abstractmethod
    def promise(self, job: S, now: datetime) -> str:
        """When it comes, the way a person would repeat it."""

    @abstractmethod
    def facts(self, job: S, now: datetime) -> list[tuple[str, str]]:
        """What only this kind of job has, by name, in words."""
