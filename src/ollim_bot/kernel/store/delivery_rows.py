"""How far each channel is with each message, and which channels follow the log."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.store.codecs.message_codec import MESSAGES
from ollim_bot.kernel.store.connection import (
    Row,
    Statements,
    escaped,
    microseconds,
    moment_of,
    unescaped,
)
from ollim_bot.kernel.store.file_store import parse_json, render_json, versioned_list
from ollim_bot.kernel.store.message_log import LoggedMessage, MessageLog
from ollim_bot.kernel.store.records import Record
from ollim_bot.kernel.values.cards import LIVE_FOR
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.pings import Charge, PingBudget


class DeliveryState(StrEnum):
    OPEN = "open"
    CONFIRMED = "confirmed"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message on one channel.

    `parts` are frozen at the first try, and empty before it. `refs` are the channel's ids of the
    parts that arrived; the part after them is the next. `tried_at` is set while the next part may
    have arrived without being confirmed. `shown_change` is the change of the message that the
    channel shows, 0 if none.
    """

    channel: str
    logged: LoggedMessage
    state: DeliveryState
    parts: tuple[ChatMessage, ...]
    refs: tuple[str, ...]
    tries: int
    tried_at: datetime | None
    nonce_base: str
    shown_change: int
    reason: str

    @property
    def message(self) -> ChatMessage:
        return self.logged.message

    @property
    def place(self) -> tuple[str, int]:
        """The channel, and the place of the message in the log."""
        return self.channel, self.logged.seq

    @property
    def is_in_doubt(self) -> bool:
        """Whether the next part has to be looked up before it is sent again."""
        return self.tried_at is not None

    @property
    def nonce(self) -> str:
        """The nonce of the next part; every try of a part has the same."""
        return part_nonce(self.nonce_base, len(self.refs))


def part_nonce(base: str, part: int) -> str:
    return hashlib.blake2s(f"{base} {part}".encode(), digest_size=12).hexdigest()


# The `shown_change` of a channel that shows a draft of the message.
_DRAFT = -1
# How a stored message says that it must come. Quotes within its texts have a backslash.
_MUST = '"must": true'

_DELIVERY = (
    "messages.value, messages.seq, messages.change, messages.charge, messages.fork,"
    " messages.parent, deliveries.channel, deliveries.state, deliveries.parts, deliveries.tries,"
    " deliveries.tried_at, deliveries.nonce, deliveries.shown_change, deliveries.reason"
    " FROM deliveries JOIN messages ON messages.seq = deliveries.message"
)


