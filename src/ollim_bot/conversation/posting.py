"""Posts the agent's answers and the program's notes in the conversation."""

from __future__ import annotations

import secrets
from datetime import datetime
from uuid import uuid4

from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.conversation.sessions.dialogue import ChatSession
from ollim_bot.conversation.state import ConversationState
from ollim_bot.domain.chat import Author, ChatMessage, MessageId, TurnCost, TurnId, numbered_id
from ollim_bot.domain.events import Usage
from ollim_bot.domain.inputs import InputId
from ollim_bot.domain.provider import Price
from ollim_bot.domain.runs import late_label
from ollim_bot.domain.session_use import context_warning
from ollim_bot.ports import Clock
from ollim_bot.prompts.context import joined


def answer_name(command: InputId) -> MessageId:
    """The id of the message that answers a command."""
    return MessageId(f"answer-{command}")


class Posting:
    def __init__(
        self, poster: MessagePoster, state: ConversationState, clock: Clock, *, price: Price
    ) -> None:
        self._poster = poster
        self._state = state
        self._clock = clock
        self._price = price

    async def answer(
        self,
        dialogue: ChatSession,
        turn: TurnId,
        text: str,
        usage: Usage,
        *,
        is_cut_off: bool = False,
        late_since: datetime | None = None,
    ) -> None:
        """Post an answer. `late_since` is when it was due, if that is long ago."""
        cost = dialogue.cost_since_last(usage) if self._price is Price.LISTED else 0.0
        now = self._clock.now()
        late = "" if late_since is None else late_label(late_since, now)
        footer = joined(" ", late, context_warning(usage))
        message = ChatMessage(
            numbered_id(now, secrets.randbits(20)),
            now,
            Author.ASSISTANT,
            text,
            turn=turn,
            session=dialogue.id,
            is_cut_off=is_cut_off,
            spent=TurnCost(cost, usage.context, usage.window),
            footer="" if is_cut_off else footer,
            in_fork=dialogue.in_fork,
        )
        await self._poster.post(message, await dialogue.answering(message))

    async def note(self, text: str, turn: TurnId | None = None, *, name: str | None = None) -> None:
        """Post a note. A note with a `name` is in the log once, however often it is posted."""
        message_id = MessageId(name or uuid4().hex)
        in_fork = self._state.fork is not None
        note = ChatMessage(
            message_id, self._clock.now(), Author.PROGRAM, text, turn=turn, in_fork=in_fork
        )
        await self._poster.post(note)
