"""The first message after a start: a welcome, or that the bot is back and from what."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from datetime import datetime
from uuid import uuid4

from ollim_bot import __version__
from ollim_bot.conversation.commands.help import HELP_BUTTON
from ollim_bot.conversation.commands.program import SET_UP
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.domain.button_prompts import ButtonPrompt
from ollim_bot.domain.cards import Button, ButtonStyle, Card
from ollim_bot.domain.chat import OF_GREETING, Author, ChatMessage
from ollim_bot.domain.forks import Fork
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.moments import describe
from ollim_bot.domain.presence import Presence
from ollim_bot.errors import OllimError, StorageError
from ollim_bot.ports import Clock
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Step, Transaction

_WELCOME = MessageId("welcome")

_INTRODUCTION = (
    "Tell me what to come back with, and when. Try `remind me in 1 minute to drink water`."
)

_logger = logging.getLogger(__name__)


class Greeting:
    """Greets the owner once for each process.

    Call `begun` before anything else runs and `ended` after everything has stopped. Two calls of
    `begun` without `ended` between them mean that the bot was cut off, and the next greeting says
    so. `name` is the bot's name; `prompt` is the set-up prompt behind the welcome's button.
    """

    def __init__(
        self, store: Store, poster: MessagePoster, clock: Clock, *, name: str, prompt: str
    ) -> None:
        self._store = store
        self._poster = poster
        self._clock = clock
        self._name = name
        self._prompt = prompt
        self._note = MessageId(f"{OF_GREETING}{uuid4().hex}")
        self._is_said = False
        self._one_at_a_time = asyncio.Lock()

    async def begun(self, heartbeat: datetime | None = None) -> StorageError | None:
        """Note the start. `heartbeat` is when the bot last ran. Returns the error of the disk."""
        now = self._clock.now()
        return await self._noted(lambda presence: presence.begun(now, heartbeat, __version__))

    async def ended(self, *, for_restart: bool = False) -> None:
        await self._noted(lambda presence: presence.ended(for_restart=for_restart))

    async def failed(self, error: BaseException) -> None:
        """Note why the bot ends by itself: the reason that it states, or the kind of its fault."""
        now = self._clock.now()
        is_stated = isinstance(error, OllimError)
        reason = str(error) if is_stated else f"a fault in the program ({type(error).__name__})"
        try:
            async with asyncio.timeout(5.0):
                await self._noted(lambda presence: presence.failed(reason, now))
        except Exception:  # the error that ends the bot must not be replaced by another
            _logger.warning("Why the bot ends could not be written down", exc_info=True)

    async def say(self) -> None:
        """Greet, unless that was done. Never raises `OllimError`; a later call tries again."""
        async with self._one_at_a_time:
            if self._is_said:
                return
            try:
                await self._store.transact(self._greeting())
            except StorageError:
                _logger.warning("The greeting could not be kept", exc_info=True)
                return
            self._is_said = True

    def _greeting(self) -> Step[None]:
        now = self._clock.now()
        inquiry = ButtonPrompt(secrets.token_hex(4), self._prompt, now.timestamp())

        def step(tx: Transaction) -> None:
            if _is_first(tx):
                tx.inquiries.change(lambda known: known.stored(inquiry))
                card = welcome_card(tx.names.get().bot or self._name, inquiry.key)
                welcome = ChatMessage(_WELCOME, now, Author.PROGRAM, card.text, card=card)
                self._poster.add_to_log(tx, welcome)
            else:
                self._come_back(tx, now)
            tx.presence.change(Presence.greeted)

        return step

    def _come_back(self, tx: Transaction, now: datetime) -> None:
        goes_on, fork = tx.session.get() is not None, tx.fork.get()
        presence = tx.presence.get()
        words = coming_back(presence, fork, now, goes_on=goes_on)
        in_fork = fork is not None
        note = ChatMessage(self._note, now, Author.PROGRAM, words, in_fork=in_fork)
        if presence.stopped_for_restart:
            # The owner asked for the restart, and waits for it.
            self._poster.add_to_log(tx, note)
        else:
            self._poster.hold_or_add(tx, note, key=OF_GREETING)

    async def _noted(self, change: Callable[[Presence], Presence]) -> StorageError | None:
        """Change the record of the bot's presence; returns the error if the disk refuses."""
        try:
            await self._store.transact(lambda tx: tx.presence.change(change))
        except StorageError as refused:
            _logger.warning("That the bot runs could not be written down", exc_info=True)
            return refused
        return None


def _is_first(tx: Transaction) -> bool:
    """Whether no conversation has begun: messages of the program alone do not count."""
    newest = tx.messages.page(100)
    is_silent = all(each.message.author is Author.PROGRAM for each in newest)
    return is_silent and tx.messages.get(_WELCOME) is None and tx.session.get() is None


def welcome_card(name: str, key: str) -> Card:
    """`key` names the stored prompt behind the button of the set-up."""
    set_up = Button(SET_UP, "agent", key, ButtonStyle.PRIMARY)
    return Card(f"Hello, I am {name}", _INTRODUCTION, buttons=(set_up, HELP_BUTTON))


def coming_back(presence: Presence, fork: Fork | None, now: datetime, *, goes_on: bool) -> str:
    """The greeting of a later start. `goes_on`: there is a conversation to continue."""
    if presence.cut_off_at is not None:
        # If the clock was set back, the moment would lie in the future.
        seen = describe(min(presence.cut_off_at, now).replace(second=0, microsecond=0), now)
        words = f"I was cut off without warning, last seen {seen}, and am back. "
        return f"{words}What you had sent is not lost.{_of_fork(fork, 'T', 'A')}"
    if presence.stopped_for_restart:
        words = "back after a restart."
    elif fork is None and goes_on:
        words = "back. our conversation goes on."
    else:
        words = "back."
    return words + _of_fork(fork, "t", "a")


def _of_fork(fork: Fork | None, the: str, a: str) -> str:
    """A sentence about the open fork, in the case of the sentences before it; may be empty."""
    if fork is None:
        return ""
    named = f"{the}he side conversation “{fork.topic}”" if fork.topic else f"{a} side conversation"
    return f" {named} is still open."
