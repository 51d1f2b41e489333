"""Each outbox row reads back from its line as written; a bad line affects only itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.strategies import json_values, ping_budgets
from tests.storage.chat_strategies import outbox_rows
from tests.storage.damage import damaged
from tests.storage.data_directory import NOW

from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.outgoing import NotSent, OutboxRow, Sending, Sent, Unsure
from ollim_bot.domain.pings import Charge, PingBudget
from ollim_bot.domain.sessions import SessionId
from ollim_bot.store.codecs.records import OUTBOX_ROWS, ping_budget_codec
from ollim_bot.store.file_store import Malformed

AT = datetime(2026, 2, 24, 10, 15, tzinfo=timezone(timedelta(hours=-8)))
STAMP = "2026-02-24T10:15:00-08:00"
PING = ChatMessage(MessageId("42"), AT, Author.BACKGROUND, "stand up")
LINE = {"at": STAMP, "id": "42", "author": "background", "text": "stand up"}
MEANT = Sending(AT, PING, Charge.TOKEN, 17, SessionId("fork-1"), SessionId("main-1"))
READABLE: list[tuple[OutboxRow, Mapping[str, object]]] = [
    (
        MEANT,
        {
            "at": STAMP,
            "row": "sending",
            "message": LINE,
            "charge": "token",
            "payment": 17,
            "fork": "fork-1",
            "parent": "main-1",
        },
    ),
    (Sending(AT, PING), {"at": STAMP, "row": "sending", "message": LINE, "charge": "nothing"}),
    (Sent(AT, MessageId("42"), "11"), {"at": STAMP, "row": "sent", "id": "42", "ref": "11"}),
    (
        NotSent(AT, MessageId("42"), "no space"),
        {"at": STAMP, "row": "not_sent", "id": "42", "reason": "no space"},
    ),
    (Unsure(AT, MessageId("42")), {"at": STAMP, "row": "unsure", "id": "42"}),
]


@pytest.mark.parametrize(("row", "line"), READABLE)
def test_a_person_can_read_the_outbox(row: OutboxRow, line: Mapping[str, object]) -> None:
    assert json.loads(OUTBOX_ROWS.encode(row)) == line


@given(outbox_rows)
def test_a_row_reads_back_as_it_was_written(row: OutboxRow) -> None:
    encoded = OUTBOX_ROWS.encode(row)
    assert b"\n" not in encoded
    assert OUTBOX_ROWS.decode(encoded) == row


@given(outbox_rows, json_values)
def test_keys_of_a_later_version_are_passed_over(row: OutboxRow, value: object) -> None:
    line = json.loads(OUTBOX_ROWS.encode(row)) | {"mood": value}
    if "message" in line:
        line["message"]["mood"] = value
    assert OUTBOX_ROWS.decode(json.dumps(line).encode()) == row


@given(data=st.data(), row=outbox_rows)
def test_a_damaged_field_makes_a_malformed_line_or_a_right_one(
    data: st.DataObject, row: OutboxRow
) -> None:
    line = damaged(OUTBOX_ROWS.encode(row), data)
    try:
        entry = OUTBOX_ROWS.decode(line)
    except Malformed:
        return
    assert OUTBOX_ROWS.decode(OUTBOX_ROWS.encode(entry)) == entry


@pytest.mark.parametrize(
    "damage",
    [
        {"row": "danced"},
        {"row": None},
        {"message": None},
        {"message": "stand up"},
        {"message": LINE | {"id": "m1"}},
        {"charge": "all of it"},
        {"charge": None},
        {"payment": -1},
        {"payment": "17"},
        {"fork": 5},
        {"at": "2026-02-24T10:15:00"},
        {"row": "sent"},
        {"row": "unsure", "id": 42},
        {"row": "not_sent", "id": "42"},
    ],
)
def test_a_line_that_makes_no_sense_is_none(damage: Mapping[str, object]) -> None:
    line = json.loads(OUTBOX_ROWS.encode(MEANT)) | dict(damage)
    with pytest.raises(Malformed):
        OUTBOX_ROWS.decode(json.dumps(line).encode())


@given(ping_budgets(), st.integers(0, 2**40))
def test_the_number_of_payments_stays_with_the_budget(budget: PingBudget, payments: int) -> None:
    codec = ping_budget_codec(lambda: NOW)
    budget = replace(budget, payments=payments)
    assert codec.decode(codec.encode(budget) or b"") == (budget, ())
