"""The text of `tasks.md`, changed line by line: all that is no task stays byte for byte.

A task is a list item with a box: `- [ ] title (due 2026-11-20)`, done as `- [x]`. Bullets may be
`-`, `*`, `+` or numbers, and items may be nested: an item below another is a part of it. Indented
lines below a task, up to the next task, are its notes. A heading names the list of the tasks below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from typing import NamedTuple

from ollim_bot.domain.tasks import Task, outdented
from ollim_bot.errors import WrongInput

_BOM = "\ufeff"
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BULLET = r"(?:[-*+]|[0-9]{1,9}[.)])[ \t]+\["
_TASK = re.compile(rf"(?P<head>[ \t]*{_BULLET})(?P<mark>[ xX])\][ \t]+(?P<text>\S.*)", re.DOTALL)
# A note that would be read as a task is written with a backslash more, as in markdown.
_ESCAPED = re.compile(rf"(?P<indent>[ \t]*)\\+{_BULLET}[ xX]\][ \t]+\S")
_HEADING = re.compile(r"(?P<marks>#{1,6})[ \t]+(?P<name>\S.*?)(?:[ \t]+#+)?[ \t]*")
_DUE = re.compile(r"\(due:? ([0-9]{4}-[0-9]{2}-[0-9]{2})\)", re.IGNORECASE)
_LONGEST_DUE = len("(due: 2026-11-20)")
_NOTE_INDENT = "  "


class Entry(NamedTuple):
    """A task in the text: its lines are those from `start` to before `end`; it has no id yet.

    `parent` is the place, among the entries, of the task that it is a part of.
    """

    task: Task
    start: int
    end: int
    parent: int | None = None


class RemovedLines(NamedTuple):
    """Lines that were taken out at the line `place`, and the lines that were around them."""

    lines: tuple[str, ...]
    place: int
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class TaskText:
    """`lines` keep their ends."""

    lines: tuple[str, ...]
    bom: str = ""

    @staticmethod
    def of(raw: bytes) -> TaskText:
        text = raw.decode("utf-8", "surrogateescape")
        bom = _BOM if text.startswith(_BOM) else ""
        return TaskText(tuple(_LINE.findall(text.removeprefix(bom))), bom)

    @property
    def raw(self) -> bytes:
        return (self.bom + "".join(self.lines)).encode("utf-8", "surrogateescape")

    def entries(self) -> list[Entry]:
        found = [(place, task) for place, line in enumerate(self.lines) if (task := _task(line))]
        ends = (*(place for place, _ in found[1:]), len(self.lines))
        entries = [
            self._entry(place, task, end) for (place, task), end in zip(found, ends, strict=False)
        ]
        return [*self._in_lists(entries)]

    def _in_lists(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        """The entries with the headings above them, and with what they are parts of."""
        headings = [*self.headings().items()]
        above: list[tuple[int, int]] = []
        section = ""
        for number, entry in enumerate(entries):
            while headings and headings[0][0] < entry.start:
                section, above = headings.pop(0)[1], []
            indent = _indent(self.lines[entry.start])
            above = [each for each in above if each[0] < indent]
            parent = above[-1][1] if above else None
            above.append((indent, number))
            yield entry._replace(task=replace(entry.task, section=section), parent=parent)

    def headings(self) -> dict[int, str]:
        """The names of the lists, by the lines of their headings."""
        found = (
            (place, _HEADING.fullmatch(_without_end(line)))
            for place, line in enumerate(self.lines)
            if line.startswith("#")
        )
        return {place: _shown(match["name"]) for place, match in found if match}

    def _entry(self, start: int, task: Task, limit: int) -> Entry:
        end = self._end_of_indented(start + 1, _indent(self.lines[start]), limit)
        notes = [_unescaped(_without_end(line)) for line in self.lines[start + 1 : end]]
        text = "\n".join(line.rstrip() for line in outdented(notes)).strip("\n")
        return Entry(_with_notes(task, text), start, end)

    def _end_of_indented(self, place: int, width: int, limit: int) -> int:
        """The end of the lines from `place` on that are indented deeper than `width`."""
        end = place
        for number in range(place, limit):
            line = self.lines[number]
            if line.strip():
                if _indent(line) <= width:
                    break
                end = number + 1
        return end

    def ticked(self, entry: Entry, *, done: bool) -> TaskText:
        if entry.task.done is done:
            return self
        found = _parsed(self.lines[entry.start])
        rest = self.lines[entry.start][found.end("mark") :]
        return self._replaced(
            entry.start, entry.start + 1, [f"{found['head']}{'x' if done else ' '}{rest}"]
        )

    def titled(self, entry: Entry, title: str, due: date | None) -> TaskText:
        """The text with this title and date of the task; what is equal stays as it is written."""
        line = self.lines[entry.start]
        found = _parsed(line)
        text = found["text"]
        written, _ = _split(_without_end(text))
        if title != entry.task.title:
            written = title
        elif due == entry.task.due:
            return self
        end = text[len(_without_end(text).rstrip()) :]
        line = f"{line[: found.start('text')]}{written}{_due(due)}{end}"
        return self._replaced(entry.start, entry.start + 1, [line])

    def noted(self, entry: Entry, notes: str) -> TaskText:
        if notes == entry.task.notes:
            return self
        head = self.lines[entry.start]
        lines = self._note_lines(notes, head[: len(head) - len(head.lstrip())])
        return self._replaced(entry.start + 1, entry.end, lines)

    def added(
        self, title: str, due: date | None, notes: str, section: str = ""
    ) -> tuple[TaskText, int]:
        """The text with a new task below the last open one; and the line of the new task.

        A section that is not there is made at the end.
        """
        place = self._place_of_new(section)
        lines = [f"- [ ] {title}{_due(due)}{self._line_end}", *self._note_lines(notes, "")]
        heading: list[str] = []
        if section and section not in self.headings().values():
            place = len(self.lines)
            gap = [self._line_end] if self.lines and self.lines[-1].strip() else []
            heading = [*gap, f"{self._heading_marks} {section}{self._line_end}"]
        return self._replaced(place, place, [*heading, *lines]), place + len(heading)

    def removed(self, entry: Entry) -> tuple[TaskText, RemovedLines]:
        start, end = entry.start, entry.end
        taken = RemovedLines(
            self.lines[start:end],
            start,
            self.lines[start - 1] if start else None,
            self.lines[end] if end < len(self.lines) else None,
        )
        return TaskText((*self.lines[:start], *self.lines[end:]), self.bom), taken

    def put_back(self, taken: RemovedLines) -> tuple[TaskText, int]:
        """The text with the lines where they were, or else near; and the line of their task."""
        place = self._former_place(taken)
        return self._replaced(place, place, taken.lines), place

    def _former_place(self, taken: RemovedLines) -> int:
        around = list(enumerate(pairwise((None, *self.lines, None))))
        between = [place for place, pair in around if pair == (taken.before, taken.after)]
        beside = [
            place
            for place, (before, after) in around
            if (before and before == taken.before) or (after and after == taken.after)
        ]
        places = between or beside or [self._place_of_new()]
        return min(places, key=lambda place: abs(place - taken.place))

    def _place_of_new(self, section: str = "") -> int:
        fitting = [each for each in self.entries() if not section or each.task.section == section]
        is_open = [entry.end for entry in fitting if not entry.task.done]
        if section and not is_open:
            is_open = [entry.end for entry in fitting] or [self._below_heading(section)]
        if not is_open:
            return len(self.lines)
        # Lines that are indented would become the notes of the new task.
        return self._end_of_indented(is_open[-1], 0, len(self.lines))

    def _below_heading(self, section: str) -> int:
        """The line after the heading; the end if there is none."""
        places = (place for place, name in self.headings().items() if name == section)
        return next(places, len(self.lines) - 1) + 1

    @property
    def _heading_marks(self) -> str:
        """As many signs as the last heading has."""
        places = [*self.headings()]
        return self.lines[places[-1]].split()[0] if places else "#"

    def _note_lines(self, notes: str, indent: str) -> Iterator[str]:
        for line in notes.split("\n") if notes else ():
            yield (f"{indent}{_NOTE_INDENT}{_escaped(line)}" if line else "") + self._line_end

    @property
    def _line_end(self) -> str:
        return "\r\n" if self.lines and self.lines[0].endswith("\r\n") else "\n"

    def _replaced(self, start: int, end: int, new: Sequence[str] | Iterator[str]) -> TaskText:
        lines = [*self.lines[:start], *new, *self.lines[end:]]
        for place, line in enumerate(lines[:-1]):
            if not line.endswith("\n"):
                lines[place] = line + self._line_end
        return TaskText(tuple(lines), self.bom)


def with_date(title: str, due: date | None) -> tuple[str, date | None]:
    """The title without a date at its end, which counts unless `due` is given."""
    plain, written = _split(title)
    if not plain.strip():
        raise WrongInput("A task needs a title, such as “call the dentist”.")
    return plain, due or written


def _task(line: str) -> Task | None:
    found = _TASK.match(line)
    if found is None:
        return None
    written, due = _split(_without_end(found["text"]))
    title = " ".join(_shown(written).split())
    return Task("", title, due, done=found["mark"] != " ") if title else None


def _parsed(line: str) -> re.Match[str]:
    found = _TASK.match(line)
    if found is None:
        raise ValueError(line)
    return found


def _split(text: str) -> tuple[str, date | None]:
    """The title as it is written, and the date behind it; of several dates the last counts."""
    due = None
    while True:
        text = text.rstrip()
        found = _DUE.search(text, max(0, len(text) - _LONGEST_DUE))
        day = _day(found[1]) if found and found.end() == len(text) else None
        if found is None or day is None:
            return text, due
        text, due = text[: found.start()], due or day


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _due(due: date | None) -> str:
    return "" if due is None else f" (due {due.isoformat()})"


def _with_notes(task: Task, notes: str) -> Task:
    return Task("", task.title, task.due, _shown(notes), task.done)


def _shown(text: str) -> str:
    """The text with a sign in place of each byte that is not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _indent(line: str) -> int:
    whole = line.expandtabs(4)
    return len(whole) - len(whole.lstrip(" "))


def _without_end(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def _escaped(line: str) -> str:
    """The line of a note, with a backslash if it would be read as a task or as an escaped one."""
    if _task(line) is None and not _ESCAPED.match(line):
        return line
    indent = len(line) - len(line.lstrip(" \t"))
    return f"{line[:indent]}\\{line[indent:]}"


def _unescaped(line: str) -> str:
    found = _ESCAPED.match(line)
    return line if found is None else found["indent"] + line[found.end("indent") + 1 :]
