"""Rows of the inbox and messages are written so that people and later versions can read them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from tests.kernel.store.files.chat_strategies import cards

from ollim_bot.kernel.base.ids import MessageId, SessionId, TurnId
from ollim_bot.kernel.store.codecs.message_codec import CHAT_MESSAGES
from ollim_bot.kernel.store.file_store import Malformed
from ollim_bot.kernel.store.inbox_rows import INBOX_ROWS
from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card, CardField, Color
from ollim_bot.kernel.values.chat import Attachment, Author, ChatMessage, TurnCost
from ollim_bot.kernel.values.inbox import (
    Accepted,
    CommandCall,
    Edited,
    Ended,
    InboxRow,
    InputEnd,
    InputId,
    OwnerMessage,
    Released,
    Taken,
    ToolCalled,
)
from ollim_bot.kernel.values.taint import Untrusted
from ollim_bot.kernel.values.updates import PendingUpdate, PendingUpdates

AT = datetime(2026, 2, 24, 10, 15, tzinfo=timezone(timedelta(hours=-8)))
PHOTO = Attachment("photo.png", "state/attachments/1f.png", "image/png", 12345)
STAMP = "2026-02-24T10:15:00-08:00"

READABLE: list[tuple[InboxRow, Mapping[str, object]]] = [
    (
        Accepted(AT, OwnerMessage(InputId("m1"), "web", AT, "hello", attachments=(PHOTO,))),
        {
            "at": STAMP,
            "row": "accepted",
            "message": {
                "id": "m1",
                "surface": "web",
                "at": STAMP,
                "text": "hello",
                "attachments": [
                    {
                        "name": "photo.png",
                        "path": "state/attachments/1f.png",
                        "media_type": "image/png",
                        "size": 12345,
                    }
                ],
            },
        },
    ),
    (
        Accepted(
            AT,
            OwnerMessage(
                *(InputId("m2"), "discord", AT, "/clear"),
                quote="Pay.",
                untrusted=Untrusted("forwarded message", "from a server"),
                untrusted_quote=Untrusted("forwarded message", "from here"),
            ),
        ),
        {
            "at": STAMP,
            "row": "accepted",
            "message": {
                "id": "m2",
                "surface": "discord",
                "at": STAMP,
                "text": "/clear",
                "quote": "Pay.",
                "untrusted": {"source": "forwarded message", "about": "from a server"},
                "untrusted_quote": {"source": "forwarded message", "about": "from here"},
            },
        },
    ),
    (
        Accepted(AT, CommandCall(InputId("c1"), "web", AT, "model", {"name": "opus"})),
        {
            "at": STAMP,
            "row": "accepted",
            "command": {
                "id": "c1",
                "surface": "web",
                "at": STAMP,
                "name": "model",
                "arguments": {"name": "opus"},
            },
        },
    ),
    (
        Edited(AT, InputId("m1"), "hello there"),
        {"at": STAMP, "row": "edited", "input": "m1", "text": "hello there"},
    ),
    (
        Taken(
            AT,
            TurnId("t1"),
            (InputId("m1"),),
            2,
            "5f",
            SessionId("s1"),
            PendingUpdates((PendingUpdate(AT, "3 mails", "9f3c01aa"),)),
        ),
        {
            "at": STAMP,
            "row": "taken",
            "turn": "t1",
            "inputs": ["m1"],
            "attempt": 2,
            "prompt": "5f",
            "session": "s1",
            "claim": [{"ts": STAMP, "message": "3 mails", "id": "9f3c01aa"}],
        },
    ),
    (
        ToolCalled(AT, TurnId("t1"), "Write", "USER.md"),
        {"at": STAMP, "row": "tool_called", "turn": "t1", "tool": "Write", "summary": "USER.md"},
    ),
    (Released(AT, TurnId("t1")), {"at": STAMP, "row": "released", "turn": "t1"}),
    (
        Ended(AT, (InputId("m1"),), InputEnd.ANSWERED),
        {"at": STAMP, "row": "ended", "inputs": ["m1"], "end": "answered"},
    ),
]


@pytest.mark.parametrize(("row", "line"), READABLE, ids=lambda one: type(one).__name__)
def test_a_person_can_read_the_inbox(row: InboxRow, line: Mapping[str, object]) -> None:
    assert json.loads(INBOX_ROWS.encode(row)) == line
    assert INBOX_ROWS.decode(INBOX_ROWS.encode(row)) == row


def test_a_person_can_read_the_messages() -> None:
    question = ChatMessage(MessageId("m1"), AT, Author.OWNER, "hello")
    assert json.loads(CHAT_MESSAGES.encode(question)) == {
        "at": STAMP,
        "id": "m1",
        "author": "owner",
        "text": "hello",
    }
    answer = ChatMessage(MessageId("m2"), AT, Author.ASSISTANT, "hi", spent=TurnCost(0.01, 900))
    stored = json.loads(CHAT_MESSAGES.encode(answer))
    assert stored["spent"] == {"cost_usd": 0.01, "context": 900}


def test_a_person_can_read_a_card() -> None:
    button = Button("Done", "agent", "9f3c01aa", ButtonStyle.SUCCESS, is_used=True)
    card = Card("Mail", "3 new", Color.GREEN, (CardField("From", "Ada", inline=True),), (button,))
    shown = ChatMessage(MessageId("m1"), AT, Author.BACKGROUND, "", card=card, job="mail-check")
    stored = json.loads(CHAT_MESSAGES.encode(shown))
    assert stored["job"] == "mail-check"
    assert stored["card"] == {
        "title": "Mail",
        "description": "3 new",
        "color": "green",
        "fields": [{"name": "From", "value": "Ada", "inline": True}],
        "buttons": [
            {
                "label": "Done",
                "action": "agent",
                "data": "9f3c01aa",
                "style": "success",
                "is_used": True,
            }
        ],
    }


@given(cards)
def test_a_card_of_a_later_version_is_read_all_the_same(card: Card) -> None:
    shown = ChatMessage(MessageId("m1"), AT, Author.BACKGROUND, "words", card=card)
    line = json.loads(CHAT_MESSAGES.encode(shown))
    parts = [line["card"], *line["card"].get("fields", []), *line["card"].get("buttons", [])]
    for part in parts:
        part["mood"] = {"is": "new"}
    assert CHAT_MESSAGES.decode(json.dumps(line).encode()) == shown


@pytest.mark.parametrize(
    "line",
    [
        b'{"at": "2026-02-24T10:15:00-08:00"}',
        b'{"at": "2026-02-24T10:15:00-08:00", "row": "danced"}',
        b'{"at": "2026-02-24T10:15:00-08:00", "row": "accepted"}',
        b'{"at": "2026-02-24T10:15:00-08:00", "row": "ended", "inputs": ["a"], "end": "eaten"}',
        b'{"at": "2026-02-24T10:15:00-08:00", "row": "ended", "inputs": [1], "end": "answered"}',
        b'{"at": "2026-02-24T10:15:00-08:00", "row": "ended", "inputs": "abc", "end": "answered"}',
        b'{"at": "2026-02-24T10:15:00", "row": "edited", "input": "a", "text": "b"}',
        b'"accepted"',
        b"[]",
    ],
)
def test_a_line_that_makes_no_sense_is_none(line: bytes) -> None:
    with pytest.raises(Malformed):
        INBOX_ROWS.decode(line)


SHOWN = {
    "at": STAMP,
    "id": "m1",
    "author": "background",
    "text": "",
    "spent": {"cost_usd": 0.01, "context": 900},
    "attachments": [{"name": "a", "path": "b", "media_type": "c", "size": 1}],
    "card": {
        "title": "Mail",
        "color": "green",
        "buttons": [{"label": "Done", "action": "agent", "style": "success"}],
    },
}


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        ("at", "2026-02-24T10:15:00", "at is not a time with an offset such as +01:00"),
        ("at", None, "at is not text"),
        ("id", ..., "id is missing"),
        ("author", "cat", "author is not one that is known"),
        ("pings", [1], "pings is not a list of texts"),
        ("refs", {"discord": 1}, "refs is not an object of texts"),
        ("in_fork", None, "in_fork is not true or false"),
        ("attachments", {}, "attachments is not a list"),
        ("attachments.0.size", -1, f"an attachment.size is not a whole number from 0 to {2**63}"),
        ("attachments.0", 5, "an attachment is not an object"),
        ("spent.context", ..., "spent.context is missing"),
        ("spent.cost_usd", True, "spent.cost_usd is not a number"),
        ("card", [], "card is not an object"),
        ("card.color", ..., "card.color is missing"),
        ("card.buttons.0.label", 3, "a button of a card.label is not text"),
    ],
)
def test_a_complaint_names_the_wrong_field(place: str, value: object, sentence: str) -> None:
    line = copy.deepcopy(SHOWN)
    *way, last = (int(name) if name.isdecimal() else name for name in place.split("."))
    target: Any = line
    for name in way:
        target = target[name]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    with pytest.raises(Malformed) as told:
        CHAT_MESSAGES.decode(json.dumps(line).encode())
    assert str(told.value) == sentence
