"""What a message costs before the model is asked does not grow with what was said before."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.conversation.scene import NOW, Scene, scene, scripted

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.ids import MessageId
from ollim_bot.store import messages
from ollim_bot.store.codecs.messages import CHAT_MESSAGES

# More than any look at the newest messages reads.
LONG = 120


def talked(at: Scene, count: int) -> None:
    for number in range(count):
        author = Author.ASSISTANT if number % 2 else Author.OWNER
        said = NOW - timedelta(days=1, microseconds=7 * (count - number))
        message = ChatMessage(MessageId(f"alt-{number}"), said, author, f"Grüße {number}")
        at.stores.state.run(lambda tx, message=message: tx.messages.add(message))  # type: ignore[misc]


async def decoded_for_a_message(before: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many messages of the log are read for the second message of a conversation."""
    decode, count = CHAT_MESSAGES.decode, 0

    def counting(raw: bytes) -> ChatMessage:
        nonlocal count
        count += 1
        return decode(raw)

    async with scene(scripted("Hallo.", "Gern.")) as at:
        talked(at, before)
        await at.ask("erste")
        with monkeypatch.context() as patched:
            patched.setattr(messages, "CHAT_MESSAGES", CHAT_MESSAGES._replace(decode=counting))
            await at.send("zweite")
            await at.quiet()
    return count


async def test_of_a_long_conversation_no_more_is_read_than_of_a_short_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = await decoded_for_a_message(2, monkeypatch)
    assert await decoded_for_a_message(LONG, monkeypatch) <= few
