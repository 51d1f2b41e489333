"""Tasks: their parts, their order, how they are shown, and which one an id means."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import takewhile

from ollim_bot.domain.moments import MONTHS, WEEKDAYS
from ollim_bot.domain.text import FROM_UNTRUSTED, has_words, shortened
from ollim_bot.errors import TaskNotFound, WrongInput

# The list of the tasks in the file of the data directory.
FILE_LIST = "tasks.md"
LONGEST_TITLE = 1000
LONGEST_NOTES = 8000

_MOST_NAMED = 5
_LONGEST_NAMED = 40
_NEAR_DAYS = {-1: "yesterday", 0: "today", 1: "tomorrow"}


@dataclass(frozen=True, slots=True)
class Task:
    """A thing to do. `due` is a date without a zone; `list` is the name of its list.

    In the file, `section` is the heading above it, and `parent` the id of the task that it is a
    part of; both may be empty.

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


@dataclass(frozen=True, slots=True)
class TaskChange:
    """What to change of a task; None leaves a part as it is."""

    title: str | None = None
    due: date | None = None
    notes: str | None = None
    clears_due: bool = False


@dataclass(frozen=True, slots=True)
class DeletedTask:
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
    year = "" if due.year == today.year else f" {due.year}"
    named = f"{WEEKDAYS[due.weekday()]} {due.day} {MONTHS[due.month - 1]}{year}"
    day = _NEAR_DAYS.get(days, named)
    return f"overdue since {day}" if days < 0 else f"due {day}"


def facts(task: Task, today: date, *, marks_file: bool = False) -> str:
    """The words after the title: `overdue since yesterday, with notes (file)`; may be empty.

    `marks_file` is for a listing that has tasks of a service too.
    """
    when = "" if task.due is None or task.done else due_words(task.due, today)
    about = ", ".join(filter(None, (when, "with notes" if task.notes else "")))
    mark = "(file)" if marks_file and task.list == FILE_LIST else ""
    return " ".join(filter(None, (about, mark)))


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
    titles = [(task.id, shortened(task.safe_title, _LONGEST_NAMED)) for task in tasks[:_MOST_NAMED]]
    named = [f"{task_id} ({title})" for task_id, title in titles]
    if len(tasks) > _MOST_NAMED:
        named.append(f"and {len(tasks) - _MOST_NAMED} more")
    return ", ".join(named)
