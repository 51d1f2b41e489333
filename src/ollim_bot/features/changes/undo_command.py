"""`ollim-bot undo`: takes a change back, as long as nothing else has changed the same place."""

from __future__ import annotations

from functools import partial

from ollim_bot.features.changes.changes_command import ID, find_change
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.changes.file_changes import undo_setting
from ollim_bot.kernel.values.changes import (
    ANSWER,
    SETTING,
    TASK,
    Changer,
    ChangeRow,
    file_undone,
    setting_undone,
    task_undone,
    why_elsewhere,
)
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.framework import Given, argument, command, plain
from ollim_bot.surfaces.terminal.printing import show
from ollim_bot.surfaces.terminal.terminal_data import Data, open_data, writable


@command(
    "undo",
    "take a change back; what came after it stays",
    "3f2a91c0",
    ID,
    argument(
        "--with-tools",
        action="store_true",
        help="also if a job or skill may use tools again that it may not use now",
    ),
)
def run(given: Given, caller: Caller) -> None:
    change = find_change(open_data(caller), str(given["id"])).change
    if why := why_elsewhere(change):
        raise OllimError(plain(why))
    with writable(open_data(caller)) as data:
        if change.kind == TASK:
            from ollim_bot.features.tasks.tasks_command import task_list
            from ollim_bot.kernel.changes.task_undo import TaskUndoer

            undoer = TaskUndoer(task_list(data, caller), data.rows, lambda: data.now)
            show(plain(task_undone(change, undoer.undo(change, Changer.COMMAND))))
            return
        if change.kind == ANSWER:
            show(plain(_undo_answer(change, data)))
            return
        if change.kind == SETTING:
            with data.database() as database:
                database.run(lambda tx: undo_setting(tx, change, Changer.COMMAND))
            show(plain(setting_undone(change)))
            return
        may_widen = "with_tools" in given
        after = data.changes().undo_file(change, Changer.COMMAND, may_widen=may_widen)
        show(plain(file_undone(change, after)))


def _undo_answer(change: ChangeRow, data: Data) -> str:
    """Undo the answer, and return what there is to say. Raises `UndoRefused` with the reason.

    A running bot changes the job files that belong to it.
    """
    import asyncio
    from datetime import UTC

    from ollim_bot.kernel.base.clock import SystemClock
    from ollim_bot.kernel.changes.change_journal import ChangeJournal
    from ollim_bot.kernel.changes.file_changes import FileChanges
    from ollim_bot.kernel.changes.item_answers import new_copy, undo_answer_change
    from ollim_bot.kernel.changes.job_files import JobFileChanges, open_repositories
    from ollim_bot.kernel.store.store import DatabaseStore
    from ollim_bot.kernel.tools.registry import of_conversation
    from ollim_bot.kernel.values.answers import state_text, state_words

    clock = SystemClock(data.now.tzinfo or UTC)
    journal = ChangeJournal(data.journal, data.paths.root, clock)
    repositories = open_repositories(data.paths, journal, plan=data.planned)
    with data.database() as database:
        store = DatabaseStore(database, clock)
        limited = partial(of_conversation, data.paths) if data.shared else None
        files = JobFileChanges(store, repositories, limited)
        job, copy = files.job_of(change.name), new_copy()
        item = database.run(
            lambda tx: undo_answer_change(tx, change, Changer.COMMAND.value, job, copy)
        )
        if database.is_holder:
            asyncio.run(files.make())
            journal.keep_noted(FileChanges(data.paths, database, journal, lambda: data.now))
            asyncio.run(store.close())
    return f"Undone. “{item.owner_title}” is {state_words(state_text(item), data.now)} again."
