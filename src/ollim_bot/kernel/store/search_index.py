"""The search index of the message log."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ollim_bot.kernel.store.connection import (
    Row,
    Statements,
    Value,
    connect_in_memory,
    escaped,
    microseconds,
    unescaped,
)
from ollim_bot.kernel.values.search import Search, Term, folded_words, searched_text, who_spoke

if TYPE_CHECKING:
    from ollim_bot.kernel.values.chat import ChatMessage

SESSION = (
    "coalesce(messages.session, (SELECT answer.session FROM messages AS answer"
    " WHERE answer.seq > messages.seq AND answer.turn IS NOT NULL"
    " AND answer.session IS NOT NULL ORDER BY answer.seq LIMIT 1))"
)
# The name of a change of the index, for subscribers: it changes with the log only.
LOG = "messages"
# The number of the way in which messages are indexed. An index of another number is made again.
INDEX_VERSION = 1
# Only the newest matches are ranked: a word that most messages have would take long.
RANKED = 2000


@cache
def can_index() -> bool:
    """Whether the SQLite of this machine has full-text search."""
    try:
        with closing(connect_in_memory()) as connection:
            connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
    except sqlite3.OperationalError:
        return False
    return True


class FoundRow(NamedTuple):
    """A message as a search shows it; `untrusted` is its source and what is known about it."""

    at: datetime
    who: str
    session: str
    text: str
    id: str
    untrusted: tuple[str, str] | None = None


class SearchIndex:
    """The words of every message by its `seq`; it is empty where SQLite has no full-text search."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    @property
    def is_used(self) -> bool:
        """Whether every message is indexed, so that `find` can answer."""
        found = self._statements.row("SELECT version FROM search_state")
        return found is not None and found[0] == INDEX_VERSION

    def begin(self, *, is_supported: bool) -> bool:
        """Prepare the index at a start; True if every message is to be added to it now."""
        if not is_supported:
            self._statements.write(LOG, "DELETE FROM search_state")
            return False
        if self.is_used:
            return False
        self._statements.write(LOG, "DROP TABLE IF EXISTS search")
        self._statements.write(
            LOG,
            "CREATE VIRTUAL TABLE search USING fts5(who, text, content='',"
            " tokenize='unicode61 remove_diacritics 2')",
        )
        self._statements.write(LOG, "DELETE FROM search_state")
        self._statements.write(LOG, "INSERT INTO search_state (version) VALUES (?)", INDEX_VERSION)
        return True

    def add(self, seq: int, message: ChatMessage) -> None:
        if self.is_used:
            self._statements.write(
                LOG, "INSERT INTO search (rowid, who, text) VALUES (?, ?, ?)", seq, *row_of(message)
            )

    def replace(self, seq: int, before: ChatMessage, after: ChatMessage) -> None:
        if self.is_used and row_of(before) != row_of(after):
            self._statements.write(
                LOG,
                "INSERT INTO search (search, rowid, who, text) VALUES ('delete', ?, ?, ?)",
                seq,
                *row_of(before),
            )
            self.add(seq, after)

    def rows(self, search: Search) -> list[FoundRow]:
        """The best matches as plain rows, for a reader that has no time to decode messages."""
        columns = f"SELECT value, {SESSION} FROM messages WHERE seq = ?"
        found = (self._statements.row(columns, seq) for seq in self.find(search))
        return [_found_row(row) for row in found if row is not None]

    def find(self, search: Search) -> list[int]:
        """The best matches by `seq`, newer ones first among equals."""
        conditions, arguments = conditions_of(search)
        words = " AND ".join(map(_quoted, search.terms))
        speaker = "" if search.who is None else f'{{who}} : "{search.who.value}" AND '
        rows = self._statements.rows(
            "SELECT seq FROM (SELECT messages.seq AS seq, bm25(search, 0.0, 1.0) AS worth"
            " FROM search JOIN messages ON messages.seq = search.rowid"
            f" WHERE search MATCH ? {conditions} ORDER BY search.rowid DESC LIMIT {RANKED})"
            " ORDER BY round(worth, 1), seq DESC LIMIT ?",
            f"{speaker}{{text}} : ({words})",
            *arguments,
            search.limit,
        )
        return [int(row[0]) for row in rows]


def row_of(message: ChatMessage) -> tuple[str, str]:
    """Who said it, and its folded words with a space between them."""
    words = folded_words(searched_text(message))
    return who_spoke(message.author).value, " ".join(word for word, _, _ in words)


def _quoted(term: Term) -> str:
    phrase = " ".join(term.words).replace('"', "")
    return f'"{phrase}"{" *" if term.is_beginning else ""}'


def conditions_of(search: Search) -> tuple[str, list[Value]]:
    """Conditions on the table `messages`, each after `AND`, and their arguments."""
    conditions: list[str] = []
    arguments: list[Value] = []
    if search.since is not None:
        since = microseconds(search.since)
        conditions += [
            "messages.seq >= (SELECT min(seq) FROM messages WHERE at >= ?)",
            "messages.at >= ?",
        ]
        arguments += [since, since]
    if search.until is not None:
        until = microseconds(search.until)
        conditions += [
            "messages.seq <= (SELECT max(seq) FROM messages WHERE at < ?)",
            "messages.at < ?",
        ]
        arguments += [until, until]
    if search.session is not None:
        conditions.append(f"{SESSION} = ?")
        arguments.append(escaped(search.session))
    return "".join(f" AND {each}" for each in conditions), arguments


def _found_row(row: Row) -> FoundRow:
    value, session = json.loads(row[0]), row[1]
    untrusted = value.get("untrusted")
    return FoundRow(
        datetime.fromisoformat(value["at"]),
        who_spoke(value["author"]),
        unescaped(session) if session else "",
        value["text"],
        value["id"],
        (untrusted["source"], untrusted["about"]) if untrusted else None,
    )
