"""The due items: those that wait for an answer, and the answered ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.job_kinds import OccurrenceKind
from ollim_bot.kernel.base.text import FROM_UNTRUSTED
from ollim_bot.kernel.store.codecs.plain import decode_plain, encode_plain
from ollim_bot.kernel.store.connection import Statements, Value, look_up, microseconds
from ollim_bot.kernel.store.file_store import parse_object

if TYPE_CHECKING:
    from ollim_bot.kernel.store.message_log import MessageLog
    from ollim_bot.kernel.values.due_items import DueItem


def find_item(statements: Statements, key: str) -> DueItem | None:
    """The item that the buttons with this key mean."""
    item = _row(statements, key)
    return find_item(statements, item.same_as) if item is not None and item.same_as else item


def _row(statements: Statements, key: str) -> DueItem | None:
    return next(iter(_found(statements, "WHERE key = ?", key)), None)


class DueItems:
    """A change of an item is a change of the messages that show it."""

    def __init__(self, statements: Statements, log: Callable[[], MessageLog]) -> None:
        self._statements = statements
        self._log = log

    def get(self, key: str) -> DueItem | None:
        """The item that the buttons with this key mean."""
        return find_item(self._statements, key)

    def get_open(self, key: str) -> DueItem | None:
        """As `get`, but only an item that has no answer."""
        item = self.get(key)
        return item if item is not None and item.is_open else None

    def add(self, item: DueItem) -> bool:
        """Add the item; False if its occurrence has one already."""
        if self.get(item.key) is not None:
            return False
        self.put(item)
        return True

    def put(self, item: DueItem) -> None:
        """Add the item, or replace the one of the same occurrence."""
        known = _row(self._statements, item.key)
        cards = {each.card for each in (known, item) if each is not None and each.card}
        shown = [self._log().logged(each) for each in cards]
        self._statements.write(
            "due_items",
            "INSERT INTO due_items (key, due, is_open, answered_at, again_at, undo_until, value)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET"
            " is_open = excluded.is_open, answered_at = excluded.answered_at,"
            " again_at = excluded.again_at, undo_until = excluded.undo_until,"
            " value = excluded.value",
            item.key,
            microseconds(item.due),
            int(item.is_open),
            _number(item.answered_at),
            _number(item.again_at if item.is_open else None),
            _number(item.undo_until),
            encode_plain(item).decode(),
        )
        for before in filter(None, shown):
            if self._log().logged(before.message.id) != before:
                self._log().touch(before)

    def open(self) -> list[DueItem]:
        """The items without an answer, the earliest first."""
        return self._found("WHERE is_open = 1 ORDER BY due")

    def open_occurrences(self) -> set[str]:
        """The occurrences of the items without an answer."""
        rows = self._statements.rows("SELECT value FROM due_items WHERE is_open = 1")
        return {str(parse_object(row[0].encode())["occurrence"]) for row in rows}

    def answered_since(self, moment: datetime) -> list[DueItem]:
        """The items that were answered since then, in the order of their answers."""
        since = microseconds(moment)
        return self._found("WHERE answered_at >= ? ORDER BY answered_at", since)

    def of_job(self, kind: OccurrenceKind, job_id: str) -> list[DueItem]:
        """The items of a job, the newest first. Reads all items."""
        found = self._found("WHERE instr(value, ?) > 0 ORDER BY due DESC", f"{kind}:{job_id}:")
        return [each for each in found if each.is_of(kind, job_id) and not each.same_as]

    def put_off_to(self, reminder: str) -> DueItem | None:
        """The item for which a snooze made the reminder with this id."""
        found = self._found("WHERE instr(value, ?) > 0", f'"{reminder}"')
        return next((each for each in found if each.copy == reminder), None)

    def due_since(self, moment: datetime) -> list[DueItem]:
        """The items that were due since then, the earliest first."""
        return self._found("WHERE due >= ? ORDER BY due", microseconds(moment))

    def with_undo(self) -> list[DueItem]:
        """The items whose message offers Undo, the one that offers it shortest first."""
        return self._found("WHERE undo_until IS NOT NULL ORDER BY undo_until")

    def to_come_again(self) -> list[DueItem]:
        """The open items that have a next time, the earliest first."""
        return self._found("WHERE again_at IS NOT NULL ORDER BY again_at")

    def _found(self, condition: str, *arguments: Value) -> list[DueItem]:
        return _found(self._statements, condition, *arguments)


def _number(moment: datetime | None) -> int | None:
    return None if moment is None else microseconds(moment)


def _found(statements: Statements, condition: str, *arguments: Value) -> list[DueItem]:
    rows = statements.rows(f"SELECT value FROM due_items {condition}", *arguments)
    return [_item(row[0]) for row in rows]


@lru_cache(maxsize=256)
def _item(value: str) -> DueItem:
    """All open items are read whenever one of them changes."""
    item: DueItem = decode_plain(look_up("kernel.values.due_items:DueItem"), value.encode())
    # An item that version 0.12 wrote has the words of an untrusted reminder as its title.
    return replace(item, title=FROM_UNTRUSTED) if item.untrusted else item
