"""The greeting of a new owner, and the questions of `/setup` that the program asks itself."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import uuid4
from zlib import crc32

from ollim_bot import __version__
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import OllimError, StorageError
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.base.moments import clock_time, describe, zone_at
from ollim_bot.kernel.base.text import with_program
from ollim_bot.kernel.conversation.dispatcher import HELP_BUTTON
from ollim_bot.kernel.conversation.message_poster import MessagePoster, note_of
from ollim_bot.kernel.store.steps import set_by_owner, store_prompts
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.answers import meaning_of
from ollim_bot.kernel.values.cards import Button, ButtonPrompt, ButtonStyle, Card
from ollim_bot.kernel.values.changes import Changer
from ollim_bot.kernel.values.chat import OF_GREETING, OF_SET_UP, Author, ChatMessage
from ollim_bot.kernel.values.commands import slash_command
from ollim_bot.kernel.values.forks import Fork
from ollim_bot.kernel.values.inbox import CommandCall, InputId, OwnerMessage
from ollim_bot.kernel.values.ports import IncomingMessage
from ollim_bot.kernel.values.presence import Presence
from ollim_bot.kernel.values.quiet import QuietHours
from ollim_bot.kernel.values.schedule import GivenNames

# The label of the welcome's button, which the log also shows as the owner's message.
SET_UP = "Set up"
_ID = re.compile(r"set-up-question-(\d)-")
_WAITS = timedelta(hours=1)
# Cards that the owner answered in words while a question waited.
_MOST_BETWEEN = 2
_LONGEST_ANSWER = 40
_SKIP = frozenset({"skip", "next", "no", "none", "nothing", "no thanks"})
_YES = frozenset({"yes", "y", "yes it is", "right", "ok", "okay", "keep it", "correct", "keep"})
_STOP = frozenset({"later", "stop", "not now", "cancel", "end"})
_NOT_A_NAME = frozenset(
    {*_SKIP, *_YES, *_STOP, "hi", "hello", "hey", "help", "today", "thanks", "done", "why", "what"}
)
_NAMING = re.compile(r"(?:call me|my name is|i am|i'm|your name is|you are)\s+", re.IGNORECASE)
_NAME = re.compile(r"[^\W\d_][\w'’-]*(?: [^\W\da-z_][\w'’-]*){0,2}")
_ENDED = "That was all. `/setup` asks again, and `/help` shows what else I can do."


class _Answer(NamedTuple):
    """What is said of an answer; `is_again` asks the same question once more."""

    words: str
    is_again: bool = False


class _Question(NamedTuple):
    ask: Callable[[Transaction, datetime], str]
    take: Callable[[Transaction, str], _Answer | None]
    is_yes_enough: bool = False


class SetUpTalk:
    """Takes the owner's wish to be set up, and the answers, before any model sees them.

    `prompt` is the text that `/setup` and the button of the welcome send, `name` is the bot's, and
    `program` is how this program is called.
    """

    def __init__(
        self, prompt: str, poster: MessagePoster, clock: Clock, *, name: str, program: str
    ) -> None:
        # The rest of the text may be that of another version.
        self._wish = prompt.partition("\n")[0]
        self._poster = poster
        self._clock = clock
        self._program = program

        def ask_bot_name(tx: Transaction, _now: datetime) -> str:
            return f"Do I keep the name {tx.names.get().bot or name}? Say yes, or give me another."

        self._questions = (
            _Question(lambda _tx, _now: "What shall I call you?", _take_owner_name),
            _Question(ask_bot_name, _take_bot_name, is_yes_enough=True),
            _Question(_ask_zone, self._take_zone, is_yes_enough=True),
            _Question(lambda _tx, _now: _QUIET, _take_quiet_hours),
            _Question(lambda _tx, _now: _FORGET, lambda _tx, _text: None),
        )

    def answered(self, tx: Transaction, message: OwnerMessage) -> Step[None] | None:
        """What the program answers to the message; None if the message is for the model."""
        if message.untrusted or message.attachments or tx.fork.get():
            return None
        if message.button and message.text.startswith(self._wish):
            return self._asking(0, "", message)
        asked = _open_question(tx, message)
        if asked is None or message.reply_to not in (None, asked[1].id):
            return None
        number, question = asked
        words = " ".join(message.text.lower().split()).rstrip(".!")
        if words in _STOP:
            return self._ending("Set-up stops here. `/setup` begins again.", question, message)
        if words in _SKIP or (words in _YES and self._questions[number].is_yes_enough):
            return self._asking(number + 1, "", message, question)
        answer = self._questions[number].take(tx, message.text.strip())
        if answer is None:
            return None
        return self._asking(number + (not answer.is_again), answer.words, message, question)

    def _asking(
        self, number: int, before: str, message: OwnerMessage, last: ChatMessage | None = None
    ) -> Step[None]:
        if number == len(self._questions):
            return self._ending(_ENDED, last, message)
        now, question = self._clock.now(), self._questions[number]

        def step(tx: Transaction) -> None:
            asked = with_program(question.ask(tx, now), self._program)
            texts = {"Skip": "skip", **({"Yes": "yes"} if question.is_yes_enough else {})}
            keys = [crc32(f"{message.id} {number} {text}".encode()) for text in texts.values()]
            prompts = [
                ButtonPrompt(f"{key:08x}", text, now.timestamp())
                for key, text in zip(keys, texts.values(), strict=True)
            ]
            store_prompts(tx, prompts)
            named = zip(texts, prompts, strict=True)
            buttons = tuple(Button(label, "agent", prompt.key) for label, prompt in named)
            title = f"Set-up, {number + 1} of {len(self._questions)}"
            card = Card(title, f"{before}\n\n{asked}".strip(), buttons=buttons[::-1])
            self._close(tx, last)
            name = MessageId(f"set-up-question-{number}-{message.id}")
            self._poster.add_note(tx, note_of(card, now, name))

        return step

    def _ending(self, words: str, last: ChatMessage | None, message: OwnerMessage) -> Step[None]:
        note = self._poster.note(words, name=f"set-up-end-{message.id}")

        def step(tx: Transaction) -> None:
            self._close(tx, last)
            self._poster.add_note(tx, note)

        return step

    def _close(self, tx: Transaction, question: ChatMessage | None) -> None:
        """Take the buttons off a question that has its answer."""
        if question is not None and question.card is not None:
            card = question.card._replace(buttons=())
            self._poster.add_note(tx, replace(question, card=card))

    def _take_zone(self, tx: Transaction, text: str) -> _Answer | None:
        if len(text) > _LONGEST_ANSWER or len(text.split()) > 3:
            return None
        zone = zone_at(text)
        if zone is None:
            wish = "Name a large city near you, such as Berlin."
            return _Answer(f"I know no time zone of {text}. {wish}", is_again=True)
        set_by_owner(tx, Changer.CHAT, "timezone", zone)
        return _Answer(f"Your time zone is {zone}.")


_QUIET = (
    "When shall I be quiet? For example `22-7`. Then only reminders you asked for and urgent "
    "messages come; everything else waits until the morning."
)
_FORGET = (
    "What do you forget most? Write it with a time, and I remind you: `take my pills every day at "
    "8am`.\n\nIn a terminal, `ollim-bot setup` asks about Claude, Discord and your calendar."
)


def _open_question(tx: Transaction, message: OwnerMessage) -> tuple[int, ChatMessage] | None:
    """The question that waits for the next message, unless a newer card is answered by it.

    A card that was answered in between leaves it open; other talk does not.
    """
    has_card = has_answer = False
    between: list[ChatMessage] = []
    for logged in tx.messages.newest(20):
        said = logged.message
        if said.author in (Author.OWNER, Author.ASSISTANT):
            has_answer = said.author is Author.ASSISTANT
            between += [] if has_answer else [said]
            if len(between) > _MOST_BETWEEN:
                return None
            continue
        if found := _ID.match(said.id):
            is_waiting = bool(said.card and said.card.buttons) and message.at - said.at < _WAITS
            is_for_card = has_card and meaning_of(message.text, message.at) is not None
            is_asked = is_waiting and not is_for_card and not has_answer
            is_asked &= all(meaning_of(each.text, each.at) for each in between)
            return (int(found[1]), said) if is_asked else None
        has_card = has_card or said.card is not None
    return None


def _ask_zone(_tx: Transaction, now: datetime) -> str:
    clock = clock_time(now.replace(second=0, microsecond=0))
    return f"It is {clock} for you, in {now.tzinfo}. Is that right? If not, name your city."


def _name_in(text: str) -> str | None:
    """The name that the answer gives; None if the words are about something else."""
    name = _NAMING.sub("", text, count=1).strip(" .!")
    is_name = len(name) <= _LONGEST_ANSWER and _NAME.fullmatch(name)
    return name if is_name and name.lower() not in _NOT_A_NAME else None


def _take_owner_name(tx: Transaction, text: str) -> _Answer | None:
    if name := _name_in(text):
        tx.names.change(lambda known: GivenNames(name, known.bot))
    return _Answer(f"Hello, {name}.") if name else None


def _take_bot_name(tx: Transaction, text: str) -> _Answer | None:
    if name := _name_in(text):
        tx.names.change(lambda known: GivenNames(known.user, name))
    return _Answer(f"I am {name} from now on.") if name else None


def _take_quiet_hours(tx: Transaction, text: str) -> _Answer | None:
    if len(text) > _LONGEST_ANSWER or not re.search(r"\d", text) or "remind" in text.lower():
        return None
    try:
        hours = str(QuietHours.parse(text))
    except ValueError:
        return _Answer(f"I do not understand `{text}`. Two times, such as `22-7`.", is_again=True)
    set_by_owner(tx, Changer.CHAT, "quiet_hours", hours)
    return _Answer(f"Quiet from {hours.replace('-', ' to ')}.")


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
            greeting = self._store.transact(self._greeting())
            self._is_said = bool(await unless_refused("The greeting could not be kept", greeting))

    def _greeting(self) -> Step[bool]:
        now = self._clock.now()
        inquiry = ButtonPrompt(secrets.token_hex(4), self._prompt, now.timestamp())

        def step(tx: Transaction) -> bool:
            newest = tx.messages.page(100)
            is_silent = all(each.message.author is Author.PROGRAM for each in newest)
            # No conversation has begun: messages of the program alone do not count.
            if is_silent and tx.messages.get(_WELCOME) is None and tx.session.get() is None:
                tx.inquiries.change(lambda known: known.stored(inquiry))
                card = welcome_card(tx.names.get().bot or self._name, inquiry.key)
                welcome = ChatMessage(_WELCOME, now, Author.PROGRAM, card.text, card=card)
                self._poster.add_to_log(tx, welcome)
            else:
                self._come_back(tx, now)
            tx.presence.change(Presence.greeted)
            return True

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


@dataclass(frozen=True, slots=True)
class SetUpCommand:
    prompt: str
    receive: Callable[[IncomingMessage], Awaitable[ChatMessage]]

    @slash_command(90, "setup", "A few questions, one at a time, so that the bot knows you")
    async def set_up(self, call: CommandCall) -> str:
        """Ask the set-up questions, as a click on the button of the welcome does.

        Returns when the prompt is accepted. Raises `OllimError` if it cannot be stored.
        """
        name = InputId(f"{OF_SET_UP}{uuid4().hex}")
        await self.receive(IncomingMessage(name, call.surface, self.prompt, button=SET_UP))
        return ""
