"""The moment at which the bot last ran, in a file of its own: an idle database does not change."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ollim_bot.kernel.store.files import PRIVATE, OsDisk, write_atomically

if TYPE_CHECKING:
    from ollim_bot.kernel.base.paths import DataPaths
    from ollim_bot.kernel.values.ports import Disk

# Until when the bot surely ran; None if that is not known.
ReadHeartbeat = Callable[[], datetime | None]

_MOST = 100
# In the facts about a database that machines share: how far the schedule has come.
SHARED_HEARTBEAT = "heartbeat"
# The heartbeat of a bot that runs is never older than this: it beats every 30 seconds.
_FRESH = timedelta(seconds=90)


def is_beating(heartbeat: datetime, now: datetime) -> bool:
    """Whether the bot has beaten just now. A heartbeat of the future is one of a clock set back."""
    return -_FRESH < now.astimezone(UTC) - heartbeat.astimezone(UTC) < _FRESH


def ran_until(heartbeat: datetime | None, now: datetime) -> datetime:
    """The last moment at which the bot of that heartbeat can have run; `now` if there is none."""
    return now if heartbeat is None else min(heartbeat + _FRESH, now)


class HeartbeatFile:
    def __init__(self, paths: DataPaths, disk: Disk | None = None) -> None:
        self._paths = paths
        self._path = paths.heartbeat
        self._disk = disk or OsDisk()

    def of_standby(self) -> HeartbeatFile:
        """The same for a bot that stands by, which has no schedule."""
        other = HeartbeatFile(self._paths, self._disk)
        other._path = self._paths.standing_by
        return other

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

    def forget(self) -> None:
        """Know no moment any more, since another machine goes on from here."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def last_sign_of_life(paths: DataPaths) -> datetime | None:
    """When the bot was last seen alive, whether it leads or stands by; None if never."""
    file = HeartbeatFile(paths)
    return max(filter(None, (file.read(), file.of_standby().read())), default=None)
