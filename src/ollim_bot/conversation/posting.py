"""Posts the agent's answers and the program's notes in the conversation."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import uuid4

from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.conversation.sessions.dialogue import ChatSession
from ollim_bot.domain.cards import Button, Card, Color
from ollim_bot.domain.chat import Author, ChatMessage, MessageId, TurnCost, TurnId, numbered_id
from ollim_bot.domain.due_items import DueItem
from ollim_bot.domain.events import Usage
from ollim_bot.domain.inputs import InputId
from ollim_bot.domain.jobs import short_title
from ollim_bot.domain.runs import late_label, waited_label
from ollim_bot.domain.session_use import context_warning
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.taint import Taint, untrusted_message
from ollim_bot.domain.usage import cost_of
from ollim_bot.ports import Clock
from ollim_bot.prompts.context import joined
from ollim_bot.store.database import Step
from ollim_bot.store.item_answers import add_item
from ollim_bot.store.transaction import Transaction

RETRY = "retry"
_UNTAINTED = Taint()


@dataclass(frozen=True, slots=True)
class CommandChange:
    """What a queued command changes and says, in the step that also ends it.

    `after` runs once the step is committed.
    """

    step: Step[str | Card]
    after: Callable[[], Awaitable[None]]


def answer_name(command: InputId) -> MessageId:
    """The id of the message that answers a command."""
    return MessageId(f"answer-{command}")


def note_of(
    words: str | Card, now: datetime, message_id: MessageId, turn: TurnId | None = None
) -> ChatMessage:
    """A message of the program."""
    card = words if isinstance(words, Card) else None
    text = words if isinstance(words, str) else words.text
    return ChatMessage(message_id, now, Author.PROGRAM, text, turn=turn, card=card)


class Posting:
    """Makes answers and notes; each is added to the log in the step that it belongs to."""

    def __init__(self, poster: MessagePoster, clock: Clock) -> None:
        self._poster = poster
        self._clock = clock

    def answer(
        self,
        dialogue: ChatSession,
        turn: TurnId,
        text: str,
        usage: Usage,
        *,
        session: SessionId | None = None,
        is_cut_off: bool = False,
        late_since: datetime | None = None,
        waited_since: datetime | None = None,
        job: str = "",
        began: datetime | None = None,
        remarks: Sequence[str] = (),
        taint: Taint = _UNTAINTED,
    ) -> ChatMessage:
        """`late_since` is when the answer was due, if that is long ago.

        `job` is the title of the job that it belongs to, if it does, and `waited_since` the due
        moment of one that has waited for the end of the quiet.
        `session` is the one that said it, where `dialogue` has no id yet. `remarks` are
        sentences about what could not be used or was refused on the way to it. `taint` is what the
        turn had read.
        """
        now = self._clock.now()
        cost = cost_of(dialogue.usage_rows(usage, now, turn))
        late = "" if late_since is None else late_label(late_since, now)
        late = late if waited_since is None else waited_label(waited_since, now)
        fullness = "" if is_cut_off else context_warning(usage)
        footer = joined(" ", late, *remarks, fullness)
        return ChatMessage(
            numbered_id(now, secrets.randbits(20)),
            now,
            Author.ASSISTANT,
            text,
            turn=turn,
            session=dialogue.id or session,
            is_cut_off=is_cut_off,
            spent=TurnCost(cost, usage.context, usage.window),
            footer=footer,
            job=short_title(job),
            in_fork=dialogue.in_fork,
            began=began,
            untrusted=untrusted_message(taint),
        )

    def note(
        self, words: str | Card, turn: TurnId | None = None, *, name: str | None = None
    ) -> ChatMessage:
        """A note; with a `name` it is posted only once, under that id."""
        return note_of(words, self._clock.now(), MessageId(name or uuid4().hex), turn)

    def failure(
        self, sentence: str, turn: TurnId, *, has_words: bool, name: str | None = None
    ) -> ChatMessage:
        """A note with a button that asks the messages of the turn again.

        `has_words`: a part of the answer stands above it.
        """
        title = "The answer was cut off" if has_words else "No answer"
        retry = Button("Retry", RETRY, turn)
        card = Card(title, sentence, color=Color.RED, buttons=(retry,))
        return replace(self.note(sentence, turn, name=name), card=card)

    def add_answer(self, tx: Transaction, dialogue: ChatSession, answer: ChatMessage) -> None:
        self._poster.add_to_log(tx, answer, dialogue.answering(tx, answer))

    def add_item(self, tx: Transaction, card: ChatMessage, item: DueItem) -> None:
        """Add a due item with its card."""
        self._poster.add_to_log(tx, card)
        add_item(tx, item)

    def add_note(self, tx: Transaction, note: ChatMessage) -> None:
        """Add the note, in the open fork if there is one."""
        in_fork = tx.fork.get() is not None
        self._poster.add_to_log(tx, replace(note, in_fork=in_fork))