class Deliveries:
    """What each channel has to send and to edit. A message is named by its id.

    Naming a message without a delivery on the channel changes nothing.
    """

    def __init__(
        self, statements: Statements, messages: MessageLog, budget: Record[PingBudget]
    ) -> None:
        self._statements = statements
        self._messages = messages
        self._budget = budget

    def get(self, channel: str, message_id: MessageId) -> Delivery | None:
        condition = "WHERE deliveries.channel = ? AND messages.id = ?"
        return next(iter(self._found(condition, channel, escaped(message_id))), None)

    def of_message(self, message_id: MessageId) -> list[Delivery]:
        return self._found("WHERE messages.id = ? ORDER BY deliveries.channel", escaped(message_id))

    def next_open(self, channel: str) -> Delivery | None:
        """The oldest delivery that is not confirmed, refused or given up."""
        return next(iter(self.open(channel, 1)), None)

    def next_to_send(self, channel: str) -> Delivery | None:
        """The open delivery whose next part is to be sent.

        A message that has begun is finished first; then comes what must come, then the oldest.
        """
        found = self._found(
            "WHERE deliveries.channel = ? AND deliveries.state = 'open'"
            " ORDER BY deliveries.parts IS NULL, instr(messages.value, ?) = 0, deliveries.message"
            " LIMIT 1",
            channel,
            _MUST,
        )
        return found[0] if found else None

    def open(self, channel: str, limit: int) -> list[Delivery]:
        """The deliveries without an outcome, in the order of the log."""
        return self._found(
            "WHERE deliveries.channel = ? AND deliveries.state = 'open'"
            " ORDER BY deliveries.message LIMIT ?",
            channel,
            limit,
        )

    def count_open(self, channel: str) -> int:
        """How many deliveries have no outcome."""
        return self._statements.number(
            "SELECT count(*) FROM deliveries WHERE channel = ? AND state = 'open'", channel
        )

    def newest_confirmed(self, channel: str) -> datetime | None:
        """The moment of the newest message that the channel has confirmed."""
        found = self._statements.row(
            "SELECT messages.at FROM deliveries JOIN messages ON messages.seq = deliveries.message"
            " WHERE deliveries.channel = ? AND deliveries.state = 'confirmed'"
            " ORDER BY deliveries.message DESC LIMIT 1",
            channel,
        )
        return None if found is None else moment_of(found[0])

    def next_edit(self, channel: str) -> Delivery | None:
        """The oldest confirmed delivery that shows an earlier content than the log."""
        found = self._found(
            "WHERE deliveries.channel = ? AND deliveries.is_behind = 1"
            " AND deliveries.state = 'confirmed' ORDER BY deliveries.message LIMIT 1",
            channel,
        )
        return found[0] if found else None

    def note_try(
        self, channel: str, message_id: MessageId, parts: Sequence[ChatMessage], now: datetime
    ) -> Delivery | None:
        """Record a try; commit this before the next part is sent. The first parts stay frozen."""
        known = self.freeze(channel, message_id, parts)
        if known is None or known.state is not DeliveryState.OPEN:
            return known
        self._update(known.place, "tries = tries + 1, tried_at = ?", now.isoformat())
        return self.get(channel, message_id)

    def freeze(
        self, channel: str, message_id: MessageId, parts: Sequence[ChatMessage]
    ) -> Delivery | None:
        """Fix the division into parts, unless it is fixed; needed before a look-up."""
        known = self.get(channel, message_id)
        if known is None or known.parts or known.state is not DeliveryState.OPEN:
            return known
        self._update(
            known.place, "parts = ?, frozen_change = ?", _parts_json(parts), known.logged.change
        )
        return self.get(channel, message_id)

    def note_absent(self, channel: str, message_id: MessageId) -> None:
        """Record that the tried part certainly did not arrive, so that it can be sent again."""
        known = self.get(channel, message_id)
        if known is not None:
            self._update(known.place, "tried_at = NULL")

    def confirm_part(self, channel: str, message_id: MessageId, ref: str) -> Delivery | None:
        """Record that the next part arrived as `ref`; the last part confirms the whole."""
        known = self.get(channel, message_id)
        if known is None or known.state is not DeliveryState.OPEN or ref in known.refs:
            return known
        self._add_refs(channel, known.logged.seq, [ref], len(known.refs))
        if len(known.refs) + 1 < len(known.parts):
            self._update(known.place, "tried_at = NULL")
        else:
            self._confirm(known)
        return self.get(channel, message_id)

    def take_over(
        self,
        channel: str,
        message_id: MessageId,
        refs: Sequence[str],
        parts: Sequence[ChatMessage],
        nonce_base: str,
    ) -> Delivery | None:
        """Let the message continue the drafts that the channel already shows under `refs`.

        Parts beyond the drafts are still to be sent. The drafts are edited once the message is
        confirmed; the channel removes `refs` beyond the parts.
        """
        known = self.get(channel, message_id)
        if known is None or known.state is not DeliveryState.OPEN or known.refs:
            return known
        self._add_refs(channel, known.logged.seq, refs)
        self._update(
            known.place,
            "nonce = ?, shown_change = ?, parts = ?, frozen_change = ?",
            *(escaped(nonce_base), _DRAFT, _parts_json(parts), known.logged.change),
        )
        if len(refs) >= len(parts):
            self._confirm(known)
        return self.get(channel, message_id)

    def drop_drafts(self, channel: str, message_id: MessageId) -> None:
        """Send the whole message anew, because the drafts it took over cannot be edited."""
        known = self.get(channel, message_id)
        if known is None:
            return
        self._statements.write(
            "deliveries",
            "DELETE FROM delivery_refs WHERE channel = ? AND message = ?",
            *known.place,
        )
        self._update(
            known.place,
            "state = 'open', tried_at = NULL, nonce = ?, parts = NULL, shown_change = 0,"
            " is_behind = 0",
            escaped(message_id),
        )

    def note_received(self, channel: str, message_id: MessageId, refs: Sequence[str]) -> None:
        """Record that the channel shows the message as it is, or that it came from there."""
        known = self.get(channel, message_id)
        logged = self._messages.logged(message_id) if known is None else known.logged
        if logged is None or (known is not None and known.state is DeliveryState.CONFIRMED):
            return
        if known is None:
            self._insert(channel, logged)
        self._add_refs(channel, logged.seq, refs)
        self._update(
            (channel, logged.seq),
            "state = 'confirmed', tried_at = NULL, shown_change = ?, is_behind = 0",
            logged.change,
        )

    def require(
        self,
        channel: str,
        message_id: MessageId,
        refs: Sequence[str] = (),
        tried_at: datetime | None = None,
    ) -> None:
        """Let the channel deliver a message that it had no delivery of.

        `refs` are the parts that already arrived; with `tried_at`, the next one may have arrived
        too.
        """
        logged = self._messages.logged(message_id)
        if self.get(channel, message_id) is None and logged is not None:
            self._insert(channel, logged)
        known = self.get(channel, message_id)
        if known is None or known.state is not DeliveryState.OPEN:
            return
        self._add_refs(channel, known.logged.seq, refs)
        if tried_at is not None:
            self._update(known.place, "tried_at = ?", tried_at.isoformat())

    def note_shown(self, channel: str, message_id: MessageId, change: int) -> None:
        """Record that the channel shows the content of this change, or can never show it."""
        known = self.get(channel, message_id)
        if known is not None:
            self._update(
                known.place,
                "shown_change = ?, is_behind = ?",
                change,
                int(change < known.logged.change),
            )

    def refuse(self, channel: str, message_id: MessageId, reason: str, now: datetime) -> bool:
        """Record that the channel will never take it. True if this call gave back its cost.

        The cost of a message is given back once, when every channel that had to deliver it has
        refused.
        """
        if not self._ended(channel, message_id, DeliveryState.REFUSED, reason):
            return False
        return self._refunded(message_id, now)

    def give_up(self, channel: str, message_id: MessageId, reason: str) -> bool:
        """Record that its arrival cannot be found out. True if it was open until now."""
        return self._ended(channel, message_id, DeliveryState.UNKNOWN, reason)

    def untold(self, limit: int) -> list[Delivery]:
        """The refused or given-up deliveries that the owner was not told of yet."""
        return self._found(
            "WHERE deliveries.is_told = 0 AND deliveries.state IN ('refused', 'unknown')"
            " ORDER BY deliveries.message LIMIT ?",
            limit,
        )

    def note_told(self, channel: str, message_id: MessageId) -> None:
        known = self.get(channel, message_id)
        if known is not None:
            self._update(known.place, "is_told = 1")

    def close(self, channel: str, message_id: MessageId, now: datetime, reason: str = "") -> bool:
        """End a delivery that is no longer needed. True if it was open until now.

        If the other channels have refused the message, its cost is given back.
        """
        is_closed = self._ended(channel, message_id, DeliveryState.CLOSED, reason)
        if is_closed:
            self._refunded(message_id, now)
        return is_closed

    def is_confirmed(self, message_id: MessageId) -> bool:
        """Whether a channel has confirmed the message."""
        return any(each.state is DeliveryState.CONFIRMED for each in self.of_message(message_id))

    def is_refused(self, message_id: MessageId) -> bool:
        """Whether every channel that had to deliver the message has refused it."""
        return _are_refusals(self.of_message(message_id))

    def by_ref(self, channel: str, ref: str) -> LoggedMessage | None:
        """The message that has this id on the channel."""
        rows = self._statements.rows(
            "SELECT value, seq, change, charge, fork, parent FROM messages WHERE seq ="
            " (SELECT message FROM delivery_refs WHERE channel = ? AND ref = ?)",
            channel,
            escaped(ref),
        )
        return self._messages.read(rows)[0] if rows else None

    def refs(self, message_id: MessageId) -> Mapping[str, tuple[str, ...]]:
        """The ids of the message on each channel that shows it, part by part."""
        logged = self._messages.logged(message_id)
        found: dict[str, tuple[str, ...]] = {}
        for channel, ref in [] if logged is None else self._refs_of(logged.seq):
            found[channel] = (*found.get(channel, ()), ref)
        return found

    def known_refs(self, channel: str, newest: int) -> Mapping[str, ChatMessage]:
        """The newest messages that the channel shows, by their ids there."""
        rows = self._statements.rows(
            "SELECT value, seq, change, charge, fork, parent, ref"
            " FROM delivery_refs JOIN messages ON messages.seq = delivery_refs.message"
            " WHERE channel = ? AND delivery_refs.message > ? ORDER BY seq, part",
            channel,
            self._messages.last_seq() - newest,
        )
        logged = self._messages.read([row[:6] for row in rows])
        return {unescaped(row[6]): each.message for row, each in zip(rows, logged, strict=True)}

    def doubt_all(self, now: datetime) -> list[Delivery]:
        """Mark every open delivery to be looked up before it is sent; returns them."""
        self._statements.write(
            "deliveries",
            "UPDATE deliveries SET tried_at = ? WHERE state = 'open' AND tried_at IS NULL",
            now.isoformat(),
        )
        return self._found("WHERE deliveries.state = 'open' ORDER BY deliveries.message")

    def _insert(self, channel: str, logged: LoggedMessage) -> None:
        self._statements.write(
            "deliveries",
            "INSERT INTO deliveries (channel, message, state, tries, nonce, frozen_change,"
            " shown_change, is_behind, reason) VALUES (?, ?, 'open', 0, ?, 0, 0, 0, '')",
            *(channel, logged.seq, escaped(logged.message.id)),
        )

    def _add_refs(self, channel: str, seq: int, refs: Sequence[str], first: int = 0) -> None:
        for part, ref in enumerate(refs, first):
            self._statements.write(
                "deliveries",
                "INSERT INTO delivery_refs (channel, ref, message, part) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (channel, ref) DO UPDATE SET message = excluded.message,"
                " part = excluded.part",
                *(channel, escaped(ref), seq, part),
            )

    def _confirm(self, known: Delivery) -> None:
        self._update(
            known.place,
            "state = 'confirmed', tried_at = NULL,"
            " shown_change = CASE WHEN shown_change = ? THEN 0 ELSE frozen_change END,"
            " is_behind = CASE WHEN shown_change = ? OR frozen_change < ? THEN 1 ELSE 0 END",
            *(_DRAFT, _DRAFT, known.logged.change),
        )

    def _ended(
        self, channel: str, message_id: MessageId, state: DeliveryState, reason: str
    ) -> bool:
        known = self.get(channel, message_id)
        if known is None or known.state is not DeliveryState.OPEN:
            return False
        self._update(
            known.place, "state = ?, tried_at = NULL, reason = ?", state.value, escaped(reason)
        )
        return True

    def _refunded(self, message_id: MessageId, now: datetime) -> bool:
        deliveries = self.of_message(message_id)
        charge = deliveries[0].logged.sender.charge
        if charge is Charge.NOTHING or not _are_refusals(deliveries):
            return False
        first = self._statements.write(
            "messages",
            "UPDATE messages SET is_refunded = 1 WHERE seq = ? AND is_refunded = 0 RETURNING seq",
            deliveries[0].logged.seq,
        )
        if first and charge is Charge.CRITICAL:
            self._budget.change(lambda budget: budget.critical_given_back(now))
        elif first:
            pings = max(1, len(deliveries[0].message.pings))
            self._budget.change(lambda budget: budget.given_back(now, pings))
        return bool(first)

    def _update(
        self, place: tuple[str, int], assignments: str, *arguments: str | int | None
    ) -> None:
        self._statements.write(
            "deliveries",
            f"UPDATE deliveries SET {assignments} WHERE channel = ? AND message = ?",
            *arguments,
            *place,
        )

    def _refs_of(self, seq: int) -> list[tuple[str, str]]:
        rows = self._statements.rows(
            "SELECT channel, ref FROM delivery_refs WHERE message = ? ORDER BY channel, part", seq
        )
        return [(row[0], unescaped(row[1])) for row in rows]

    def _found(self, condition: str, *arguments: str | int) -> list[Delivery]:
        rows = self._statements.rows(f"SELECT {_DELIVERY} {condition}", *arguments)
        return [self._delivery(row) for row in rows]

    def _delivery(self, row: Row) -> Delivery:
        channel, state, parts, tries, tried_at, nonce, shown_change, reason = row[6:]
        (logged,) = self._messages.read([row[:6]])
        return Delivery(
            channel,
            logged,
            DeliveryState(state),
            ()
            if parts is None
            else MESSAGES.read_all(ChatMessage, versioned_list(parse_json(parts.encode()))),
            tuple(ref for name, ref in self._refs_of(logged.seq) if name == channel),
            int(tries),
            None if tried_at is None else datetime.fromisoformat(tried_at),
            unescaped(nonce),
            max(0, int(shown_change)),
            unescaped(reason),
        )


