"""`/tasks`, and the buttons that tick and delete a task, each with an Undo."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ollim_bot.conversation import texts
from ollim_bot.conversation.buttons import Action, Uses
from ollim_bot.conversation.posting import Posting
from ollim_bot.domain.cards import Button, Card
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.inputs import CommandCall
from ollim_bot.domain.item_cards import UNDO
from ollim_bot.domain.taint import Untrusted, marked_taint
from ollim_bot.domain.task_cards import (
    TASK,
    TASK_DELETE,
    TASK_DONE,
    TaskUndo,
    TaskUndos,
    expired_on,
    line_of,
    replaced_by_undo,
    settled_on,
    taken_back_on,
    tasks_card,
)
from ollim_bot.domain.tasks import DeletedTask, Task
from ollim_bot.domain.updates import owner_did
from ollim_bot.errors import OllimError, TaskNotFound, WrongInput
from ollim_bot.ports import Clock, TaskList
from ollim_bot.store.steps import leave_update
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

# Seconds.
_LONGEST_LOOK = 3.0
_LISTED = "the list of tasks, with titles that were written after reading untrusted text"

_logger = logging.getLogger(__name__)

# Changes the task with this id; returns it with the receipt of a deletion.
_Change = Callable[[str], tuple[Task, str]]


class TaskCommands:
    """Shows the open tasks. A click acts at once and can be undone.

    `tasks` returns the list that is in use now; it is called in a thread.
    """

    def __init__(
        self, store: Store, tasks: Callable[[], TaskList], posting: Posting, clock: Clock
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._posting = posting
        self._clock = clock
        # Of two clicks on one button at once, the second finds the button gone.
        self._one_at_a_time = asyncio.Lock()
        self.actions: Mapping[str, Action] = {
            TASK_DONE: self._action(self._complete),
            TASK_DELETE: self._action(self._delete),
            f"{UNDO}:{TASK}": Action(self._undo, Uses.NOTHING),
        }

    async def show(self, call: CommandCall) -> str:
        listed = await asyncio.to_thread(lambda: self._tasks().tasks())
        tasks = (await self._store.read(lambda tx: tx.taint.get())).marked(listed)
        card = tasks_card(tasks, self._clock.now().date())
        if not card.lines:
            return card.description
        mark = marked_taint(",".join(each.untrusted for each in tasks)).mark
        untrusted = Untrusted(mark, _LISTED) if mark else None
        note = self._posting.note(card, name=f"tasks-{call.id}")
        note = replace(note, untrusted=untrusted)
        await self._store.transact(lambda tx: self._posting.add_note(tx, note))
        return ""

    def _complete(self, task_id: str) -> tuple[Task, str]:
        tasks = self._tasks()
        if tasks.get(task_id).done:
            raise WrongInput(texts.TASK_DONE)
        return tasks.complete(task_id), ""

    def _delete(self, task_id: str) -> tuple[Task, str]:
        deleted = self._tasks().delete(task_id)
        return deleted.task, deleted.receipt

    def _action(self, change: _Change) -> Action:
        async def run(_: str, message: ChatMessage, button: Button) -> CommandAnswer:
            async with self._one_at_a_time:
                return await self._click(message.id, button, change)

        return Action(run, Uses.NOTHING)

    async def _click(self, message: MessageId, button: Button, change: _Change) -> CommandAnswer:
        card = await self._store.read(lambda tx: _card(tx, message))
        if card is None or button not in card.buttons:
            return CommandAnswer(texts.BUTTON_USED, is_error=True)
        try:
            task, receipt = await asyncio.to_thread(change, button.data)
            undo = TaskUndo(
                secrets.token_hex(4),
                task,
                receipt,
                message,
                replaced_by_undo(card, button),
                line_of(card, button),
                self._clock.now(),
            )
            await self._store.transact(lambda tx: _settle(tx, undo))
        except TaskNotFound:
            return CommandAnswer(texts.TASK_GONE, is_error=True)
        except OllimError as refused:
            return CommandAnswer(str(refused), is_error=True)
        return CommandAnswer()

    async def _undo(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        async with self._one_at_a_time:
            key = button.data.removeprefix(f"{TASK}:")
            undo = (await self._store.read(lambda tx: tx.task_undos.get())).find(key)
            if undo is None or undo.is_over(self._clock.now()):
                return CommandAnswer(texts.UNDO_OVER, is_error=True)
            try:
                await asyncio.to_thread(self._take_back, undo)
                await self._store.transact(lambda tx: _take_back(tx, undo))
            except TaskNotFound:
                return CommandAnswer(texts.TASK_GONE, is_error=True)
            except OllimError as refused:
                return CommandAnswer(str(refused), is_error=True)
            return CommandAnswer()

    def _take_back(self, undo: TaskUndo) -> None:
        if undo.is_deletion:
            self._tasks().restore(DeletedTask(undo.task, undo.receipt))
        else:
            self._tasks().reopen(undo.task.id)


class DueTasks:
    """The tasks for an overview, which does not wait long for a service: then, those read last."""

    def __init__(self, tasks: Callable[[], TaskList]) -> None:
        self._tasks = tasks
        self._reading: threading.Thread | None = None
        self._read: Sequence[Task] = ()

    def read(self) -> Sequence[Task]:
        """Call it in a thread."""
        reading = self._reading
        if reading is None or not reading.is_alive():
            reading = threading.Thread(target=self._look, name="tasks", daemon=True)
            # Kept only once it runs: another thread may be about to wait for it.
            reading.start()
            self._reading = reading
        reading.join(_LONGEST_LOOK)
        return self._read

    def _look(self) -> None:
        try:
            self._read = self._tasks().tasks()
        except OllimError:
            _logger.warning("The tasks could not be read for an overview", exc_info=True)


def end_task_undo(tx: Transaction) -> None:
    """Remove the Undo buttons whose time is over."""
    known = tx.task_undos.get()
    for undo in known.over(tx.now):
        _show(tx, undo, expired_on)
        known = known.without(undo.key)
    tx.task_undos.put(known)


def _settle(tx: Transaction, undo: TaskUndo) -> None:
    did = "deleted" if undo.is_deletion else "completed"
    _show(tx, undo, settled_on)
    tx.task_undos.change(lambda known: TaskUndos((*known.without(undo.key).undos, undo)))
    leave_update(tx, owner_did(tx.now, f'User {did} task "{_safe(tx, undo)}".', _name(undo)))


def _take_back(tx: Transaction, undo: TaskUndo) -> None:
    """Show the task as it was; the agent is told only if it has seen the update of the click."""
    _show(tx, undo, taken_back_on)
    tx.task_undos.change(lambda known: known.without(undo.key))
    if any(each.id == _name(undo) for each in tx.updates.get().entries):
        tx.updates.change(lambda pending: pending.without({_name(undo)}))
    else:
        did = "restored" if undo.is_deletion else "reopened"
        said = f'User {did} task "{_safe(tx, undo)}".'
        leave_update(tx, owner_did(tx.now, said, f"undone {_name(undo)}"))


def _show(tx: Transaction, undo: TaskUndo, change: Callable[[Card, TaskUndo], Card]) -> None:
    message = tx.messages.get(MessageId(undo.message))
    # An overview that is kept up to date is drawn anew.
    is_kept = undo.message in tx.overviews.get().messages.values()
    if message is None or message.card is None or is_kept:
        return
    card = change(message.card, undo)
    text = card.text if message.text == message.card.text else message.text
    tx.messages.add(replace(message, card=card, text=text))


def _card(tx: Transaction, message_id: MessageId) -> Card | None:
    message = tx.messages.get(message_id)
    return None if message is None else message.card


def _safe(tx: Transaction, undo: TaskUndo) -> str:
    return tx.taint.get().marked([undo.task])[0].safe_title


def _name(undo: TaskUndo) -> str:
    return f"task-{undo.key}"
