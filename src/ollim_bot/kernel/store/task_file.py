"""The text of `tasks.md`, changed line by line: all that is no task stays byte for byte.

A task is a list item with a box: `- [ ] title (due 2026-11-20)`, done as `- [x]`. Bullets may be
`-`, `*`, `+` or numbers, and items may be nested: an item below another is a part of it. Indented
lines below a task, up to the next task, are its notes. A heading names the list of the
tasks below.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ollim_bot.kernel.base.errors import (
    StorageError,
    TaskNotFound,
    Unreadable,
    WriteFailed,
    WrongInput,
)
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import (
    NotAFile,
    SizeLimit,
    TooLarge,
    UnsuitableFile,
    size_in_words,
)
from ollim_bot.kernel.store.file_store import (
    FORMAT,
    FormatIsNewer,
    Malformed,
    parse_json,
    render_json,
    set_aside,
    versioned,
)
from ollim_bot.kernel.store.files import (
    PRIVATE,
    SHARED,
    FileLock,
    OsDisk,
    create_atomically,
    replace_unchanged,
    write_atomically,
)
from ollim_bot.kernel.values.tasks import (
    FILE_LIST,
    AbsentTask,
    DeletedTask,
    SeenTask,
    Task,
    TaskChange,
    TaskIds,
    is_titled,
    named_section,
    note_lines,
    one_line,
    outdented,
)

if TYPE_CHECKING:
    from ollim_bot.kernel.values.ports import Disk, Journal

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

    lines: Sequence[str]
    place: int
    before: str | None
    after: str | None


class TaskText(NamedTuple):
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
            yield entry._replace(task=entry.task._replace(section=section), parent=parent)

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
        return Entry(Task("", task.title, task.due, _shown(text), task.done), start, end)

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
            # As many signs as the last heading has.
            marks = [self.lines[at].split()[0] for at in self.headings()][-1:] or ["#"]
            heading = [*gap, f"{marks[0]} {section}{self._line_end}"]
        return self._replaced(place, place, [*heading, *lines]), place + len(heading)

    def with_part(self, number: int, title: str, due: date | None) -> tuple[TaskText, int]:
        """The text with a new part, the last, of that entry; and the line of the part."""
        entries = self.entries()
        family = {number}
        for place, entry in enumerate(entries):
            if entry.parent in family:
                family.add(place)
        parts = [entry for entry in entries if entry.parent == number]
        line = self.lines[parts[0].start if parts else entries[number].start]
        indent = line[: len(line) - len(line.lstrip())]
        if not parts:
            bullet = _parsed(line)["head"][len(indent) : -1]
            indent += " " * len(bullet)
        # Deeper lines would become the notes of the new part.
        place = self._end_of_indented(
            entries[max(family)].end, _indent(f"{indent}-"), len(self.lines)
        )
        new = f"{indent}- [ ] {title}{_due(due)}{self._line_end}"
        return self._replaced(place, place, [new]), place

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
        around = list(enumerate(pairwise((None, *self.lines, None))))
        between = [place for place, pair in around if pair == (taken.before, taken.after)]
        beside = [
            place
            for place, (before, after) in around
            if (before and before == taken.before) or (after and after == taken.after)
        ]
        places = between or beside or [self._place_of_new()]
        place = min(places, key=lambda place: abs(place - taken.place))
        return self._replaced(place, place, taken.lines), place

    def _place_of_new(self, section: str = "") -> int:
        fitting = [each for each in self.entries() if not section or each.task.section == section]
        is_open = [entry.end for entry in fitting if not entry.task.done]
        if section and not is_open:
            # Without a task there, the line after the heading.
            headings = (place + 1 for place, name in self.headings().items() if name == section)
            is_open = [entry.end for entry in fitting] or [next(headings, len(self.lines))]
        if not is_open:
            return len(self.lines)
        # Lines that are indented would become the notes of the new task.
        return self._end_of_indented(is_open[-1], 0, len(self.lines))

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


def titles_in(text: str, *, with_done: bool = True) -> list[str]:
    """The titles of the tasks in the text of the file."""
    lines = TaskText.of(text.encode("utf-8", "surrogateescape")).lines
    tasks = [task for line in lines if (task := _task(line))]
    return [task.title for task in tasks if with_done or not task.done]


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


# How often a change is made anew because another program has written the file.
_MOST_TRIES = 20


class _Content(NamedTuple):
    """The file as it was read. `raw` is None if there is no file."""

    raw: bytes | None
    text: TaskText
    entries: Sequence[Entry]
    ids: Sequence[str]
    known: TaskIds

    def tasks(self) -> list[Task]:
        pairs = zip(self.entries, self.ids, strict=True)
        return [
            entry.task._replace(
                id=task_id, parent="" if entry.parent is None else self.ids[entry.parent]
            )
            for entry, task_id in pairs
        ]

    def place(self, task_id: str) -> int:
        try:
            return self.ids.index(task_id)
        except ValueError:
            raise TaskNotFound(task_id) from None

    def without(self, task_id: str) -> tuple[TaskText, DeletedTask]:
        """The text without the task, and what brings the task back."""
        place = self.place(task_id)
        text, taken = self.text.removed(self.entries[place])
        return text, DeletedTask(self.tasks()[place], json.dumps(taken))

    def with_task(self, task_id: str, title: str) -> tuple[_Content, str]:
        """The content with the task, and its id: the one with this id, or with this title."""
        if task_id:
            return self, self.ids[self.place(task_id)]
        fitting = (each for each in self.tasks() if not each.done and is_titled(each, title))
        found = next(fitting, None)
        if found is not None:
            return self, found.id
        new_id = self.known.new_id(title)
        return self.with_new(*self.text.added(title, None, ""), new_id), new_id

    def with_part(self, parent: str, title: str, due: date | None) -> tuple[_Content, str]:
        """The content where the task has this part, and the id of the part."""
        parts = (each for each in self.tasks() if each.parent == parent)
        found = next((each for each in parts if is_titled(each, title)), None)
        if found is not None:
            return self, found.id
        new_id = self.known.new_id(title)
        return self.with_new(*self.text.with_part(self.place(parent), title, due), new_id), new_id

    def without_open(self, task_id: str) -> _Content:
        """The content without the task, unless it is done or has parts."""
        if task_id not in self.ids:
            return self
        place = self.place(task_id)
        has_parts = any(entry.parent == place for entry in self.entries)
        if self.entries[place].task.done or has_parts:
            return self
        ids = [*self.ids[:place], *self.ids[place + 1 :]]
        return self.of(self.without(task_id)[0], ids, self.known.without(task_id))

    def of(self, text: TaskText, ids: Sequence[str], known: TaskIds) -> _Content:
        """The content after a change to `text`, whose tasks have these ids."""
        entries = text.entries()
        tasks = [entry.task for entry in entries]
        return _Content(self.raw, text, entries, ids, known.with_seen(ids, tasks))

    def with_new(self, text: TaskText, line: int, task_id: str) -> _Content:
        """The content after `text` has got a task in this line."""
        place = [entry.start for entry in text.entries()].index(line)
        ids = [*self.ids[:place], task_id, *self.ids[place:]]
        return self.of(text, ids, self.known.restored(task_id))


class TaskFile:
    """A `TaskList` in `tasks.md`.

    Each change is made in the present content of the file: what another program wrote since it was
    read stays. When a change raises, the file is as it was. The ids are in `state/task_ids.json`;
    where that cannot be written, reading works all the same.
    """

    def __init__(
        self,
        paths: DataPaths,
        journal: Journal,
        now: Callable[[], datetime],
        disk: Disk | None = None,
    ) -> None:
        self._path = paths.tasks
        self._ids = paths.task_ids
        self._lock = FileLock(paths.lock_of(paths.tasks))
        self._journal = journal
        self._now = now
        self._disk = disk or OsDisk()

    def tasks(self, list_name: str = "", *, with_done: bool = False) -> Sequence[Task]:
        found = [task for task in self._read() if with_done or not task.done]
        if list_name in ("", FILE_LIST):
            return found
        section = named_section(self._sections(), list_name)
        if section is None:
            raise WrongInput(f"There is no list {list_name}. There are: {', '.join(self.lists())}.")
        return [task for task in found if task.section == section]

    def peek(self) -> Sequence[Task]:
        """All tasks, with the done ones, without any change on disk."""
        return self._content()[0].tasks()

    def get(self, task_id: str) -> Task:
        found = next((task for task in self._read() if task.id == task_id), None)
        if found is None:
            raise TaskNotFound(task_id)
        return found

    def lists(self) -> Mapping[str, str]:
        """The file as a whole, and each heading in it."""
        return {name: name for name in (FILE_LIST, *self._sections())}

    def _sections(self) -> list[str]:
        return [*dict.fromkeys(self._content()[0].text.headings().values())]

    def add(
        self, title: str, due: date | None = None, notes: str = "", list_name: str = ""
    ) -> Task:
        """Add the task; a list that is not there is made, as a heading at the end."""
        plain, day = with_date(one_line(title), due)
        lines = note_lines(notes)
        wanted = "" if list_name in ("", FILE_LIST) else one_line(list_name).lstrip("# ")

        def step(before: _Content) -> tuple[_Content, str]:
            sections = [*before.text.headings().values()]
            section = named_section(sections, wanted) or wanted
            text, line = before.text.added(plain, day, lines, section)
            task_id = before.known.new_id(plain)
            return before.with_new(text, line, task_id), task_id

        return self._changed("add", step)

    def complete(self, task_id: str) -> Task:
        return self._ticked("complete", task_id, done=True)

    def reopen(self, task_id: str) -> Task:
        return self._ticked("reopen", task_id, done=False)

    def _ticked(self, verb: str, task_id: str, *, done: bool) -> Task:
        def step(before: _Content) -> tuple[_Content, str]:
            entry = before.entries[before.place(task_id)]
            text = before.text.ticked(entry, done=done)
            return before.of(text, before.ids, before.known), task_id

        return self._changed(verb, step)

    def update(self, task_id: str, change: TaskChange) -> Task:
        plain, written = (
            (None, None) if change.title is None else with_date(one_line(change.title), None)
        )
        lines = None if change.notes is None else note_lines(change.notes)

        def step(before: _Content) -> tuple[_Content, str]:
            entry = before.entries[before.place(task_id)]
            kept = None if change.clears_due else entry.task.due
            title = entry.task.title if plain is None else plain
            text = before.text.titled(entry, title, change.due or written or kept)
            if lines is not None:
                text = text.noted(text.entries()[before.place(task_id)], lines)
            return before.of(text, before.ids, before.known), task_id

        return self._changed("edit", step)

    def deletion(self, task_id: str) -> DeletedTask:
        content, _ = self._content()
        return content.without(task_id)[1]

    def delete(self, task_id: str) -> DeletedTask:
        deleted: list[DeletedTask] = []

        def step(before: _Content) -> tuple[_Content, str]:
            place = before.place(task_id)
            text, found = before.without(task_id)
            ids = [*before.ids[:place], *before.ids[place + 1 :]]
            deleted[:] = [found]
            return before.of(text, ids, before.known.without(task_id)), task_id

        self._change("remove", step)
        return deleted[0]

    def restore(self, deleted: DeletedTask) -> Task:
        task_id, taken = deleted.task.id, RemovedLines(*json.loads(deleted.receipt))

        def step(before: _Content) -> tuple[_Content, str]:
            if task_id in before.ids:
                return before, task_id
            text, line = before.text.put_back(taken)
            return before.with_new(text, line, task_id), task_id

        return self._changed("restore", step)

    def add_steps(self, steps: Sequence[str], task_id: str = "", title: str = "") -> Sequence[Task]:
        wanted = [with_date(one_line(each), None) for each in steps]
        above = "" if task_id else with_date(one_line(title), None)[0]
        ids: list[str] = []

        def step(before: _Content) -> tuple[_Content, str]:
            content, parent = before.with_task(task_id, above)
            ids[:] = [parent]
            for words, due in wanted:
                content, part = content.with_part(parent, words, due)
                ids.append(part)
            return content, parent

        after, _ = self._change("break down", step)
        found = {task.id: task for task in after.tasks()}
        return [found[each] for each in ids]

    def remove_open(self, task_ids: Sequence[str]) -> Sequence[str]:
        gone: list[str] = []

        def step(before: _Content) -> tuple[_Content, str]:
            content = before
            for task_id in task_ids:
                content = content.without_open(task_id)
            gone[:] = [each for each in task_ids if each in before.ids and each not in content.ids]
            return content, task_ids[-1]

        if task_ids:
            self._change("remove", step)
        return gone

    def _read(self) -> list[Task]:
        content, known = self._content()
        if content.known != known:
            # Reading needs no write, so a full disk does not prevent it.
            with suppress(StorageError), self._lock.held():
                content, known = self._content()
                if content.known != known:
                    self._remember(content.known)
        return content.tasks()

    def _changed(self, verb: str, step: Callable[[_Content], tuple[_Content, str]]) -> Task:
        after, task_id = self._change(verb, step)
        return after.tasks()[after.place(task_id)]

    def _change(
        self, verb: str, step: Callable[[_Content], tuple[_Content, str]]
    ) -> tuple[_Content, str]:
        """Apply the step to the present content, again if another program changes it in between."""
        with self._lock.held():
            for _ in range(_MOST_TRIES):
                before, known = self._content()
                after, task_id = step(before)
                is_new = before.raw is None or after.text.raw != before.raw
                if is_new and not self._is_written(before.raw, after.text.raw):
                    continue
                if after.known != known:
                    with suppress(StorageError):
                        self._remember(after.known)
                break
            else:
                raise WriteFailed(self._path, "is being written by another program. Try again.")
        if is_new:
            self._journal.note(self._path, f"{verb} task {task_id}")
        return after, task_id

    def _is_written(self, before: bytes | None, data: bytes) -> bool:
        """Write the file; False if another program has written it since it was read."""
        if len(data) > SizeLimit.TASKS:
            most = size_in_words(SizeLimit.TASKS)
            raise WriteFailed(self._path, f"would be larger than {most}. Remove what is done.")
        # Keep a link and edit its target.
        path = self._path.resolve()
        if before is None:
            return create_atomically(self._disk, path, data, SHARED)
        return replace_unchanged(self._disk, path, before, data, SHARED)

    def _content(self) -> tuple[_Content, TaskIds]:
        """The file with its ids, and the ids as they are on disk."""
        raw, known = self._raw(), self._known()
        text = TaskText.of(raw or b"")
        entries = text.entries()
        if raw is None:
            # Some editors remove a file for a moment while they save it.
            return _Content(None, text, entries, (), known), known
        ids, now_known = known.identified([entry.task for entry in entries], self._now())
        return _Content(raw, text, entries, ids, now_known), known

    def _raw(self) -> bytes | None:
        try:
            raw = self._disk.read(self._path, SizeLimit.TASKS)
        except FileNotFoundError:
            if self._path.is_symlink():
                raise self._unreadable("is a link that leads nowhere. Mend or remove it.") from None
            return None
        except NotAFile:
            raise self._unreadable("is not a file. Move it away.") from None
        except TooLarge as large:
            raise self._unreadable(f"is {large.reason}. Remove what is done.") from None
        except OSError as refused:
            reason = refused.strerror or str(refused)
            raise self._unreadable(f"cannot be read: {reason}. Mend that.") from refused
        if b"\0" in raw:
            raise self._unreadable("is not UTF-8 text. Save it as UTF-8.")
        return raw

    def _unreadable(self, reason: str) -> Unreadable:
        return Unreadable(self._path, reason)

    def _known(self) -> TaskIds:
        try:
            return _decoded(self._disk.read(self._ids, SizeLimit.STATE))
        except (OSError, Malformed, FormatIsNewer):
            return TaskIds()

    def _remember(self, known: TaskIds) -> None:
        try:
            _decoded(self._disk.read(self._ids, SizeLimit.STATE))
        except FormatIsNewer:
            return
        except UnsuitableFile as unfit:
            set_aside(self._disk, self._ids, unfit.reason)
        except Malformed as malformed:
            set_aside(self._disk, self._ids, str(malformed))
        except OSError:
            pass  # there is none yet, or the write says what is wrong
        absent = [[*one.task, one.since] for one in known.absent]
        row = {"version": FORMAT, "seen": known.seen, "absent": absent, "gone": known.gone}
        write_atomically(self._disk, self._ids, render_json(row), PRIVATE)


def _decoded(raw: bytes) -> TaskIds:
    """Raises `Malformed` or `FormatIsNewer`."""
    row = versioned(parse_json(raw))
    try:
        return TaskIds(
            tuple(_seen(one) for one in _rows(row["seen"])),
            tuple(AbsentTask(_seen(one), float(since)) for *one, since in _rows(row["absent"])),
            tuple(str(one) for one in _rows(row["gone"])),
        )
    except (KeyError, ValueError, TypeError):
        raise Malformed("not the ids of tasks") from None


def _rows(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(value)
    return value


def _seen(row: Sequence[object]) -> SeenTask:
    task_id, key, due, notes, done = row
    return SeenTask(str(task_id), str(key), str(due), str(notes), bool(done))
