"""The moment at which the bot last ran, in a file of its own: an idle database does not change."""

from __future__ import annotations

from datetime import datetime

from ollim_bot.paths import DataPaths
from ollim_bot.ports import Disk
from ollim_bot.store.files import PRIVATE, OsDisk, write_atomically

_MOST = 100


class HeartbeatFile:
    def __init__(self, paths: DataPaths, disk: Disk | None = None) -> None:
        self._path = paths.heartbeat
        self._disk = disk or OsDisk()

    def read(self) -> datetime | None:
        """The moment; None if it is not known."""
        try:
            moment = datetime.fromisoformat(self._disk.read(self._path, _MOST).decode().strip())
        except (OSError, ValueError):
            return None
        return None if moment.utcoffset() is None else moment

    def write(self, now: datetime) -> None:
        """Write the moment. Raises `StorageError`."""
        write_atomically(self._disk, self._path, f"{now.isoformat()}\n".encode(), PRIVATE)
