"""Delivers a reminder without the agent, and answers the buttons on its card."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from ollim_bot.conversation import texts
from ollim_bot.conversation.buttons import Action, Uses
from ollim_bot.conversation.sessions.main_session import main_run
from ollim_bot.domain.cards import Button, ButtonPrompt
from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.jobs import Reminder
from ollim_bot.domain.moments import describe
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.orders import Order
from ollim_bot.domain.snoozing import (
    DONE,
    SNOOZE,
    note_of,
    reminder_card,
    reminder_from,
    root_in,
    snoozed_until,
)
from ollim_bot.domain.updates import owner_did
from ollim_bot.errors import DeliveryFailed, NotStored
from ollim_bot.ports import Clock
from ollim_bot.store.job_files import JobFileChanges, add_snoozed, end_chain
from ollim_bot.store.steps import leave_update, new_prompt
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import JobOp, Transaction
from ollim_bot.tools.context import Poster

_NOT_KEPT = "The disk cannot be written, so this is not kept."

_logger = logging.getLogger(__name__)


def delivery_id(occurrence: Occurrence) -> MessageId:
    """Derive the id from the occurrence, so that a crash cannot lead to a second message."""
    digest = hashlib.sha256(occurrence.id.encode()).digest()
    return MessageId(str(int.from_bytes(digest[:7])))


class ReminderPoster(Poster, Protocol):
    async def show_unkept(self, message: ChatMessage) -> None:
        """Show a message that cannot be stored. It is sent again under the same id later."""


class ReminderDelivery:
    """Delivers a `must` reminder exactly once.

    On a full disk the reminder is only shown, and stays owed until the log has it.
    """

    def __init__(self, store: Store, poster: ReminderPoster, clock: Clock) -> None:
        self._store = store
        self._poster = poster
        self._clock = clock
        self._shown: set[Occurrence] = set()
        self._prompts: dict[Occurrence, ButtonPrompt] = {}

    async def deliver(
        self, reminder: Reminder, occurrence: Occurrence, order: Order, reason: str
    ) -> bool:
        """Deliver the reminder; False if that failed for now.

        `reason` says why the program does it.
        """
        if not order.take() and occurrence not in self._shown:
            return True
        now = self._clock.now()
        prompt = self._prompts.setdefault(occurrence, new_prompt(note_of(reminder), now))
        message = _message(reminder, occurrence, reason, prompt.key, now)
        try:
            await self._poster.send(message, main_run(now), prompts=[prompt])
            await self._poster.arrival(message.id)
        except NotStored:
            await self._show(reminder, occurrence)
            return False
        except DeliveryFailed:
            _logger.warning("A reminder could not be delivered", exc_info=True)
            order.give_back()
            return False
        self._shown.discard(occurrence)
        self._prompts.pop(occurrence, None)
        return True

    async def was_said(self, occurrence: Occurrence) -> bool:
        """Whether the log has a message for the occurrence, from the agent or from the program."""
        return bool(await self._store.read(lambda tx: tx.messages.of_occurrence(occurrence.id)))

    async def flash(self, reminder: Reminder, occurrence: Occurrence, order: Order) -> None:
        """Show the reminder although it cannot be stored: a full disk must not swallow it."""
        if order.take() or occurrence in self._shown:
            await self._show(reminder, occurrence)

    async def _show(self, reminder: Reminder, occurrence: Occurrence) -> None:
        self._shown.add(occurrence)
        now, words = self._clock.now(), reminder.spec.title
        name = delivery_id(occurrence)
        message = ChatMessage(name, now, Author.BACKGROUND, words, footer=_NOT_KEPT)
        await self._poster.show_unkept(message)


def _message(
    reminder: Reminder, occurrence: Occurrence, reason: str, key: str, now: datetime
) -> ChatMessage:
    return ChatMessage(
        delivery_id(occurrence),
        now,
        Author.BACKGROUND,
        reminder.spec.title,
        footer=reason,
        card=reminder_card(reminder.spec.title, key),
        occurrence=occurrence.id,
    )


class ReminderButtons:
    """Takes the note behind the buttons once, so that only the first click counts."""

    def __init__(self, store: Store, files: JobFileChanges, clock: Clock) -> None:
        self._store = store
        self._files = files
        self._clock = clock
        self.actions: Mapping[str, Action] = {
            DONE: Action(self._done, Uses.ALL),
            SNOOZE: Action(self._snooze, Uses.ALL),
        }

    async def _done(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        """End the chain of the reminder: its further checks are not needed."""
        key = button.data

        def step(tx: Transaction) -> bool:
            note = _taken(tx, key)
            if note is None:
                return False
            title = reminder_from(note.prompt, key, tx.now).spec.title
            leave_update(tx, owner_did(tx.now, f"done with “{title}”.", f"done-{key}"))
            tx.job_ops.add(end_chain(root_in(note.prompt), key))
            return True

        if not await self._store.transact(step):
            return CommandAnswer(texts.BUTTON_USED, is_error=True)
        await self._files.make()
        return CommandAnswer()

    async def _snooze(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        key, _, wait = button.data.partition(":")
        now, name = self._clock.now(), os.urandom(4).hex()
        until = snoozed_until(wait, now)

        def step(tx: Transaction) -> tuple[ButtonPrompt, JobOp] | None:
            note = _taken(tx, key)
            if note is None:
                return None
            # The new reminder brings its own follow-ups; those of the snoozed one end.
            tx.job_ops.add(end_chain(root_in(note.prompt), key))
            added = add_snoozed(note.prompt, name, until, name)
            tx.job_ops.add(added)
            title = reminder_from(note.prompt, name, until).spec.title
            said = f"snoozed “{title}”, {describe(until, now)}."
            leave_update(tx, owner_did(tx.now, said, f"snoozed-{key}"))
            return note, added

        taken = await self._store.transact(step)
        if taken is None:
            return CommandAnswer(texts.BUTTON_USED, is_error=True)
        note, added = taken
        if refused := await self._files.make(added):
            await self._files.take_back(added, note)
            await self._store.transact(
                lambda tx: tx.updates.change(lambda pending: pending.without({f"snoozed-{key}"}))
            )
            return CommandAnswer(str(refused), is_error=True)
        title = reminder_from(note.prompt, name, until).spec.title.removesuffix(".")
        return CommandAnswer(f"Reminder set: {title}, {describe(until, now)}.")


def _taken(tx: Transaction, key: str) -> ButtonPrompt | None:
    return tx.inquiries.take(lambda known: known.taken(key, tx.now.timestamp()))
