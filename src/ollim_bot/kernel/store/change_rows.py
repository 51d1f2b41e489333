"""The rows of changes, and the text that each watched file had last."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta

from ollim_bot.kernel.store.codecs.plain import decode_plain, encode_plain
from ollim_bot.kernel.store.connection import Statements, Value, escaped, microseconds, unescaped
from ollim_bot.kernel.values.changes import (
    KEPT_FOR,
    MOST_ROWS,
    SETTING,
    ChangeFilter,
    Changer,
    ChangeRow,
    KeptChange,
)
from ollim_bot.kernel.values.runtime_config import CONFIG_KEYS, RuntimeConfig

_TABLE = "changes"
PUT_CHANGE = (
    "INSERT INTO changes (seq, key, at, place, undoes, is_unseen, value)"
    " VALUES ((SELECT coalesce(max(seq), 0) + 1 FROM changes), ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value, is_unseen = excluded.is_unseen"
)
REMOVE_OLD_CHANGES = "DELETE FROM changes WHERE at < ? OR seq <= (SELECT max(seq) FROM changes) - ?"
REMOVE_CHANGE = "DELETE FROM changes WHERE key = ?"
REMEMBER_FILE = (
    "INSERT INTO known_files (path, stamp, text) VALUES (?, ?, ?) ON CONFLICT (path)"
    " DO UPDATE SET stamp = excluded.stamp, text = excluded.text"
)
_PLAIN = re.compile(r"[\w .,:;!?()-]*")
# A write is marked so long after it is noted, or before it is found, at most.
_MARK_IS_LATER, _MARK_IS_OLDER = timedelta(minutes=1), timedelta(days=1)
# Follows every number of a row.
_PAST_ALL = 2**62
# Follows every letter of a key.
_LAST_LETTER = "~"


class ChangeRows:
    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def put(self, change: ChangeRow) -> None:
        """Add the change, or replace the one with the same key; changes that are too old go."""
        kept = change.bounded()
        self._statements.write(_TABLE, PUT_CHANGE, *encoded_row(kept))
        self._statements.write(
            _TABLE, REMOVE_OLD_CHANGES, microseconds(kept.at - KEPT_FOR), MOST_ROWS
        )

    def new_key(self, place: str) -> str:
        """A key that no change has: the same one if the step is run again."""
        seq = self._statements.number("SELECT max(seq) FROM changes") + 1
        return hashlib.sha256(f"{seq} {place}".encode("utf-8", "surrogatepass")).hexdigest()[:8]

    def _found(self, condition: str, *arguments: Value) -> list[ChangeRow]:
        rows = self._statements.rows(f"SELECT value FROM changes {condition}", *arguments)
        return [decode_plain(ChangeRow, row[0].encode()) for row in rows]

    def find(self, key: str) -> ChangeRow | None:
        return next(iter(self._found("WHERE key = ?", key)), None)

    def beginning(self, letters: str) -> list[ChangeRow]:
        """The changes whose keys begin so."""
        first = escaped(letters)
        last = f"{first}{_LAST_LETTER}"
        return self._found("WHERE key >= ? AND key < ? ORDER BY seq + 0", first, last)

    def newest(self, limit: int) -> list[ChangeRow]:
        """The newest changes, the newest first."""
        return self._found("ORDER BY seq DESC LIMIT ?", limit)

    def likely(self, who: str, words: str, limit: int, before: str = "") -> list[ChangeRow]:
        """The newest changes that `who` may have made and that may have the words.

        Empty ones fit every change. Only changes older than the one with the key `before` are
        read, if it is given.
        """
        # Other letters are written in more than one way.
        sought = words.lower() if words.isascii() and _PLAIN.fullmatch(words) else ""
        return self._found(
            "WHERE seq < coalesce((SELECT seq FROM changes WHERE key = ?), ?)"
            " AND instr(value, ?) > 0 AND instr(lower(value), ?) > 0 ORDER BY seq DESC LIMIT ?",
            *(before, _PAST_ALL, f'"{who}"' if who else "", sought, limit),
        )

    def last_of(self, place: str) -> ChangeRow | None:
        found = self._found("WHERE place = ? ORDER BY seq DESC LIMIT 1", escaped(place))
        return next(iter(found), None)

    def may_be_of_others(self, place: str, text: str | None, since: datetime) -> bool:
        """Whether this text of a file, which is marked `since`, may have words of others."""
        rows = self._found("WHERE place = ? ORDER BY seq", escaped(place))
        known: dict[str | None, bool] = {None: False}
        # The write that was marked may be older than all that is kept.
        is_theirs = bool(rows) and since < rows[0].at - _MARK_IS_OLDER
        for each in rows:
            is_theirs = is_theirs if each.is_cut else known.setdefault(each.before, is_theirs)
            if each.undoes:
                is_theirs = known.get(each.after, is_theirs)
            else:
                is_careful = bool(each.untrusted) or each.at >= since - _MARK_IS_LATER
                is_theirs = each.by is Changer.AGENT and (is_theirs or is_careful)
            known[each.after] = is_theirs and each.after is not None
        return known.get(text, True)

    def is_undone(self, key: str) -> bool:
        """Whether the change was undone, and that was not undone itself."""
        # The index has only the changes that undo another one.
        rows = self._statements.rows(
            "SELECT key FROM changes WHERE undoes = ? AND undoes != ''", key
        )
        return any(not self.is_undone(row[0]) for row in rows)

    def undo_of(self, key: str) -> ChangeRow | None:
        """The newest change that undoes this one."""
        newest = "WHERE undoes = ? AND undoes != '' ORDER BY seq DESC LIMIT 1"
        return next(iter(self._found(newest, key)), None)

    def unseen(self) -> list[ChangeRow]:
        """The changes by commands of the agent that the owner was not shown, oldest first."""
        return self._found("WHERE is_unseen = 1 ORDER BY seq")

    def remove(self, key: str) -> None:
        self._statements.write(_TABLE, REMOVE_CHANGE, key)

    def known(self, path: str) -> tuple[str, str | None] | None:
        """The stamp and the text that the file had last; None if it was never looked at."""
        found = self._statements.row(
            "SELECT stamp, text FROM known_files WHERE path = ?", escaped(path)
        )
        if found is None:
            return None
        return str(found[0]), None if found[1] is None else unescaped(found[1])

    def remember(self, path: str, text: str | None, stamp: str = "") -> None:
        self._statements.write(
            "known_files",
            REMEMBER_FILE,
            escaped(path),
            stamp,
            None if text is None else escaped(text),
        )

    def stamps(self) -> dict[str, str]:
        """The stamp of each file that is known to be there."""
        rows = self._statements.rows("SELECT path, stamp FROM known_files WHERE text IS NOT NULL")
        return {unescaped(row[0]): str(row[1]) for row in rows}


def encoded_row(change: ChangeRow) -> tuple[Value, ...]:
    """The arguments of `PUT_CHANGE`."""
    return (
        change.key,
        microseconds(change.at),
        escaped(change.place),
        change.undoes,
        int(bool(change.session)),
        encode_plain(change).decode(),
    )


def note_settings(
    rows: ChangeRows,
    before: RuntimeConfig,
    after: RuntimeConfig,
    by: Changer,
    at: datetime,
    undoes: str = "",
) -> None:
    """Add a change for each setting that differs."""
    for name in CONFIG_KEYS:
        old, new = before.in_words(name), after.in_words(name)
        if old != new:
            place = f"{SETTING}:{name}"
            key = rows.new_key(place)
            rows.put(ChangeRow(key, at, place, by, old, new, undoes=undoes))


# How many rows are read at once.
_CHUNK = 500


def newest_changes(
    rows: ChangeRows, limit: int, meant: ChangeFilter | None = None
) -> list[KeptChange]:
    """The newest changes that are meant, the newest first."""
    wanted = meant or ChangeFilter()
    found: list[ChangeRow] = []
    if wanted == ChangeFilter():
        found = rows.newest(limit)
    else:
        chunk, before = min(limit, _CHUNK), ""
        while len(found) < limit and (some := rows.likely(wanted.who, wanted.words, chunk, before)):
            found += filter(wanted.has, some)
            before = some[-1].key
    return [KeptChange(each, rows.is_undone(each.key)) for each in found[:limit]]