def _are_refusals(deliveries: Sequence[Delivery]) -> bool:
    """Whether all were refused, but for those that were not needed."""
    states = {each.state for each in deliveries} - {DeliveryState.CLOSED}
    return states == {DeliveryState.REFUSED}


def _parts_json(parts: Sequence[ChatMessage]) -> str:
    return render_json([MESSAGES.write(part) for part in parts]).decode()


@dataclass(frozen=True, slots=True)
class JoinedChannel:
    """Follows the log after `from_seq`; `identity` is the account that it delivers to."""

    name: str
    identity: str
    from_seq: int


class Channels:
    def __init__(self, statements: Statements, messages: MessageLog) -> None:
        self._statements = statements
        self._messages = messages

    def all(self) -> list[JoinedChannel]:
        rows = self._statements.rows("SELECT name, identity, from_seq FROM channels ORDER BY name")
        return [JoinedChannel(row[0], unescaped(row[1]), int(row[2])) for row in rows]

    def is_joined(self, name: str) -> bool:
        return any(each.name == name for each in self.all())

    def join(self, name: str, identity: str) -> JoinedChannel:
        """Follow the log from now on, or from where the same account left it.

        The open deliveries of another account are closed. An empty identity stands for an account
        that is not known yet, and matches every account.
        """
        known = next((each for each in self.all() if each.name == name), None)
        if known is not None and (not identity or known.identity in ("", identity)):
            return self._written(JoinedChannel(name, identity or known.identity, known.from_seq))
        if known is not None:
            self._close_all(name)
        return self._written(JoinedChannel(name, identity, self._messages.last_seq()))

    def leave(self, name: str) -> None:
        """Close its open deliveries; what it has shown stays known."""
        self._close_all(name)
        self._statements.write("channels", "DELETE FROM channels WHERE name = ?", name)

    def _written(self, channel: JoinedChannel) -> JoinedChannel:
        self._statements.write(
            "channels",
            "INSERT INTO channels (name, identity, from_seq) VALUES (?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET identity = excluded.identity,"
            " from_seq = excluded.from_seq",
            *(channel.name, escaped(channel.identity), channel.from_seq),
        )
        return channel

    def _close_all(self, name: str) -> None:
        self._statements.write(
            "deliveries",
            "UPDATE deliveries SET state = 'closed', tried_at = NULL, is_behind = 0"
            " WHERE channel = ? AND (state = 'open' OR is_behind = 1)",
            name,
        )


