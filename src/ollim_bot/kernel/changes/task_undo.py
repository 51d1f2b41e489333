"""Steps of clicks on tasks, and the undo of a change of a task at a service.

A click and an undo are noted before the list is changed, so that a crash in between loses neither
and brings nothing twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from ollim_bot.kernel.base.errors import OllimError, TaskNotFound
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.changes.file_changes import Rows, UndoRefused
from ollim_bot.kernel.store.steps import leave_update
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.changes import TASK, Changer, ChangeRow, task_in, task_words
from ollim_bot.kernel.values.ports import TaskList
from ollim_bot.kernel.values.task_cards import (
    TaskStep,
    TaskUndo,
    expired_on,
    is_same,
    settled_on,
    taken_back_on,
)
from ollim_bot.kernel.values.tasks import FILE_LIST, DeletedTask, Task, TaskChange
from ollim_bot.kernel.values.updates import owner_did


def end_task_undo(tx: Transaction) -> None:
    """Remove the Undo buttons whose time is over."""
    known = tx.task_undos.get()
    for undo in known.over(tx.now):
        _show(tx, undo, expired_on)
        known = known.without(undo.key)
    tx.task_undos.put(known)


def begin_click(tx: Transaction, step: TaskStep) -> None:
    """Show the click as done, and note that the list has to be changed."""
    _note_click(tx, step.undo, is_back=step.takes_back)
    tx.task_undos.change(lambda known: known.beginning(step))


def _finish(tx: Transaction, step: TaskStep) -> None:
    tx.task_undos.change(lambda known: known.ending(step.undo.key))


def end_click(tx: Transaction, step: TaskStep) -> None:
    """End the note, and keep what was changed at a service; changes of the file are seen in it."""
    _finish(tx, step)
    task = step.undo.task
    if task.list == FILE_LIST:
        return
    place, mark, undoes = f"{TASK}:{task.id}", tx.marks.of_task(task.title), ""
    old: str | None = task_words(task._replace(done=False))
    new: str | None = task_words(task)
    if step.undo.is_deletion:
        old, new = new, None
    if step.takes_back:
        old, new, last = new, old, tx.changes.last_of(place)
        undoes = last.key if last else ""
    tx.changes.put(
        ChangeRow(
            tx.changes.new_key(place),
            tx.now,
            place,
            Changer.BUTTON,
            old,
            new,
            untrusted=mark,
            undoes=undoes,
            receipt=step.undo.receipt if new is None else "",
        )
    )


def withdraw_click(tx: Transaction, step: TaskStep) -> None:
    """Show everything as it was before the click."""
    _finish(tx, step)
    _note_click(tx, step.undo, is_back=not step.takes_back)


def _note_click(tx: Transaction, undo: TaskUndo, *, is_back: bool) -> None:
    """Show a click or its undo, and tell the agent, unless it has not seen the opposite yet."""
    _show(tx, undo, taken_back_on if is_back else settled_on)
    known = tx.task_undos.get()
    tx.task_undos.put(known.without(undo.key) if is_back else known.including(undo))
    did, name, opposite = "completed", f"task-{undo.key}", f"undone task-{undo.key}"
    if undo.is_deletion:
        did = "deleted"
    if is_back:
        did, name, opposite = "restored" if undo.is_deletion else "reopened", opposite, name
    if any(each.id == opposite for each in tx.updates.get().entries):
        tx.updates.change(lambda pending: pending.without({opposite}))
    else:
        title = tx.marks.marked([undo.task])[0].safe_title
        leave_update(tx, owner_did(tx.now, f'User {did} task "{title}".', name))


def _show(tx: Transaction, undo: TaskUndo, change: Callable[[Card, TaskUndo], Card]) -> None:
    message = tx.messages.get(MessageId(undo.message))
    # An overview that is kept up to date is drawn anew.
    is_kept = undo.message in tx.overviews.get().messages.values()
    if message is None or message.card is None or is_kept:
        return
    card = change(message.card, undo)
    text = card.text if message.text == message.card.text else message.text
    tx.messages.add(replace(message, card=card, text=text))


class TaskUndoer:
    """Takes changes of tasks at a service back. `now` is for the changes that this makes."""

    def __init__(self, tasks: TaskList, rows: Rows, now: Callable[[], datetime]) -> None:
        self._tasks = tasks
        self._rows = rows
        self._now = now

    def undo(self, change: ChangeRow, by: Changer) -> Task | None:
        """Undo the change, and return the task as it is now; None if it is gone.

        Raises `UndoRefused` with the reason, and what the list raises; nothing has changed then.
        """
        if change.is_cut:
            raise UndoRefused("It was too long to be kept.")
        known = self._rows.query(lambda tx: tx.changes.undo_of(change.key))
        begun = known if known is not None and known.is_begun else None
        if begun is None and self._rows.query(lambda tx: tx.changes.is_undone(change.key)):
            raise UndoRefused("It was undone before.")
        now = self._words(change.name)
        if now not in (change.after, change.before):
            sentence = "The task was changed since; nothing was undone."
            raise UndoRefused(sentence)
        noted = begun or self._begun(change, by, now)
        try:
            task = self._carried_out(change, now, may_be_there=begun is not None)
        except OllimError:
            self._rows.run(lambda tx: tx.changes.remove(noted.key))
            raise
        self._rows.run(lambda tx: _end_undo(tx, change, noted, task))
        return task

    def _words(self, task_id: str) -> str | None:
        try:
            return task_words(self._tasks.get(task_id))
        except TaskNotFound:
            return None

    def _begun(self, change: ChangeRow, by: Changer, now: str | None) -> ChangeRow:
        """Note the undo, with what a later undo of it needs."""
        is_deletion = change.before is None and now is not None
        noted = ChangeRow(
            secrets.token_hex(4),
            self._now(),
            change.place,
            by,
            change.after,
            change.before,
            untrusted=change.untrusted,
            undoes=change.key,
            is_begun=True,
            receipt=self._tasks.deletion(change.name).receipt if is_deletion else "",
        )
        self._rows.run(lambda tx: tx.changes.put(noted))
        return noted

    def _carried_out(
        self, change: ChangeRow, now: str | None, *, may_be_there: bool
    ) -> Task | None:
        wanted = None if change.before is None else task_in(change.before, change.name)
        if wanted is None:
            with suppress(TaskNotFound):
                self._tasks.delete(change.name)
            return None
        if now is None:
            return self._restored(wanted, change.receipt, may_be_there=may_be_there)
        return self._changed(self._tasks.get(change.name), wanted)

    def _restored(self, task: Task, receipt: str, *, may_be_there: bool) -> Task:
        lists = [each for each in self._tasks.lists() if each != FILE_LIST] if may_be_there else []
        found = (each for name in lists for each in self._tasks.tasks(name, with_done=True))
        there = next((each for each in found if is_same(each, task)), None)
        if there is not None:
            return there
        if receipt:
            return self._tasks.restore(DeletedTask(task, receipt))
        added = self._tasks.add(task.title, task.due, task.notes)
        return self._tasks.complete(added.id) if task.done else added

    def _changed(self, task: Task, wanted: Task) -> Task:
        if not is_same(task, wanted):
            change = TaskChange(
                wanted.title, wanted.due, wanted.notes, clears_due=wanted.due is None
            )
            task = self._tasks.update(task.id, change)
        if task.done != wanted.done:
            change_state = self._tasks.complete if wanted.done else self._tasks.reopen
            task = change_state(task.id)
        return task


def _end_undo(tx: Transaction, change: ChangeRow, noted: ChangeRow, task: Task | None) -> None:
    """End the note of an undo, and show it on the card of the click that it takes back."""
    place = change.place if task is None else f"{TASK}:{task.id}"
    tx.changes.remove(noted.key)
    tx.changes.put(replace(noted, place=place, is_begun=False))
    for undo in tx.task_undos.get().undos:
        if undo.task.id == change.name:
            _note_click(tx, undo, is_back=True)
