"""`/tasks`, and the buttons that tick and delete a task, each with an Undo.

A click is noted with its Undo before the list is changed, so that a crash in between loses neither;
the next start carries out what was noted."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from ollim_bot.clock import wait_until_set
from ollim_bot.conversation import texts
from ollim_bot.conversation.buttons import Action, Uses
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.due_items import MOVE, UNDO
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.inbox import CommandCall
from ollim_bot.domain.taint import Untrusted, marked_taint
from ollim_bot.domain.task_cards import (
    MOVE_TASKS,
    TaskStep,
    TaskUndo,
    is_same,
    line_of,
    moved_card,
    moved_words,
    offer_card,
    replaced_by_undo,
    tasks_card,
)
from ollim_bot.domain.tasks import FILE_LIST, TASK, TASK_DELETE, TASK_DONE, DeletedTask, Task
from ollim_bot.domain.updates import owner_did
from ollim_bot.errors import OllimError, StorageError, TaskNotFound, WrongInput
from ollim_bot.integrations.tasks import has_service
from ollim_bot.ports import Clock, TaskList
from ollim_bot.store.steps import leave_update
from ollim_bot.store.store import Store
from ollim_bot.store.task_undo import begin_click, end_click, withdraw_click
from ollim_bot.store.transaction import Transaction

# Seconds.
_LONGEST_LOOK = 3.0
_LISTED = "the list of tasks, with titles that were written after reading untrusted text"

_logger = logging.getLogger(__name__)

# The task with this id, and the receipt if it is to be deleted.
_Look = Callable[[str], tuple[Task, str]]


class TaskCommands:
    """Shows the open tasks. A click acts at once and can be undone.

    `tasks` returns the list that is in use now; it is called in a thread.
    """

    def __init__(
        self, store: Store, tasks: Callable[[], TaskList], poster: MessagePoster, clock: Clock
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._poster = poster
        self._clock = clock
        # Of two clicks on one button at once, the second finds the button gone.
        self._one_at_a_time = asyncio.Lock()
        self.actions: Mapping[str, Action] = {
            TASK_DONE: self._action(self._to_complete),
            TASK_DELETE: self._action(self._to_delete),
            f"{UNDO}:{TASK}": Action(self._undo, Uses.NOTHING),
        }

    async def show(self, call: CommandCall) -> str:
        listed = await asyncio.to_thread(lambda: self._tasks().tasks())
        tasks = await self._store.read(lambda tx: tx.marks.marked(listed))
        card = tasks_card(tasks, self._clock.now().date())
        if not card.lines:
            return card.description
        mark = marked_taint(",".join(each.untrusted for each in tasks)).mark
        untrusted = Untrusted(mark, _LISTED) if mark else None
        note = self._poster.note(card, name=f"tasks-{call.id}")
        note = replace(note, untrusted=untrusted)
        await self._store.transact(lambda tx: self._poster.add_note(tx, note))
        return ""

    async def run(self) -> None:
        """Carry out the clicks that a crash or a full disk has cut off, until cancelled."""
        with self._store.changes("task_undos") as has_changed:
            while True:
                has_changed.clear()
                is_done = await self._repeat_begun()
                pause = None if is_done else 60.0
                await wait_until_set(has_changed, self._clock, pause)

    async def _repeat_begun(self) -> bool:
        """Carry out what is noted; False if the list or the disk refuses it now."""
        async with self._one_at_a_time:
            try:
                for step in (await self._store.read(lambda tx: tx.task_undos.get())).begun:
                    with suppress(TaskNotFound):
                        await asyncio.to_thread(self._change, step, may_be_there=True)
                    await self._store.transact(lambda tx, step=step: end_click(tx, step))  # type: ignore[misc]
            except OllimError:
                _logger.warning("A click on a task has to wait", exc_info=True)
                return False
        return True

    def _to_complete(self, task_id: str) -> tuple[Task, str]:
        task = self._tasks().get(task_id)
        if task.done:
            raise WrongInput(texts.TASK_DONE)
        return task._replace(done=True), ""

    def _to_delete(self, task_id: str) -> tuple[Task, str]:
        deleted = self._tasks().deletion(task_id)
        return deleted.task, deleted.receipt

    def _action(self, look: _Look) -> Action:
        async def run(_: str, message: ChatMessage, button: Button) -> CommandAnswer:
            async with self._one_at_a_time:
                return await self._click(message, button, look)

        return Action(run, Uses.NOTHING)

    async def _click(self, message: ChatMessage, button: Button, look: _Look) -> CommandAnswer:
        # The day on the page is no message of the log.
        logged = await self._store.read(lambda tx: tx.messages.get(message.id))
        card = (logged and logged.card) or message.card
        if card is None or button not in card.buttons:
            return CommandAnswer(texts.BUTTON_USED, is_error=True)
        try:
            task, receipt = await asyncio.to_thread(look, button.data)
        except OllimError as refused:
            return refused_answer(refused)
        undo = TaskUndo(
            secrets.token_hex(4),
            task,
            receipt,
            message.id,
            replaced_by_undo(card, button),
            line_of(card, button),
            self._clock.now(),
        )
        return await self._carry_out(TaskStep(undo))

    async def _undo(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        async with self._one_at_a_time:
            key = button.data.removeprefix(f"{TASK}:")
            known = await self._store.read(lambda tx: tx.task_undos.get())
            undo = known.find(key)
            if undo is None or undo.is_over(self._clock.now()):
                return CommandAnswer(texts.UNDO_OVER, is_error=True)
            is_begun = any(each.undo == undo for each in known.begun)
            return await self._carry_out(TaskStep(undo, takes_back=True), may_be_there=is_begun)

    async def _carry_out(self, step: TaskStep, *, may_be_there: bool = False) -> CommandAnswer:
        """Note the click, change the list, and end the note; a refusal shows all as it was."""
        try:
            await self._store.transact(lambda tx: begin_click(tx, step))
        except OllimError as refused:
            return refused_answer(refused)
        try:
            await asyncio.to_thread(self._change, step, may_be_there=may_be_there)
        except OllimError as refused:
            await self._end(step, withdraw_click)
            return refused_answer(refused)
        await self._end(step, end_click)
        return CommandAnswer()

    async def _end(self, step: TaskStep, end: Callable[[Transaction, TaskStep], None]) -> None:
        try:
            await self._store.transact(lambda tx: end(tx, step))
        except StorageError:  # what was clicked is done all the same; it is looked at again
            _logger.warning("The end of a click on a task could not be noted", exc_info=True)

    def _change(self, step: TaskStep, *, may_be_there: bool) -> None:
        """Change the list. `may_be_there` says that it may have been changed so already."""
        tasks, undo = self._tasks(), step.undo
        if not undo.is_deletion:
            change = tasks.reopen if step.takes_back else tasks.complete
            change(undo.task.id)
        elif not step.takes_back:
            tasks.delete(undo.task.id)
        elif not (may_be_there and _is_in(tasks, undo.task)):
            tasks.restore(DeletedTask(undo.task, undo.receipt))


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


def _is_in(tasks: TaskList, task: Task) -> bool:
    return any(is_same(each, task) for each in tasks.tasks(task.list, with_done=True))


def refused_answer(refused: OllimError) -> CommandAnswer:
    sentence = texts.TASK_GONE if isinstance(refused, TaskNotFound) else str(refused)
    return CommandAnswer(sentence, is_error=True)


class TaskMover:
    """A task is added to the service before it leaves the file, so none is lost.

    It is noted before it is added: one that may have arrived is looked for before it is added
    again, so none comes twice. `tasks` returns the list in use; it is called in a thread.
    """

    def __init__(
        self, store: Store, tasks: Callable[[], TaskList], poster: MessagePoster, clock: Clock
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._poster = poster
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self.actions: Mapping[str, Action] = {
            f"{MOVE}:{MOVE_TASKS}": Action(self._click, Uses.NOTHING)
        }

    async def run(self) -> None:
        """Make the offer once there is a service and something to move."""
        while True:
            # A list that cannot be read now is looked at again.
            with suppress(OllimError):
                await self._offer()
            await self._clock.sleep(300.0)

    async def _offer(self) -> None:
        if (await self._store.read(lambda tx: tx.task_moves.get())).is_offered:
            return
        waiting = await asyncio.to_thread(self._waiting)
        if not waiting:
            return
        note = self._poster.note(offer_card(len(waiting)), name="task-move-offer")

        def step(tx: Transaction) -> None:
            if not tx.task_moves.get().is_offered:
                self._poster.add_note(tx, note)
                tx.task_moves.change(lambda moves: replace(moves, is_offered=True))

        await self._store.transact(step)

    def _waiting(self) -> Sequence[Task]:
        tasks = self._tasks()
        return tasks.tasks(FILE_LIST) if has_service(tasks) else ()

    async def _click(self, _: str, message: ChatMessage, __: Button) -> CommandAnswer:
        async with self._one_at_a_time:
            moved = 0
            try:
                for task in await asyncio.to_thread(self._waiting):
                    await self._move(task)
                    moved += 1
            except OllimError as refused:
                done = f"{moved_words(moved)}. " if moved else ""
                left = "The others are still in tasks.md."
                return CommandAnswer(f"{done}{refused} {left}", is_error=True)
            try:
                await self._store.transact(lambda tx: _settle_move(tx, message.id, moved))
            except StorageError:  # the tasks are moved all the same
                return CommandAnswer(f"{moved_words(moved)}.")
        return CommandAnswer()

    async def _move(self, task: Task) -> None:
        moves = await self._store.read(lambda tx: tx.task_moves.get())
        may_be_there = task.id in moves.begun
        await self._store.transact(
            lambda tx: tx.task_moves.change(lambda moves: moves.beginning(task.id))
        )
        await asyncio.to_thread(self._move_now, task, may_be_there)
        await self._store.transact(
            lambda tx: tx.task_moves.change(lambda moves: moves.without(task.id))
        )

    def _move_now(self, task: Task, may_be_there: bool) -> None:
        tasks = self._tasks()
        others = tasks.tasks(with_done=True) if may_be_there else ()
        if not any(is_same(each, task) for each in others if each.list != FILE_LIST):
            tasks.add(task.title, task.due, task.notes)
        with suppress(TaskNotFound):
            tasks.delete(task.id)


def _settle_move(tx: Transaction, message_id: MessageId, moved: int) -> None:
    message = tx.messages.get(message_id)
    if message is not None:
        card = moved_card(moved)
        tx.messages.add(replace(message, card=card, text=card.text))
    if moved:
        said = f"User moved {moved} of the tasks in tasks.md to Google."
        leave_update(tx, owner_did(tx.now, said, f"moved-{tx.now.isoformat()}"))
