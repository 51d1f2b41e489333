"""Makes prompts of the owner's messages: words, quotes, pictures, and what happened meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from ollim_bot.agent import Image
from ollim_bot.chat import AttachmentKeeper
from ollim_bot.conversation import texts
from ollim_bot.domain.chat import Attachment
from ollim_bot.domain.inputs import OwnerMessage, ToolCalled
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.updates import PendingUpdates
from ollim_bot.errors import WrongInput
from ollim_bot.prompts.context import FOR_MAIN, owner_prompt, updates_block
from ollim_bot.prompts.continued import continued_prompt
from ollim_bot.prompts.forks import button_prompt


@dataclass(frozen=True, slots=True)
class Question:
    """What a turn is about.

    From the second attempt on, `tools` are those that were called already, and `known_in` is the
    session that has the owner's words, so that it is only asked to go on. `unreadable` are
    sentences about pictures that had to be left out.
    """

    messages: tuple[OwnerMessage, ...]
    attempt: int = 1
    images: tuple[Image, ...] = ()
    unreadable: tuple[str, ...] = ()
    tools: tuple[ToolCalled, ...] = ()
    known_in: SessionId | None = None

    def text(self, updates: PendingUpdates, now: datetime, session: SessionId) -> str:
        """As `session` has to be asked."""
        block = updates_block(updates, FOR_MAIN, now)
        is_known = session == self.known_in
        if is_known or self.tools:
            again = () if is_known else self.messages
            return continued_prompt(self.tools, now, again=again, updates=block)
        if self.messages[0].button:
            return button_prompt(self.messages[0].text, now, block)
        return owner_prompt(self.messages, now, block)

    def images_for(self, session: SessionId) -> tuple[Image, ...]:
        return () if session == self.known_in else self.images


class Questions:
    def __init__(self, keeper: AttachmentKeeper) -> None:
        self._keeper = keeper

    async def first(self, messages: tuple[OwnerMessage, ...]) -> Question:
        images, unreadable = await asyncio.to_thread(self._pictures, messages)
        return Question(messages, images=images, unreadable=unreadable)

    async def again(
        self,
        messages: tuple[OwnerMessage, ...],
        attempt: int,
        tools: tuple[ToolCalled, ...],
        known_in: SessionId | None,
    ) -> Question:
        images, unreadable = await asyncio.to_thread(self._pictures, messages)
        return Question(messages, attempt, images, unreadable, tools, known_in)

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
