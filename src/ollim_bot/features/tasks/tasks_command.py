"""`ollim-bot tasks`: what there is to do, in `tasks.md` or at a connected service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING

from ollim_bot.features.tasks.task_lists import active_tasks
from ollim_bot.kernel.base.errors import TaskNotFound, WrongInput
from ollim_bot.kernel.store.task_file import TaskFile
from ollim_bot.kernel.values.tasks import (
    FILE_LIST,
    Task,
    TaskChange,
    due_words,
    facts,
    in_order,
    named_section,
    named_task,
    nested,
    task_row,
)
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.completions import Completion
from ollim_bot.surfaces.terminal.framework import (
    JSON,
    Given,
    Noun,
    argument,
    columns,
    plain,
    print_json,
    title,
)
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import Data, open_data, writable

if TYPE_CHECKING:
    from ollim_bot.kernel.values.ports import TaskList
    from ollim_bot.kernel.values.taint import Taint

_CLEARED = ("due", "notes")

_TASKS = Noun("tasks")
run = _TASKS.run


def task_list(data: Data, caller: Caller) -> TaskList:
    """The list in use."""
    file = TaskFile(data.paths, data.journal, lambda: data.now)
    return active_tasks(file, _service(data, caller))


def _is_at_google(data: Data) -> bool:
    return data.paths.token.exists() or data.paths.google_revoked.exists()


def _service(data: Data, caller: Caller) -> TaskList | None:
    """The tasks at Google; None if they are not there."""
    if not _is_at_google(data):
        return None
    from ollim_bot.features.google.google_command import google_tasks

    return google_tasks(caller, data)


def _ids(caller: Caller, _: Sequence[str]) -> Iterator[Completion]:
    data = open_data(caller)
    if not _is_at_google(data):  # a shell does not wait for a network
        for task in task_list(data, caller).tasks(with_done=True):
            yield Completion(task.id, title(task.title))


def _list_names(caller: Caller, _: Sequence[str]) -> Iterator[Completion]:
    data = open_data(caller)
    if not _is_at_google(data):
        yield from map(Completion, task_list(data, caller).lists())


_TASK = argument(
    "task",
    metavar="TASK",
    nargs="+",
    help="words of it, its id, or the beginning of its id",
    completions=_ids,
)
_DUE = argument("--due", metavar="DAY", help="tomorrow, fri, 24 dec or 2026-11-20")
_NOTES = argument("--notes", metavar="TEXT", help="what else there is to know")


@_TASKS.verb(
    "what is open, due ones first",
    "",
    argument("--all", action="store_true", help="also those that are done"),
    argument(
        "--list",
        metavar="L",
        help="of this list only; `tasks lists` names them",
        completions=_list_names,
    ),
    JSON,
)
def _list(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    tasks = task_list(data, caller)
    listed = in_order(tasks.tasks(given.get("list", ""), with_done="all" in given))
    found = [as_seen(task, caller) for task in marked(listed, data)]
    if "json" in given:
        print_json({"tasks": [task_row(task) for task in found]})
    elif found:
        marks_file = any(task.list != FILE_LIST for task in found)
        today = data.now.date()
        rows = [
            (task.id, f"{'  ' * depth}{_line(task, today, marks_file, given)}")
            for depth, task in nested(found)
        ]
        show(columns(rows))
    else:
        show(f"No {'' if 'all' in given else 'open '}tasks. Add one: {_TASKS.example('add')}")


def _line(task: Task, today: date, marks_file: bool, given: Given) -> str:
    box = f"[{'x' if task.done else ' '}] " if "all" in given else ""
    about = facts(task, today, marks_file=marks_file)
    return f"{box}{title(task.title)}{f' · {about}' if about else ''}"


@_TASKS.verb("one with its notes", "3f2a9c1b", _TASK, JSON)
def _show(given: Given, caller: Caller) -> None:
    data = open_data(caller)
    (task,) = marked([_named(task_list(data, caller), given, data)], data)
    task = as_seen(task, caller, is_whole=True)
    if "json" in given:
        print_json(task_row(task))
        return
    when = "no date" if task.due is None else task.due.isoformat()
    if task.due is not None and not task.done:
        when += f" ({due_words(task.due, data.now.date())})"
    rows = [
        ("title", task.title),
        ("due", when),
        ("done", "yes" if task.done else "no"),
        ("list", task.list_name),
        ("id", task.id),
    ]
    show(plain(columns(rows)))
    if task.notes:
        show(f"\n{plain(task.notes)}")


@_TASKS.verb(
    "write a new one down",
    '"call the dentist" --due friday',
    argument("title", metavar="TITLE", nargs="+", help="what to do"),
    _DUE,
    _NOTES,
    argument(
        "--list",
        metavar="L",
        help="a heading of tasks.md, which is made if there is none, or a list at Google",
        completions=_list_names,
    ),
    JSON,
    usage="%(prog)s TITLE [--due DAY] [--notes TEXT] [--list L]",
)
def _add(given: Given, caller: Caller) -> None:
    with _changing(caller) as (data, tasks):
        due = _day(given["due"], data) if "due" in given else None
        words, read = " ".join(given["title"]), data.standing_taint()
        # Before there is a task: a crash must not leave one without its mark.
        _mark_title(data, words, read)
        name = str(given.get("list", ""))
        if name and read and named_section([*tasks.lists()], name) is None:
            raise WrongInput(
                f"There is no list {name}. Only the owner's own words can make one now."
            )
        task = tasks.add(words, due, given.get("notes", ""), name)
        _mark_title(data, task.title, read, task.id)
        _keep(data, None, task)
        _tell("added", task, data, given, caller)
        if "json" not in given:
            show(f"id {task.id}")


def _change(
    done: str,
    change: Callable[[TaskList, Task], Task],
    given: Given,
    caller: Caller,
    *,
    is_done: bool = False,
) -> None:
    with _changing(caller) as (data, tasks):
        task = _named(tasks, given, data, is_done=is_done)
        changed = change(tasks, task)
        _keep(data, task, changed)
        _tell(done, changed, data, given, caller)


@_TASKS.verb("tick one off", "cat food", _TASK, JSON)
def _done(given: Given, caller: Caller) -> None:
    _change("done", lambda tasks, task: tasks.complete(task.id), given, caller)


@_TASKS.verb("take a tick back", "3f2a", _TASK, JSON)
def _reopen(given: Given, caller: Caller) -> None:
    _change("open again", lambda tasks, task: tasks.reopen(task.id), given, caller, is_done=True)


@_TASKS.verb(
    "change one",
    "3f2a9c1b --due 2026-11-20",
    _TASK,
    JSON,
    argument("--title", metavar="TEXT", help="what to do"),
    _DUE,
    _NOTES,
    argument("--clear", choices=_CLEARED, action="append", help="take its date or its notes away"),
    usage="%(prog)s TASK [...]",
)
def _update(given: Given, caller: Caller) -> None:
    gone = given.get("clear", [])
    wanted = [name for name in ("title", "due", "notes") if name in given]
    if not wanted and not gone:
        raise WrongInput(f"Say what to change. Example: {_TASKS.example('update')}")
    if both := [name for name in wanted if name in gone]:
        raise WrongInput(f"--{both[0]} and --clear {both[0]} contradict each other. Give one.")
    due = _day(given["due"], open_data(caller)) if "due" in given else None
    notes = "" if "notes" in gone else given.get("notes")
    change = TaskChange(given.get("title"), due, notes, clears_due="due" in gone)
    _change("changed", lambda tasks, task: tasks.update(task.id, change), given, caller)


@_TASKS.verb("take one away for good", "3f2a", _TASK, JSON)
def _delete(given: Given, caller: Caller) -> None:
    with _changing(caller) as (data, tasks):
        task = _named(tasks, given, data)
        deleted = tasks.delete(task.id)
        _keep(data, task, None, deleted.receipt)
        _tell("deleted", deleted.task, data, given, caller)


@_TASKS.verb("the lists there are", "", JSON)
def _lists(given: Given, caller: Caller) -> None:
    lists = task_list(open_data(caller), caller).lists()
    if caller.agent:
        from ollim_bot.kernel.prompts.prompt_context import neutralised

        lists = {neutralised(name): neutralised(called) for name, called in lists.items()}
    if "json" in given:
        print_json({"lists": list(lists), "titles": dict(lists)})
        return
    for name, called in lists.items():
        show(plain(name if name == called else f"{name} ({called})"))


def _keep(data: Data, before: Task | None, after: Task | None, receipt: str = "") -> None:
    """Keep a change of a task at a service; those of the file are seen in it."""
    from ollim_bot.kernel.values.changes import TASK, task_words

    task = after or before
    if task is not None and task.list != FILE_LIST:
        old = None if before is None else task_words(before)
        new = None if after is None else task_words(after)
        data.keep_elsewhere(
            f"{TASK}:{task.id}",
            old,
            new,
            data.read(lambda tx: tx.marks.of_task(task.title)) or "",
            receipt,
        )


@contextmanager
def _changing(caller: Caller) -> Iterator[tuple[Data, TaskList]]:
    with writable(open_data(caller)) as data:
        data.keep_files(FILE_LIST, is_before=True)
        try:
            yield data, task_list(data, caller)
        finally:
            data.keep_files(FILE_LIST)


def _named(tasks: TaskList, given: Given, data: Data, *, is_done: bool = False) -> Task:
    """The task with this id, or the only one whose id begins so or whose title has these words."""
    words = " ".join(given["task"])
    try:
        return tasks.get(words)
    except TaskNotFound:
        return named_task(marked(tasks.tasks(with_done=True), data), words, is_done=is_done)


def _mark_title(data: Data, words: str, read: Taint | None, task_id: str = "") -> None:
    if read:
        from ollim_bot.kernel.values.taint import TaintMark

        mark = TaintMark(read.mark, data.now, title=words, untold=task_id)
        with data.database() as database:
            database.run(lambda tx: tx.marks.leave(mark, is_written=bool(task_id)))


def marked(tasks: Sequence[Task], data: Data) -> Sequence[Task]:
    """The tasks as the agent may see them; the owner's own commands need no look at the marks."""
    found = data.read(lambda tx: tx.marks.marked(tasks)) if data.agent else None
    return tasks if found is None else found


