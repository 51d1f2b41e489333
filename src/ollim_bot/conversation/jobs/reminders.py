"""Delivers a reminder without the agent, and answers the buttons on its card."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from ollim_bot.conversation import texts
from ollim_bot.conversation.buttons import Action, Uses
from ollim_bot.conversation.sessions.main_session import main_run
from ollim_bot.domain.cards import Button, ButtonPrompt, ButtonPrompts
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
from ollim_bot.errors import DeliveryFailed, NotFound, NotStored, OllimError, StorageError
from ollim_bot.ports import Clock
from ollim_bot.store.store import Store
from ollim_bot.stores import Stores
from ollim_bot.tools.context import Poster

_NOT_KEPT = "The disk cannot be written, so this is not kept."

_logger = logging.getLogger(__name__)


def delivery_id(occurrence: Occurrence) -> MessageId:
    """The same for the same occurrence, so that no crash makes two of it."""
    digest = hashlib.sha256(occurrence.id.encode()).digest()
    return MessageId(str(int.from_bytes(digest[:7])))


class ReminderPoster(Poster, Protocol):
    async def show_unkept(self, message: ChatMessage) -> None:
        """Show what cannot be kept. To be sent under the same id when there is room."""


class ReminderDelivery:
    """Delivers a `must` reminder once, unless it was delivered already.

    What was only shown, since the disk is full, is owed until it is in the log.
    """

    def __init__(self, stores: Stores, store: Store, poster: ReminderPoster, clock: Clock) -> None:
        self._stores = stores
        self._store = store
        self._poster = poster
        self._clock = clock
        self._shown: set[Occurrence] = set()
        self._keys: dict[Occurrence, str] = {}

    async def deliver(
        self, reminder: Reminder, occurrence: Occurrence, order: Order, reason: str
    ) -> bool:
        """False if it could not be sent now. `reason` says why the program does it."""
        if not order.take() and occurrence not in self._shown:
            return True
        message = await self._message(reminder, occurrence, reason)
        try:
            await self._poster.send(message, main_run(self._clock.now()))
            await self._poster.arrival(message.id)
        except NotStored:
            await self._show(reminder, occurrence)
            return False
        except DeliveryFailed:
            _logger.warning("A reminder could not be delivered", exc_info=True)
            order.give_back()
            return False
        self._shown.discard(occurrence)
        self._keys.pop(occurrence, None)
        return True

    async def was_said(self, occurrence: Occurrence) -> bool:
        """Whether a message for it stands in the log, by whomever, from before a crash."""
        return bool(await self._store.read(lambda tx: tx.messages.of_occurrence(occurrence.id)))

    async def flash(self, reminder: Reminder, occurrence: Occurrence, order: Order) -> None:
        """Show it although it cannot be kept: a full disk must not swallow it."""
        if order.take() or occurrence in self._shown:
            await self._show(reminder, occurrence)

    def take_away(self, reminder: Reminder) -> None:
        """Remove the reminder that was due, unless it was moved to another moment since."""
        try:
            now = self._stores.reminders.get(reminder.spec.id).item
            if now.run_at == reminder.run_at:
                self._stores.reminders.remove(reminder.spec.id)
        except NotFound:
            pass
        except OllimError:
            _logger.exception("The file of reminder %s could not be removed", reminder.spec.id)

    async def _show(self, reminder: Reminder, occurrence: Occurrence) -> None:
        self._shown.add(occurrence)
        now, words = self._clock.now(), reminder.spec.title
        name = delivery_id(occurrence)
        message = ChatMessage(name, now, Author.BACKGROUND, words, footer=_NOT_KEPT)
        await self._poster.show_unkept(message)

    async def _message(
        self, reminder: Reminder, occurrence: Occurrence, reason: str
    ) -> ChatMessage:
        key = self._keys.get(occurrence) or await self._key(reminder)
        self._keys[occurrence] = key
        card = reminder_card(reminder.spec.title, key) if key else None
        return ChatMessage(
            delivery_id(occurrence),
            self._clock.now(),
            Author.BACKGROUND,
            reminder.spec.title,
            footer=reason,
            card=card,
            occurrence=occurrence.id,
        )

    async def _key(self, reminder: Reminder) -> str:
        """Empty where its buttons could do nothing: it is delivered all the same."""
        now = self._clock.now().timestamp()
        inquiry = ButtonPrompt(os.urandom(4).hex(), note_of(reminder), now)

        def step(known: ButtonPrompts) -> tuple[ButtonPrompts, None]:
            return known.stored(inquiry), None

        try:
            await asyncio.to_thread(self._stores.inquiries.transact, step)
        except StorageError:
            _logger.warning("A reminder comes without its buttons", exc_info=True)
            return ""
        return inquiry.key


class ReminderButtons:
    """The note behind the buttons is taken once, so that only the first click counts."""

    def __init__(self, stores: Stores, clock: Clock) -> None:
        self._stores = stores
        self._clock = clock
        self.actions: Mapping[str, Action] = {
            DONE: Action(self._done, Uses.ALL),
            SNOOZE: Action(self._snooze, Uses.ALL),
        }

    async def _done(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        """The rest of its chain is not needed any more."""
        return await asyncio.to_thread(self._finish, button.data)

    async def _snooze(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        key, _, wait = button.data.partition(":")
        return await asyncio.to_thread(self._put_off, key, wait)

    def _finish(self, key: str) -> CommandAnswer:
        found = self._taken(key)
        if found is None:
            return CommandAnswer(texts.BUTTON_USED, is_error=True)
        now = self._clock.now()
        reminder = reminder_from(found.prompt, key, now)
        self._end_chain(root_in(found.prompt))
        said = f"The owner is done with the reminder “{reminder.spec.title}”."
        self._stores.leave_update(said, now, f"done-{key}")
        return CommandAnswer()

    def _put_off(self, key: str, wait: str) -> CommandAnswer:
        found = self._taken(key)
        if found is None:
            return CommandAnswer(texts.BUTTON_USED, is_error=True)
        now = self._clock.now()
        reminder = reminder_from(found.prompt, os.urandom(4).hex(), snoozed_until(wait, now))
        try:
            # What was to ask again about the one that was put off comes from the new one.
            self._end_chain(root_in(found.prompt))
            self._stores.reminders.add(reminder)
        except OllimError as refused:
            self._stores.inquiries.transact(lambda known: (known.stored(found), None))
            return CommandAnswer(str(refused), is_error=True)
        when = describe(reminder.run_at, now)
        title = reminder.spec.title.removesuffix(".")
        return CommandAnswer(f"Reminder set: {title}, {when}.")

    def _end_chain(self, root: str) -> None:
        for shelved in self._stores.reminders.all():
            if shelved.item.chain.parent == root:
                with suppress(NotFound):
                    self._stores.reminders.remove(shelved.item.spec.id)

    def _taken(self, key: str) -> ButtonPrompt | None:
        now = self._clock.now().timestamp()

        def step(known: ButtonPrompts) -> tuple[ButtonPrompts, ButtonPrompt | None]:
            return known.taken(key, now)

        return self._stores.inquiries.transact(step)
