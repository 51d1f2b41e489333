"""Two bots with one database: one leads, the other one shows everything and takes over."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest
from devtools.cuttable_socket import CuttableSocket
from devtools.localdiscord.server import LocalDiscord
from devtools.scripted_model import ScriptedModel
from tests.e2e.bot import Bot
from tests.e2e.conftest import running
from tests.e2e.discord.discord_scene import account
from tests.e2e.in_process_bot import InProcessBot
from tests.e2e.killable_bot import KillableBot, serve_model
from tests.e2e.test_reminders import left, remind, said
from tests.patience import patience
from tests.postgres_server import new_url, server

from ollim_bot.kernel.store.database_errors import NOT_LEADING
from ollim_bot_standby.postgres.connection import connect_to, parse_address

pytestmark = pytest.mark.usefixtures("postgres")

SOCKET = ".s.PGSQL.5432"
RUNNING = "It is running"
STANDS_BY = "leads, and this machine stands by"
PANELS = ("today", "week", "jobs", "runs", "money", "settings", "sessions", "changes")


async def status(bot: Bot) -> dict[str, str]:
    async with bot.socket() as opened:
        found: dict[str, str] = (await opened.receive_json())["status"]
        return found


async def refusals(bot: Bot) -> dict[str, str]:
    """What the bot says to each way to change something."""
    said = {}
    body = {"line": "/quiet 1h", "message_id": "m", "custom_id": "c", "text": "x", "id": "x"}
    places = ["messages", "commands", "clicks", "interrupt", "read"]
    for place in [*places, *(f"panels/{each}/actions" for each in PANELS)]:
        async with bot.http.post(f"{bot.url}/api/{place}", json=body) as response:
            assert response.status == 503, (place, await response.text())
            said[place] = (await response.json())["error"]
    return said


@asynccontextmanager
async def in_process_pair(tmp_path: Path) -> AsyncIterator[tuple[Bot, Bot, ScriptedModel]]:
    model, settings = ScriptedModel(), {"DATABASE_URL": new_url()}
    homes = [tmp_path / name for name in ("desk", "shelf")]
    async with AsyncExitStack() as stack:
        bots: list[Bot] = []
        for home in homes:
            home.mkdir()
            bots.append(
                await stack.enter_async_context(running(InProcessBot(home, model, settings)))
            )
        yield bots[0], bots[1], model


@pytest.mark.real_time
async def test_a_standby_shows_everything_changes_nothing_and_takes_over(tmp_path: Path) -> None:
    async with in_process_pair(tmp_path) as (desk, shelf, model):
        model.answers("Hello, Ada.", "Here I am.")
        assert await desk.ask("hello") == "Hello, Ada."
        assert await shelf.answer() == "Hello, Ada."
        assert STANDS_BY in (await status(shelf))["trouble"]
        for panel in PANELS:
            async with shelf.http.get(f"{shelf.url}/api/panels/{panel}") as response:
                assert response.status == 200, (panel, await response.text())
        assert all(
            "leads, and this machine stands by" in each for each in (await refusals(shelf)).values()
        )
        assert await desk.stop() == 0
        await shelf.until(lambda: shelf.output.read_text().count(RUNNING) == 2)
        await shelf.reconnect()
        assert (await status(shelf))["trouble"] == ""
        assert await shelf.ask("still there?") == "Here I am."
        assert await shelf.answers() == ["Hello, Ada.", "Here I am."]


def is_known(url: str) -> bool:
    with closing(connect_to(parse_address(url))) as connection:
        rows = connection.execute("SELECT 1 FROM ledger WHERE value LIKE '%w1%'")
        return rows.fetchone() is not None


@pytest.mark.own_process
async def test_what_falls_due_while_the_database_is_away_comes_once_when_it_is_back(
    tmp_path: Path,
) -> None:
    url, running_server = new_url(), server()
    assert running_server is not None
    theirs = running_server.folder
    own = theirs / "desk"
    settings = {"DATABASE_URL": url.replace(quote(str(theirs), ""), quote(str(own), ""))}
    async with (
        CuttableSocket(own / SOCKET, theirs / SOCKET) as network,
        serve_model(ScriptedModel()) as port,
        LocalDiscord() as discord,
        running(KillableBot(tmp_path, port, {**settings, **account(discord)})) as desk,
    ):
        await discord.connected(patience())
        at = remind(desk, "w1", 2)
        await desk.until(lambda: is_known(url))
        network.cut()
        await asyncio.sleep((at - datetime.now(UTC)).total_seconds() + 3)
        network.mend()
        await desk.until(lambda: not left(desk))
        await desk.until(lambda: said(desk, "Drink water."))
        assert len(await said(desk, "Drink water.")) == 1
        await desk.until(lambda: "Drink water." in str(discord.said))
        assert sum("Drink water." in str(each) for each in discord.said) == 1
        assert desk.output.read_text().count(RUNNING) == 1


async def take_over(folder: Path, port: int, ending: signal.Signals) -> tuple[float, int, int]:
    """End the leader before a reminder is due.

    Returns how many seconds the standby took to deliver it, how often it came, and how the leader
    ended.
    """
    settings = {"DATABASE_URL": new_url(), "OLLIM_LOG": "info"}
    homes = [folder / name for name in ("desk", "shelf")]
    for home in homes:
        home.mkdir(parents=True)
    desk, shelf = (KillableBot(home, port, settings) for home in homes)
    async with running(desk), running(shelf):
        await desk.until(lambda: (desk.data / "state" / "heartbeat").exists())
        remind(desk, "w1", 4)
        await shelf.until(lambda: (shelf.data / "reminders" / "w1.md").exists())
        os.kill(desk.pid, ending)
        since = time.monotonic()
        await shelf.until(lambda: shelf.output.read_text().count(RUNNING) == 2)
        await shelf.reconnect()
        await shelf.until(lambda: said(shelf, "Drink water."))
        seconds = time.monotonic() - since
        if ending is signal.SIGSTOP:
            os.kill(desk.pid, signal.SIGCONT)
        code = await desk.wait()
        return seconds, len(await said(shelf, "Drink water.")), code


@pytest.mark.own_process
async def test_a_leader_that_is_killed_or_frozen_is_replaced_within_half_a_minute(
    tmp_path: Path,
) -> None:
    model = ScriptedModel()
    async with serve_model(model) as port:
        killed, frozen = await asyncio.gather(
            take_over(tmp_path / "a", port, signal.SIGKILL),
            take_over(tmp_path / "b", port, signal.SIGSTOP),
        )
    assert max(killed[0], frozen[0]) < 30
    assert (killed[1], frozen[1]) == (1, 1)
    assert frozen[2] == NOT_LEADING
