"""The usage rows: each is kept whole, and they are added up."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.usage import Price, UsageKind, UsageRow
from ollim_bot.paths import DataPaths
from ollim_bot.store.data_directory import prepare_data_directory
from ollim_bot.store.database import Database
from ollim_bot.store.opening import open_database
from ollim_bot.store.questions import DATABASE
from ollim_bot.store.schema import COPIES

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


def test_a_database_from_before_the_usage_rows_gets_their_table(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    prepare_data_directory(paths)
    opened(paths).close()
    with closing(sqlite3.connect(paths.state / DATABASE)) as connection, connection:
        for table in ("usage", "changes", "known_files", "push_buttons", "marks", *COPIES):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version=4")
    with closing(opened(paths)) as database:
        database.run(lambda tx: tx.usage.add(spent(NOW, 10)))
        assert database.query(lambda tx: tx.usage.cost_since(NOW)) == 10
