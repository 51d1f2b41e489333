"""The sentinel beside a real bot that hangs, and beside one that was killed."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from tests.e2e.discord.talk import Talk, words

from ollim_bot.cli.main import main
from ollim_bot.paths import DataPaths
from ollim_bot.settings import Secret
from ollim_bot.store.heartbeat import HeartbeatFile
from ollim_bot.surfaces.discord.rest import DiscordRest
from ollim_bot.upkeep.direct_channels import SentinelEnvironment
from ollim_bot.upkeep.sentinel import Sentinel

BLUE, RED = "Take the blue pill", "Take the red pill"


@dataclass
class Hurrying:
    """The real time, and no waiting."""

    ahead: float = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.ahead)

    def monotonic(self) -> float:
        return self.ahead

    def sleep(self, seconds: float) -> None:
        self.ahead += seconds


def is_due_in_silence(talk: Talk, name: str, text: str) -> None:
    """A reminder is due, and the last heartbeat is ten minutes old."""
    now = datetime.now(UTC)
    HeartbeatFile(DataPaths(talk.bot.data)).write(now - timedelta(minutes=10))
    at = (now - timedelta(seconds=5)).isoformat(timespec="seconds")
    head = f'---\nid: {name}\nrun-at: "{at}"\nplain: true\n---\n'
    (talk.bot.data / "reminders" / f"{name}.md").write_text(f"{head}{text}\n")


def watched(talk: Talk) -> list[tuple[str, ...]]:
    """What a run of the sentinel that does not wait has delivered."""
    clock, discord = Hurrying(), talk.discord
    channel = DiscordRest(Secret(discord.token), None, discord.api_url, "", clock)
    around = SentinelEnvironment(channel=channel)
    report = Sentinel(DataPaths(talk.bot.data), UTC, clock, around).run()
    return [each.through for each in report.outcomes]


def commanded(talk: Talk) -> str:
    said = StringIO()
    environ = {**talk.bot.environment(), "PATH": str(talk.bot.home)}
    with redirect_stdout(said):
        assert main(["sentinel"], environ=environ, cwd=talk.bot.home) == 0
    return said.getvalue()


def is_gone(talk: Talk, name: str) -> bool:
    return not (talk.bot.data / "reminders" / f"{name}.md").exists()


@pytest.mark.own_process
async def test_what_must_come_comes_once_beside_a_bot_that_hangs_or_is_dead(talk: Talk) -> None:
    os.kill(talk.bot.pid, signal.SIGSTOP)
    is_due_in_silence(talk, "blue", BLUE)
    assert await asyncio.to_thread(watched, talk) == [("discord",)]
    card = await talk.card(BLUE)
    assert "The bot does not answer; this came from its watch." in words(card)
    os.kill(talk.bot.pid, signal.SIGCONT)
    await talk.until(lambda: is_gone(talk, "blue"))
    await talk.said_with(f"While I was away, my watch brought “{BLUE}”")
    await talk.press(card, "Done")
    await talk.until(lambda: words(talk.discord.message(card.id)).startswith(f"✓ {BLUE}"))

    await talk.bot.kill()
    is_due_in_silence(talk, "red", RED)
    assert await asyncio.to_thread(commanded, talk) == f"“{RED}” was delivered: discord.\n"
    assert await asyncio.to_thread(commanded, talk) == ""
    await talk.bot.start()
    await talk.until(lambda: is_gone(talk, "red"))
    await talk.said_with(f"While I was away, my watch brought “{RED}”")
    assert (talk.count(BLUE), talk.count(RED)) == (0, 1)
    states = [row.state for row in talk.bot.ledger() if row.occurrence is not None]
    assert states == ["due", "done", "delivered", "answered", "due", "done", "delivered"]
