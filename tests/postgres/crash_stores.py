"""Stores for the crash matrix whose rows are in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from devtools.doubles.memory import RecordingStore
from devtools.doubles.repeating_store import RecordedStatements, RepeatingStore
from tests.postgres_server import leading, new_address

from ollim_bot.kernel.store.schema import tables
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot_standby.postgres.connection import Connection, PostgresStatements, connect_to
from ollim_bot_standby.postgres.search import TsvectorIndex

_PATH = Path("the server")
_NAMES = ("search_state", "search", *(each.name for each in tables()))
_CONTENT = "SELECT " + ", ".join(
    f"(SELECT coalesce(jsonb_agg(row ORDER BY row)::text, '[]')"
    f" FROM (SELECT to_jsonb(one) AS row FROM {name} AS one) AS rows)"
    for name in _NAMES
)


class ServerTables:
    """The tables of one test. They hold the rows of one store; the others keep theirs aside."""

    def __init__(self) -> None:
        address = new_address()
        with leading(address, lambda: datetime.now(UTC)):
            self.connection: Connection = connect_to(address)
        self.empty = self.content()
        self._user: ServerStore | None = None

    def content(self) -> bytes:
        row = self.connection.execute(_CONTENT).fetchone()
        assert row is not None
        return json.dumps(row).encode()

    def serve(self, user: ServerStore) -> Connection:
        """The connection to the tables, with the rows of this store in them."""
        if self._user is not user:
            if self._user is not None:
                self._user.fill(self.content())
            self._user = user
            self._fill(json.loads(user.kept))
        return self.connection

    def _fill(self, content: list[str]) -> None:
        self.connection.execute("BEGIN")
        for name, rows in zip(_NAMES, content, strict=True):
            self.connection.execute(f"DELETE FROM {name}")
            if rows != "[]":
                filled = f"SELECT * FROM jsonb_populate_recordset(NULL::{name}, $1)"
                self.connection.execute(f"INSERT INTO {name} {filled}", (rows,))
        self.connection.execute("COMMIT")


class _RecordedOnServer(PostgresStatements, RecordedStatements):
    pass


class ServerStore(RepeatingStore):
    """A `RepeatingStore` in `tables`, which a test sets before its first store."""

    tables: ServerTables

    def __init__(self, now: Callable[[], datetime], *, is_repeating: bool = True) -> None:
        super().__init__(now, is_repeating=is_repeating)
        self.kept = self.tables.empty

    def begin(self) -> tuple[RecordedStatements, Transaction]:
        self._statements = _RecordedOnServer(self.tables.serve(self), _PATH, ["BEGIN"])
        return self._statements, Transaction(self._statements, self._now(), TsvectorIndex)

    def end(self, word: str) -> None:
        if word == "COMMIT":
            self._statements.send_waiting()
        self.tables.connection.execute(word)

    def content(self) -> bytes:
        self.tables.serve(self)
        return self.tables.content()

    def fill(self, content: bytes) -> None:
        self.kept = content


class ServerRecordingStore(RecordingStore, ServerStore):
    """Records all rows that were appended to the inbox, in order."""
