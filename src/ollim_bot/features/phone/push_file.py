"""The pairing with the phone, in its own file, and what the buttons there post."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from ollim_bot.kernel.base.errors import NewerFormat, Unreadable
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.plain_files import SizeLimit, read_file
from ollim_bot.kernel.store.files import PRIVATE, FileLock, OsDisk, remove_durably, write_atomically
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
