"""Offers once to move the tasks of the file to the connected service, and moves them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from ollim_bot.conversation.buttons import Action, Uses
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.quiet import MOVE
from ollim_bot.domain.task_move import (
    MOVE_TASKS,
    is_same,
    moved_card,
    moved_words,
    offer_card,
)
from ollim_bot.domain.tasks import FILE_LIST, Task
from ollim_bot.domain.updates import owner_did
from ollim_bot.errors import OllimError, StorageError, TaskNotFound
from ollim_bot.integrations.tasks import has_service
from ollim_bot.ports import Clock, TaskList
from ollim_bot.store.steps import leave_update
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

_BETWEEN_LOOKS = 300.0


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
            await self._clock.sleep(_BETWEEN_LOOKS)

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
                await self._store.transact(lambda tx: _settle(tx, message.id, moved))
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


def _settle(tx: Transaction, message_id: MessageId, moved: int) -> None:
    message = tx.messages.get(message_id)
    if message is not None:
        card = moved_card(moved)
        tx.messages.add(replace(message, card=card, text=card.text))
    if moved:
        said = f"User moved {moved} of the tasks in tasks.md to Google."
        leave_update(tx, owner_did(tx.now, said, f"moved-{tx.now.isoformat()}"))
