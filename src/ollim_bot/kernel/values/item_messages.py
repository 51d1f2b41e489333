"""The messages that show due items."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.due_items import (
    DONE,
    TAKEN,
    DueItem,
    delivery_id,
    item_key,
    open_card,
    passed_card,
    settled_card,
    short_moment,
)
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.quiet import IN_QUIET_HOURS
from ollim_bot.kernel.values.schedule import ScheduledJob
from ollim_bot.kernel.values.taint import marked_taint, untrusted_label, untrusted_message

# A sentinel without the database waits so long: another machine may reach it, and delivers in time.
AFTER_OTHERS = timedelta(seconds=60)


def item_message(
    job: ScheduledJob, occurrence: Occurrence, now: datetime, footer: str = ""
) -> tuple[ChatMessage, DueItem]:
    """The card that carries the job's own words, and the due item that it shows."""
    item = DueItem.of(job, occurrence, delivery_id(occurrence), now)
    title, words = job.spec.said
    card = open_card(item, now, words, title)
    text = "\n".join(filter(None, (title, words)))
    return _message(item, occurrence, now, card, text, footer), item


def card_message(
    item: DueItem, occurrence: Occurrence, now: datetime, footer: str = ""
) -> ChatMessage:
    """The message that shows an item by itself, for one of the times that it comes."""
    card = open_card(item, now)
    return _message(item, occurrence, now, card, card.text, footer)


def _message(
    item: DueItem, occurrence: Occurrence, now: datetime, card: Card, text: str, footer: str
) -> ChatMessage:
    taint = marked_taint(item.untrusted)
    return ChatMessage(
        delivery_id(occurrence),
        now,
        Author.BACKGROUND,
        text,
        card=card,
        footer=" ".join(filter(None, (footer, untrusted_label(taint)))),
        job=item.short_title,
        occurrence=occurrence.id,
        untrusted=untrusted_message(taint),
        must=item.as_reminder.must,
    )


def asked_item(message: ChatMessage) -> str:
    """The key of the due item whose answer the message asks for; empty if it asks for none."""
    key = item_key(message.occurrence)
    buttons = message.card.buttons if message.card is not None else ()
    is_asking = any(each.action in (DONE, TAKEN) and each.data == key for each in buttons)
    return key if is_asking else ""


def shown_as(message: ChatMessage, item: DueItem, now: datetime) -> ChatMessage:
    """The message of an item as it is shown: it asks, or it is a line about what became of it.

    `message` is as it was posted. Before version 0.18 the line was stored in its place.
    """
    asks, footer = bool(asked_item(message)), ""
    if message.id != item.card:
        if not asks:
            return message
        card = passed_card(item, message.at, now)
    elif item.answer is not None:
        # The step that ends the Undo takes the button away, and no clock.
        card = settled_card(item, (item.answered_at or now).astimezone(now.tzinfo))
        footer = IN_QUIET_HOURS * item.is_in_quiet
    elif item.is_followed_up:
        card = passed_card(item, message.at, now)
    elif item.is_passed:
        # The card of a later dose has come.
        card = Card(f"{item.owner_title} · {short_moment(item.due, now)} · not answered")
    else:
        return message
    return replace(message, card=card, footer=footer if asks else message.footer)


def may_have_come_since(message: ChatMessage, now: datetime) -> datetime | None:
    """Since when the sentinel of another machine may have sent it; None for what is not late."""
    if not (message.must and message.occurrence):
        return None
    due = Occurrence.parse(message.occurrence).scheduled_at
    return due if due is not None and now - due >= AFTER_OTHERS else None
