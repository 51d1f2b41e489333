"""The tasks of the file `tasks.md`, which people and the agent edit too."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ollim_bot.domain.task_ids import AbsentTask, SeenTask, TaskIds
from ollim_bot.domain.tasks import (
    FILE_LIST,
    DeletedTask,
    Task,
    TaskChange,
    named_section,
    note_lines,
    one_line,
)
from ollim_bot.errors import StorageError, TaskNotFound, Unreadable, WriteFailed, WrongInput
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import NotAFile, SizeLimit, TooLarge, UnsuitableFile, size_in_words
from ollim_bot.store.file_store import FormatIsNewer, Malformed, set_aside
from ollim_bot.store.files import (
    PRIVATE,
    SHARED,
    FileLock,
    OsDisk,
    create_atomically,
    replace_unchanged,
    write_atomically,
)
from ollim_bot.store.json_fields import FORMAT, parse_json, render_json, versioned
from ollim_bot.store.task_text import Entry, RemovedLines, TaskText, with_date

# Only annotations name these: a command of the CLI imports this file, and should start fast.
if TYPE_CHECKING:
    from ollim_bot.ports import Disk, Journal

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
            replace(
                entry.task,
                id=task_id,
                parent="" if entry.parent is None else self.ids[entry.parent],
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
        task_id, taken = deleted.task.id, _taken(deleted.receipt)

        def step(before: _Content) -> tuple[_Content, str]:
            if task_id in before.ids:
                return before, task_id
            text, line = before.text.put_back(taken)
            return before.with_new(text, line, task_id), task_id

        return self._changed("restore", step)

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
        write_atomically(self._disk, self._ids, _encoded(known), PRIVATE)


def _taken(receipt: str) -> RemovedLines:
    lines, place, before, after = json.loads(receipt)
    return RemovedLines(tuple(lines), place, before, after)


def _encoded(known: TaskIds) -> bytes:
    absent = [[*one.task, one.since] for one in known.absent]
    row = {"version": FORMAT, "seen": known.seen, "absent": absent, "gone": known.gone}
    return render_json(row)


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
