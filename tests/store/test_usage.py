"""The usage rows, and the costs of an older version in their place."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from ollim_bot.domain.chat import Author, ChatMessage, MessageId, TurnCost, TurnId
from ollim_bot.domain.jobs import JobKind
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.provider import Price
from ollim_bot.domain.usage import UsageKind, UsageRow
from ollim_bot.paths import DataPaths
from ollim_bot.store.data_directory import prepare_data_directory
from ollim_bot.store.database import Database
from ollim_bot.store.opening import DATABASE, open_database
from ollim_bot.store.schema import FILE_TABLES
from ollim_bot.store.transaction import Transaction

NOW = datetime(2026, 11, 17, 12, tzinfo=ZoneInfo("Europe/Berlin"))
RUN = Occurrence.scheduled(JobKind.ROUTINE, "morning", NOW)


def opened(paths: DataPaths) -> Database:
    return open_database(paths, lambda: NOW, is_holder=True, report=print)


def spent(at: datetime, micros: int, price: Price = Price.LISTED) -> UsageRow:
    return UsageRow(at, UsageKind.RUN, "haiku \ud83d", price, micros, 7, "", RUN.id)


def test_rows_are_kept_whole_and_added_up_from_a_moment_on(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    prepare_data_directory(paths)
    rows = [spent(NOW - timedelta(days=1), 5), spent(NOW, 10), spent(NOW, 3, Price.INCLUDED)]
    with closing(opened(paths)) as database:
        database.run(lambda tx: tx.usage.add(*rows))
        assert database.query(lambda tx: tx.usage.since(NOW)) == rows[1:]
        assert database.query(lambda tx: tx.usage.of_occurrence(RUN.id)) == rows
        assert database.query(lambda tx: tx.usage.cost_since(NOW)) == 13
        assert database.query(lambda tx: tx.usage.page(1, 1)) == (rows[1:2], 2)
        assert database.query(lambda tx: tx.usage.page(3, 1)) == ([], 3)


def test_it_is_known_when_an_amount_was_reached(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    prepare_data_directory(paths)
    later = NOW + timedelta(hours=1)
    with closing(opened(paths)) as database:
        database.run(lambda tx: tx.usage.add(spent(NOW, 10), spent(later, 3)))
        assert database.query(lambda tx: tx.usage.reached_at(NOW, 10)) == NOW.astimezone(UTC)
        assert database.query(lambda tx: tx.usage.reached_at(NOW, 11)) == later.astimezone(UTC)
        assert database.query(lambda tx: tx.usage.reached_at(NOW, 14)) is None


def before_usage_rows(tx: Transaction) -> None:
    """What a version without usage rows has kept of its costs."""
    for number, (cost, in_fork) in enumerate(((0.25, False), (0.5, True), (0.0, False))):
        tx.messages.add(
            ChatMessage(
                MessageId(str(number)),
                NOW,
                Author.ASSISTANT,
                'It says "cost_usd": 9.',
                turn=TurnId(f"t{number}"),
                spent=TurnCost(cost, 900),
                in_fork=in_fork,
            )
        )
    in_answer = {"cost_usd": 0.25, "cost_in_answer": True}
    tx.ledger.append(
        LedgerRow(NOW - timedelta(days=1), "attempt_failed", RUN, {"cost_usd": 0.000001}),
        LedgerRow(NOW, "done", RUN, {"cost_usd": 1, "tokens": 50}),
        LedgerRow(NOW, "done", Occurrence.scheduled(JobKind.ROUTINE, "talk", NOW), in_answer),
        LedgerRow(
            NOW, "done", Occurrence.scheduled(JobKind.ROUTINE, "odd", NOW), {"cost_usd": "x"}
        ),
    )


def test_the_costs_of_the_version_before_are_usage_rows_after_the_update(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    prepare_data_directory(paths)
    with closing(opened(paths)) as database:
        database.run(before_usage_rows)
    with closing(sqlite3.connect(paths.state / DATABASE)) as connection, connection:
        for table in ("usage", "changes", "known_files", "push_buttons", *FILE_TABLES):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version=4")
        damaged = json.dumps({"spent": {"cost_usd": True}})[:-1]
        connection.execute("UPDATE messages SET value = ? WHERE id = '2'", (damaged,))
    for _ in range(2):
        with closing(opened(paths)) as database:
            rows = database.query(lambda tx: tx.usage.since(NOW - timedelta(days=9)))
            assert [(row.kind, row.turn, row.occurrence, row.micros) for row in rows] == [
                ("run", "", RUN.id, 1),
                ("turn", "t0", "", 250_000),
                ("fork", "t1", "", 500_000),
                ("run", "", RUN.id, 1_000_000),
            ]
            assert {row.price for row in rows} == {Price.LISTED}
