"""The questions of `/setup`, which the program asks itself while the built-in model answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple
from zlib import crc32

from ollim_bot.conversation.message_poster import MessagePoster, note_of
from ollim_bot.domain.answer_words import meaning_of
from ollim_bot.domain.button_prompts import ButtonPrompt
from ollim_bot.domain.cards import Button, Card
from ollim_bot.domain.changes import Changer
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.inbox import OwnerMessage
from ollim_bot.domain.moments import clock_time, zone_at
from ollim_bot.domain.quiet import QuietHours
from ollim_bot.domain.schedule import GivenNames
from ollim_bot.domain.text import with_program
from ollim_bot.ports import Clock
from ollim_bot.store.steps import set_by_owner, store_prompts
from ollim_bot.store.transaction import Step, Transaction

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
        self._name = name
        self._program = program
        self._questions = (
            _Question(lambda _tx, _now: "What shall I call you?", _take_owner_name),
            _Question(self._ask_bot_name, _take_bot_name, is_yes_enough=True),
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

    def _ask_bot_name(self, tx: Transaction, _now: datetime) -> str:
        name = tx.names.get().bot or self._name
        return f"Do I keep the name {name}? Say yes, or give me another."

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
    name = _name_in(text)
    if name is None:
        return None
    tx.names.change(lambda known: GivenNames(name, known.bot))
    return _Answer(f"Hello, {name}.")


def _take_bot_name(tx: Transaction, text: str) -> _Answer | None:
    name = _name_in(text)
    if name is None:
        return None
    tx.names.change(lambda known: GivenNames(known.user, name))
    return _Answer(f"I am {name} from now on.")


def _take_quiet_hours(tx: Transaction, text: str) -> _Answer | None:
    if len(text) > _LONGEST_ANSWER or not re.search(r"\d", text) or "remind" in text.lower():
        return None
    try:
        hours = str(QuietHours.parse(text))
    except ValueError:
        return _Answer(f"I do not understand `{text}`. Two times, such as `22-7`.", is_again=True)
    set_by_owner(tx, Changer.CHAT, "quiet_hours", hours)
    return _Answer(f"Quiet from {hours.replace('-', ' to ')}.")