def _day(text: str, data: Data) -> date:
    from ollim_bot.kernel.values.phrases.moment import parse_day

    return parse_day(text, data.now.date())


def _tell(done: str, changed: Task, data: Data, given: Given, caller: Caller) -> None:
    (task,) = (as_seen(each, caller) for each in marked([changed], data))
    if "json" in given:
        print_json(task_row(task))
        return
    when = "" if task.due is None or task.done else f", {due_words(task.due, data.now.date())}"
    where = f", on the list {title(task.list_name)}" if "list" in given else ""
    show(f"Task {done}: {title(task.title)}{when}{where}.")


def as_seen(task: Task, caller: Caller, *, is_whole: bool = False) -> Task:
    """The task; for the agent, nothing in it can pass for the program's own words.

    Its notes are data, since mail and pages may be copied into them. So is the title of a task that
    a tainted turn has added, which only the `is_whole` task shows.
    """
    if caller.agent is None:
        return task
    from ollim_bot.kernel.prompts.prompt_context import fenced, neutralised
    from ollim_bot.kernel.values.taint import TASK_NOTE, Untrusted

    notes = fenced(task.notes, Untrusted(TASK_NOTE, "the notes of a task")) if task.notes else ""
    title_words = neutralised(task.safe_title)
    if task.untrusted and is_whole:
        source = Untrusted(task.untrusted, "the title of a task")
        title_words = f"\n{fenced(task.title, source)}"
    return task._replace(title=title_words, notes=notes, section=neutralised(task.section))
