"""The database that several machines share, as a command on one of them finds it.

Imports nothing that speaks to a server: most data directories have a file.
"""

from __future__ import annotations

from collections.abc import Mapping

from ollim_bot.environment import DATABASE_URL, load_env_file
from ollim_bot.paths import DataPaths
from ollim_bot.store.files import PRIVATE, OsDisk, write_atomically

# In bytes.
_MOST = 30
NO_DRIVER = (
    "DATABASE_URL is set, but what speaks to PostgreSQL is not installed. Install "
    "`ollim-bot[postgres]` in place of `ollim-bot`."
)
NOT_NOW = (
    "cannot be changed now: it is being moved, or another process takes the lead. Nothing was "
    "changed. Try again, or see `ollim-bot standby status`."
)


class LedFile:
    """With which lease this machine led last. If none is newer, its files are the newest ones."""

    def __init__(self, paths: DataPaths) -> None:
        self._path = paths.led

    def read(self) -> int | None:
        """The epoch; None if this machine has never led, or it is not known."""
        try:
            return int(OsDisk().read(self._path, _MOST))
        except (OSError, ValueError):
            return None

    def write(self, epoch: int) -> None:
        """Raises `StorageError`."""
        write_atomically(OsDisk(), self._path, f"{epoch}\n".encode(), PRIVATE)


def shared_address(environ: Mapping[str, str], paths: DataPaths) -> str | None:
    """The address of the database that this machine shares; None if it has a file of its own."""
    named = environ.get(DATABASE_URL, "").strip()
    return named or load_env_file(paths.env_file).values.get(DATABASE_URL, "").strip() or None
