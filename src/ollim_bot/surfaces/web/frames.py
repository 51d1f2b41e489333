"""The JSON that the page receives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import takewhile
from urllib.parse import quote

from ollim_bot.domain.activity import Activity
from ollim_bot.domain.cards import Button, Card, CardField
from ollim_bot.domain.chat import Attachment, ChatMessage, MessageId, TurnId
from ollim_bot.domain.commands import Argument, CommandAnswer, CommandSpec
from ollim_bot.domain.moments import clock_time
from ollim_bot.domain.search import Term, excerpt
from ollim_bot.domain.text import shortened
from ollim_bot.ports import Status, TurnStart
from ollim_bot.surfaces.web.markdown import plain, render

Json = dict[str, object]

_LONGEST_EXCERPT = 120
_LONGEST_RESULT = 200
# A longer text is shown with its markup: to render all results takes time.
_RENDERED_FOR_RESULT = 2000
# How much of a text is rendered for an excerpt: markdown is longer than its visible text.
_READ_FOR_EXCERPT = 1000


def message_json(
    message: ChatMessage, html: str, card: Json | None, reply_to: ChatMessage | None
) -> Json:
    return {
        "id": message.id,
        "at": message.at.isoformat(),
        "began": message.began.isoformat() if message.began else None,
        "author": message.author.value,
        "html": html,
        "text": message.text,
        "is_typed": message.is_typed,
        "reply_to": None if reply_to is None else _quoted(reply_to),
        "attachments": [
            _attachment(message.id, index, each) for index, each in enumerate(message.attachments)
        ],
        "turn": message.turn,
        "is_cut_off": message.is_cut_off,
        "footer": message.footer,
        "job": message.job,
        "in_fork": message.in_fork,
        "card": card,
    }


def result_json(message: ChatMessage, terms: Sequence[Term]) -> Json:
    """A message that was found, with its place in the log and the words around the match."""
    is_short = len(message.text) <= _RENDERED_FOR_RESULT
    text = plain(message.text) if is_short and not message.card else message.text
    return {
        "id": message.id,
        "at": message.at.isoformat(),
        "author": message.author.value,
        "job": message.job,
        "parts": [
            {"text": part.text, "is_match": part.is_match}
            for part in excerpt(text, terms, _LONGEST_RESULT)
        ],
    }


def _quoted(message: ChatMessage) -> Json:
    words = " ".join(plain(message.text[:_READ_FOR_EXCERPT]).split())
    if not words and message.attachments:
        words = message.attachments[0].name
    excerpt = shortened(words, _LONGEST_EXCERPT)
    return {"id": message.id, "author": message.author.value, "excerpt": excerpt}


def _attachment(message_id: MessageId, index: int, attachment: Attachment) -> Json:
    return {
        "name": attachment.name,
        "url": f"/api/attachments/{quote(message_id, safe='')}/{index}",
        "is_image": attachment.is_image,
        "size": attachment.size,
    }


def status_json(status: Status) -> Json:
    return {
        "provider": status.provider,
        "is_offline": status.is_offline,
        "model": status.model,
        "is_busy": status.is_busy,
        "bot_name": status.bot_name,
        "version": status.version,
        "program": status.program,
        "fork": asdict(status.fork) if status.fork else None,
        "quiet": "" if status.quiet_until is None else clock_time(status.quiet_until),
        "trouble": " ".join(plain(status.trouble).split()) if status.trouble else "",
        "zone": status.zone,
        "has_jobs": status.has_jobs,
    }


def command_json(command: CommandSpec) -> Json:
    return {
        "name": command.name,
        "about": command.about,
        "usage": command.usage,
        "arguments": [_argument(each) for each in command.arguments],
    }


def _argument(argument: Argument) -> Json:
    return {
        "name": argument.name,
        "about": argument.about,
        "choices": list(argument.choices),
        "is_required": argument.is_required,
        "takes_rest": argument.takes_rest,
    }


def answer_json(answer: CommandAnswer, html: str) -> Json:
    return {
        "text": answer.text,
        "html": html,
        "is_error": answer.is_error,
        "is_shown": answer.is_shown,
    }


def live_json(
    start: TurnStart,
    elapsed: float,
    began: datetime | None,
    activity: Activity,
    blocks: Sequence[str],
    tail: str,
) -> Json:
    """`began` is when its first words came."""
    return {
        "turn": start.turn,
        "elapsed": round(elapsed, 1),
        "began": began.isoformat() if began else None,
        "blocks": list(blocks),
        "tail": tail,
        **activity_json(activity),
    }


def activity_json(activity: Activity) -> Json:
    tools = [
        {"id": line.id, "label": line.label, "state": line.state.value, "reason": line.reason}
        for line in activity.tools
    ]
    return {"phase": activity.phase, "tools": tools, "notes": list(activity.notes)}


def draft_frame(
    turn: TurnId, began: datetime | None, before: Sequence[str], now: Sequence[str], tail: str
) -> Json:
    """How many of the blocks that were shown before stay, and what follows them."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))
    keep = len(list(same))
    return {
        "type": "draft",
        "turn": turn,
        "began": began.isoformat() if began else None,
        "keep": keep,
        "blocks": list(now[keep:]),
        "tail": tail,
    }


def read_frame(message_id: MessageId) -> Json:
    return {"type": "read", "id": message_id}


def card_json(card: Card) -> Json:
    return {
        "title": card.title,
        "html": render(card.description),
        "color": card.color.value,
        "fields": [_field(each) for each in card.fields],
        "lines": [{"text": each.text, "heading": each.heading} for each in card.lines],
        "buttons": [_button(each) for each in card.buttons],
        "earlier_of": card.earlier_of,
        "until": card.until and card.until.isoformat(),
    }


def _field(field: CardField) -> Json:
    return {"name": field.name, "html": render(field.value), "inline": field.inline}


def _button(button: Button) -> Json:
    return {
        "label": button.label,
        "custom_id": button.custom_id,
        "style": button.style.value,
        "is_used": button.is_used,
        "line": button.line,
        "asks": button.asks,
    }
