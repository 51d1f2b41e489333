"""`/tasks`, and the buttons that tick, delete and break down a task, each with an Undo.

A click is noted with its Undo before the list is changed, so that a crash in between loses neither;
the next start carries out what was noted."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import date

from ollim_bot.features.tasks.task_lists import has_service
from ollim_bot.kernel.base.clock import Clock, wait_until_set
from ollim_bot.kernel.base.errors import OllimError, TaskNotFound, WrongInput
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.changes.breakdown_store import StepWriter, ask_for_steps, ask_for_unanswered
from ollim_bot.kernel.changes.task_undo import begin_click, end_click, withdraw_click
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.buttons import Action, Receive, Uses, refusable
from ollim_bot.kernel.conversation.message_poster import MessagePoster
from ollim_bot.kernel.prompts.turn_prompts import break_down_request
from ollim_bot.kernel.store.steps import leave_update
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.breakdowns import STEPS, TYPE_STEPS, steps_in
from ollim_bot.kernel.values.cards import MOST_ON_LINES, Button, ButtonStyle, Card, CardLine
from ollim_bot.kernel.values.chat import OF_CLICK, ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer, slash_command
from ollim_bot.kernel.values.due_items import BREAK_DOWN, MOVE, UNDO, break_down_button
from ollim_bot.kernel.values.inbox import CommandCall, InputId
from ollim_bot.kernel.values.ports import IncomingMessage, TaskList
from ollim_bot.kernel.values.taint import Untrusted, marked_taint
from ollim_bot.kernel.values.task_cards import TaskStep, TaskUndo, is_same
from ollim_bot.kernel.values.tasks import (
    FILE_LIST,
    TASK,
    TASK_DELETE,
    TASK_DONE,
    DeletedTask,
    Task,
    in_order,
    is_due,
    task_words,
)
from ollim_bot.kernel.values.updates import owner_did

# Seconds.
_LONGEST_LOOK = 3.0
_LISTED = "the list of tasks, with titles that were written after reading untrusted text"

_logger = logging.getLogger(__name__)

# The task with this id, and the receipt if it is to be deleted.
_Look = Callable[[str], tuple[Task, str]]
_NOTHING = "No task is open. Tell me what you want to do, and I write it down."
# Each has two buttons at least, and a card takes 25.
_MOST = 12
# Begins the data of the button, and so tells it from others that move something.
MOVE_TASKS = f"{TASK}s"


class TaskCommands:
    """Shows the open tasks, and moves those of the file. A click acts at once and can be undone.

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
            f"{UNDO}:{TASK}": refusable(self._undo),
            f"{MOVE}:{MOVE_TASKS}": Action(self._move_all, Uses.NOTHING),
        }

    @slash_command(20, "tasks", "What there is to do, with a button to tick each off")
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
        async def click(_: str, message: ChatMessage, button: Button) -> CommandAnswer:
            async with self._one_at_a_time:
                # The day on the page is no message of the log.
                logged = await self._store.read(lambda tx: tx.messages.get(message.id))
                card = (logged and logged.card) or message.card
                if card is None or button not in card.buttons:
                    return CommandAnswer(texts.BUTTON_USED, is_error=True)
                task, receipt = await asyncio.to_thread(look, button.data)
                undo = TaskUndo(
                    secrets.token_hex(4),
                    task,
                    receipt,
                    message.id,
                    replaced_by_undo(card, button),
                    line_of(card, button),
                    self._clock.now(),
                )
                await self._carry_out(TaskStep(undo))
                return CommandAnswer()

        return refusable(click)

    async def _undo(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        async with self._one_at_a_time:
            key = button.data.removeprefix(f"{TASK}:")
            known = await self._store.read(lambda tx: tx.task_undos.get())
            undo = known.find(key)
            if undo is None:
                return CommandAnswer(texts.UNDO_OVER, is_error=True)
            is_begun = any(each.undo == undo for each in known.begun)
            await self._carry_out(TaskStep(undo, takes_back=True), may_be_there=is_begun)
        return CommandAnswer()

    async def _carry_out(self, step: TaskStep, *, may_be_there: bool = False) -> None:
        """Note the click, change the list, and end the note; a refusal shows all as it was."""
        await self._store.transact(lambda tx: begin_click(tx, step))
        end, refusal = end_click, None
        try:
            await asyncio.to_thread(self._change, step, may_be_there=may_be_there)
        except OllimError as refused:
            end, refusal = withdraw_click, refused
        # What was clicked is done all the same; it is looked at again.
        ending = self._store.transact(lambda tx: end(tx, step))
        await unless_refused("The end of a click on a task could not be noted", ending)
        if refusal is not None:
            raise refusal

    def _change(self, step: TaskStep, *, may_be_there: bool) -> None:
        """Change the list. `may_be_there` says that it may have been changed so already."""
        tasks, undo = self._tasks(), step.undo
        if not undo.is_deletion:
            change = tasks.reopen if step.takes_back else tasks.complete
            change(undo.task.id)
        elif not step.takes_back:
            tasks.delete(undo.task.id)
        elif not may_be_there or not any(
            is_same(each, undo.task) for each in tasks.tasks(undo.task.list, with_done=True)
        ):
            tasks.restore(DeletedTask(undo.task, undo.receipt))

    async def offer_move(self) -> None:
        """Offer to move the tasks once there is a service and something to move; until cancelled.

        A task is added to the service before it leaves the file, so none is lost. It is noted
        before it is added: one that may have arrived is looked for before it is added again, so
        none comes twice.
        """
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

    async def _move_all(self, _: str, message: ChatMessage, __: Button) -> CommandAnswer:
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
            settling = self._store.transact(lambda tx: _settle_move(tx, message.id, moved))
            is_shown = await unless_refused("That tasks were moved could not be shown", settling)
        return CommandAnswer("" if is_shown else f"{moved_words(moved)}.")

    async def _move(self, task: Task) -> None:
        moves = await self._store.read(lambda tx: tx.task_moves.get())
        may_be_there = task.id in moves.begun
        await self._store.transact(
            lambda tx: tx.task_moves.change(lambda moves: moves.beginning(task.id))
        )

        def move() -> None:
            tasks = self._tasks()
            others = tasks.tasks(with_done=True) if may_be_there else ()
            if not any(is_same(each, task) for each in others if each.list != FILE_LIST):
                tasks.add(task.title, task.due, task.notes)
            with suppress(TaskNotFound):
                tasks.delete(task.id)

        await asyncio.to_thread(move)
        await self._store.transact(
            lambda tx: tx.task_moves.change(lambda moves: moves.without(task.id))
        )


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


def _settle_move(tx: Transaction, message_id: MessageId, moved: int) -> bool:
    message = tx.messages.get(message_id)
    if message is not None:
        card = moved_card(moved)
        tx.messages.add(replace(message, card=card, text=card.text))
    if moved:
        said = f"User moved {moved} of the tasks in tasks.md to Google."
        leave_update(tx, owner_did(tx.now, said, f"moved-{tx.now.isoformat()}"))
    return True


class BreakdownButtons:
    """One set of steps for a thing, however often the button is pressed.

    `can_ask` says whether a model is there that can make steps; `receive` accepts the request to
    the agent as an input.
    """

    def __init__(
        self, store: Store, writer: StepWriter, receive: Receive, *, can_ask: bool
    ) -> None:
        self._store = store
        self._writer = writer
        self._receive = receive
        self._can_ask = can_ask
        self.actions: Mapping[str, Action] = {
            BREAK_DOWN: refusable(self._press),
            TYPE_STEPS: refusable(self._type),
            f"{UNDO}:{STEPS}": refusable(self._undo),
        }

    async def run(self) -> None:
        """Follow steps and requests, until cancelled."""
        with self._store.changes("breakdowns") as has_changed:
            while True:
                has_changed.clear()
                known = (await self._store.read(lambda tx: tx.breakdowns.get())).known
                with ExitStack() as watches:
                    # What tells that a step may be done: a click, or any other change of the tasks.
                    for name in ("inbox", "task_undos", "changes") if known else ():
                        watches.enter_context(self._store.changes(name, event=has_changed))
                    if any(each.asked for each in known):
                        await self._store.transact(ask_for_unanswered)
                    if any(each.parts for each in known):
                        await self._writer.follow()
                    await has_changed.wait()

    async def _press(self, surface: str, _: ChatMessage, button: Button) -> CommandAnswer:
        thing = await self._writer.find(button.data)
        if not self._can_ask:
            await self._store.transact(lambda tx: ask_for_steps(tx, thing))
            return CommandAnswer(texts.TYPE_THE_STEPS)
        about = f"a task that was written after reading {marked_taint(thing.untrusted).in_words}"
        request = IncomingMessage(
            InputId(f"{OF_CLICK}{thing.key}-{secrets.token_hex(4)}"),
            surface,
            break_down_request(thing.key),
            button=button.label,
            untrusted_quote=Untrusted(thing.untrusted, about) if thing.untrusted else None,
            subject=thing.words,
        )

        def ask(tx: Transaction) -> None:
            one = tx.breakdowns.get().find(thing.key)
            if one is not None and any(each.id == one.asked for each in tx.inbox.get().accepted):
                # The agent has the request, and has not ended its turn.
                raise WrongInput(texts.STEPS_COME)
            ask_for_steps(tx, thing, request.id)

        await self._receive(request, ask)
        return CommandAnswer()

    async def _type(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        """The button asks, so that its data end with the words."""
        key, _, words = button.data.partition(":")
        one = (await self._store.read(lambda tx: tx.breakdowns.get())).find(key)
        if one is None or one.parts:
            return CommandAnswer(texts.BUTTON_USED, is_error=True)
        await self._writer.write(one.thing.ref, steps_in(words))
        return CommandAnswer()

    async def _undo(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        is_undone = await self._writer.undo(button.data.removeprefix(f"{STEPS}:"))
        return CommandAnswer() if is_undone else CommandAnswer(texts.UNDO_OVER, is_error=True)


def tasks_card(tasks: Sequence[Task], today: date) -> Card:
    """The open tasks, those that are due first, with a button to tick and one to delete each."""
    found = in_order([task for task in tasks if not task.done])
    shown = found[:_MOST]
    marks_file = any(task.list != FILE_LIST for task in found)
    lines, buttons = list[CardLine](), list[Button]()
    heading = ""
    for number, task in enumerate(shown, 1):
        group = "Due" if is_due(task, today) else "Later" if task.due else "No date"
        text = task_words(task, today, marks_file=marks_file)
        lines.append(CardLine(text, "" if group == heading else group))
        buttons.append(Button("Done", TASK_DONE, task.id, ButtonStyle.SUCCESS, line=number))
        buttons.append(Button("Delete", TASK_DELETE, task.id, line=number))
        # It is left out where the card has no room for it.
        if len(shown) * 2 + number <= MOST_ON_LINES:
            buttons.append(break_down_button(f"{TASK}:{task.id}", number))
        heading = group
    more = len(found) - len(shown)
    words = f"Not shown: {more} more. `ollim-bot tasks list` shows all." if more else ""
    return Card("Tasks", words if found else _NOTHING, lines=tuple(lines), buttons=tuple(buttons))


def replaced_by_undo(card: Card, clicked: Button) -> tuple[Button, ...]:
    """The buttons that a click takes away: those of its line, or the one that was clicked."""
    if not clicked.line:
        return (clicked,)
    return tuple(each for each in card.buttons if each.line == clicked.line)


def line_of(card: Card, button: Button) -> str:
    """The text of the line that the button belongs to; empty if it belongs to the whole card."""
    return card.lines[button.line - 1].text if 0 < button.line <= len(card.lines) else ""


def offer_card(count: int) -> Card:
    are = "is" if count == 1 else "are"
    them = "it" if count == 1 else "them"
    return Card(
        f"Move {counted(count, 'task')} to Google?",
        f"{counted(count, 'open task')} {are} still in tasks.md. Left there, {them} "
        f"stay{'s' if count == 1 else ''} listed, marked (file).",
        buttons=(
            Button(f"Move {them}", MOVE, MOVE_TASKS, ButtonStyle.PRIMARY),
            Button(f"Leave {them}", "dismiss"),
        ),
    )


def moved_card(count: int) -> Card:
    return Card(moved_words(count))


def moved_words(count: int) -> str:
    return f"{counted(count, 'task')} moved to Google" if count else "Nothing to move"
