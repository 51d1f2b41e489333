"""Every text in the database, whichever table has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from ollim_bot.kernel.store.connection import Row, Statements, escaped, unescaped
from ollim_bot.kernel.store.file_store import Malformed, parse_json, render_json
from ollim_bot.kernel.store.records import RECORDS, store_record
from ollim_bot.kernel.store.schema import Table, tables
from ollim_bot.kernel.values.forgetting import Passage

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
    table: Table
    column: str
    key: Row
    after: str


class StoredTexts:
    """Finds and replaces words in all rows. Ids and states of the program are left as they are."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def count(self, passage: Passage) -> Counter[str]:
        """How many rows of each table have the words."""
        found = {(cell.table.name, cell.key) for cell in self._cells(passage)}
        return Counter(table for table, _ in found)

    def names_with(self, passage: Passage) -> list[str]:
        """The ids that have the words; they stay."""
        found = (
            value
            for table in tables()
            for column in table.columns
            if column in _NAMES & table.texts
            for _, value in self._values(table, column, passage)
            if passage.is_in(_readable(value))
        )
        return sorted(dict.fromkeys(found))

    def forget(self, passage: Passage) -> None:
        """Replace the words in every row. The rows stay, and so does their order."""
        specs = {spec.name: spec for spec in RECORDS}
        for cell in [*self._cells(passage)]:
            spec = specs.get(cell.key[0]) if cell.table.name == "records" else None
            if spec is not None:
                value, _ = spec.codec.decode(cell.after.encode())
                store_record(self._statements, spec, spec.codec.encode(value))
                continue
            is_row = " AND ".join(f"{name} = ?" for name in cell.table.key)
            self._statements.write(
                cell.table.name,
                f"UPDATE {cell.table.name} SET {cell.column} = ? WHERE {is_row}",
                self._free_key(cell) if (cell.column,) == cell.table.key else cell.after,
                *cell.key,
            )
        self._statements.write(_LOG, "DELETE FROM search_state")

    def _free_key(self, cell: _Cell) -> str:
        """The key without the words; numbered, if another row has it by now."""
        sql = f"SELECT count(*) FROM {cell.table.name} WHERE {cell.column} = ?"
        keys = (f"{cell.after}-{number}" if number > 1 else cell.after for number in count(1))
        return next(key for key in keys if not self._statements.number(sql, key))

    def _cells(self, passage: Passage) -> Iterator[_Cell]:
        for table in tables():
            # The key last: the other columns of its row are found by it.
            for column in sorted(table.texts - _NAMES, key=lambda each: (each in table.key, each)):
                for key, before in self._values(table, column, passage):
                    after = _without(before, passage)
                    if after != before:
                        yield _Cell(table, column, key, after)

    def _values(self, table: Table, column: str, passage: Passage) -> list[tuple[Row, str]]:
        """The texts that may have the words, each with the key of its row."""
        may_have = " OR ".join([f"instr(lower({column}), ?) > 0"] * len(passage.hints))
        rows = self._statements.rows(
            f"SELECT {', '.join(table.key)}, {column} FROM {table.name} WHERE {may_have}",
            *passage.hints,
        )
        return [(row[:-1], str(row[-1])) for row in rows]


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
