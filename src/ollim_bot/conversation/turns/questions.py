"""Makes prompts of what is asked: words, quotes, pictures, and what happened meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from ollim_bot.agent import Image
from ollim_bot.chat import AttachmentKeeper
from ollim_bot.conversation import texts
from ollim_bot.domain.chat import Attachment
from ollim_bot.domain.inbox import ToolCalled
from ollim_bot.domain.inputs import (
    Asked,
    JobTurn,
    Occasion,
    OwnerMessage,
    ProgramTurn,
)
from ollim_bot.domain.sessions import SessionId
from ollim_bot.errors import WrongInput
from ollim_bot.prompts.context import owner_prompt, owner_words
from ollim_bot.prompts.continued import continued_prompt
from ollim_bot.prompts.forks import (
    button_prompt,
    button_words,
    fork_prompt,
    idle_prompt,
    report_prompt,
    resumed_fork_prompt,
)
from ollim_bot.prompts.jobs import foreground_prompt


@dataclass(frozen=True, slots=True)
class Question:
    """What a turn is about.

    From the second attempt on, `tools` are those that were called already, and `known_in` is the
    session that has what was asked, so that it is only told to go on. `notes` are sentences for the
    owner: about pictures that had to be left out, say.
    """

    asked: tuple[Asked, ...]
    attempt: int = 1
    images: tuple[Image, ...] = ()
    notes: tuple[str, ...] = ()
    tools: tuple[ToolCalled, ...] = ()
    known_in: SessionId | None = None

    def text(
        self, updates: str, now: datetime, session: SessionId, resumed_at: datetime | None = None
    ) -> str:
        """As `session` has to be asked. `resumed_at` tells that it begins as a branch."""
        if session == self.known_in:
            return continued_prompt(self.tools, now, updates=updates)
        first = self.asked[0]
        if isinstance(first, ProgramTurn):
            return _program_prompt(first, now, updates)
        if isinstance(first, JobTurn):
            # Of a job whose prompt was never taken, no call can have been made.
            return foreground_prompt(first.as_of(now), now, updates)
        messages = _messages(self.asked)
        if self.tools:
            return continued_prompt(self.tools, now, again=messages, updates=updates)
        if resumed_at is not None:
            words = button_words(first.text) if first.button else owner_words(messages)
            return resumed_fork_prompt(now, resumed_at, words, updates)
        if first.button:
            return button_prompt(first.text, now, updates)
        return owner_prompt(messages, now, updates)

    def images_for(self, session: SessionId) -> tuple[Image, ...]:
        return () if session == self.known_in else self.images


class Questions:
    def __init__(self, keeper: AttachmentKeeper) -> None:
        self._keeper = keeper

    async def first(self, asked: tuple[Asked, ...]) -> Question:
        images, unreadable = await asyncio.to_thread(self._pictures, _messages(asked))
        return Question(asked, images=images, notes=unreadable)

    async def again(
        self,
        asked: tuple[Asked, ...],
        attempt: int,
        tools: tuple[ToolCalled, ...],
        known_in: SessionId | None,
    ) -> Question:
        images, unreadable = await asyncio.to_thread(self._pictures, _messages(asked))
        return Question(asked, attempt, images, unreadable, tools, known_in)

    def _pictures(
        self, messages: tuple[OwnerMessage, ...]
    ) -> tuple[tuple[Image, ...], tuple[str, ...]]:
        images: list[Image] = []
        unreadable: list[str] = []
        for attachment in (each for message in messages for each in message.attachments):
            if attachment.is_image:
                self._take_picture(attachment, images, unreadable)
            elif attachment.unread_note:
                unreadable.append(attachment.unread_note)
        return tuple(images), tuple(unreadable)

    def _take_picture(
        self, attachment: Attachment, images: list[Image], unreadable: list[str]
    ) -> None:
        try:
            media_type, data = self._keeper.image(attachment)
        except WrongInput as wrong:
            unreadable.append(texts.picture_unreadable(str(wrong)))
        else:
            images.append(Image(media_type, data))


def _messages(asked: Iterable[Asked]) -> tuple[OwnerMessage, ...]:
    return tuple(each for each in asked if isinstance(each, OwnerMessage))


def _program_prompt(turn: ProgramTurn, now: datetime, updates: str) -> str:
    match turn.occasion:
        case Occasion.FORK_STARTED:
            return fork_prompt(now, turn.topic, updates)
        case Occasion.FORK_IDLE:
            return idle_prompt(now, updates)
        case Occasion.FORK_REPORT:
            return report_prompt(now, updates)
