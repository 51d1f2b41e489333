"""What the buttons on the phone post: each does one thing to one message, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from ollim_bot.domain.cards import LIVE_FOR
from ollim_bot.domain.ids import MessageId
from ollim_bot.store.connection import Statements, escaped, microseconds, unescaped


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
