"""The seam to `ollim_bot_standby`: what it brings, and the one place that loads it, by its name.

Imports nothing that speaks to a server: most data directories have a file.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from ollim_bot.environment import DATABASE_URL, load_env_file
from ollim_bot.errors import OllimError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime
    from pathlib import Path

    from ollim_bot.paths import DataPaths
    from ollim_bot.ports import AgentEngine, Clock, Disk, Journal
    from ollim_bot.settings import Settings
    from ollim_bot.store.backend import Backend, ServerRows, SharedBackend
    from ollim_bot.store.heartbeat import HeartbeatFile
    from ollim_bot.store.mirrors import Report
    from ollim_bot.store.store import Store

    Service = Callable[[], Coroutine[None, None, None]]

_PACKAGE = "ollim_bot_standby"
_NO_STANDBY = (
    "This installation of ollim-bot has no standby, which a shared database needs. Install "
    "ollim-bot with its extra `[standby]`."
)


def shared_address(environ: Mapping[str, str], paths: DataPaths) -> str | None:
    """The address of the database that this machine shares; None if it has a file of its own."""
    named = environ.get(DATABASE_URL, "").strip()
    return named or load_env_file(paths.env_file).values.get(DATABASE_URL, "").strip() or None


class StandbyPackage(Protocol):
    """What the package brings. Each function may raise `OllimError`."""

    def run(self, argv: Sequence[str], caller: Any) -> None:
        """Run `ollim-bot standby` for a `Caller` of the terminal."""

    def check(self, given: Any) -> Iterable[Any]:
        """Yield what the doctor finds, for its `DoctorInput`."""

    def installation_id(self, paths: DataPaths) -> str:
        """Return the random id of this installation, made on first use."""

    def rows_by_bot(
        self, paths: DataPaths, now: Callable[[], datetime], *, is_agent: bool = False
    ) -> SharedBackend | None:
        """Return the rows as the bot here offers them; None if none answers this user."""

    def rows_on_server(
        self,
        url: str,
        paths: DataPaths,
        now: Callable[[], datetime],
        tell: Callable[[str], None] = lambda _: None,
    ) -> ServerRows:
        """Return the rows as they are on the server, which is connected when it is first asked."""

    def is_led(self, url: str) -> bool:
        """Return whether a machine leads. Raises `OllimError` if the server does not say."""

    def row_mover(
        self, url: str, paths: DataPaths, environ: Mapping[str, str], now: Callable[[], datetime]
    ) -> Callable[[Path], None]:
        """Return what puts the rows of a file on the server, if no machine leads."""

    def rows_in_file(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        now: Callable[[], datetime],
        say: Callable[[str], None],
    ) -> AbstractContextManager[None]:
        """Have all rows in a file here while entered, and nowhere else."""

    def open_database(
        self,
        settings: Settings,
        clock: Clock,
        heartbeat: HeartbeatFile,
        hand_over: Callable[[], object],
        tell: Callable[[str], None],
        end: Callable[[str], None] | None,
    ) -> SharedLead:
        """Return the database for a bot, with nothing connected yet.

        `hand_over` is called when another machine shall lead; `tell` gets sentences about files.
        `end` takes the place of what ends a process that leads no more.
        """


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


def load_standby() -> StandbyPackage:
    """Raises `OllimError` if this installation is without it."""
    try:
        return cast(StandbyPackage, import_module(_PACKAGE))
    except ModuleNotFoundError as missing:
        raise OllimError(_NO_STANDBY) from missing
