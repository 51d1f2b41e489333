"""The pairing with the phone, in its own file, and what the buttons there post."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ollim_bot.kernel.base.errors import NewerFormat, Unreadable
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.store.connection import Statements, escaped, microseconds, unescaped
from ollim_bot.kernel.store.files import PRIVATE, FileLock, OsDisk, remove_durably, write_atomically
from ollim_bot.kernel.values.cards import LIVE_FOR
from ollim_bot.kernel.values.ports import Disk
from ollim_bot.kernel.values.push import Pairing

_FORMAT = 1


class PushFile:
    """`state/push.json`, for the owner's eyes alone (0600). Nothing is created by reading."""

    def __init__(self, paths: DataPaths, disk: Disk | None = None) -> None:
        self._path = paths.push
        self._lock = FileLock(paths.lock_of(paths.push))
        self._disk = disk or OsDisk()

    def read(self) -> Pairing | None:
        """The pairing; None if there is none. Raises `StorageError`."""
        try:
            fields = json.loads(read_file(self._path, SizeLimit.NOTE))
            if int(fields["version"]) > _FORMAT:
                raise NewerFormat(self._path, int(fields["version"]), _FORMAT)
            at = datetime.fromisoformat(fields["paired_at"])
            server, topic = str(fields["server"]), str(fields["topic"])
            return Pairing(server, topic, str(fields["reply_topic"]), at)
        except FileNotFoundError:
            return None
        except OSError as refused:
            raise Unreadable(self._path, f"cannot be read: {refused.strerror}.") from refused
        except (ValueError, TypeError, KeyError):
            reason = "is not the pairing of a phone. `ollim-bot push setup` pairs it anew."
            raise Unreadable(self._path, reason) from None

    def write(self, pairing: Pairing) -> None:
        """Replace the pairing. Raises `WriteFailed`; the old one stays then."""
        fields = {
            "version": _FORMAT,
            "server": pairing.server,
            "topic": pairing.topic,
            "reply_topic": pairing.reply_topic,
            "paired_at": pairing.paired_at.astimezone(UTC).isoformat(),
        }
        with self._lock.held():
            data = f"{json.dumps(fields, indent=2)}\n".encode()
            write_atomically(self._disk, self._path, data, PRIVATE)

    def remove(self) -> None:
        """Forget the pairing. Raises `WriteFailed`."""
        with self._lock.held():
            remove_durably(self._disk, self._path)


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
