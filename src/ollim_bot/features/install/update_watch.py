"""The running bot's part of an update: it starts the updater, and tells what comes of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from ollim_bot import __version__
from ollim_bot.features.install.releases import NotUpdatable, find_installation, newest_known
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.environment import own_command, program_path, python_places
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.orphans import passing_on
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.upkeep.hand_over import (
    Phase,
    UpdateRecord,
    maintenance_in_progress,
    read_update,
)
from ollim_bot.kernel.values.commands import slash_command
from ollim_bot.kernel.values.inbox import CommandCall

BEGUN = "Looking for a newer version. I say here what comes of it."
_GOES_ON = "An update is going on already. I say here what comes of it."
_NOT_BEGUN = "The update did not begin. Run `ollim-bot update` in a terminal to see why."

# The pause lets the shell end first: the updater must not be a child of the bot, since the bot
# ends before it, and since commands below the bot count as the agent's.
_DETACHED = '(sleep 1; exec "$@") </dev/null >/dev/null 2>&1 &'
# Else systemd would end the updater together with the service.
_IN_A_SCOPE = (
    "(sleep 1; in_scope='systemd-run --user --scope --quiet --collect'; "
    '$in_scope true && exec $in_scope "$@"; exec "$@") </dev/null >/dev/null 2>&1 &'
)
_BETWEEN_LOOKS = 1.0
_TIME_TO_BEGIN = timedelta(seconds=30)
# An older outcome is no news.
_NEWS = timedelta(days=1)


async def newer_version() -> str | None:
    """A newer version that is known without asking the network."""

    def look() -> str | None:
        try:
            installation = find_installation()
        except NotUpdatable:
            return None
        newest = newest_known(installation, os.environ)
        return str(newest) if newest is not None and newest > installation.version else None

    return await asyncio.to_thread(look)


StartDetached = Callable[[Sequence[str]], Awaitable[None]]


@dataclass(slots=True)
class BotUpdates:
    """`start` starts a program that outlives the bot; `restart` ends the bot, to start again."""

    paths: DataPaths
    clock: Clock
    tell: Callable[..., Awaitable[object]]
    is_idle: Callable[[], bool]
    restart: Callable[[], None]
    start: StartDetached
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _is_daily: bool = False
    _last: UpdateRecord | None = None

    async def begin(self) -> str:
        """Begin an update, for the owner, at once."""
        try:
            return BEGUN if await self._begin("update") else _GOES_ON
        except OllimError as refused:
            return str(refused)

    async def begin_daily(self) -> None:
        """Begin an update that goes on when the bot is idle, and tells only what matters.

        Raises `OllimError` if it cannot begin.
        """
        await self._begin("update", "--when-idle")

    async def _begin(self, *words: str) -> bool:
        is_running, self._last = await self._look()
        if is_running:
            return False
        await self.start(words)
        self._is_daily = len(words) > 1
        self._wanted.set()
        return True

    async def run(self, started: Callable[[], Awaitable[None]]) -> None:
        """Tell how the last update went once the bot has `started`; then follow those begun."""
        await started()
        _, record = await self._look()
        is_news = record is not None and self.clock.now() - record.began_at < _NEWS
        if record is not None and is_news and record.phase is not Phase.FAILED:
            await self._tell_of(record)
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._follow()

    async def _follow(self) -> None:
        """Tell what comes of the update that was begun, and end for it once the bot is idle."""
        begins_by = self.clock.now() + _TIME_TO_BEGIN
        is_running, record = await self._look()
        while is_running or (record == self._last and self.clock.now() < begins_by):
            if record and record.asks(os.getpid()) and record.when_idle and self.is_idle():
                self.restart()
            await self.clock.sleep(_BETWEEN_LOOKS)
            is_running, record = await self._look()
        if record != self._last:
            await self._tell_of(record, is_daily=self._is_daily)
        elif not self._is_daily:
            await self.tell(_NOT_BEGUN, key=f"{_NOT_BEGUN} {self.clock.now().isoformat()}")

    async def _look(self) -> tuple[bool, UpdateRecord | None]:
        """Whether an update or a restore goes on, and how far the last update has come."""
        # In this order: what ends has written its record before.
        running = await asyncio.to_thread(maintenance_in_progress, self.paths)
        return running is not None, await asyncio.to_thread(read_update, self.paths)

    async def _tell_of(self, record: UpdateRecord | None, *, is_daily: bool = False) -> None:
        if record is not None and record.phase.is_over:
            # The same failure each morning is told once.
            name = f"{record.new}: {record.reason}" if is_daily else record.began_at.isoformat()
            # At once, like what concerns a reminder: the bot was away for it.
            await self.tell(str(record), key=f"update {name}", for_reminder=True)


async def start_updater(paths: DataPaths, environ: Mapping[str, str], words: Sequence[str]) -> None:
    """Start a command of the version in use, for this data directory, that outlives the bot.

    Raises `OllimError` if this installation cannot be updated.
    """
    await asyncio.to_thread(find_installation)
    path = environ.get("PATH", "")
    is_service = "INVOCATION_ID" in environ and program_path("systemd-run", path)
    script = _IN_A_SCOPE if is_service else _DETACHED
    places = python_places(environ, os.getcwd())
    try:
        with passing_on():
            shell = await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", script, "sh", *own_command(), *words),
                env={**environ, **places, "OLLIM_DATA_DIR": str(paths.root)},
                start_new_session=True,
            )
            await shell.wait()
    except OSError as refused:
        raise OllimError(f"The updater cannot be started: {refused.strerror}.") from refused


@dataclass(frozen=True, slots=True)
class ProgramCommands:
    """`restart_bot` and `update_bot` are for the whole bot; `newer_version` is a known one."""

    restart_bot: Callable[[], None]
    update_bot: Callable[[], Awaitable[str]]
    newer_version: Callable[[], Awaitable[str | None]]

    @slash_command(250, "update", "Put a newer version in place, after a backup, if it works")
    async def update(self, _: CommandCall) -> str:
        return await self.update_bot()

    @slash_command(240, "version", "Which version this is")
    async def version(self, _: CommandCall) -> str:
        present, newer = f"ollim-bot {__version__}", await self.newer_version()
        return f"{present}. {newer} is there; `/update` puts it in place." if newer else present

    @slash_command(260, "restart", "Stop the bot and start it again")
    async def restart(self, _: CommandCall) -> str:
        self.restart_bot()
        return texts.RESTARTING
