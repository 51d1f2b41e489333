"""A channel that only sends gets what concerns it, and needs no more than a way to send."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.repeating_store import RepeatingStore
from tests.kernel.conversation.scene import NOW

from ollim_bot.kernel.base.errors import DeliveryUncertain
from ollim_bot.kernel.conversation.delivery import DeliveryQueue
from ollim_bot.kernel.store.delivery_rows import DeliveryState
from ollim_bot.kernel.values.channels import PushChannel
from ollim_bot.kernel.values.chat import Author, ChatMessage, numbered_id
from ollim_bot.kernel.values.ports import MessagePart

pytestmark = pytest.mark.usefixtures("inline_executor")


class Phone(PushChannel):
    name = "phone"

    def __init__(self, *, answers: bool = True) -> None:
        self.came: list[str] = []
        self._answers = answers

    async def deliver(self, part: MessagePart) -> str:
        self.came.append(part.content.text)
        if not self._answers:
            raise DeliveryUncertain("No answer came.")
        return str(len(self.came))


MESSAGES = [
    ChatMessage(numbered_id(NOW, number), NOW, author, f"from the {author}")
    for number, author in enumerate(Author)
]


async def delivered(phone: Phone, *messages: ChatMessage) -> Sequence[DeliveryState]:
    """What became of each message on the phone."""
    store, clock = RepeatingStore(lambda: NOW), ManualClock(NOW)
    store.run(lambda tx: tx.channels.join(phone.name, ""))
    for each in messages:
        store.run(lambda tx, message=each: tx.messages.add(message))  # type: ignore[misc]
    running = asyncio.create_task(DeliveryQueue(store, phone, clock).run())
    for _ in range(100):
        await clock.advance(30)
        if store.query(lambda tx: tx.deliveries.next_open(phone.name)) is None:
            break
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return [
        found.state
        for each in messages
        for found in store.query(lambda tx, message=each: tx.deliveries.of_message(message.id))  # type: ignore[misc]
    ]


async def test_all_but_the_words_of_the_owner_is_sent_in_order() -> None:
    phone = Phone()
    states = await delivered(phone, *MESSAGES)
    assert phone.came == [each.text for each in MESSAGES if each.author is not Author.OWNER]
    assert states == [
        DeliveryState.CLOSED if each.author is Author.OWNER else DeliveryState.CONFIRMED
        for each in MESSAGES
    ]


async def test_what_may_have_arrived_is_given_up_and_never_repeated() -> None:
    phone = Phone(answers=False)
    states = await delivered(phone, MESSAGES[-1])
    assert (len(set(phone.came)), states) == (1, [DeliveryState.UNKNOWN])
