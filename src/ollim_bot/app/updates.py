"""The running bot's part of an update: it starts the updater, hands over, and tells the outcome."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from ollim_bot.app.orphans import passing_on
from ollim_bot.environment import own_command, program_path, python_places
from ollim_bot.errors import OllimError, StorageError
from ollim_bot.paths import DataPaths
from ollim_bot.ports import Clock
from ollim_bot.upkeep.hand_over import (
    Phase,
    UpdateRecord,
    asked_to_hand_over,
    confirm_update,
    maintenance_in_progress,
    read_update,
)
from ollim_bot.upkeep.releases import NotUpdatable, find_installation, newest_known

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
_TIME_TO_BEGIN = 30.0
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


class TellOutcome(Protocol):
    def __call__(
        self, sentence: str, *, key: str | None = None, for_reminder: bool = False
    ) -> Awaitable[object]: ...


StartDetached = Callable[[Sequence[str]], Awaitable[None]]


class BotUpdates:
    """`start` starts a program that outlives the bot; `restart` ends the bot, to start again."""

    def __init__(
        self,
        paths: DataPaths,
        clock: Clock,
        tell: TellOutcome,
        is_idle: Callable[[], bool],
        restart: Callable[[], None],
        start: StartDetached,
    ) -> None:
        self._paths = paths
        self._clock = clock
        self._tell = tell
        self._is_idle = is_idle
        self._restart = restart
        self._start = start
        self._wanted = asyncio.Event()
        self._is_daily = False
        self._last: UpdateRecord | None = None

    async def begin(self) -> str:
        """Begin an update, for the owner, at once."""
        if await asyncio.to_thread(maintenance_in_progress, self._paths) is not None:
            return _GOES_ON
        try:
            await self._begin("update", is_daily=False)
        except OllimError as refused:
            return str(refused)
        return BEGUN

    async def begin_daily(self) -> None:
        """Begin an update that hands over when the bot is idle, and tells only what matters.

        Raises `OllimError` if it cannot begin.
        """
        if await asyncio.to_thread(maintenance_in_progress, self._paths) is None:
            await self._begin("update", "--when-idle", is_daily=True)

    async def run(self, started: Callable[[], Awaitable[None]]) -> None:
        """Tell how the last update went once the bot has `started`; then follow those begun."""
        await started()
        await self._confirm()
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._follow()

    async def _begin(self, *words: str, is_daily: bool) -> None:
        self._last = await asyncio.to_thread(read_update, self._paths)
        self._is_daily = is_daily
        await self._start(words)
        self._wanted.set()

    async def _confirm(self) -> None:
        try:
            record = await asyncio.to_thread(confirm_update, self._paths)
        except StorageError:  # the next start confirms it
            return
        if record is None or record.phase not in (Phase.DONE, Phase.RETURNED):
            return
        if self._clock.now() - record.began_at < _NEWS:
            await self._tell_of(record, f"update {record.began_at.isoformat()}")

    async def _follow(self) -> None:
        if not await self._wait_for_begin():
            if not self._is_daily:
                await self._tell(_NOT_BEGUN, key=f"{_NOT_BEGUN} {self._clock.now().isoformat()}")
            return
        while await asyncio.to_thread(maintenance_in_progress, self._paths) is not None:
            asked = await asyncio.to_thread(asked_to_hand_over, self._paths, os.getpid())
            if asked is not None and asked.when_idle and self._is_idle():
                self._restart()
            await self._clock.sleep(_BETWEEN_LOOKS)
        record = await asyncio.to_thread(read_update, self._paths)
        if record is None or record == self._last:
            return
        # The same failure each morning is told once.
        of_day = f"{record.new}: {record.reason}" if self._is_daily else ""
        await self._tell_of(record, f"update {of_day or record.began_at.isoformat()}")

    async def _wait_for_begin(self) -> bool:
        """Wait until the updater shows itself or has ended; False if it does neither soon."""
        for _ in range(int(_TIME_TO_BEGIN / _BETWEEN_LOOKS)):
            if await asyncio.to_thread(maintenance_in_progress, self._paths) is not None:
                return True
            if await asyncio.to_thread(read_update, self._paths) != self._last:
                return True
            await self._clock.sleep(_BETWEEN_LOOKS)
        return False

    async def _tell_of(self, record: UpdateRecord, key: str) -> None:
        if record.phase.is_over:
            # At once, like what concerns a reminder: the bot was away for it.
            await self._tell(str(record), key=key, for_reminder=True)


def updater_start(paths: DataPaths, environ: Mapping[str, str]) -> StartDetached:
    """Starts the updater; raises `OllimError` if this installation cannot be updated."""
    start = detached(paths, environ)

    async def start_updater(words: Sequence[str]) -> None:
        await asyncio.to_thread(find_installation)
        await start(words)

    return start_updater


def detached(paths: DataPaths, environ: Mapping[str, str]) -> StartDetached:
    """Starts commands of this program, of the version in use, for this data directory."""

    async def start(words: Sequence[str]) -> None:
        path = environ.get("PATH", "")
        is_service = "INVOCATION_ID" in environ and program_path("systemd-run", path)
        script = _IN_A_SCOPE if is_service else _DETACHED
        places = python_places(environ, os.getcwd())
        try:
            with passing_on():
                shell = await asyncio.create_subprocess_exec(
                    "/bin/sh",
                    "-c",
                    script,
                    "sh",
                    *own_command(),
                    *words,
                    env={**environ, **places, "OLLIM_DATA_DIR": str(paths.root)},
                    start_new_session=True,
                )
                await shell.wait()
        except OSError as refused:
            raise OllimError(f"The updater cannot be started: {refused.strerror}.") from refused

    return start
