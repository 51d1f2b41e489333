"""Changes of jobs, skills, the profile, the policy, settings, tasks and events, and their undo."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ollim_bot.kernel.base.text import common_ends
from ollim_bot.kernel.values.tasks import Task

if TYPE_CHECKING:
    from ollim_bot.kernel.values.calendar import CalendarEvent

# A row keeps no text that is longer, and cannot be undone then.
LONGEST_TEXT = 64 * 1024
KEPT_FOR = timedelta(days=365)
MOST_ROWS = 10_000
# Longer parts of two texts are not compared line by line, which could take minutes.
_MOST_PAIRS = 2000 * 2000
_MOST_SHOWN = 2000
_TASK = re.compile(r"- \[([ x])\] (.*?)(?: \(due (\d{4}-\d\d-\d\d)\))?")
# By whom the words of an event may be.
OF_CALENDAR = "calendar entry"
SETTING, TASK, EVENT, ANSWER, CALENDAR = "setting", "task", "event", "answer", "calendar"
_KINDS = (SETTING, TASK, EVENT, ANSWER, CALENDAR)


class Changer(StrEnum):
    """Who made a change; `PROGRAM` did it by itself, for no one."""

    AGENT = "agent"
    BUTTON = "button"
    CHAT = "chat"
    COMMAND = "command line"
    PAGE = "page"
    HAND = "hand"
    PROGRAM = "program"


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """`before` and `after` are None where there was nothing; `key` is 8 hexadecimal characters.

    `place` is a path below the data directory, or a kind and a name: `setting:model.main`. `cause`
    is the occurrence or the turn in which the agent made the change. `session` is as `CALLED_BY`,
    of a command of the agent that the owner was not shown. `undoes` is the key of another change.
    `is_cut` says that the texts were too long to be kept, `is_begun` that the list of a task may
    not have the undo yet. `receipt` is what the list of a deleted task needs to bring it back.
    """

    key: str
    at: datetime
    place: str
    by: Changer
    before: str | None
    after: str | None
    cause: str = ""
    untrusted: str = ""
    undoes: str = ""
    session: str = ""
    is_cut: bool = False
    is_begun: bool = False
    receipt: str = ""

    @property
    def kind(self) -> str:
        """`setting`, `task`, `event`, `answer` or `calendar`; empty for a file."""
        kind, colon, _ = self.place.partition(":")
        return kind if colon and kind in _KINDS else ""

    @property
    def name(self) -> str:
        return self.place.partition(":")[2] if self.kind else self.place

    @property
    def what(self) -> str:
        """What was changed, for people: of an answer, the title of what was asked."""
        title = (self.after or "").partition("\n")[2].strip()
        return f"“{title}”" if self.kind == ANSWER and title else self.place

    @property
    def did(self) -> str:
        if self.is_cut:
            return "changed"
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"

    def bounded(self) -> ChangeRow:
        """The change as it is kept: without texts that are too long."""
        longest = max(len(text or "") for text in (self.before, self.after))
        if longest <= LONGEST_TEXT:
            return self
        return replace(self, before=None, after=None, is_cut=True)

    def difference(self) -> list[str]:
        """The changed lines, each with `-` or `+`; of very many at one place, how many they are."""
        before, after = _lines(self.before), _lines(self.after)
        found: list[str] = []
        for i1, i2, j1, j2 in line_edits(before, after):
            found.append(f"@@ -{_range(i1, i2)} +{_range(j1, j2)} @@")
            found += (*_marked("-", before[i1:i2]), *_marked("+", after[j1:j2]))
        return found

    def changed_lines(self) -> list[str]:
        return [line for line in self.difference() if not line.startswith("@@")]


@dataclass(frozen=True, slots=True)
class BegunWrites:
    """The writes that tools of the agent have begun, as changes that have no texts yet."""

    rows: tuple[ChangeRow, ...] = ()

    def including(self, row: ChangeRow) -> BegunWrites:
        return BegunWrites((*self.without(place=row.place).rows, row))

    def without(self, *, place: str = "", keys: Collection[str] = ()) -> BegunWrites:
        """What is left without those at the place or with these keys."""
        left = (each for each in self.rows if each.place != place and each.key not in keys)
        return BegunWrites(tuple(left))

    def at(self, place: str) -> ChangeRow | None:
        return next((each for each in self.rows if each.place == place), None)


def _lines(text: str | None) -> list[str]:
    return (text or "").splitlines(keepends=True)


def line_edits(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """The places where the lines differ: `old[i1:i2]` has become `new[j1:j2]`.

    Parts that are too long to be compared are one place.
    """
    head, tail = common_ends(old, new)
    i2, j2 = len(old) - tail, len(new) - tail
    if (i2 - head) * (j2 - head) > _MOST_PAIRS:
        yield head, i2, head, j2
        return
    matcher = SequenceMatcher(None, old[head:i2], new[head:j2], autojunk=False)
    for tag, *places in matcher.get_opcodes():
        if tag != "equal":
            first, last, new_first, new_last = (head + place for place in places)
            yield first, last, new_first, new_last


def _range(start: int, end: int) -> str:
    """As in a unified difference: the line before it if there is none."""
    count = end - start
    return f"{start + 1}" if count == 1 else f"{start + 1 if count else start},{count}"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    if len(lines) > _MOST_SHOWN:
        yield f"{mark}({len(lines)} lines)"
        return
    for line in lines:
        yield mark + line.rstrip("\r\n")


def merged(base: str, ours: str, theirs: str) -> str | None:
    """`ours` with what `theirs` has changed in `base`; None if both changed the same lines."""
    lines = _lines(base)
    edits = sorted((*_edits(lines, _lines(ours)), *_edits(lines, _lines(theirs))))
    for one, other in pairwise(edits):
        is_same_gap = one[:2] == other[:2] and one[0] == one[1]
        if (one[0] < other[1] and other[0] < one[1]) or is_same_gap:
            return None
    for start, end, new in reversed(edits):
        lines[start:end] = new
    return "".join(lines)


def _edits(base: Sequence[str], other: Sequence[str]) -> Iterator[tuple[int, int, list[str]]]:
    return ((i1, i2, [*other[j1:j2]]) for i1, i2, j1, j2 in line_edits(base, other))


def event_words(event: CalendarEvent) -> str:
    """An event as a change shows it; the words in it may be others'."""
    lines = (event.summary, f"{event.start} to {event.end} ({event.calendar})", event.description)
    return "".join(f"{line}\n" for line in lines if line)


def task_words(task: Task) -> str:
    """A task of a service as a change shows it."""
    due = "" if task.due is None else f" (due {task.due})"
    return f"- [{'x' if task.done else ' '}] {task.title}{due}\n" + task.notes


def task_in(words: str, task_id: str) -> Task:
    """The task of a text of `task_words`, without its list. Raises `ValueError` for others."""
    line, _, notes = words.partition("\n")
    found = _TASK.fullmatch(line)
    if found is None:
        raise ValueError(line)
    mark, title, due = found.groups()
    day = date.fromisoformat(due) if due else None
    return Task(task_id, title, day, notes, mark == "x", list="")


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
