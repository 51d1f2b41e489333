"""The message log: all messages in one order, each under one id, and its search index."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import NamedTuple

from ollim_bot.domain.chat import ChatMessage, MessageId, TurnId
from ollim_bot.domain.forks import end_id, entry_id
from ollim_bot.domain.pings import Charge
from ollim_bot.domain.search import Search, Speaker, Term, folded_words, searched_text, who_spoke
from ollim_bot.domain.sessions import SessionId
from ollim_bot.store.codecs.messages import CHAT_MESSAGES
from ollim_bot.store.connection import (
    Row,
    Statements,
    Value,
    connect_in_memory,
    escaped,
    microseconds,
    unescaped,
)

# The session of an answer is known; a message of the owner belongs to that of the next answer.
_READ_FOR_OPENING = 10
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
                LOG,
                "INSERT INTO search (rowid, who, text) VALUES (?, ?, ?)",
                seq,
                *row_of(message),
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
        rows = self._statements.rows(
            "SELECT seq FROM (SELECT messages.seq AS seq, bm25(search, 0.0, 1.0) AS worth"
            " FROM search JOIN messages ON messages.seq = search.rowid"
            f" WHERE search MATCH ? {conditions} ORDER BY search.rowid DESC LIMIT {RANKED})"
            " ORDER BY round(worth, 1), seq DESC LIMIT ?",
            _expression(search),
            *arguments,
            search.limit,
        )
        return [int(row[0]) for row in rows]


def row_of(message: ChatMessage) -> tuple[str, str]:
    """Who said it, and its folded words with a space between them."""
    words = folded_words(searched_text(message))
    return who_spoke(message.author).value, " ".join(word for word, _, _ in words)


def _expression(search: Search) -> str:
    words = " AND ".join(map(_quoted, search.terms))
    speaker = "" if search.who is None else f'{{who}} : "{search.who.value}" AND '
    return f"{speaker}{{text}} : ({words})"


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


_COLUMNS = "value, seq, change, charge, fork, parent"
_PAGE = 500
_ALL = 2**40


@dataclass(frozen=True, slots=True)
class Sender:
    """What a message cost, and its session if that is not the main one."""

    charge: Charge = Charge.NOTHING
    fork: SessionId | None = None
    parent: SessionId | None = None


MAIN = Sender()


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    """A message with its place in the log.

    `seq` is its place in the order of the log. `change` grows with every message that is added or
    edited, and is the number of its own last change.
    """

    message: ChatMessage
    seq: int
    change: int
    sender: Sender = MAIN


class MessageLog:
    """The log. Every addition and edit takes the next number of one counter, for readers to follow.

    The log keeps no `refs`: the deliveries know where a message arrived.
    """

    def __init__(self, statements: Statements, index: type[SearchIndex] | None = None) -> None:
        self._statements = statements
        self._index = (index or SearchIndex)(statements)

    def add(self, message: ChatMessage, sender: Sender = MAIN) -> LoggedMessage:
        """Append a message to the log, with an open delivery for each joined channel.

        If the id exists, the earlier message keeps its place and gets the new content, and `sender`
        is ignored; every channel that shows the earlier content has to edit it.
        """
        message = replace(message, refs={})
        known = self.logged(message.id)
        if known is None:
            return self._inserted(message, sender)
        if known.message == message:
            return known
        return self._edited(message, known)

    def get(self, message_id: MessageId) -> ChatMessage | None:
        found = self.logged(message_id)
        return None if found is None else found.message

    def logged(self, message_id: MessageId) -> LoggedMessage | None:
        found = self._found("WHERE id = ?", escaped(message_id))
        return found[0] if found else None

    def page(self, limit: int, before: MessageId | None = None) -> list[LoggedMessage]:
        """The newest messages, or those before `before`, oldest first; none if it is unknown."""
        if before is None:
            return self._found("ORDER BY seq DESC LIMIT ?", limit)[::-1]
        if (found := self.logged(before)) is None:
            return []
        return self._found("WHERE seq < ? ORDER BY seq DESC LIMIT ?", found.seq, limit)[::-1]

    def newest(self, limit: int) -> Iterator[LoggedMessage]:
        """The newest messages, newest first. None is read before it is asked for."""
        sql = f"SELECT {_COLUMNS} FROM messages ORDER BY seq DESC LIMIT ?"
        for row in self._statements.rows(sql, limit):
            yield from logged_messages([row])

    def around(self, message_id: MessageId, limit: int) -> list[LoggedMessage]:
        """The message with `limit` messages before and after it; none if it is unknown."""
        found = self.logged(message_id)
        if found is None:
            return []
        return [*self.page(limit, message_id), found, *self.after(found.seq, limit)]

    def since_change(self, change: int, limit: int) -> list[LoggedMessage]:
        """The messages added or edited after `change`, in the order of the changes."""
        return self._found("WHERE change > ? ORDER BY change LIMIT ?", change, limit)

    def after(self, seq: int, limit: int) -> list[LoggedMessage]:
        return self._found("WHERE seq > ? ORDER BY seq LIMIT ?", seq, limit)

    def since(self, moment: datetime) -> list[LoggedMessage]:
        """The messages not older than `moment`, in the order of the log."""
        # `seq + 0` keeps SQLite from reading the whole log in its order instead of sorting a part.
        return self._found("WHERE at >= ? ORDER BY seq + 0", microseconds(moment))

    def of_turn(self, turn: TurnId) -> list[LoggedMessage]:
        return self._found("WHERE turn = ? ORDER BY seq", escaped(turn))

    def of_occurrence(self, occurrence: str) -> list[LoggedMessage]:
        return self._found("WHERE occurrence = ? ORDER BY seq", escaped(occurrence))

    def newest_of_session(self, session: SessionId, limit: int) -> list[LoggedMessage]:
        """The newest messages of the session, newest first."""
        return self._found("WHERE session = ? ORDER BY seq DESC LIMIT ?", escaped(session), limit)

    def count_of_session(self, session: SessionId) -> int:
        """How many answers were given in the session."""
        count = "SELECT count(*) FROM messages WHERE session = ?"
        return self._statements.number(count, escaped(session))

    def entry_of_fork(self, session: SessionId) -> ChatMessage | None:
        """The card with which the fork of this session began; None before its first answer."""
        bound = "SELECT min(seq) FROM messages WHERE session = ?"
        first = self._statements.number(bound, escaped(session))
        found = self._found(
            "WHERE seq < ? AND id LIKE ? AND id NOT LIKE ? ORDER BY seq DESC LIMIT 1",
            first,
            f"{entry_id('')}%",
            f"{end_id('')}%",
        )
        return found[0].message if found else None

    def session_of(self, logged: LoggedMessage) -> SessionId | None:
        """The session that the message belongs to; None if it was never answered."""
        found = self._statements.row(f"SELECT {SESSION} FROM messages WHERE seq = ?", logged.seq)
        return None if found is None else _session(found[0])

    def of_session(self, session: SessionId, limit: int = _ALL) -> list[LoggedMessage]:
        """What was said in the session, in the order of the log; all of it, or the beginning."""
        stored = escaped(session)
        bounds = "SELECT {0}(seq) FROM messages WHERE session = ?"
        first = self._statements.number(bounds.format("min"), stored)
        last = self._statements.number(bounds.format("max"), stored)
        answered = "SELECT max(seq) FROM messages WHERE seq < ? AND turn IS NOT NULL"
        before = self._statements.number(f"{answered} AND session IS NOT NULL", first)
        return self._found(
            f"WHERE seq > ? AND seq <= ? AND {SESSION} = ? ORDER BY seq LIMIT ?",
            before,
            last,
            stored,
            limit,
        )

    def opening_of(self, session: SessionId) -> str:
        """The owner's first words in the session, else the title of its job; may be empty."""
        said = [each.message for each in self.of_session(session, _READ_FOR_OPENING)]
        spoken = (
            each.text
            for each in said
            if who_spoke(each.author) is Speaker.OWNER and each.untrusted is None
        )
        return next(spoken, said[0].job if said else "")

    def search(self, search: Search) -> list[LoggedMessage]:
        """The messages that fit best, newer ones first among equals.

        Without an index, all messages that fit count as equals.
        """
        if not self.is_indexed:
            return self._compared(search)
        places = self._index.find(search)
        found = {each.seq: each for seq in places for each in self._found("WHERE seq = ?", seq)}
        return [found[seq] for seq in places]

    @property
    def is_indexed(self) -> bool:
        """Whether a search uses an index."""
        return self._index.is_used

    def prepare_search(self, *, is_supported: bool) -> None:
        """Make the search index at a start, unless it is there; without support, give it up."""
        if self._index.begin(is_supported=is_supported):
            last = 0
            while page := self.after(last, _PAGE):
                for each in page:
                    self._index.add(each.seq, each.message)
                last = page[-1].seq

    def _compared(self, search: Search) -> list[LoggedMessage]:
        conditions, arguments = conditions_of(search)
        found: list[LoggedMessage] = []
        before = self.last_seq() + 1
        while len(found) < search.limit:
            page = self._found(
                f"WHERE seq < ? {conditions} ORDER BY seq DESC LIMIT {_PAGE}", before, *arguments
            )
            if not page:
                break
            found += [each for each in page if search.fits(each.message)]
            before = page[-1].seq
        return found[: search.limit]

    def last_seq(self) -> int:
        return self._statements.number("SELECT max(seq) FROM messages")

    def last_change(self) -> int:
        return self._statements.number("SELECT max(change) FROM messages")

    def count(self) -> int:
        return self._statements.number("SELECT count(*) FROM messages")

    def _inserted(self, message: ChatMessage, sender: Sender) -> LoggedMessage:
        # Two queries: SQLite finds the end of one index at once, but would read all rows for both.
        [(last, changed)] = self._statements.rows(
            "SELECT (SELECT max(seq) FROM messages), (SELECT max(change) FROM messages)"
        )
        seq, change = int(last or 0) + 1, int(changed or 0) + 1
        self._statements.write(
            "messages",
            "INSERT INTO messages (seq, id, change, at, turn, session, occurrence, charge,"
            " is_refunded, fork, parent, value) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?)",
            seq,
            escaped(message.id),
            change,
            microseconds(message.at),
            escaped(message.turn or "") or None,
            escaped(message.session or "") or None,
            escaped(message.occurrence or "") or None,
            sender.charge.value,
            escaped(sender.fork or "") or None,
            escaped(sender.parent or "") or None,
            CHAT_MESSAGES.encode(message).decode(),
        )
        self._statements.write(
            "deliveries",
            "INSERT INTO deliveries (channel, message, state, tries, nonce, frozen_change,"
            " shown_change, is_behind, reason)"
            " SELECT name, ?, 'open', 0, ?, 0, 0, 0, '' FROM channels",
            seq,
            escaped(message.id),
        )
        self._index.add(seq, message)
        return LoggedMessage(message, seq, change, sender)

    def _edited(self, message: ChatMessage, known: LoggedMessage) -> LoggedMessage:
        change = self.last_change() + 1
        self._statements.write(
            "messages",
            "UPDATE messages SET change = ?, at = ?, turn = ?, session = ?, occurrence = ?,"
            " value = ? WHERE seq = ?",
            change,
            microseconds(message.at),
            escaped(message.turn or "") or None,
            escaped(message.session or "") or None,
            escaped(message.occurrence or "") or None,
            CHAT_MESSAGES.encode(message).decode(),
            known.seq,
        )
        self._statements.write(
            "deliveries", "UPDATE deliveries SET is_behind = 1 WHERE message = ?", known.seq
        )
        self._index.replace(known.seq, known.message, message)
        return LoggedMessage(message, known.seq, change, known.sender)

    def _found(self, condition: str, *arguments: Value) -> list[LoggedMessage]:
        rows = self._statements.rows(f"SELECT {_COLUMNS} FROM messages {condition}", *arguments)
        return logged_messages(rows)


def logged_messages(rows: Sequence[Row]) -> list[LoggedMessage]:
    return [
        LoggedMessage(
            CHAT_MESSAGES.decode(value.encode()),
            int(seq),
            int(change),
            Sender(Charge(charge), _session(fork), _session(parent)),
        )
        for value, seq, change, charge, fork, parent in rows
    ]


def _session(stored: str | None) -> SessionId | None:
    return None if stored is None else SessionId(unescaped(stored))
