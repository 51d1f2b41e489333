"""Answers due items by the buttons on their cards."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ollim_bot.conversation import texts
from ollim_bot.conversation.buttons import Action, Uses
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.due_items import Answer, DueItem
from ollim_bot.domain.moments import describe
from ollim_bot.domain.snoozing import DONE, SNOOZE, root_in, snoozed_until
from ollim_bot.domain.updates import owner_did
from ollim_bot.ports import Clock
from ollim_bot.store.job_files import JobFileChanges, add_snoozed, end_chain
from ollim_bot.store.steps import answer_item, leave_update
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import JobOp, Transaction


class ItemButtons:
    """Answers due items by their buttons; only the first click counts."""

    def __init__(self, store: Store, files: JobFileChanges, clock: Clock) -> None:
        self._store = store
        self._files = files
        self._clock = clock
        self.actions: Mapping[str, Action] = {
            DONE: Action(self._done, Uses.ALL),
            SNOOZE: Action(self._snooze, Uses.ALL),
        }

    async def _done(self, surface: str, _: ChatMessage, button: Button) -> CommandAnswer:
        """End the chain of the reminder: its further checks are not needed."""

        def step(tx: Transaction) -> bool:
            item = answer_item(tx, button.data, Answer.DONE, surface)
            if item is None:
                return False
            said = f"done with “{item.title}”."
            leave_update(tx, owner_did(tx.now, said, f"done-{item.key}"))
            tx.job_ops.add(end_chain(root_in(item.note), item.key))
            return True

        if not await self._store.transact(step):
            return CommandAnswer(texts.BUTTON_USED, is_error=True)
        await self._files.make()
        return CommandAnswer()

    async def _snooze(self, surface: str, __: ChatMessage, button: Button) -> CommandAnswer:
        key, _, wait = button.data.partition(":")
        now, name = self._clock.now(), os.urandom(4).hex()
        until = snoozed_until(wait, now)

        def step(tx: Transaction) -> tuple[DueItem, JobOp] | None:
            before = tx.due_items.get(key)
            item = answer_item(tx, key, Answer.SNOOZED, surface, until)
            if before is None or item is None:
                return None
            # The new reminder brings its own follow-ups; those of the snoozed one end.
            tx.job_ops.add(end_chain(root_in(item.note), key))
            added = add_snoozed(item.note, name, until, name)
            tx.job_ops.add(added)
            said = f"snoozed “{item.title}”, {describe(until, now)}."
            leave_update(tx, owner_did(tx.now, said, f"snoozed-{key}"))
            return before, added

        taken = await self._store.transact(step)
        if taken is None:
            return CommandAnswer(texts.BUTTON_USED, is_error=True)
        before, added = taken
        if refused := await self._files.make(added):
            await self._take_back(before, added)
            return CommandAnswer(str(refused), is_error=True)
        title = before.title.removesuffix(".")
        return CommandAnswer(f"Reminder set: {title}, {describe(until, now)}.")

    async def _take_back(self, item: DueItem, op: JobOp) -> None:
        """Open the item again: its snooze could not be written."""

        def step(tx: Transaction) -> None:
            tx.job_ops.done(op.id)
            tx.due_items.put(item)
            tx.ledger.append(item.row(Answer.UNDONE, tx.now, item.answered_by))
            tx.updates.change(lambda pending: pending.without({f"snoozed-{item.key}"}))

        await self._store.transact(step)
