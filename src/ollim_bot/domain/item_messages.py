"""The message by which the program itself delivers a due item, without the agent."""

from __future__ import annotations

import hashlib
from datetime import datetime

from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.due_items import DueItem
from ollim_bot.domain.item_cards import open_card
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.runs import late_label
from ollim_bot.domain.schedule import ScheduledJob
from ollim_bot.domain.taint import marked_taint, untrusted_label, untrusted_message


def delivery_id(occurrence: Occurrence) -> MessageId:
    """Derive the id from the occurrence, so that a crash cannot lead to a second message."""
    digest = hashlib.sha256(occurrence.id.encode()).digest()
    return MessageId(str(int.from_bytes(digest[:7])))


def item_message(
    job: ScheduledJob, occurrence: Occurrence, now: datetime, footer: str = ""
) -> tuple[ChatMessage, DueItem]:
    """The card that carries the job's own words, and the due item that it shows."""
    item = DueItem.of(job, occurrence, delivery_id(occurrence), now)
    taint = marked_taint(job.spec.untrusted)
    message = ChatMessage(
        item.card,
        now,
        Author.BACKGROUND,
        job.spec.words,
        footer=" ".join(filter(None, (footer, untrusted_label(taint)))),
        card=open_card(item, now, job.spec.words),
        job=item.short_title,
        occurrence=item.occurrence,
        untrusted=untrusted_message(taint),
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
    )


def why_now(reason: str, late_since: datetime | None, now: datetime) -> str:
    """The footer of the message: that it is late, if it is, and why the program delivers it."""
    return reason if late_since is None else f"{late_label(late_since, now)} {reason}".rstrip()
