"""The whole bot in the process of the test, with its real page, discord.py and files.

Only the engine and the git history are doubled, and time is that of the loop. Tests that need a
process, such as for a kill or a signal, use `KillableBot`; tests that need the engine's program use
`Bot`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from devtools.doubles.journal import RecordingJournal
from devtools.scripted_model import ScriptedModel
from tests.e2e.bot import Bot
from tests.e2e.model_engine import ModelEngine
from tests.patience import patience
from tests.virtual_loop import LoopClock

from ollim_bot.app.app import Adapters, App, Ending
from ollim_bot.app.surfaces import MakeChannel
from ollim_bot.features.phone.ntfy_channel import NtfyChannel
from ollim_bot.features.phone.push_file import PushFile
from ollim_bot.kernel.base.clock import Clock, MovableClock
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.values.ports import Channel, OpenAttachment
from ollim_bot.surfaces.discord.surface import Account, DiscordSurface


class InProcessBot(Bot):
    """`Bot` with the same methods, but without a process; `clock` is the loop's by default."""

    def __init__(
        self,
        home: Path,
        model: ScriptedModel,
        settings: Mapping[str, str],
        clock: MovableClock | None = None,
    ) -> None:
        super().__init__(home, None, settings)
        self._read = Settings.from_env(self.environment(), cwd=home)
        self._clock = clock or LoopClock(self._read.zone)
        self._engine = ModelEngine(model, self._clock)
        self._app: App | None = None
        self.ends: list[str] = []
        self._running: asyncio.Task[None] | None = None
        self._others: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:  # type: ignore[override]
        self._others = asyncio.all_tasks()
        self._running = asyncio.create_task(self._until_stopped())
        await self.reconnect()

    async def run_to_its_end(self) -> None:
        """Run until the bot ends by itself. Raises the error that ended it."""
        async with asyncio.timeout(patience()):
            await self._until_stopped()

    async def stop(self, signal_number: int = signal.SIGTERM) -> int:
        assert self._app is not None
        assert self._running is not None
        await self._disconnect()
        if signal_number == signal.SIGKILL:
            self._running.cancel()
        self._app.stop()
        async with asyncio.timeout(patience()):
            await asyncio.wait({self._running})
            if signal_number == signal.SIGKILL:
                await self._end_tasks()
        if not self._running.cancelled():
            self._running.result()
        return 0

    async def _end_tasks(self) -> None:
        """End what the bot had begun, as the end of its process would."""
        begun = asyncio.all_tasks() - self._others - {asyncio.current_task()}
        for task in begun:
            task.cancel()
        if begun:
            await asyncio.wait(begun)

    async def _until_stopped(self) -> None:
        with _logged(self.output):
            while True:
                adapters = Adapters(
                    clock=self._clock,
                    engine=self._engine,
                    journal=RecordingJournal(),
                    newer_version=_none_newer,
                    end=self.ends.append,
                )
                self._app = app_with(self._read, adapters, self._print)
                if await self._app.run() is Ending.STOPPED:
                    return

    def _print(self, line: str) -> None:
        with self.output.open("a") as output:
            output.write(f"{line}\n")

    def _check(self) -> None:
        assert self._running is not None
        if self._running.done() and self._http is not None:
            self._running.result()
            raise AssertionError("The bot has ended.")


async def _none_newer() -> str | None:
    """Does not ask git, as the bot does."""
    return None


def app_with(settings: Settings, adapters: Adapters, tell: Callable[[str], None]) -> App:
    """The bot with these adapters and a true Discord; it calls `tell` when it is up."""
    return App(
        settings,
        adapters,
        channels=_channels(settings),
        announce=lambda *_: tell("It is running with its data here."),
    )


def _channels(settings: Settings) -> list[MakeChannel]:
    def phone(store: Store, _: OpenAttachment, clock: Clock) -> Channel:
        return NtfyChannel(store, PushFile(settings.paths), lambda: settings.ntfy, clock)

    if settings.discord_token is None:
        return [phone]
    account = Account(settings.discord_token, settings.discord_owner_id, settings.discord_api_url)

    def made(store: Store, opener: OpenAttachment, clock: Clock) -> Channel:
        downloads = settings.paths.state / "discord"
        return DiscordSurface(account, store, opener, downloads, _LoopPauses(clock))

    return [made, phone]


class _LoopPauses(LoopClock):
    """The time of the bot's clock with pauses by the loop, because discord.py measures these."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(UTC)
        self._wall = clock

    def now(self) -> datetime:
        return self._wall.now()


@contextmanager
def _logged(output: Path) -> Iterator[None]:
    ours = logging.getLogger("ollim_bot")
    level, handler = ours.level, logging.FileHandler(output)
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    try:
        yield
    finally:
        ours.setLevel(level)
        ours.removeHandler(handler)
        handler.close()
