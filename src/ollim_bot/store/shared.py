"""The database that several machines share, as a command on one of them finds it.

Imports nothing that speaks to a server: most data directories have a file.
"""

from __future__ import annotations

from collections.abc import Mapping

from ollim_bot.environment import DATABASE_URL, load_env_file
from ollim_bot.paths import DataPaths

NO_DRIVER = (
    "DATABASE_URL is set, but what speaks to PostgreSQL is not installed. Install "
    "`ollim-bot[postgres]` in place of `ollim-bot`."
)
NOT_NOW = (
    "cannot be changed now: it is being moved, or another process takes the lead. Nothing was "
    "changed. Try again, or see `ollim-bot standby status`."
)


def shared_address(environ: Mapping[str, str], paths: DataPaths) -> str | None:
    """The address of the database that this machine shares; None if it has a file of its own."""
    named = environ.get(DATABASE_URL, "").strip()
    return named or load_env_file(paths.env_file).values.get(DATABASE_URL, "").strip() or None