class PushButton(NamedTuple):
    """The button of a card that a nonce presses."""

    message: MessageId
    custom_id: str


class PushButtons:
    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def offer(
        self, message: MessageId, custom_ids: Sequence[str], nonces: Sequence[str], now: datetime
    ) -> Mapping[str, str]:
        """The nonce of each button: that which was offered and not used yet, or a new one.

        Those that are too old to be pressed are forgotten.
        """
        old = microseconds(now - timedelta(seconds=LIVE_FOR))
        self._write("DELETE FROM push_buttons WHERE at < ?", old)
        rows = self._statements.rows(
            "SELECT custom_id, nonce FROM push_buttons WHERE message = ? AND is_used = 0",
            escaped(message),
        )
        known = {unescaped(row[0]): str(row[1]) for row in rows}
        offered = {**dict(zip(custom_ids, nonces, strict=True)), **known}
        for custom_id in offered.keys() - known.keys():
            self._write(
                "INSERT INTO push_buttons (nonce, message, custom_id, is_used, at)"
                " VALUES (?, ?, ?, 0, ?)",
                *(offered[custom_id], escaped(message), escaped(custom_id), microseconds(now)),
            )
        return offered

    def find(self, nonce: str) -> PushButton | None:
        """What an unused nonce presses; None for a wrong, an old and a used one."""
        found = self._statements.row(
            "SELECT message, custom_id FROM push_buttons WHERE nonce = ? AND is_used = 0",
            escaped(nonce),
        )
        if found is None:
            return None
        return PushButton(MessageId(unescaped(found[0])), unescaped(found[1]))

    def use(self, nonce: str) -> None:
        """Let the nonce do nothing from now on."""
        self._write("UPDATE push_buttons SET is_used = 1 WHERE nonce = ?", escaped(nonce))

    def withdraw(self, message: MessageId) -> None:
        """Let no button of the message do anything from now on."""
        self._write("UPDATE push_buttons SET is_used = 1 WHERE message = ?", escaped(message))

    def withdraw_all(self) -> None:
        """Let no button do anything from now on: another pairing has others."""
        self._write("DELETE FROM push_buttons")

    def _write(self, statement: str, *values: str | int) -> None:
        self._statements.write("push_buttons", statement, *values)
