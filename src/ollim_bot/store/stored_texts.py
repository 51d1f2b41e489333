"""Every text in the database, whichever table has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ollim_bot.domain.forgetting import Passage
from ollim_bot.store.connection import Statements, escaped, unescaped
from ollim_bot.store.file_store import Malformed, parse_json, render_json
from ollim_bot.store.messages import TABLES
from ollim_bot.store.records import RECORDS, store_record

_RECORDS = "records"
_LOG = "messages"
# Columns that hold ids and words of the program, whatever the table.
_NAMES = frozenset(
    {
        *("channel", "charge", "custom_id", "ended", "fork", "hash", "hook", "id", "identity"),
        *("key", "kind", "message", "name", "nonce", "occurrence", "parent", "ref", "session"),
        *("state", "tried_at", "turn"),
    }
)


class _Cell(NamedTuple):
    table: str
    column: str
    row: int
    before: str
    after: str


class StoredTexts:
    """Finds and replaces words in all rows. Ids and states of the program are left as they are."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def count(self, passage: Passage) -> Counter[str]:
        """How many rows of each table have the words."""
        found = {(cell.table, cell.row) for cell in self._cells(passage)}
        return Counter(table for table, _ in found)

    def names_with(self, passage: Passage) -> list[str]:
        """The ids that have the words; they stay."""
        found = (
            value
            for table in self._tables()
            for column in self._columns(table)
            if column in _NAMES
            for _, value in self._values(table, column, passage)
            if passage.is_in(_readable(value))
        )
        return sorted(dict.fromkeys(found))

    def forget(self, passage: Passage) -> None:
        """Replace the words in every row. The rows stay, and so does their order."""
        specs = {spec.name: spec for spec in RECORDS}
        for cell in [*self._cells(passage)]:
            if cell.table == _RECORDS:
                where = "SELECT name FROM records WHERE rowid = ?"
                found = self._statements.row(where, cell.row)
                spec = None if found is None else specs.get(found[0])
                if spec is not None:
                    value, _ = spec.codec.decode(cell.after.encode())
                    store_record(self._statements, spec, spec.codec.encode(value))
                    continue
            self._statements.write(
                cell.table,
                f"UPDATE {cell.table} SET {cell.column} = ? WHERE rowid = ?",
                cell.after,
                cell.row,
            )
        self._statements.write(_LOG, "DELETE FROM search_state")

    def _cells(self, passage: Passage) -> Iterator[_Cell]:
        for table in self._tables():
            for column in self._columns(table):
                if column in _NAMES:
                    continue
                for row, before in self._values(table, column, passage):
                    after = _without(before, passage)
                    if after != before:
                        yield _Cell(table, column, row, before, after)

    def _tables(self) -> list[str]:
        rows = self._statements.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
        return [row[0] for row in rows if not str(row[0]).startswith(("sqlite_", TABLES))]

    def _columns(self, table: str) -> list[str]:
        return [str(row[1]) for row in self._statements.rows(f"PRAGMA table_info({table})")]

    def _values(self, table: str, column: str, passage: Passage) -> list[tuple[int, str]]:
        """The texts that may have the words, each with its row."""
        where = (
            f"SELECT rowid, {column} FROM {table}"
            f" WHERE typeof({column}) = 'text' AND instr(lower({column}), ?) > 0"
        )
        return [(int(row[0]), str(row[1])) for row in self._statements.rows(where, passage.rarest)]


def _without(stored: str, passage: Passage) -> str:
    if stored[:1] in ("{", "[", '"'):
        try:
            value = parse_json(stored.encode())
        except Malformed:
            return passage.cut_from(stored)
        after = passage.cut_from_value(value)
        return stored if after is value else render_json(after).decode()
    readable = _readable(stored)
    after = passage.cut_from(readable)
    return stored if after == readable else escaped(after)


def _readable(stored: str) -> str:
    try:
        return unescaped(stored)
    except ValueError:
        return stored
