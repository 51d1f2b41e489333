"""Which messages a channel still sends after it was unreachable for long."""

from __future__ import annotations

from datetime import datetime, timedelta

from ollim_bot.domain.chat import OF_GREETING, Author, ChatMessage, MessageId
from ollim_bot.store.deliveries import Delivery, DeliveryState
from ollim_bot.store.transaction import Transaction

_LATE = timedelta(hours=1)
_MOST = 500
_LOOK_BACK = 50


def is_late(message: ChatMessage, now: datetime) -> bool:
    return now - message.at > _LATE


def skip_late(tx: Transaction, channel: str, now: datetime) -> None:
    """Close the deliveries that are too late to matter, and add one line about them.

    A delivery that was tried stays open: a part of the message may have arrived.
    """
    late = [each for each in tx.deliveries.open(channel, _MOST) if _is_passed(tx, each, now)]
    if not late:
        return
    for each in late:
        tx.deliveries.close(channel, each.message.id, "It was said while the channel was away.")
    line = ChatMessage(
        MessageId(f"away-{channel}-{late[0].logged.seq}"),
        now,
        Author.PROGRAM,
        _in_one_line(channel, [each.message for each in late]),
    )
    tx.messages.add(line)
    for other in tx.channels.all():
        if other.name != channel:
            tx.deliveries.close(other.name, line.id)


def _is_passed(tx: Transaction, delivery: Delivery, now: datetime) -> bool:
    message = delivery.message
    is_begun = delivery.tries > 0 or bool(delivery.refs) or delivery.is_in_doubt
    if is_begun or not is_late(message, now) or message.card or message.occurrence:
        return False
    if message.author is Author.ASSISTANT:
        return not _was_asked_there(tx, delivery)
    is_greeting = message.author is Author.PROGRAM and message.id.startswith(OF_GREETING)
    return message.author is Author.OWNER or is_greeting


def _was_asked_there(tx: Transaction, answer: Delivery) -> bool:
    """Whether the owner wrote the preceding message on this channel."""
    before = tx.messages.page(_LOOK_BACK, answer.message.id)
    asked = [each.message for each in before if each.message.author is Author.OWNER]
    if not asked:
        return True
    there = tx.deliveries.get(answer.channel, asked[-1].id)
    return there is not None and there.state is DeliveryState.CONFIRMED and not there.parts


def _in_one_line(channel: str, messages: list[ChatMessage]) -> str:
    name = channel.capitalize()
    number = "1 message was" if len(messages) == 1 else f"{len(messages)} messages were"
    begin, end = messages[0].at, messages[-1].at
    when = f"{begin:%H:%M}" if begin == end else f"{begin:%d %B %H:%M} to {end:%d %B %H:%M}"
    return f"{number} said while {name} could not be reached ({when}). They are on the page."
