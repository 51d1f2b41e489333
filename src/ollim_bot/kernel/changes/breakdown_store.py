"""Writes the steps of a task or a due item into the list of tasks, each set once.

A list adds no step that it has, so that what a crash has cut off is done again by the same words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, timedelta

from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.changes.file_changes import cause_of
from ollim_bot.kernel.store.steps import leave_update
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.agent_caller import CONVERSATION
from ollim_bot.kernel.values.breakdowns import STEPS, Breakdown, Thing, steps_card, typing_card
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.changes import TASK as PLACE_OF_TASK
from ollim_bot.kernel.values.changes import Changer, ChangeRow, task_words
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.due_items import ITEM, DueItem, first_step_in, with_first_step
from ollim_bot.kernel.values.ports import TaskList
from ollim_bot.kernel.values.taint import TaintMark, marked_taint, untrusted_message
from ollim_bot.kernel.values.tasks import FILE_LIST, Task, is_titled, named_task
from ollim_bot.kernel.values.updates import owner_did

_HAS_STEPS = "It is broken down already. Its steps are below it in the list of tasks."
_DONE = "That is done already."


class StepWriter:
    """Finds what is to be broken down, and gives it its steps. `tasks` is called in a thread."""

    def __init__(self, store: Store, tasks: Callable[[], TaskList]) -> None:
        self._store = store
        self._tasks = tasks
        # A second set of steps finds those of the first.
        self._one_at_a_time = asyncio.Lock()

    async def find(self, ref: str, steps: Sequence[str] = ()) -> Thing:
        """The thing with this `ref`. Raises `WrongInput` if it is done or has other steps."""
        kind, _, name = ref.partition(":")
        key = name if kind == ITEM else ""
        item = await self._store.read(lambda tx: tx.due_items.get_open(key))
        if kind == ITEM and item is None:
            raise WrongInput(_DONE)

        def look() -> tuple[Thing, Sequence[Task]]:
            """The thing with the task that its steps are parts of, and the tasks beside that."""
            tasks = self._tasks()
            if item is not None:
                thing, listed = Thing.of_item(item), tasks.tasks()
                above = (each.id for each in listed if is_titled(each, thing.words))
                return replace(thing, task=next(above, "")), listed
            task = tasks.get(name)
            if task.done:
                raise WrongInput(_DONE)
            (marked,) = self._store.query(lambda tx: tx.marks.marked([task]))
            return Thing.of_task(marked), tasks.tasks(task.list)

        thing, listed = await asyncio.to_thread(look)
        one = (await self._store.read(lambda tx: tx.breakdowns.get())).find(thing.key)
        has = {each.title for each in listed if thing.task and each.parent == thing.task}
        if has and ((one is not None and one.parts) or not has <= {*steps}):
            raise WrongInput(_HAS_STEPS)
        return thing

    async def named(self, words: str) -> str:
        """The `ref` of what the agent means: by the key of a request, or by id, key or words."""
        known = await self._store.read(lambda tx: tx.breakdowns.get())
        if (asked := known.find(words)) is not None:
            return asked.thing.ref
        waiting = await self._store.read(lambda tx: tx.due_items.open())
        wanted = words.casefold().strip(". ")
        fitting = [
            each
            for each in waiting
            if wanted in (each.key, each.title.casefold().strip(". ")) and not each.is_dose
        ]
        if len(fitting) == 1:
            return Thing.of_item(fitting[0]).ref
        listed = await asyncio.to_thread(lambda: self._tasks().tasks())
        tasks = await self._store.read(lambda tx: tx.marks.marked(listed))
        return Thing.of_task(named_task(tasks, words)).ref

    async def write(
        self, ref: str, steps: Sequence[str], read: str = "", *, is_by_agent: bool = False
    ) -> Thing:
        """Give the thing its steps, and show them. `read` marks what their author had read.

        Raises as `find`, and what the list of tasks raises; nothing has changed then.
        """
        async with self._one_at_a_time:
            thing = await self.find(ref, steps)
            mark = marked_taint(",".join(filter(None, (thing.untrusted, read)))).mark

            def mark_titles(tx: Transaction) -> None:
                for title in (steps if thing.task else (*steps, thing.words)) if mark else ():
                    tx.marks.leave(TaintMark(mark, tx.now, title=title))

            # Before they are in the list: a crash must leave none without its mark.
            await self._store.transact(mark_titles)
            made = await asyncio.to_thread(
                lambda: self._tasks().add_steps(steps, thing.task, thing.words)
            )
            by = Changer.AGENT if is_by_agent else Changer.BUTTON
            await self._store.transact(lambda tx: _make(tx, thing, steps, made, mark, by))
        return thing

    async def undo(self, key: str) -> bool:
        """Take the open steps away; False if that is too late. Raises as `write`."""
        async with self._one_at_a_time:
            one, now = await self._store.read(lambda tx: (tx.breakdowns.get().find(key), tx.now))
            if one is None or not one.can_undo(now):
                return False
            # The task goes last, if it was made for the steps.
            made = one.parts if one.thing.task else (*one.parts, one.parent)
            gone = await asyncio.to_thread(lambda: self._tasks().remove_open(made))
            await self._store.transact(lambda tx: _take_back(tx, one, gone))
        return True

    async def follow(self) -> None:
        """Let each open due item have the first of its steps that is not done."""
        if not await self._store.read(_of_open_items):
            return
        with suppress(OllimError):
            listed = await asyncio.to_thread(lambda: self._tasks().tasks())
            titles = {each.id: each.title for each in listed}

            def step(tx: Transaction) -> None:
                for one, item in _of_open_items(tx):
                    first = next((titles[each] for each in one.parts if each in titles), "")
                    if first != first_step_in(item.note):
                        tx.due_items.put(with_first_step(item, first, one.untrusted))

            await self._store.transact(step)


def ask_for_steps(tx: Transaction, thing: Thing, input_id: str = "") -> None:
    """Remember that the agent is asked by this input; without one, ask the owner by a card."""
    one = replace(_begun(tx, thing, is_renewed=bool(input_id)), asked=input_id)
    if not (input_id or one.message):
        one = _show(tx, one, typing_card(thing))
    tx.breakdowns.change(lambda known: known.including(one))


def _begun(tx: Transaction, thing: Thing, *, is_renewed: bool) -> Breakdown:
    """What is known of the thing; where its former steps were done, it begins anew.

    What `is_renewed` comes as a new message, without the card that asks the owner.
    """
    before = tx.breakdowns.get().find(thing.key)
    if before is None:
        return Breakdown(thing)
    if before.parts:
        _remove_undo(tx, before)
    elif not is_renewed:
        return replace(before, thing=thing)
    elif before.message:
        _show(tx, replace(before, thing=thing), typing_card(thing)._replace(buttons=()))
    return Breakdown(thing)


def _remove_undo(tx: Transaction, one: Breakdown) -> None:
    message = tx.messages.get(MessageId(one.message))
    if message is not None and message.card is not None:
        kept = tuple(each for each in message.card.buttons if each.data != f"{STEPS}:{one.key}")
        tx.messages.add(replace(message, card=message.card._replace(buttons=kept)))


def ask_for_unanswered(tx: Transaction) -> None:
    """Ask the owner for the steps that the agent was asked for and has not made in its turn."""
    waiting = {each.id for each in tx.inbox.get().accepted}
    for one in tx.breakdowns.get().known:
        if one.asked and one.asked not in waiting:
            ask_for_steps(tx, one.thing)


def end_steps_undo(tx: Transaction) -> None:
    """Remove the Undo buttons whose time is over; steps of a due item are followed further."""
    known = tx.breakdowns.get()
    for one in known.known:
        if one.undo_until is not None and not one.can_undo(tx.now):
            _remove_undo(tx, one)
            known = known.without(one.key)
            if one.thing.item:
                known = known.including(replace(one, undo_until=None))
    tx.breakdowns.put(known)


def _make(
    tx: Transaction,
    thing: Thing,
    steps: Sequence[str],
    tasks: Sequence[Task],
    mark: str,
    by: Changer,
) -> None:
    """Show the steps that the list has, and let the first be that of the due item.

    The first of the tasks is the one above the steps.
    """
    one = _begun(tx, thing, is_renewed=by is Changer.AGENT)
    one = replace(
        one,
        asked="",
        steps=tuple(steps),
        untrusted=mark,
        parent=tasks[0].id,
        parts=tuple(each.id for each in tasks[1:]),
        list=tasks[0].list,
        undo_until=tx.now.astimezone(UTC) + timedelta(minutes=10),
    )
    if (item := tx.due_items.get(thing.item)) is not None:
        one = replace(one, former=first_step_in(item.note))
        tx.due_items.put(with_first_step(item, one.steps[0], mark))
    one = _show(tx, one, steps_card(one))
    tx.breakdowns.change(lambda known: known.including(one))
    if by is not Changer.AGENT:
        what = f"User broke “{thing.safe_words}” down into {counted(len(steps), 'step')}."
        leave_update(tx, owner_did(tx.now, what, f"steps-{one.key}"))
    for task in tasks[1:] if thing.task else tasks:
        if mark:
            # The list may have taken a date off a title.
            tx.marks.leave(TaintMark(mark, tx.now, title=task.title), is_written=True)
        _keep_change(tx, one, by, task.id, None, task_words(task))


def _take_back(tx: Transaction, one: Breakdown, gone: Sequence[str]) -> None:
    """Show that the steps are gone, and give the due item its former first step."""
    if (item := tx.due_items.get(one.thing.item)) is not None:
        tx.due_items.put(with_first_step(item, one.former))
    _show(tx, one, Card(one.thing.titled(before="– ", after=" · steps taken back")))
    tx.breakdowns.change(lambda known: known.without(one.key))
    titles = dict(zip((one.parent, *one.parts), (one.thing.words, *one.steps), strict=True))
    for each in gone:
        _keep_change(tx, one, Changer.BUTTON, each, task_words(Task(each, titles[each])), None)
    name, pending = f"steps-{one.key}", tx.updates.get()
    if any(each.id == name for each in pending.entries):
        tx.updates.put(pending.without({name}))
    else:
        what = f"User took the steps of “{one.thing.safe_words}” back."
        leave_update(tx, owner_did(tx.now, what, f"undone {name}"))


def _keep_change(
    tx: Transaction, one: Breakdown, by: Changer, task: str, before: str | None, after: str | None
) -> None:
    """Keep what was changed at a service; changes of the file are seen in it."""
    if one.list == FILE_LIST:
        return
    place = f"{PLACE_OF_TASK}:{task}"
    key = tx.changes.new_key(place)
    cause = cause_of(tx, CONVERSATION) if by is Changer.AGENT else ""
    tx.changes.put(ChangeRow(key, tx.now, place, by, before, after, cause, one.untrusted))


def _of_open_items(tx: Transaction) -> list[tuple[Breakdown, DueItem]]:
    """The steps of due items, each with its item, while that is open."""
    made = [each for each in tx.breakdowns.get().known if each.parts]
    items = [tx.due_items.get_open(each.thing.item) for each in made]
    return [(one, item) for one, item in zip(made, items, strict=True) if item is not None]


def _show(tx: Transaction, one: Breakdown, card: Card) -> Breakdown:
    """Show the card in the message of the breakdown, or in a new one; returns it with that."""
    name = MessageId(one.message or f"steps-{one.key}-{round(tx.now.timestamp())}")
    untrusted = untrusted_message(marked_taint(one.untrusted or one.thing.untrusted))
    shown = tx.messages.get(name) or ChatMessage(
        name, tx.now, Author.PROGRAM, "", in_fork=tx.fork.get() is not None
    )
    tx.messages.add(replace(shown, text=card.text, card=card, untrusted=untrusted))
    return replace(one, message=name)
