"""The connection to Google, in the chat: made there, and missed there."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol
from uuid import uuid4

from ollim_bot.features.google.google_values import GoogleRedirect, in_words
from ollim_bot.features.google.login import TIMED_OUT, SignIn
from ollim_bot.features.google.tokens import GoogleTokenStore
from ollim_bot.kernel.base.clock import Clock, wait_until_set
from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.base.moments import day_words
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import GoogleAddresses
from ollim_bot.kernel.base.text import literal
from ollim_bot.kernel.conversation.buttons import Action, refusable
from ollim_bot.kernel.conversation.message_poster import MessagePoster
from ollim_bot.kernel.conversation.notice_poster import Notices
from ollim_bot.kernel.store.steps import leave_update
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.calendar import (
    EVENT_DELETE,
    EVENT_TEXT,
    CalendarEvent,
    event_title,
    time_words,
)
from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card, Color
from ollim_bot.kernel.values.changes import EVENT, OF_CALENDAR, Changer, ChangeRow, event_words
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer, slash_command
from ollim_bot.kernel.values.inbox import CommandCall
from ollim_bot.kernel.values.pasted_addresses import AddressAnswer
from ollim_bot.kernel.values.updates import PendingUpdate, owner_did

_OPEN = (
    "[Connect Google]({address}), and untick there what I should leave out. If the last page does "
    "not load, since this is another device: copy its address and send it to me, alone. "
    "There are 5 minutes for it."
)
_AGAIN = "`/google-auth` begins again."
_NONE_OPEN = "No sign-in at Google is open. `/google-auth` begins one."
_REVOKED = (
    "The connection{whom} at Google was revoked or has expired. `/google-auth` connects it again; "
    "until then I cannot reach what is there."
)
# The data of the two buttons of the question begin with these.
YES, NO = "yes", "no"


class GoogleConnection:
    """Connects Google from the chat, and tells once when Google has ended the connection.

    The connection itself is a file, so one that a command made or lost counts here at once.
    """

    def __init__(
        self,
        paths: DataPaths,
        addresses: GoogleAddresses,
        store: Store,
        poster: MessagePoster,
        notices: Notices,
        clock: Clock,
    ) -> None:
        self._paths = paths
        self._addresses = addresses
        self._store = store
        self._poster = poster
        self._notices = notices
        self._clock = clock
        self._tokens = GoogleTokenStore(paths, clock.now, addresses)
        self._open: SignIn | None = None
        self._served: SignIn | None = None
        self._woken = asyncio.Event()

    @slash_command(100, "google-auth", "Connect your tasks, calendar and mail at Google")
    async def begin(self, _: CommandCall) -> str:
        """Begin a sign-in, in place of one that is open. Raises `SignInNeeded` without a client."""
        sign_in = await asyncio.to_thread(
            SignIn, self._paths, self._tokens, self._addresses, self._clock.now
        )
        if self._open is not None and self._open is not self._served:
            self._open.close()
        self._open = sign_in
        self._woken.set()
        return _OPEN.format(address=sign_in.address)

    async def take(self, address: str) -> AddressAnswer:
        """Answer the open sign-in with the address that the owner sent."""
        if self._open is None:
            return AddressAnswer(_NONE_OPEN)
        return await self._outcome(self._open, address)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tell_of_revocations())
            group.create_task(self._serve_browsers())

    async def _serve_browsers(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            if (sign_in := self._open) is not None:
                self._served = sign_in
                try:
                    await self._serve(sign_in)
                finally:
                    sign_in.close()

    async def _serve(self, sign_in: SignIn) -> None:
        """Wait for the browser until the sign-in is answered, replaced, or out of time."""
        loop = asyncio.get_running_loop()
        while self._open is sign_in:
            left = (sign_in.ends_at - self._clock.now()).total_seconds()
            if left <= 0:
                self._open = None
                await self._post(AddressAnswer(f"{TIMED_OUT} {_AGAIN}"))
                return
            loop.add_reader(sign_in.redirects, self._woken.set)
            try:
                await wait_until_set(self._woken, self._clock, left)
            finally:
                loop.remove_reader(sign_in.redirects)
            self._woken.clear()
            redirect = await asyncio.to_thread(sign_in.knock)
            if redirect is not None and not sign_in.is_answered:
                await self._post(await self._outcome(sign_in, redirect))
        self._woken.set()

    async def _outcome(self, sign_in: SignIn, answer: GoogleRedirect | str) -> AddressAnswer:
        try:
            connected = await asyncio.to_thread(sign_in.take, answer)
        except WrongInput as wrong:
            return AddressAnswer(str(wrong))
        except OllimError as failed:
            self._end(sign_in)
            return AddressAnswer(f"{failed} {_AGAIN}")
        self._end(sign_in)
        return AddressAnswer(
            connected.sentence(self._clock.now()),
            f"User connected Google: {in_words(connected.token.services)}.",
        )

    def _end(self, sign_in: SignIn) -> None:
        if self._open is sign_in:
            self._open = None
            self._woken.set()

    async def _post(self, answer: AddressAnswer) -> None:
        note = self._poster.note(answer.words)
        update = PendingUpdate(self._clock.now(), answer.update, uuid4().hex)

        def step(tx: Transaction) -> None:
            self._poster.add_note(tx, note)
            if answer.update:
                leave_update(tx, update)

        # The connection is made or not, and `/doctor` says which.
        told = self._store.transact(step)
        await unless_refused("The outcome of a sign-in could not be told", told)

    async def _tell_of_revocations(self) -> None:
        told = None
        while True:
            revoked = await asyncio.to_thread(self._tokens.revocation)
            key = f"google revoked {revoked.at.isoformat()}" if revoked else None
            if revoked and key != told:
                whom = f" to {revoked.account}" if revoked.account else ""
                await self._notices.tell(_REVOKED.format(whom=whom), key=key)
            if told and key is None:
                await self._notices.forget(told)
            told = key
            await self._clock.sleep(60.0)


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
            EVENT_DELETE: refusable(self._ask),
            f"{EVENT_DELETE}:{YES}": refusable(self._delete),
            f"{EVENT_DELETE}:{NO}": refusable(self._leave),
        }

    async def _ask(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        event = await asyncio.to_thread(lambda: self._events().find(button.data))
        note = self._poster.note(question_card(event, self._clock.now()))
        asked = replace(note, untrusted=EVENT_TEXT)
        await self._store.transact(lambda tx: self._poster.add_note(tx, asked))
        return CommandAnswer()

    async def _delete(self, _: str, message: ChatMessage, button: Button) -> CommandAnswer:
        async with self._one_at_a_time:
            event_id = button.data.removeprefix(f"{YES}:")
            event = await asyncio.to_thread(lambda: self._events().delete(event_id))
            card, key = deleted_card(event, self._clock.now()), secrets.token_hex(4)
            settling = self._store.transact(lambda tx: _settle(tx, message.id, event, card, key))
            is_shown = await unless_refused("A deleted event could not be shown as such", settling)
        return CommandAnswer("" if is_shown else f"{card.title}: {card.description}.")

    async def _leave(self, _: str, message: ChatMessage, __: Button) -> CommandAnswer:
        await self._store.transact(lambda tx: _show(tx, message.id, kept_card))
        return CommandAnswer()


def _settle(
    tx: Transaction, message: MessageId, event: CalendarEvent, card: Card, key: str
) -> bool:
    _show(tx, message, lambda _: card)
    place, words = f"{EVENT}:{event.id}", event_words(event)
    row = ChangeRow(key, tx.now, place, Changer.BUTTON, words, None, untrusted=OF_CALENDAR)
    tx.changes.put(row)
    update = owner_did(tx.now, f'User deleted event "{event_title(event)}".', f"event-{key}")
    leave_update(tx, replace(update, untrusted=EVENT_TEXT.source))
    return True


def _show(tx: Transaction, message_id: MessageId, change: Callable[[Card], Card]) -> None:
    message = tx.messages.get(message_id)
    if message is not None and message.card is not None:
        card = change(message.card)
        tx.messages.add(replace(message, card=card, text=card.text))


def question_card(event: CalendarEvent, now: datetime) -> Card:
    return Card(
        "Delete this event?",
        f"{_in_words(event, now)}\nIt cannot be brought back with its guests.",
        color=Color.YELLOW,
        buttons=(
            Button("Keep it", EVENT_DELETE, f"{NO}:{event.id}"),
            Button("Delete", EVENT_DELETE, f"{YES}:{event.id}", ButtonStyle.DANGER),
        ),
    )


def deleted_card(event: CalendarEvent, now: datetime) -> Card:
    return Card("Event deleted", _in_words(event, now))


def kept_card(asked: Card) -> Card:
    return Card("Event kept", asked.description.partition("\n")[0])


def _in_words(event: CalendarEvent, now: datetime) -> str:
    zone = now.tzinfo or UTC
    begins = event.begins(zone).astimezone(zone).date()
    when = f"{day_words(begins, now)}, {time_words(event, now)}"
    # A card shows markdown, and others write titles.
    return f"{literal(event_title(event))}, {when} ({literal(event.calendar)})"
