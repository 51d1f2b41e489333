"""The database that several machines share, as a command on one of them finds it.

Imports nothing that speaks to a server: most data directories have a file.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from ollim_bot.environment import DATABASE_URL, load_env_file
from ollim_bot.paths import DataPaths
from ollim_bot.store.files import PRIVATE, FileLock, OsDisk, write_atomically

_MOST = 200
NO_DRIVER = (
    "DATABASE_URL is set, but what speaks to PostgreSQL is not installed. Install "
    "`ollim-bot[postgres]` in place of `ollim-bot`."
)
NOT_NOW = (
    "cannot be changed now: it is being moved, or another process takes the lead. Nothing was "
    "changed. Try again, or see `ollim-bot standby status`."
)


class MachineFile:
    """The random id of this installation, by which the machines of a bot tell each other apart.

    Several may have one host name. No backup holds it.
    """

    def __init__(self, paths: DataPaths) -> None:
        self._path = paths.machine
        self._lock = FileLock(paths.lock_of(paths.machine))

    def read(self) -> str:
        """The id; empty if this installation has none yet."""
        try:
            found = OsDisk().read(self._path, _MOST).decode("ascii").strip()
        except (OSError, ValueError):
            return ""
        return found if found.isalnum() else ""

    def make(self) -> str:
        """The id, made now if there is none. Raises `StorageError`."""
        with self._lock.held():
            if known := self.read():
                return known
            made = secrets.token_hex(16)
            write_atomically(OsDisk(), self._path, f"{made}\n".encode(), PRIVATE)
            return made


def shared_address(environ: Mapping[str, str], paths: DataPaths) -> str | None:
    """The address of the database that this machine shares; None if it has a file of its own."""
    named = environ.get(DATABASE_URL, "").strip()
    return named or load_env_file(paths.env_file).values.get(DATABASE_URL, "").strip() or None
