"""Builds what a turn asks the agent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime

from ollim_bot.conversation import texts
from ollim_bot.domain.chat import Attachment
from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.inbox import (
    JobTurn,
    OwnerMessage,
    ProgramTurn,
    ProgramTurnReason,
    ToolCalled,
    TurnRequest,
)
from ollim_bot.errors import WrongInput
from ollim_bot.ports import AttachmentStore, Image
from ollim_bot.prompts.context import owner_prompt, owner_words
from ollim_bot.prompts.turns import (
    button_prompt,
    button_words,
    continued_prompt,
    foreground_prompt,
    fork_prompt,
    idle_prompt,
    report_prompt,
    resumed_fork_prompt,
)


@dataclass(frozen=True, slots=True)
class TurnInput:
    """The inputs that a turn answers, with everything needed to ask them.

    On a retry, `tools` are the calls that were already made, `unknown` those without a result, and
    `known_in` is the session that has already read the inputs, so that it is only told to continue.
    `left_out` holds the paths of pictures that could not be read. `notes` are sentences for the
    owner, for example about those pictures.
    """

    asked: tuple[TurnRequest, ...]
    attempt: int = 1
    images: tuple[Image, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()
    tools: tuple[ToolCalled, ...] = ()
    unknown: tuple[ToolCalled, ...] = ()
    known_in: SessionId | None = None

    def text(
        self, updates: str, now: datetime, session: SessionId, resumed_at: datetime | None = None
    ) -> str:
        """The prompt for `session`, which with `resumed_at` begins as a branch."""
        if session == self.known_in:
            return continued_prompt(self.tools, now, unknown=self.unknown, updates=updates)
        first = self.asked[0]
        if isinstance(first, ProgramTurn):
            match first.occasion:
                case ProgramTurnReason.FORK_STARTED:
                    return fork_prompt(now, first.topic, updates)
                case ProgramTurnReason.FORK_IDLE:
                    return idle_prompt(now, updates)
                case ProgramTurnReason.FORK_REPORT:
                    return report_prompt(now, updates)
        if isinstance(first, JobTurn):
            # The prompt of this job was never taken, so the job has made no tool call.
            return foreground_prompt(first.as_of(now), now, updates)
        messages = tuple(each for each in self.asked if isinstance(each, OwnerMessage))
        if self.left_out:
            messages = tuple(map(self._as_seen, messages))
        if self.tools or self.unknown:
            return continued_prompt(
                self.tools, now, unknown=self.unknown, again=messages, updates=updates
            )
        if resumed_at is not None:
            words = (
                button_words(first.text, first.untrusted_quote)
                if first.button
                else owner_words(messages)
            )
            return resumed_fork_prompt(now, resumed_at, words, updates)
        if first.button:
            return button_prompt(first.text, now, updates, first.untrusted_quote, first.subject)
        return owner_prompt(messages, now, updates)

    def _as_seen(self, message: OwnerMessage) -> OwnerMessage:
        """Mark the pictures left out: the agent must not believe that it has seen them."""
        seen = (
            replace(each, name=texts.picture_left_out(each.name))
            if each.path in self.left_out
            else each
            for each in message.attachments
        )
        return replace(message, attachments=tuple(seen))


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """A file that the agent cannot read, with the sentence that tells the owner so."""

    attachment: Attachment
    sentence: str


class TurnInputs:
    def __init__(self, keeper: AttachmentStore) -> None:
        self._keeper = keeper
        self._reading: asyncio.Future[list[Image | _LeftOut | None]] | None = None

    def hurry(self) -> None:
        """Stop reading pictures: the question under construction will not be asked."""
        if self._reading is not None:
            self._reading.cancel()

    async def with_pictures(self, question: TurnInput) -> TurnInput:
        """The question with the pictures of its messages, unless `hurry` is called meanwhile."""
        messages = (each for each in question.asked if isinstance(each, OwnerMessage))
        attachments = [each for message in messages for each in message.attachments]
        if not attachments:
            return question
        self._reading = asyncio.gather(*map(self._seen, attachments))
        try:
            seen = await self._reading
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return question
        finally:
            self._reading = None
        unseen = [each for each in seen if isinstance(each, _LeftOut)]
        return replace(
            question,
            images=tuple(each for each in seen if isinstance(each, Image)),
            notes=tuple(each.sentence for each in unseen),
            left_out=frozenset(each.attachment.path for each in unseen if each.attachment.is_image),
        )

    async def _seen(self, attachment: Attachment) -> Image | _LeftOut | None:
        """The picture, or why it is left out; None for a file that the agent opens itself."""
        if not attachment.is_image:
            note = attachment.unread_note
            return _LeftOut(attachment, note) if note else None
        try:
            return Image(*await self._keeper.image(attachment))
        except WrongInput as wrong:
            return _LeftOut(attachment, texts.picture_unreadable(str(wrong)))
