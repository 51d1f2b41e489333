"""The button that deletes an event of the owner's calendar, after one question."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from ollim_bot.conversation import texts
from ollim_bot.conversation.buttons import Action, Uses
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.domain.calendar import CalendarEvent
from ollim_bot.domain.cards import Button, Card
from ollim_bot.domain.changes import EVENT, OF_CALENDAR, Changer, ChangeRow, event_words
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.event_cards import (
    EVENT_DELETE,
    EVENT_TEXT,
    NO,
    YES,
    deleted_card,
    event_title,
    kept_card,
    question_card,
)
from ollim_bot.domain.updates import owner_did
from ollim_bot.errors import EventNotFound, OllimError, StorageError
from ollim_bot.ports import Clock
from ollim_bot.store.steps import leave_update
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

_logger = logging.getLogger(__name__)


class EventCalendar(Protocol):
    """The owner's events that can be changed.

    Raises `EventNotFound`, `GoogleRefused`, `Unreachable` or `SignInNeeded`.
    """

    def find(self, event_id: str) -> CalendarEvent: ...
    def delete(self, event_id: str) -> CalendarEvent: ...


class EventButtons:
    """Asks before it deletes: an event that is made again would lose its guests.

    `events` gives the owner's calendar; it is called in a thread.
    """

    def __init__(
        self, store: Store, events: Callable[[], EventCalendar], poster: MessagePoster, clock: Clock
    ) -> None:
        self._store = store
        self._events = events
        self._poster = poster
        self._clock = clock
        # Of two clicks on one button at once, the second finds the event gone.
        self._one_at_a_time = asyncio.Lock()
        self.actions: Mapping[str, Action] = {
            EVENT_DELETE: Action(self._ask, Uses.NOTHING),
            f"{EVENT_DELETE}:{YES}": Action(self._delete, Uses.NOTHING),
            f"{EVENT_DELETE}:{NO}": Action(self._leave, Uses.NOTHING),
        }

    async def _ask(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        try:
            event = await asyncio.to_thread(lambda: self._events().find(button.data))
        except OllimError as refused:
            return _refused(refused)
        note = self._poster.note(question_card(event, self._clock.now()))
        asked = replace(note, untrusted=EVENT_TEXT)
        await self._store.transact(lambda tx: self._poster.add_note(tx, asked))
        return CommandAnswer()

    async def _delete(self, _: str, message: ChatMessage, button: Button) -> CommandAnswer:
        async with self._one_at_a_time:
            event_id = button.data.removeprefix(f"{YES}:")
            try:
                event = await asyncio.to_thread(lambda: self._events().delete(event_id))
            except OllimError as refused:
                return _refused(refused)
            card, key = deleted_card(event, self._clock.now()), secrets.token_hex(4)
            try:
                await self._store.transact(lambda tx: _settle(tx, message.id, event, card, key))
            except StorageError:  # the event is deleted all the same
                _logger.warning("A deleted event could not be shown as such", exc_info=True)
                return CommandAnswer(f"{card.title}: {card.description}.")
        return CommandAnswer()

    async def _leave(self, _: str, message: ChatMessage, __: Button) -> CommandAnswer:
        await self._store.transact(lambda tx: _show(tx, message.id, kept_card))
        return CommandAnswer()


def _refused(refused: OllimError) -> CommandAnswer:
    is_gone = isinstance(refused, EventNotFound)
    return CommandAnswer(texts.EVENT_GONE if is_gone else str(refused), is_error=True)


def _settle(
    tx: Transaction, message: MessageId, event: CalendarEvent, card: Card, key: str
) -> None:
    _show(tx, message, lambda _: card)
    place, words = f"{EVENT}:{event.id}", event_words(event)
    row = ChangeRow(key, tx.now, place, Changer.BUTTON, words, None, untrusted=OF_CALENDAR)
    tx.changes.put(row)
    update = owner_did(tx.now, f'User deleted event "{event_title(event)}".', f"event-{key}")
    leave_update(tx, replace(update, untrusted=EVENT_TEXT.source))


def _show(tx: Transaction, message_id: MessageId, change: Callable[[Card], Card]) -> None:
    message = tx.messages.get(message_id)
    if message is not None and message.card is not None:
        card = change(message.card)
        tx.messages.add(replace(message, card=card, text=card.text))
