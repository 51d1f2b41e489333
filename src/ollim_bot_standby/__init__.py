"""The same bot on a second machine: its rows in PostgreSQL, and one machine that leads.

Here is what `ollim_bot.store.standby.StandbyPackage` asks for. Nothing is imported before it is
needed: psycopg may be missing, and a command beside the bot does without.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ollim_bot.errors import OllimError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime
    from pathlib import Path

    from ollim_bot.cli.caller import Caller
    from ollim_bot.paths import DataPaths
    from ollim_bot.ports import Clock
    from ollim_bot.settings import Settings
    from ollim_bot.store.heartbeat import HeartbeatFile
    from ollim_bot.upkeep.doctor import DoctorFinding, DoctorInput
    from ollim_bot_standby.bot_rows import BotRows
    from ollim_bot_standby.postgres.commands import CommandDatabase
    from ollim_bot_standby.shared_database import SharedDatabase

_NO_DRIVER = (
    "DATABASE_URL is set, but what speaks to PostgreSQL is not installed. Install "
    "`ollim-bot[standby]` in place of `ollim-bot`."
)


def run(argv: Sequence[str], caller: Caller) -> None:
    from ollim_bot_standby.cli import run

    run(argv, caller)


def check(given: DoctorInput) -> Iterable[DoctorFinding]:
    from ollim_bot_standby.checks import check_standby

    return check_standby(given)


def installation_id(paths: DataPaths) -> str:
    from ollim_bot_standby.machine_id import machine_id

    return machine_id(paths)


def rows_by_bot(
    paths: DataPaths, now: Callable[[], datetime], *, is_agent: bool = False
) -> BotRows | None:
    from ollim_bot_standby.bot_rows import rows_beside_bot

    return rows_beside_bot(paths.commands, now, is_agent=is_agent)


def rows_on_server(
    url: str,
    paths: DataPaths,
    now: Callable[[], datetime],
    tell: Callable[[str], None] = lambda _: None,
) -> CommandDatabase:
    _require_psycopg()
    from ollim_bot_standby.postgres.commands import CommandDatabase
    from ollim_bot_standby.postgres.connection import parse_address

    return CommandDatabase(parse_address(url), paths, now, partial(_adds_power, paths), tell)


def _adds_power(paths: DataPaths, path: str, content: bytes | None, is_executable: bool) -> bool:
    """As that of the bot, which loads the names of all tools."""
    from ollim_bot_standby.powers import adds_power

    return adds_power(paths, path, content, is_executable)


def is_led(url: str) -> bool:
    _require_psycopg()
    from ollim_bot_standby.postgres.lease import leader_at

    leader = leader_at(url)
    return leader is not None and leader.is_leading


def row_mover(
    url: str, paths: DataPaths, environ: Mapping[str, str], now: Callable[[], datetime]
) -> Callable[[Path], None]:
    _require_psycopg()
    from ollim_bot.settings import Secret
    from ollim_bot_standby.machine import Machine
    from ollim_bot_standby.moving import check_restore, replace_rows

    check_restore(Secret(url))
    return partial(replace_rows, Machine(paths, environ, now), Secret(url))


def rows_in_file(
    settings: Settings,
    environ: Mapping[str, str],
    now: Callable[[], datetime],
    say: Callable[[str], None],
) -> AbstractContextManager[None]:
    from ollim_bot_standby.cli import refuse_address_in_environment

    refuse_address_in_environment(environ)
    _require_psycopg()
    from ollim_bot_standby.keys import key_names
    from ollim_bot_standby.machine import Machine
    from ollim_bot_standby.moving import rows_in_file

    assert settings.database_url is not None
    here = Machine(settings.paths, environ, now, say)
    return rows_in_file(here, settings.database_url, key_names(settings))


def open_database(
    settings: Settings,
    clock: Clock,
    heartbeat: HeartbeatFile,
    hand_over: Callable[[], object],
    tell: Callable[[str], None],
    end: Callable[[str], None] | None,
) -> SharedDatabase:
    _require_psycopg()
    from ollim_bot_standby.shared_database import SharedDatabase

    return SharedDatabase(settings, clock, heartbeat, hand_over, tell, end)


def _require_psycopg() -> None:
    if find_spec("psycopg") is None:
        raise OllimError(_NO_DRIVER)
