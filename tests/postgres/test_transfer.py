"""All rows move to PostgreSQL and back unchanged, or none of them do."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from tests.postgres.network import Killed, Network, on_network
from tests.postgres.test_tables import corpus, found
from tests.postgres_server import leading
from tests.store.scene import NOW, StoreScene

from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.errors import WriteFailed
from ollim_bot.store.copies import damage_of
from ollim_bot.store.questions import ask
from ollim_bot.store.schema import tables
from ollim_bot.store.transaction import Transaction
from ollim_bot_standby.postgres.connection import Address
from ollim_bot_standby.postgres.transfer import move_to_file, move_to_server


def filled(folder: Path) -> Path:
    """A database with rows in every table, some of them with NULLs."""
    scene = StoreScene(folder)
    database = scene.open()

    def fill(tx: Transaction) -> None:
        for message in corpus():
            tx.messages.add(message)
        tx.ledger.append(*(LedgerRow(NOW + timedelta(days=day), "noted") for day in range(1100)))

    database.run(fill)
    path = scene.state / "ollim.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table in tables():
            if connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0]:
                continue
            for number in range(3):
                values = [
                    f"{name} \\u00e9 {number}" if name in table.texts else number + 1
                    for name in table.columns
                ]
                places = ", ".join("?" for _ in values)
                connection.execute(f"INSERT INTO {table.name} VALUES ({places})", values)
    scene.close()
    return path


def searched(tx: Transaction) -> dict[str, list[str]]:
    return found(tx, ("water", "ice cream", "strasse"))


def rows_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        return {
            table.name: connection.execute(
                f"SELECT * FROM {table.name} ORDER BY {', '.join(table.key)}"
            ).fetchall()
            for table in tables()
        }


def test_rows_and_searches_are_the_same_after_the_way_there_and_back(
    address: Address, tmp_path: Path
) -> None:
    source, target = filled(tmp_path / "before"), tmp_path / "after" / "state" / "ollim.db"
    before = rows_of(source)
    assert all(before.values())
    with leading(address, lambda: NOW) as (_, database):
        counts = move_to_server(source, database, NOW)
        assert counts == {name: len(rows) for name, rows in before.items()}
        with pytest.raises(WriteFailed, match="already"):
            move_to_server(source, database, NOW)
        assert move_to_server(source, database, NOW, replace=True) == counts
        on_server = database.query(searched)
        target.parent.mkdir(parents=True)
        assert move_to_file(database, target, NOW) == counts
        with pytest.raises(WriteFailed, match="already"):
            move_to_file(database, target, NOW)
    assert rows_of(source) == before
    assert rows_of(target) == before
    assert damage_of(target) is None
    assert target.stat().st_mode & 0o777 == 0o600
    assert ask(StoreScene(tmp_path / "after").paths, NOW, searched) == on_server


def test_a_move_that_is_killed_at_any_table_leaves_nothing(
    address: Address, tmp_path: Path
) -> None:
    source, target = filled(tmp_path), tmp_path / "moved.db"
    network = Network(kills=True)
    names = [table.name for table in tables()][::5]
    with on_network(address, network) as database:
        for word in (*(f"INSERT INTO {name} " for name in names), "COMMIT"):
            network.word = word
            with pytest.raises(Killed):
                move_to_server(source, database, NOW)
            assert database.query(lambda tx: tx.ledger.count() + tx.messages.count()) == 0
        counts = move_to_server(source, database, NOW)
        for name in names:
            network.word = f" FROM {name} ORDER BY"
            with pytest.raises(Killed):
                move_to_file(database, target, NOW)
            assert [*tmp_path.glob("*moved*")] == []
        assert move_to_file(database, target, NOW) == counts
