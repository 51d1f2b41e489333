"""An answer is not kept back by the draft that it takes over."""

from __future__ import annotations

import pytest
from devtools.doubles.channel import FakeChatService
from devtools.doubles.clock import ManualClock
from tests.conversation.delivery_scene import DeliveryScene
from tests.conversation.scene import NOW

from ollim_bot.domain.chat import Author, ChatMessage, numbered_id
from ollim_bot.domain.ids import TurnId
from ollim_bot.errors import DeliveryUncertain

pytestmark = pytest.mark.usefixtures("inline_executor")


class NotEditable(FakeChatService):
    async def edit(self, ref: str, content: ChatMessage) -> None:
        raise DeliveryUncertain(f"{ref} was not changed: {content.text}")


async def test_an_answer_whose_draft_cannot_be_edited_is_sent_anew_within_seconds() -> None:
    clock = ManualClock(NOW)
    service = NotEditable(clock)
    scene = DeliveryScene([service], clock)
    draft = service.draw("turn-1", "…")
    answer = ChatMessage(
        numbered_id(NOW, 1), NOW, Author.ASSISTANT, "It is done.", turn=TurnId("turn-1")
    )
    async with scene.running() as outbox:
        await outbox.poster.post(answer)
        for _ in range(20):
            await clock.advance(1)
        assert service.texts.count("It is done.") == 1
        assert scene.refs(answer.id) != (draft,)
        assert scene.waiting == []
