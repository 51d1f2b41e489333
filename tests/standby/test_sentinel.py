"""Of machines that share a database, one delivers what must come, also without the database."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.e2e.conftest import running
from tests.e2e.discord.discord_scene import account, in_process_scene, killable_scene, words
from tests.e2e.discord.test_sentinel import BLUE, commanded, make_due_without_heartbeat, remind
from tests.e2e.discord.test_shown_before import is_made_whole
from tests.e2e.killable_bot import KillableBot
from tests.features.conftest import terminal
from tests.features.sentinel.test_sentinel_command import after_crash, fake_notifier
from tests.postgres_server import new_url, own_server, url_of
from tests.terminal import Terminal

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot_standby.postgres.connection import parse_address
from ollim_bot_standby.postgres.lease import Lease

__all__ = ["after_crash", "terminal"]


@pytest.mark.usefixtures("postgres")
def test_where_machines_share_a_database_its_lease_says_who_delivers(after_crash: Terminal) -> None:
    url = new_url()
    after_crash.environ["DATABASE_URL"] = url
    with closing(Lease(parse_address(url), "shelf")) as shelf:
        shelf.take()
        assert after_crash.run("sentinel") == (0, "", "")
        assert after_crash.json("sentinel")["bot"] == "running"
        shelf.release()
        assert after_crash.json("sentinel")["bot"] == "silent"
    assert after_crash.json("sentinel")["delivered"] == []


@pytest.mark.real_process
def test_without_an_answer_of_the_shared_database_it_delivers_after_a_minute(
    after_crash: Terminal,
) -> None:
    fake_notifier(after_crash)
    after_crash.wait(minutes=1)
    after_crash.environ["DATABASE_URL"] = "postgresql:///ollim?host=/nowhere"
    said = after_crash.json("sentinel")
    assert [one["title"] for one in said["delivered"]] == ["Drink water"]


@pytest.mark.own_process
async def test_without_the_shared_database_what_must_come_comes_once(tmp_path: Path) -> None:
    """The machine that led last brings it; with the database, another one does not repeat it."""
    with own_server() as server:
        settings = {"DATABASE_URL": url_of(server)}
        desk_home, shelf_home = tmp_path / "desk", tmp_path / "shelf"
        for each in (desk_home, shelf_home):
            each.mkdir()
        async with killable_scene(desk_home, settings) as scene:
            paths = DataPaths(scene.bot.data)
            await scene.until(paths.known_schedule.exists)
            await scene.bot.stop()
            server.kill()
            make_due_without_heartbeat(scene, "blue", BLUE, seconds=120)
            assert (
                await asyncio.to_thread(commanded, scene) == f"“{BLUE}” was delivered: Discord.\n"
            )
            assert await asyncio.to_thread(commanded, scene) == ""
            assert "The database cannot be reached" in words(await scene.card(BLUE))

            server.start()
            scene.discord.forget_nonces()
            shelf = KillableBot(shelf_home, 1, {**account(scene.discord), **settings})
            remind(shelf, "blue", BLUE, datetime.now(UTC) - timedelta(seconds=120))
            async with running(shelf):
                await scene.until(lambda: not (shelf.data / "reminders" / "blue.md").exists())
                await shelf.stop()
            assert paths.sentinel.exists()
            await scene.bot.start()
            await scene.until(lambda: not paths.sentinel.exists())
            assert scene.card_count(BLUE) == 1


@pytest.mark.real_time
@pytest.mark.usefixtures("postgres")
async def test_what_is_looked_up_after_a_take_over_gets_its_buttons(tmp_path: Path) -> None:
    async with in_process_scene(tmp_path, settings={"DATABASE_URL": new_url()}) as scene:
        await is_made_whole(scene, 90)
