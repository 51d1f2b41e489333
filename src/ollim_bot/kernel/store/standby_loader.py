"""The seam to `ollim_bot_standby`: what it brings, and the one place that loads it, by its name.

Imports nothing that speaks to a server: most data directories have a file.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from ollim_bot.kernel.base.environment import DATABASE_URL, load_env_file
from ollim_bot.kernel.base.errors import OllimError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Mapping

    from ollim_bot.kernel.base.paths import DataPaths
    from ollim_bot.kernel.base.settings import Settings
    from ollim_bot.kernel.store.backend import Backend
    from ollim_bot.kernel.store.mirrors import Report
    from ollim_bot.kernel.store.store import Store
    from ollim_bot.kernel.values.ports import AgentEngine, Disk, Journal

    Service = Callable[[], Coroutine[None, None, None]]

_PACKAGE = "ollim_bot_standby"
_NO_STANDBY = (
    "This installation of ollim-bot has no standby, which a shared database needs. Install "
    "ollim-bot with its extra `[standby]`."
)
_NO_DRIVER = (
    "DATABASE_URL is set, but what speaks to PostgreSQL is not installed. Install "
    "`ollim-bot[standby]` in place of `ollim-bot`."
)


def shared_address(environ: Mapping[str, str], paths: DataPaths) -> str | None:
    """The address of the database that this machine shares; None if it has a file of its own."""
    named = environ.get(DATABASE_URL, "").strip()
    return named or load_env_file(paths.env_file).values.get(DATABASE_URL, "").strip() or None


class SharedLead(Protocol):
    """A database that several machines share; one of them leads."""

    standing: str

    def check(self) -> None:
        """Raises `StorageError` if the server does not answer, or this version cannot lead."""

    async def lead_or_stand_by(self, ends: asyncio.Event, show: Service) -> bool:
        """Return when this machine leads; False if `ends` is set before.

        While it stands by, `show` runs, and is started again after each failure.
        """

    async def standing_changed(self) -> None:
        """Return when `standing` may have changed, the sentence that says which machine leads."""

    def open_for_reading(self) -> Backend: ...

    def open_for_leader(self, report: Report, disk: Disk | None, journal: Journal) -> Backend: ...

    async def follow(self, store: Store) -> None:
        """Lay out what the leader records, until cancelled."""

    async def take_up(self, store: Store, own: Settings) -> Settings:
        """Go on from where the last leader was; returns the settings that count everywhere."""

    def recorded(self, engine: AgentEngine) -> AgentEngine:
        """Return the engine, with what it records stored for the other machines."""

    def services(self, store: Store, settings: Settings) -> list[Service]:
        """What a leader keeps for others, without which it must end."""

    async def store_records(self) -> None:
        """Store what the sessions in use record, until cancelled."""

    def close(self) -> None:
        """Let another machine lead at once, if this one does."""


def load_standby(part: str) -> Any:
    """A module of the package, by its name there.

    Raises `OllimError` if this installation is without it, or without what it needs.
    """
    try:
        return import_module(f"{_PACKAGE}.{part}")
    except ModuleNotFoundError as missing:
        is_here = not str(missing.name).startswith(_PACKAGE)
        raise OllimError(_NO_DRIVER if is_here else _NO_STANDBY) from missing
