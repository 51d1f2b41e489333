"""How a message stands on its line of the message log; what equals its default is left out."""

from __future__ import annotations

from ollim_bot.domain.chat import Attachment, Author, ChatMessage, MessageId, Spent, TurnId
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.taint import Untrusted
from ollim_bot.storage.codecs.cards import card_json, card_of
from ollim_bot.storage.json_fields import Fields, parse_json, render_json
from ollim_bot.storage.json_lines import LineCodec


def message_json(message: ChatMessage) -> dict[str, object]:
    head: dict[str, object] = {
        "at": message.at.isoformat(),
        "id": message.id,
        "author": message.author.value,
        "text": message.text,
    }
    spent = message.spent
    rest = {
        "reply_to": message.reply_to,
        "attachments": attachments_json(message.attachments),
        "turn": message.turn,
        "session": message.session,
        "is_cut_off": message.is_cut_off,
        "spent": None if spent is None else _spent_json(spent),
        "footer": message.footer,
        "card": None if message.card is None else card_json(message.card),
        "job": message.job,
        "in_fork": message.in_fork,
        "occurrence": message.occurrence,
        "refs": dict(message.refs),
        "untrusted": untrusted_json(message.untrusted),
    }
    return head | {name: value for name, value in rest.items() if value}


def message_of(fields: Fields) -> ChatMessage:
    card = fields.below("card")
    reply_to, turn = fields.text_or_none("reply_to"), fields.text_or_none("turn")
    session, spent = fields.text_or_none("session"), fields.below("spent")
    return ChatMessage(
        id=MessageId(fields.text("id")),
        at=fields.moment("at"),
        author=fields.choice("author", Author),
        text=fields.text("text"),
        reply_to=MessageId(reply_to) if reply_to else None,
        attachments=attachments_of(fields),
        turn=TurnId(turn) if turn else None,
        session=SessionId(session) if session else None,
        is_cut_off=fields.flag("is_cut_off"),
        spent=None if spent is None else _spent(spent),
        footer=fields.text_or_none("footer") or "",
        card=None if card is None else card_of(card),
        job=fields.text_or_none("job") or "",
        in_fork=fields.flag("in_fork"),
        occurrence=fields.text_or_none("occurrence") or "",
        refs=fields.texts_by_name("refs"),
        untrusted=untrusted_of(fields, "untrusted"),
    )


CHAT_MESSAGES = LineCodec(
    lambda message: render_json(message_json(message)),
    lambda line: message_of(Fields(parse_json(line))),
    lambda message: message.at,
)


def untrusted_json(untrusted: Untrusted | None) -> dict[str, object] | None:
    if untrusted is None:
        return None
    return {"source": untrusted.source, "about": untrusted.about}


def untrusted_of(fields: Fields, name: str) -> Untrusted | None:
    below = fields.below(name)
    return None if below is None else Untrusted(below.text("source"), below.text("about"))


def attachments_json(attachments: tuple[Attachment, ...]) -> list[object]:
    return [
        {"name": one.name, "path": one.path, "media_type": one.media_type, "size": one.size}
        for one in attachments
    ]


def attachments_of(fields: Fields) -> tuple[Attachment, ...]:
    return tuple(_attachment(value) for value in fields.items("attachments"))


def _attachment(value: object) -> Attachment:
    fields = Fields(value, "an attachment")
    return Attachment(
        fields.text("name"), fields.text("path"), fields.text("media_type"), fields.whole("size")
    )


def _spent_json(spent: Spent) -> dict[str, object]:
    stored: dict[str, object] = {"cost_usd": spent.cost_usd, "context": spent.context}
    return stored if spent.window is None else stored | {"window": spent.window}


def _spent(fields: Fields) -> Spent:
    return Spent(fields.number("cost_usd"), fields.whole("context"), fields.whole_or_none("window"))
