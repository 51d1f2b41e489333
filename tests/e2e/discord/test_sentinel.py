"""The sentinel beside a real bot that hangs, and beside one that was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from tests.e2e.bot import Bot
from tests.e2e.discord.discord_scene import DiscordScene, words

from ollim_bot.features.sentinel.sentinel_file import deliveries_left
from ollim_bot.features.sentinel.sentinel_process import Sentinel, SentinelEnvironment
from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Secret
from ollim_bot.kernel.store.attachments.attachment_files import files_of
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.store.questions import DATABASE
from ollim_bot.kernel.store.store import Store
from ollim_bot.surfaces.discord.surface import Account, DiscordSurface
from ollim_bot.surfaces.terminal.main import main

BLUE, RED = "Take the blue pill", "Take the red pill"


@dataclass
class SkippingClock:
    """The real time; a wait moves the clock ahead and returns at once, and no call takes long."""

    ahead: float = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.ahead)

    def monotonic(self) -> float:
        return self.ahead

    async def sleep(self, seconds: float) -> None:
        if seconds > 5:
            await asyncio.Event().wait()
        self.ahead += seconds


def make_due_without_heartbeat(
    scene: DiscordScene, name: str, text: str, seconds: float = 5
) -> None:
    """Write a reminder that is due since then, and a heartbeat that is ten minutes old."""
    now = datetime.now(UTC)
    HeartbeatFile(DataPaths(scene.bot.data)).write(now - timedelta(minutes=10))
    remind(scene.bot, name, text, now - timedelta(seconds=seconds))


def remind(bot: Bot, name: str, text: str, at: datetime) -> None:
    head = f'---\nid: {name}\nrun-at: "{at.isoformat(timespec="seconds")}"\nplain: true\n---\n'
    folder = bot.data / "reminders"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(f"{head}{text}\n")


def watched(scene: DiscordScene) -> list[tuple[str, ...]]:
    """Run the sentinel without waits; returns its deliveries."""
    paths, discord = DataPaths(scene.bot.data), scene.discord
    account = Account(Secret(discord.token), None, discord.api_url)

    def made(store: Store, clock: Clock) -> DiscordSurface:
        return DiscordSurface(
            account, store, files_of(paths.root, paths.attachments), paths.state, clock
        )

    around = SentinelEnvironment(channels={"discord": made})
    report = asyncio.run(Sentinel(paths, SkippingClock(), around).run())
    return [each.through for each in report.outcomes]


def commanded(scene: DiscordScene) -> str:
    said = StringIO()
    environ = {**scene.bot.environment(), "PATH": str(scene.bot.home)}
    with redirect_stdout(said):
        assert main(["sentinel"], environ=environ, cwd=scene.bot.home) == 0
    return said.getvalue()


def is_gone(scene: DiscordScene, name: str) -> bool:
    return not (scene.bot.data / "reminders" / f"{name}.md").exists()


@pytest.mark.own_process
async def test_what_must_come_comes_once_beside_a_bot_that_hangs_or_is_dead(
    scene: DiscordScene,
) -> None:
    os.kill(scene.bot.pid, signal.SIGSTOP)
    make_due_without_heartbeat(scene, "blue", BLUE)
    assert await asyncio.to_thread(watched, scene) == [("discord",)]
    card = await scene.card(BLUE)
    assert "The bot does not answer; this came from its watch." in words(card)
    os.kill(scene.bot.pid, signal.SIGCONT)
    await scene.until(lambda: is_gone(scene, "blue"))
    await scene.said_with(f"While I was away, my watch brought “{BLUE}”")
    await scene.press(card, "Done")
    await scene.until(lambda: words(scene.discord.message(card.id)).startswith(f"✓ {BLUE}"))

    await scene.bot.kill()
    make_due_without_heartbeat(scene, "red", RED)
    assert await asyncio.to_thread(commanded, scene) == f"“{RED}” was delivered: Discord.\n"
    assert await asyncio.to_thread(commanded, scene) == ""
    await scene.bot.start()
    await scene.until(lambda: is_gone(scene, "red"))
    await scene.said_with(f"While I was away, my watch brought “{RED}”")
    assert (scene.card_count(BLUE), scene.card_count(RED)) == (0, 1)
    states = [row.state for row in scene.bot.ledger() if row.occurrence is not None]
    assert states == ["due", "done", "delivered", "answered", "due", "done", "delivered"]


@pytest.mark.own_process
async def test_without_its_database_what_must_come_comes_once_and_the_bot_reads_it_first(
    scene: DiscordScene,
) -> None:
    """The bot was stopped on purpose, the database is locked by another, and then it is gone."""
    paths = DataPaths(scene.bot.data)
    database = paths.state / DATABASE
    await scene.bot.stop()
    make_due_without_heartbeat(scene, "blue", BLUE)
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert await asyncio.to_thread(commanded, scene) == f"“{BLUE}” was delivered: Discord.\n"
        assert "The bot is stopped; this came from its watch." in words(await scene.card(BLUE))
    database.rename(paths.root / DATABASE)
    make_due_without_heartbeat(scene, "red", RED)
    assert await asyncio.to_thread(commanded, scene) == f"“{RED}” was delivered: Discord.\n"
    (paths.root / DATABASE).rename(database)
    assert len(deliveries_left(paths)) == 2

    await scene.bot.start()
    await scene.until(lambda: is_gone(scene, "blue") and is_gone(scene, "red"))
    await scene.said_with(f"While I was away, my watch brought “{RED}”")
    assert not paths.sentinel.exists()
    assert (scene.card_count(BLUE), scene.card_count(RED)) == (1, 1)
    states = [row.state for row in scene.bot.ledger() if row.occurrence is not None]
    assert states == ["due", "done", "delivered"] * 2
