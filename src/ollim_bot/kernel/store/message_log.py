"""The message log: all messages in one order, each under one id, and its search index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ollim_bot.kernel.base.ids import MessageId, SessionId, TurnId
from ollim_bot.kernel.store.codecs.message_codec import CHAT_MESSAGES
from ollim_bot.kernel.store.connection import (
    Row,
    Statements,
    Value,
    escaped,
    look_up,
    microseconds,
    unescaped,
)
from ollim_bot.kernel.store.search_index import SESSION, SearchIndex, conditions_of
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.forks import end_id, entry_id
from ollim_bot.kernel.values.pings import Charge
from ollim_bot.kernel.values.search import Search, Speaker, who_spoke

# The session of an answer is known; a message of the owner belongs to that of the next answer.
_READ_FOR_OPENING = 10


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

    The log keeps no `refs`: the deliveries know where a message arrived. A message of a due item is
    kept as it was posted, and read with the card that the item has now.
    """

    def __init__(
        self, statements: Statements, index: type[SearchIndex] | None, now: datetime
    ) -> None:
        self._statements = statements
        self._now = now
        self._index = (index or SearchIndex)(statements)

    def add(self, message: ChatMessage, sender: Sender = MAIN) -> LoggedMessage:
        """Append a message to the log, with an open delivery for each joined channel.

        If the id exists, the earlier message keeps its place and gets the new content, and `sender`
        is ignored; every channel that shows the earlier content has to edit it.
        """
        message = replace(message, refs={})
        sql = f"SELECT {_COLUMNS} FROM messages WHERE id = ?"
        known = next(iter(_decoded(self._statements.rows(sql, escaped(message.id)))), None)
        if known is None:
            return self._inserted(message, sender)
        shown = self._shown(known)
        if message.card == shown.message.card:
            message = replace(message, card=known.message.card)
            if message.footer == shown.message.footer:
                message = replace(message, footer=known.message.footer)
        return shown if known.message == message else self._edited(message, known)

    def touch(self, logged: LoggedMessage) -> int:
        """Note that the message is shown in another way; every channel that has it edits it.

        Returns the number of the change.
        """
        change = self.last_change() + 1
        self._statements.write(
            "messages", "UPDATE messages SET change = ? WHERE seq = ?", change, logged.seq
        )
        self._statements.write(
            "deliveries", "UPDATE deliveries SET is_behind = 1 WHERE message = ?", logged.seq
        )
        return change

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
        """The newest messages as they were posted, newest first.

        None is read before it is asked for.
        """
        sql = f"SELECT {_COLUMNS} FROM messages ORDER BY seq DESC LIMIT ?"
        for row in self._statements.rows(sql, limit):
            yield from _decoded([row])

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
            *(first, f"{entry_id('')}%", f"{end_id('')}%"),
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
            *(before, last, stored, limit),
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
            *_found_by(message),
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
        self._statements.write(
            "messages",
            "UPDATE messages SET at = ?, turn = ?, session = ?, occurrence = ?, value = ?"
            " WHERE seq = ?",
            *_found_by(message),
            CHAT_MESSAGES.encode(message).decode(),
            known.seq,
        )
        self._index.replace(known.seq, known.message, message)
        change = self.touch(known)
        return self._shown(LoggedMessage(message, known.seq, change, known.sender))

    def _found(self, condition: str, *arguments: Value) -> list[LoggedMessage]:
        rows = self._statements.rows(f"SELECT {_COLUMNS} FROM messages {condition}", *arguments)
        return self.read(rows)

    def read(self, rows: Sequence[Row]) -> list[LoggedMessage]:
        """The messages of rows with the columns of the log."""
        return [*map(self._shown, _decoded(rows))]

    def _shown(self, stored: LoggedMessage) -> LoggedMessage:
        """The message with the card of its due item, if it belongs to one."""
        message = stored.message
        if message.card is None or not message.occurrence:
            return stored
        key = look_up("kernel.values.due_items:item_key")(message.occurrence)
        item = look_up("kernel.store.due_item_rows:find_item")(self._statements, key)
        if item is None:
            return stored
        shown_as = look_up("kernel.values.item_messages:shown_as")
        return replace(stored, message=shown_as(message, item, self._now))


def _decoded(rows: Sequence[Row]) -> list[LoggedMessage]:
    return [
        LoggedMessage(
            CHAT_MESSAGES.decode(value.encode()),
            int(seq),
            int(change),
            Sender(Charge(charge), _session(fork), _session(parent)),
        )
        for value, seq, change, charge, fork, parent in rows
    ]


def _found_by(message: ChatMessage) -> Iterator[Value]:
    """What finds the row: the moment, the turn, the session and the occurrence."""
    yield microseconds(message.at)
    for name in (message.turn, message.session, message.occurrence):
        yield escaped(name or "") or None


def _session(stored: str | None) -> SessionId | None:
    return None if stored is None else SessionId(unescaped(stored))
