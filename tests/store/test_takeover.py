"""The state files of a version without a database are taken over once, and nothing is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from tests.store.scene import NOW, StoreScene

from ollim_bot.domain.chat import Author, ChatMessage, MessageId, TurnId
from ollim_bot.domain.inbox import Accepted, Ended, InputEnd, InputId, OwnerMessage, Taken
from ollim_bot.domain.jobs import JobKind
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.outgoing import NotSent, Sending, Tried
from ollim_bot.domain.pings import Charge, PingBudget
from ollim_bot.domain.sessions import SessionChange, SessionEvent, SessionId
from ollim_bot.store.codecs.plain import LineCodec
from ollim_bot.store.codecs.records import (
    CHAT_MESSAGES,
    INBOX_ROWS,
    LEDGER_ROWS,
    OUTBOX_ROWS,
    SESSION_EVENTS,
    ping_budget_codec,
)
from ollim_bot.store.deliveries import DeliveryState
from ollim_bot.store.takeover import BEFORE

T = TypeVar("T")

OCCURRENCE = Occurrence.scheduled(JobKind.REMINDER, "call", NOW)
LEDGER = [
    LedgerRow(NOW, "due", OCCURRENCE, {"unknown": ["fact", None]}),
    LedgerRow(NOW, "running", OCCURRENCE),
]


def write(path: Path, codec: LineCodec[T], *entries: T) -> None:
    path.write_bytes(b"".join(codec.encode(entry) + b"\n" for entry in entries))


def said(number: int, text: str = "hello", **refs: str) -> ChatMessage:
    return ChatMessage(MessageId(str(number)), NOW, Author.ASSISTANT, text, refs=refs)


def typed(name: str, surface: str = "web") -> OwnerMessage:
    return OwnerMessage(InputId(name), surface, NOW, "hello")


@pytest.fixture
def older(scene: StoreScene) -> StoreScene:
    """A data directory with a row of each kind."""
    paths = scene.paths
    paths.sessions.write_text("abc")
    paths.memory.write_text('{"version": 1, "provider": "claude", "strange": [1, 2]}')
    write(paths.state / "ledger-2026-10.jsonl", LEDGER_ROWS, LedgerRow(NOW, "started"))
    write(paths.ledger, LEDGER_ROWS, *LEDGER)
    write(paths.session_history, SESSION_EVENTS, event("a"), event("b"))
    write(
        paths.inbox,
        INBOX_ROWS,
        Accepted(NOW, typed("done")),
        Ended(NOW, (InputId("done"),), InputEnd.ANSWERED),
        Accepted(NOW, typed("open")),
        Taken(NOW, TurnId("t"), (InputId("open"),)),
    )
    write(
        paths.messages,
        CHAT_MESSAGES,
        said(1),
        said(2, discord="700 701"),
        said(1, "edited", discord="600"),
        said(3, discord=""),
    )
    return scene


def event(name: str) -> SessionEvent:
    return SessionEvent(SessionId(name), SessionChange.CREATED, NOW)


def test_records_logs_and_facts_are_in_the_database(older: StoreScene) -> None:
    database = older.open()
    assert database.run(lambda tx: tx.session.get()) == "abc"
    assert database.run(lambda tx: tx.memory.get()) == {"strange": [1, 2]}
    assert database.run(lambda tx: tx.provider.get()).current == "claude"
    rows, _ = database.run(lambda tx: tx.ledger.page(0, 9))
    assert rows == [LedgerRow(NOW, "started"), *LEDGER]
    assert database.run(lambda tx: tx.ledger.has(OCCURRENCE))
    assert database.run(lambda tx: tx.session_history.all()) == [event("a"), event("b")]
    inbox = database.run(lambda tx: tx.inbox.get())
    assert inbox.accepted == (typed("open"),)
    assert inbox.running is not None
    assert database.run(lambda tx: tx.inbox.has(InputId("done")))
    assert older.problems == []


def test_the_last_row_of_a_message_counts_in_the_place_of_its_first(older: StoreScene) -> None:
    database = older.open()
    page = database.run(lambda tx: tx.messages.page(9))
    assert [(each.message.id, each.message.text) for each in page] == [
        ("1", "edited"),
        ("2", "hello"),
        ("3", "hello"),
        ("open", "hello"),
    ]


def test_a_message_that_a_crash_left_in_the_inbox_alone_is_in_the_log(older: StoreScene) -> None:
    typed_there = replace(typed("there"), surface="discord")
    write(older.paths.inbox, INBOX_ROWS, Accepted(NOW, typed("here")), Accepted(NOW, typed_there))
    database = older.open()
    shown = [each.message for each in database.run(lambda tx: tx.messages.page(2))]
    assert shown == [typed("here").as_message(), typed_there.as_message()]
    (sent,) = database.run(lambda tx: tx.deliveries.open("discord", 9))
    assert sent.message.id == "here", "what came from a channel is not sent back to it"


def test_ids_on_a_service_become_confirmed_deliveries(older: StoreScene) -> None:
    database = older.open()
    delivery = database.run(lambda tx: tx.deliveries.get("discord", MessageId("2")))
    assert delivery is not None
    assert (delivery.state, delivery.refs) == (DeliveryState.CONFIRMED, ("700", "701"))
    found = database.run(lambda tx: tx.deliveries.by_ref("discord", "600"))
    assert found is not None
    assert found.message.id == "1"
    assert database.run(lambda tx: tx.deliveries.next_edit("discord")) is None


def test_what_was_on_its_way_is_looked_up_before_it_is_sent_again(older: StoreScene) -> None:
    write(
        older.paths.outbox,
        OUTBOX_ROWS,
        Sending(NOW, said(3), fork=SessionId("fork")),
        Tried(NOW, MessageId("3"), ("800",)),
        Sending(NOW, said(4)),
    )
    database = older.open()
    first, second, accepted = database.run(lambda tx: tx.deliveries.open("discord", 9))
    assert (first.message.id, first.is_in_doubt, first.refs) == ("3", True, ("800",))
    assert first.logged.sender.fork == "fork"
    assert (second.message.id, second.is_in_doubt) == ("4", False)
    assert accepted.message.id == "open"
    database.run(lambda tx: tx.channels.join("discord", "account"))
    assert len(database.run(lambda tx: tx.deliveries.open("discord", 9))) == 3
    database.run(lambda tx: tx.channels.leave("discord"))
    assert database.run(lambda tx: tx.deliveries.open("discord", 9)) == []


def test_what_waits_in_the_inbox_alone_does_not_go_back_to_its_channel(older: StoreScene) -> None:
    write(older.paths.inbox, INBOX_ROWS, Accepted(NOW, typed("there", "discord")))
    database = older.open()
    shown = database.run(lambda tx: tx.messages.get(MessageId("there")))
    assert shown is not None
    assert shown.text == "hello"
    assert database.run(lambda tx: tx.deliveries.open("discord", 9)) == []


def test_a_payment_and_a_refund_that_a_crash_cut_off_are_made_once(older: StoreScene) -> None:
    budget = replace(PingBudget.full(NOW), available=3.0, payments=4)
    older.paths.ping_budget.write_bytes(ping_budget_codec(lambda: NOW).encode(budget) or b"")
    write(
        older.paths.outbox,
        OUTBOX_ROWS,
        Sending(NOW, said(5), Charge.TOKEN, payment=3),
        NotSent(NOW, MessageId("5"), "refused", refund=5, service="discord"),
        Sending(NOW, said(6), Charge.TOKEN, payment=6),
    )
    database = older.open()
    after = database.run(lambda tx: tx.budget.get())
    assert (after.available, after.payments) == (3.0, 6)
    assert any("refused" in sentence for sentence in older.problems)
    database.close()
    again = older.open().run(lambda tx: tx.budget.get())
    assert again == after
    stored = json.loads(older.paths.ping_budget.read_text())
    assert stored["payments"] == 6


def test_the_originals_are_kept_apart(older: StoreScene) -> None:
    ledger = older.paths.ledger.read_bytes()
    older.open().close()
    kept = older.state / BEFORE
    assert (kept / "ledger.jsonl").read_bytes() == ledger
    assert {path.name for path in kept.iterdir()} == {
        *("ledger.jsonl", "ledger-2026-10.jsonl", "messages.jsonl", "inbox.jsonl"),
        *("memory.json", "sessions.json", "session_history.jsonl"),
    }
    assert not older.paths.ledger.exists()
    assert older.paths.sessions.read_text() == "abc"
    assert older.open().run(lambda tx: tx.ledger.count()) == 3
    assert older.problems == []


def test_a_crash_before_the_originals_were_moved_repeats_nothing(older: StoreScene) -> None:
    originals = {path: path.read_bytes() for path in older.state.glob("*.jsonl")}
    database = older.open()
    # The state between the commit and the move.
    database.run(lambda tx: tx.meta.put("takeover", "moving"))
    database.close()
    for path, content in originals.items():
        if path.name != "session_history.jsonl":
            path.write_bytes(content)
    database = older.open()
    assert database.run(lambda tx: tx.ledger.count()) == 3
    assert not older.paths.ledger.exists()


def test_files_that_an_older_version_wrote_later_are_told_and_left(older: StoreScene) -> None:
    older.open().close()
    write(older.paths.ledger, LEDGER_ROWS, LedgerRow(NOW, "noted"))
    assert older.open().run(lambda tx: tx.ledger.count()) == 3
    assert older.paths.ledger.exists()
    assert "older" in older.problems[0]


def test_bad_lines_are_counted_and_kept_in_the_originals(older: StoreScene) -> None:
    with older.paths.ledger.open("ab") as file:
        file.write(b"{ torn")
    older.open().close()
    assert "1 line could not be read" in older.problems[0]
    assert (older.state / BEFORE / "ledger.jsonl").read_bytes().endswith(b"{ torn")


def test_a_memory_that_cannot_be_understood_is_set_aside(older: StoreScene) -> None:
    older.paths.memory.write_text("[]")
    assert older.open().run(lambda tx: tx.memory.get()) == {}
    assert len(list(older.state.glob("memory.json.corrupt-*"))) == 1
    assert "memory.json" in older.problems[0]


def test_a_new_directory_has_nothing_to_take_over(scene: StoreScene) -> None:
    scene.open().close()
    assert not (scene.state / BEFORE).exists()
    assert scene.problems == []


def test_an_input_of_long_ago_is_still_known(older: StoreScene) -> None:
    late = Accepted(NOW + timedelta(days=9), typed("done"))
    inbox = older.open().run(lambda tx: tx.inbox.append(late))
    assert inbox.accepted == (typed("open"),)
