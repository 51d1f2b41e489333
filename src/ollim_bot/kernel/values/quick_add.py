"""One line that adds something, and the ways to read it."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import UTC, date, datetime

from ollim_bot.kernel.values.job_form import dated
from ollim_bot.kernel.values.jobs import Reminder, Routine
from ollim_bot.kernel.values.quiet import IN_QUIET_HOURS
from ollim_bot.kernel.values.tasks import due_words

LONGEST_LINE = 400
# The name of the way that makes a task of the line.
AS_TASK = "task"


@dataclass(frozen=True, slots=True)
class NewTask:
    """`list` is the name of its list; empty for the usual one."""

    title: str
    due: date | None = None
    list: str = ""


@dataclass(frozen=True, slots=True)
class QuickAdd:
    """One way to read a line; `name` tells the ways of one line apart."""

    name: str
    what: Reminder | Routine | NewTask
    is_in_quiet: bool = False

    @property
    def title(self) -> str:
        return self.what.title if isinstance(self.what, NewTask) else self.what.spec.title

    def when(self, now: datetime) -> str:
        """`tomorrow, Wed 18 Nov, 9:00 · once`, or that it is a task."""
        if isinstance(self.what, NewTask):
            due = self.what.due
            return f"a task, {due_words(due, now.date())}" if due else "a task, without a moment"
        return " · ".join((*_moments(self.what, now), *self._manner()))

    def _manner(self) -> list[str]:
        assert not isinstance(self.what, NewTask)
        spec = self.what.spec
        is_timer = isinstance(self.what, Reminder) and self.what.set_at is not None
        return [
            *(["a timer"] if is_timer else []),
            *([f"comes again {spec.nag.in_words}"] if spec.nag else []),
            *([] if spec.plain else ["the agent does it then"]),
            *([IN_QUIET_HOURS] if self.is_in_quiet else []),
        ]


@dataclass(frozen=True, slots=True)
class QuickLine:
    """The ways to read a line. The first is meant, unless there is a `problem`: then none is."""

    ways: tuple[QuickAdd, ...] = ()
    problem: str = ""

    def chosen(self, name: str) -> QuickAdd | None:
        """The way with this name, or without a name the one that is meant."""
        if name:
            return next((each for each in self.ways if each.name == name), None)
        return None if self.problem else next(iter(self.ways), None)


def plain_line(text: str) -> str:
    """The text in one line, without control characters."""
    controls = ("Cc", "Cs", "Zl", "Zp")
    seen = (" " if unicodedata.category(char) in controls else char for char in text)
    return " ".join("".join(seen).split())


def _moments(job: Reminder | Routine, now: datetime) -> list[str]:
    zone = now.tzinfo or UTC
    if isinstance(job, Reminder):
        return [dated(job.due(zone).replace(second=0), now), "once"]
    words, coming = job.rhythm.explain(), job.next_after(now, zone)
    rhythm = f"{words[:1].lower()}{words[1:]}"
    return [rhythm, f"next {dated(coming, now)}"] if coming else [rhythm]
