"""Tasks: the value, its short id, and the task that words name."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import count, takewhile
from typing import NamedTuple
from unicodedata import normalize
from zlib import crc32

from ollim_bot.kernel.base.errors import TaskNotFound, WrongInput
from ollim_bot.kernel.base.moments import day_words
from ollim_bot.kernel.base.text import FROM_UNTRUSTED, has_words, shortened
from ollim_bot.kernel.base.text import one_line as visible_line

# The list of the tasks in the file of the data directory.
FILE_LIST = "tasks.md"
LONGEST_TITLE = 1000
LONGEST_NOTES = 8000

TASK_DONE, TASK_DELETE = "task_done", "task_del"
# Begins the data of an Undo that is for a task.
TASK = "task"

_MOST_NAMED = 5
_NEAR_DAYS = {-1: "yesterday", 0: "today", 1: "tomorrow"}


class Task(NamedTuple):
    """A thing to do. `due` is a date without a zone; `list` is the name of its list.

    `parent` is the id of the task that it is a part of, and in the file `section` the heading above
    it; both may be empty.

    The title is one line, and the notes are as `note_lines` makes them. `untrusted` names what the
    turn had read that added it; empty if that was nothing untrusted, or another hand added it.
    """

    id: str
    title: str
    due: date | None = None
    notes: str = ""
    done: bool = False
    list: str = FILE_LIST
    untrusted: str = ""
    section: str = ""
    parent: str = ""

    @property
    def list_name(self) -> str:
        """The list as people name it."""
        return self.section or self.list

    @property
    def safe_title(self) -> str:
        """The title towards the agent, without untrusted text."""
        return FROM_UNTRUSTED if self.untrusted else self.title


class TaskChange(NamedTuple):
    """What to change of a task; None leaves a part as it is."""

    title: str | None = None
    due: date | None = None
    notes: str | None = None
    clears_due: bool = False


class DeletedTask(NamedTuple):
    """A task that was deleted. `receipt` is what its list needs to bring it back."""

    task: Task
    receipt: str


def one_line(title: str) -> str:
    """The title as a list keeps it; raises `WrongInput` if it is empty or too long."""
    line = " ".join(_writable(title, "title").split())
    if not line:
        raise WrongInput("A task needs a title, such as “call the dentist”.")
    if len(line) > LONGEST_TITLE:
        raise WrongInput(
            f"The title takes {LONGEST_TITLE} characters at most; this one has {len(line)}. "
            "Put the rest into the notes."
        )
    return line


def note_lines(notes: str) -> str:
    """The notes as a list keeps them; raises `WrongInput` if they are too long."""
    lines = [line.rstrip() for line in re.split(r"\r\n|\r|\n", _writable(notes, "notes"))]
    text = "\n".join(outdented(lines)).strip("\n")
    if len(text) > LONGEST_NOTES:
        raise WrongInput(
            f"The notes take {LONGEST_NOTES} characters at most; these have {len(text)}."
        )
    return text


def outdented(lines: Sequence[str]) -> list[str]:
    """The lines without the indentation that all of them share; blank lines become empty."""
    indents = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    # What the first and the last in sorted order share, all share.
    pairs = zip(min(indents, default=""), max(indents, default=""), strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return [line[shared:] if line.strip() else "" for line in lines]


def _writable(text: str, part: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        wrong = text[error.start : error.start + 1]
        raise WrongInput(f"{wrong!r} in the {part} cannot be written to a file.") from None
    return text.replace("\0", "")


def in_order(tasks: Sequence[Task]) -> list[Task]:
    """Open tasks before done ones, those with a date first, the earliest first."""
    return sorted(tasks, key=lambda task: (task.done, task.due is None, task.due or date.max))


def due_words(due: date, today: date) -> str:
    """`due today`, `due Fri 20 Nov`, `overdue since yesterday`."""
    days = (due - today).days
    day = _NEAR_DAYS.get(days) or day_words(due, today)
    return f"overdue since {day}" if days < 0 else f"due {day}"


def facts(task: Task, today: date, *, marks_file: bool = False) -> str:
    """The words after the title: `overdue since yesterday, with notes (file)`; may be empty.

    `marks_file` is for a listing that has tasks of a service too.
    """
    when = "" if task.due is None or task.done else due_words(task.due, today)
    about = ", ".join(filter(None, (when, "with notes" if task.notes else "")))
    mark = "(file)" if marks_file and task.list == FILE_LIST else ""
    return " ".join(filter(None, (about, mark)))


def task_words(task: Task, today: date, *, marks_file: bool = False) -> str:
    """The task as a line of a card."""
    about = facts(task, today, marks_file=marks_file)
    mark = FROM_UNTRUSTED if task.untrusted else ""
    return " · ".join(filter(None, (visible_line(task.title, 200), mark, about)))


def task_row(task: Task) -> Mapping[str, object]:
    """The task as JSON shows it: exactly these fields; a date as `2026-11-20`, or null."""
    return {
        "id": task.id,
        "title": task.title,
        "due": None if task.due is None else task.due.isoformat(),
        "notes": task.notes,
        "done": task.done,
        "list": task.list_name,
    }


def nested(tasks: Sequence[Task]) -> list[tuple[int, Task]]:
    """The tasks, each followed by its parts, with the depth of each."""
    known = {task.id for task in tasks}
    parts: dict[str, list[Task]] = {}
    for task in tasks:
        parts.setdefault(task.parent if task.parent in known else "", []).append(task)

    def below(parent: str, depth: int) -> list[tuple[int, Task]]:
        return [
            each
            for task in parts.get(parent, ())
            for each in ((depth, task), *below(task.id, depth + 1))
        ]

    return below("", 0)


def named_section(sections: Sequence[str], name: str) -> str | None:
    """The heading that is meant by `name`, in any case, with or without the word `list`."""
    wanted = name.strip().casefold()
    for each in dict.fromkeys((wanted, wanted.removesuffix(" list"))):
        found = next((section for section in sections if section.casefold() == each), None)
        if found is not None:
            return found
    return None


def is_titled(task: Task, title: str) -> bool:
    """Whether the title is the same; capitals, spaces and forms of letters do not count."""
    return title_key(task.title) == title_key(title)


def is_due(task: Task, today: date) -> bool:
    """Whether an open task is due today or overdue."""
    return not task.done and task.due is not None and task.due <= today


def named_task(tasks: Sequence[Task], given: str, *, is_done: bool = False) -> Task:
    """The task whose id is `given` or begins with it, or whose title has these words.

    Of those that words fit, one that `is_done`, or is open, is meant first. Raises `TaskNotFound`
    with those that exist, or `WrongInput` with all that fit.
    """
    exact = [task for task in tasks if task.id == given]
    fitting = exact or [task for task in tasks if given and task.id.startswith(given)]
    if not fitting:
        worded = [task for task in tasks if has_words(task.safe_title, given)]
        fitting = [task for task in worded if task.done is is_done] or worded
    if not fitting:
        open_ones = in_order([task for task in tasks if not task.done])
        raise TaskNotFound(given, f"Open: {_named(open_ones)}." if open_ones else "None is open.")
    if len(fitting) > 1:
        raise WrongInput(f"Several fit “{given}”: {_named(fitting)}. Say which one by its id.")
    return fitting[0]


def _named(tasks: Sequence[Task]) -> str:
    titles = [(task.id, shortened(task.safe_title, 40)) for task in tasks[:_MOST_NAMED]]
    named = [f"{task_id} ({title})" for task_id, title in titles]
    if len(tasks) > _MOST_NAMED:
        named.append(f"and {len(tasks) - _MOST_NAMED} more")
    return ", ".join(named)


# A task that is missing for longer was removed. A shorter time is a cut before the paste, or a file
# that was read while another program was writing it.
ABSENT_FOR = timedelta(minutes=10)
_MOST_GONE = 2000


class SeenTask(NamedTuple):
    """A task as last seen; `key` is its normalised title, and `notes` a checksum of its notes."""

    id: str
    key: str
    due: str
    notes: str
    done: bool


class AbsentTask(NamedTuple):
    """A task that was not in the text any more; `since` is in unix seconds."""

    task: SeenTask
    since: float


class TaskIds(NamedTuple):
    """The ids that were given: in the text, recently missing from it, and `gone` for good."""

    seen: tuple[SeenTask, ...] = ()
    absent: tuple[AbsentTask, ...] = ()
    gone: tuple[str, ...] = ()

    def identified(self, tasks: Sequence[Task], now: datetime) -> tuple[list[str], TaskIds]:
        """The id of each task of the text, and the ids given from now on."""
        parts = [_parts(task) for task in tasks]
        ids = _matched(self.seen, parts)
        before = self._pruned(now)
        adopted = _adopted(before.absent, parts, ids)
        present = {*ids.values()}
        lost = (AbsentTask(one, now.timestamp()) for one in self.seen if one.id not in present)
        still = (each for each in before.absent if each.task.id not in adopted)
        kept = TaskIds((), (*still, *lost), before.gone)
        new_ids = _NewIds({*kept.gone, *(one.task.id for one in kept.absent), *ids.values()})
        for place, part in enumerate(parts):
            if place not in ids:
                ids[place] = new_ids.of(part.key)
        given = [ids[place] for place in range(len(parts))]
        return given, kept.with_seen(given, tasks)

    def _pruned(self, now: datetime) -> TaskIds:
        oldest = now.timestamp() - ABSENT_FOR.total_seconds()
        absent = tuple(one for one in self.absent if one.since > oldest)
        lost = (one.task.id for one in self.absent if one.since <= oldest)
        return TaskIds(self.seen, absent, (*self.gone, *lost)[-_MOST_GONE:])

    def with_seen(self, ids: Sequence[str], tasks: Sequence[Task]) -> TaskIds:
        """The ids after a change by the program, which knows the id of each task."""
        pairs = zip(ids, map(_parts, tasks), strict=True)
        return TaskIds(tuple(part._replace(id=one) for one, part in pairs), self.absent, self.gone)

    def without(self, task_id: str) -> TaskIds:
        """The task was deleted for good, until `restored`."""
        seen = tuple(one for one in self.seen if one.id != task_id)
        return TaskIds(seen, self.absent, (*self.gone, task_id)[-_MOST_GONE:])

    def restored(self, task_id: str) -> TaskIds:
        return TaskIds(self.seen, self.absent, tuple(one for one in self.gone if one != task_id))

    def new_id(self, title: str) -> str:
        """An id that no task has or had."""
        used = {*self.gone, *(one.id for one in self.seen), *(one.task.id for one in self.absent)}
        return _NewIds(used).of(title_key(title))


_Signature = Callable[[SeenTask], object]


# Whether the task is done now, whether it was, and what has to be equal; the surest first. A done
# line beside an equal open one is the task that was ticked: the open one was written anew.
_ROUNDS: tuple[tuple[bool, bool, _Signature], ...] = (
    (True, True, lambda one: (one.due, one.notes)),
    (True, False, lambda one: (one.due, one.notes)),
    (True, False, lambda one: one.due or None),
    (False, False, lambda one: (one.due, one.notes)),
    (False, False, lambda one: one.due or None),
    (False, False, lambda one: one.notes or None),
    (False, True, lambda one: (one.due, one.notes)),
)


def _matched(seen: Sequence[SeenTask], parts: Sequence[SeenTask]) -> dict[int, str]:
    """The ids of the tasks that were seen before, by place."""
    known, found = defaultdict[str, list[SeenTask]](list), defaultdict[str, list[int]](list)
    for one in seen:
        known[one.key].append(one)
    for place, part in enumerate(parts):
        found[part.key].append(place)
    ids: dict[int, str] = {}
    for key, places in found.items():
        ids.update(_same_title(known[key], places, parts))
    return ids


def _same_title(
    known: list[SeenTask], places: list[int], parts: Sequence[SeenTask]
) -> Iterator[tuple[int, str]]:
    for is_done, was_done, signature in _ROUNDS:
        waiting = defaultdict[object, deque[SeenTask]](deque)
        for one in known:
            if one.done is was_done:
                waiting[signature(one)].append(one)
        taken = set[int]()
        for place in places:
            part = parts[place]
            like = signature(part)
            if part.done is is_done and like is not None and waiting[like]:
                yield place, waiting[like].popleft().id
                taken.add(place)
        left = {one.id for queue in waiting.values() for one in queue}
        known = [one for one in known if one.done is not was_done or one.id in left]
        places = [place for place in places if place not in taken]
    # With fewer than before, nothing tells which of them was removed.
    if len(known) <= len(places):
        yield from ((place, one.id) for place, one in zip(places, known, strict=False))


def _adopted(
    absent: Sequence[AbsentTask], parts: Sequence[SeenTask], ids: dict[int, str]
) -> set[str]:
    """Give tasks that are back in the text their ids; returns those ids."""
    waiting = defaultdict[tuple[str, str, str], list[str]](list)
    for one in absent:
        waiting[one.task.key, one.task.due, one.task.notes].append(one.task.id)
    adopted = set[str]()
    for place, part in enumerate(parts):
        back = waiting.get((part.key, part.due, part.notes))
        if place not in ids and back:
            ids[place] = back.pop(0)
            adopted.add(ids[place])
    return adopted


def _parts(task: Task) -> SeenTask:
    notes = f"{len(task.notes)} {_checksum(task.notes)}" if task.notes else ""
    due = "" if task.due is None else task.due.isoformat()
    return SeenTask("", title_key(task.title), due, notes, task.done)


def title_key(title: str) -> str:
    """The same for two spellings of a title: capitals, spaces and forms of letters do not count."""
    return normalize("NFC", " ".join(normalize("NFKC", title).casefold().split()))


def _checksum(text: str) -> str:
    # To import hashlib takes a command half as long as Python itself.
    return f"{crc32(text.encode()):08x}"


class _NewIds:
    """Gives ids that are made of a title and a number, and not `used`."""

    def __init__(self, used: set[str]) -> None:
        self._used = used
        self._numbers = defaultdict[str, Iterator[int]](count)

    def of(self, key: str) -> str:
        numbered = (_checksum(f"{key}:{number}") for number in self._numbers[key])
        made = next(one for one in numbered if one not in self._used)
        self._used.add(made)
        return made
