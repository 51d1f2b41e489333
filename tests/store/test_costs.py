"""The amount that a step reads does not grow with the history."""

from __future__ import annotations

import re
import sqlite3
from datetime import timedelta
from pathlib import Path

from tests.store.scene import NOW, StoreScene

from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.ids import MessageId, SessionId, TurnId
from ollim_bot.domain.inbox import Accepted, Ended, InputEnd, InputId, OwnerMessage, Taken
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.store.connection import connect
from ollim_bot.store.transaction import JobOp, Transaction

ONE = Occurrence.scheduled(JobKind.REMINDER, "call", NOW)
MESSAGE, INPUT = MessageId("m"), InputId("i")
GROWING = ("ledger", "occurrences", "messages", "deliveries", "delivery_refs", "inputs", "job_ops")


def day(tx: Transaction) -> None:
    """Every operation of a usual day, except those that return whole tables."""
    tx.channels.join("discord", "account")
    message = ChatMessage(MESSAGE, NOW, Author.ASSISTANT, "hello", turn=TurnId("t"))
    tx.ledger.claim(ONE, NOW)
    tx.ledger.append(LedgerRow(NOW, "running", ONE))
    tx.ledger.checkpoint(NOW, NOW)
    tx.ledger.armed()
    tx.ledger.story(ONE)
    tx.ledger.rows_since(NOW - timedelta(days=1))
    tx.ledger.tail(10)
    tx.inbox.append(Accepted(NOW, OwnerMessage(INPUT, "web", NOW, "hello")))
    tx.inbox.append(Taken(NOW, TurnId("t"), (INPUT,)), Ended(NOW, (INPUT,), InputEnd.ANSWERED))
    tx.inbox.end_of(INPUT)
    tx.messages.add(message)
    tx.messages.page(10, MESSAGE)
    tx.messages.since_change(0, 10)
    tx.messages.since(NOW)
    tx.messages.of_turn(TurnId("t"))
    tx.messages.of_occurrence(ONE.id)
    tx.messages.newest_of_session(SessionId("s"), 5)
    tx.deliveries.next_open("discord")
    tx.deliveries.next_to_send("discord")
    tx.deliveries.note_try("discord", MESSAGE, [message], NOW)
    tx.deliveries.confirm_part("discord", MESSAGE, "1")
    tx.deliveries.next_edit("discord")
    tx.deliveries.note_shown("discord", MESSAGE, 1)
    tx.deliveries.refuse("discord", MESSAGE, "no", NOW)
    tx.deliveries.by_ref("discord", "1")
    tx.deliveries.refs(MESSAGE)
    tx.deliveries.known_refs("discord", 500)
    tx.job_ops.add(JobOp("1", {}))
    tx.job_ops.pending()
    tx.job_ops.done("1")


def test_no_statement_of_a_usual_day_reads_a_growing_table_from_end_to_end(
    scene: StoreScene,
) -> None:
    statements: list[str] = []
    kept: list[sqlite3.Connection] = []

    def traced(path: Path) -> sqlite3.Connection:
        kept.append(connect(path))
        return kept[-1]

    database = scene.open(connection=traced)
    kept[-1].set_trace_callback(statements.append)
    database.run(day)
    kept[-1].set_trace_callback(None)
    usual = {each for each in statements if each.startswith(("SELECT", "INSERT", "UPDATE"))}
    assert len(usual) > 40
    for statement in usual:
        for _, _, _, plan in kept[-1].execute(f"EXPLAIN QUERY PLAN {statement}"):
            scanned = re.fullmatch(r"SCAN (\w+)", plan)
            is_whole = scanned is not None and scanned[1] in GROWING and "LIMIT" not in statement
            assert not is_whole, f"{plan}: {statement}"
