"""The messages that show due items."""

from __future__ import annotations

from datetime import datetime

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.due_items import DueItem, delivery_id, open_card
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.schedule import ScheduledJob
from ollim_bot.domain.taint import marked_taint, untrusted_label, untrusted_message


def item_message(
    job: ScheduledJob, occurrence: Occurrence, now: datetime, footer: str = ""
) -> tuple[ChatMessage, DueItem]:
    """The card that carries the job's own words, and the due item that it shows."""
    item = DueItem.of(job, occurrence, delivery_id(occurrence), now)
    taint, (title, words) = marked_taint(job.spec.untrusted), job.spec.said
    message = ChatMessage(
        item.card,
        now,
        Author.BACKGROUND,
        "\n".join(filter(None, (title, words))),
        footer=" ".join(filter(None, (footer, untrusted_label(taint)))),
        card=open_card(item, now, words, title),
        job=item.short_title,
        occurrence=item.occurrence,
        untrusted=untrusted_message(taint),
        must=job.must,
    )
    return message, item


def card_message(
    item: DueItem, occurrence: Occurrence, now: datetime, footer: str = ""
) -> ChatMessage:
    """The message that shows an item by itself, for one of the times that it comes."""
    card = open_card(item, now)
    taint = marked_taint(item.untrusted)
    return ChatMessage(
        delivery_id(occurrence),
        now,
        Author.BACKGROUND,
        card.text,
        card=card,
        footer=" ".join(filter(None, (footer, untrusted_label(taint)))),
        job=item.short_title,
        occurrence=occurrence.id,
        untrusted=untrusted_message(taint),
        must=item.as_reminder.must,
    )
