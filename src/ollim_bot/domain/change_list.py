"""The changes as a list for people, and the sentences that say what an undo did."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from ollim_bot.domain.changes import CALENDAR, EVENT, Changer, ChangeRow, task_in
from ollim_bot.domain.tasks import Task


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Which changes are meant: those by `who` that have the `words`; empty means all."""

    who: str = ""
    words: str = ""

    def has(self, change: ChangeRow) -> bool:
        """Whether the change is by the one who is meant, and shows the words."""
        if self.who and change.by != self.who:
            return False
        words = self.words.casefold()
        if not words:
            return True
        named = (change.key, change.place, change.what, change.cause, change.untrusted)
        if any(words in each.casefold() for each in named):
            return True
        texts = (change.before or "", change.after or "")
        if not any(words in each.casefold() for each in texts):
            return False
        before, after = ({*each.splitlines()} for each in texts)
        return any(words in line.casefold() for line in before ^ after)

    def has_older(self, what: str) -> bool:
        """As `has`, for a line of the history, which does not say who."""
        return not self.who and self.words.casefold() in what.casefold()


class KeptChange(NamedTuple):
    change: ChangeRow
    is_undone: bool


class OlderChange(NamedTuple):
    """A line of the history from before the first change that is kept."""

    at: datetime
    what: str


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """A change as the page shows it.

    `difference` has its lines, each with `-` or `+` before it. `refusal` says why it cannot be
    undone; empty if it can be tried. `edit` is the address of what can be edited instead.
    """

    change: ChangeRow
    difference: tuple[str, ...] = ()
    is_undone: bool = False
    refusal: str = ""
    edit: str = ""


@dataclass(frozen=True, slots=True)
class ChangeList:
    """The changes that are meant, the newest first; `has_more` says that there are further ones."""

    now: datetime
    meant: ChangeFilter = ChangeFilter()
    lines: tuple[ChangeLine, ...] = ()
    older: tuple[OlderChange, ...] = ()
    has_more: bool = False


# Who can be asked for; what the program does by itself is not kept.
CHANGERS = tuple(each for each in Changer if each is not Changer.PROGRAM)


def why_elsewhere(change: ChangeRow) -> str:
    """Why a change of this kind is never undone by the program; empty if it can be."""
    if change.kind == EVENT:
        return "An event at Google cannot be put back from here: it would lose its guests."
    if change.kind != CALENDAR:
        return ""
    name = "".join(each if each.isprintable() else "?" for each in change.name)
    if change.before is None:
        return f"`{shlex.join(['ollim-bot', 'cal', 'unsubscribe', name])}` removes the calendar."
    again = shlex.join(["ollim-bot", "cal", "subscribe", "-", "--name", name])
    return f"The address of a calendar is not kept. `{again}` adds it again."


def what_is_left(change: ChangeRow, after: str | None) -> str:
    """What an undo has made of a file that holds `after` now."""
    if after is None:
        return "is gone again"
    is_whole = after == change.before
    return "is as it was before" if is_whole else "is without that change; what came after it stays"


def file_undone(change: ChangeRow, after: str | None) -> str:
    return f"Undone. {change.place} {what_is_left(change, after)}."


def setting_undone(change: ChangeRow) -> str:
    return f"Undone. {change.name} is {change.before} again."


def task_undone(change: ChangeRow, task: Task | None) -> str:
    """What the undo did to a task; None if it is gone."""
    if task is None:
        gone = task_in(change.after or "", change.name)
        return f"Undone. The task is gone again: {gone.title}."
    is_back = change.after is None
    return f"Undone. The task {'is there' if is_back else 'is as it was'} again: {task.title}."
