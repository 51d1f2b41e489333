"""The real bot goes on as a new version, and as the old one if the new one does not start.

Only the environments of the versions are fake: each start of the bot runs this tree. In `make
chaos`, `test_whole_update.py` does the same with real environments and pip.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from multiprocessing import Process
from pathlib import Path

import pytest
from tests.e2e import fork_server
from tests.e2e.bot import Bot
from tests.e2e.discord.discord_scene import real_engine_scene
from tests.patience import patience
from tests.update.fake_installation import OLD, FakeInstallation

from ollim_bot import __version__
from ollim_bot.domain.presence import Version
from ollim_bot.upkeep.hand_over import UpdateRecord
from ollim_bot.upkeep.releases import release_source
from ollim_bot.upkeep.updater import Updater

# This tree takes the place of both in turn.
NEXT = Version(99, 0, 0)


class RealBotScene:
    def __init__(self, home: Path, bot: Bot | None = None) -> None:
        self.bot = bot or Bot(home, None, {"OLLIM_MODEL": "offline"})
        self.fake = FakeInstallation(home)
        self.installation = self.fake.installation()

    async def update(self, old: str, new: str) -> str:
        """Update the running bot as another terminal does, and return what both tell."""
        record = await asyncio.to_thread(self.run, old, new)
        await self.bot.reconnect()
        await self.bot.note(str(record))
        return str(record)

    def run(self, old: str, new: str) -> UpdateRecord:
        self.fake.newest = new
        self.fake.write_plan()
        version = Version.of(old)
        assert version is not None
        installation = replace(self.installation, version=version)
        environ = {**self.fake.environ, **self.bot.environment()}
        source = release_source(installation, environ)
        return Updater(
            self.fake.paths,
            installation,
            source,
            environ,
            lambda: datetime.now(UTC),
            print,
            limit=patience(),
        ).run()


@pytest.mark.own_process
async def test_the_bot_goes_on_as_the_new_or_as_the_old_version(tmp_path: Path) -> None:
    scene = RealBotScene(tmp_path)
    bot = scene.bot
    try:
        await bot.start()
        await bot.ask("hello")
        # It holds back until its heartbeat has come.
        assert await scene.update(str(OLD), __version__) == (
            f"Updated from {OLD} to {__version__}."
        )
        scene.fake.behaviour[str(NEXT)] = "migration"
        returned = (
            f"Version {NEXT} did not start, so {__version__} goes on with all data as it was: "
        )
        said = await scene.update(__version__, str(NEXT))
        assert said == f"{returned}sqlite3.OperationalError: no such column: x."
        for words in ("cut off", "earlier copy", "lost"):
            assert not any(words in text for text in await bot.notes())
        assert await bot.ask("hello again")
        assert not scene.installation.beside.exists()
        assert not scene.fake.paths.before_update.exists(), "the data was put back"
    finally:
        await bot.kill()


@pytest.mark.own_process
async def test_the_bot_goes_on_as_it_was_if_the_updater_is_killed(tmp_path: Path) -> None:
    scene = RealBotScene(tmp_path)
    scene.fake.behaviour[str(NEXT)] = "migrates long"
    bot = scene.bot
    updater = Process(target=scene.run, args=(__version__, str(NEXT)))
    try:
        await bot.start()
        await bot.ask("hello")
        updater.start()
        await bot.until(lambda: asyncio.to_thread(scene.fake.is_on_trial))
        updater.kill()
        await bot.reconnect()
        await bot.note("goes on with all data as it was: the update was cut off.")
        assert await bot.ask("hello again")
        with closing(sqlite3.connect(bot.data / "state" / "ollim.db")) as database:
            assert database.execute("PRAGMA user_version").fetchone() != (99,)
    finally:
        updater.kill()
        updater.join()
        updater.close()
        await bot.kill()


@pytest.mark.real_engine
@pytest.mark.parametrize(
    ("old", "new", "how"),
    [(str(OLD), __version__, "long"), (__version__, str(NEXT), "migration long")],
    ids=["the new version answers", "the old version answers"],
)
async def test_what_the_owner_writes_meanwhile_is_answered_once(
    tmp_path: Path, old: str, new: str, how: str
) -> None:
    async with real_engine_scene(tmp_path) as discord:
        scene = RealBotScene(tmp_path, discord.bot)
        scene.fake.behaviour[new] = how
        await discord.ask("hello", "Hi Ada.")
        update = asyncio.create_task(asyncio.to_thread(scene.run, old, new))
        await discord.until(lambda: asyncio.to_thread(scene.fake.is_on_trial))
        discord.model.answers("I am.")
        discord.discord.say("are you there?")
        scene.fake.let_go_on()
        await discord.said("I am.")
        record = await update
        await discord.said_with(str(record))
        assert sum("I am." in each.text for each in discord.discord.said) == 1


def trial() -> None:
    sys.argv.append("--trial")
    import_module("ollim_bot.cli.main").run()


@pytest.mark.real_process
async def test_the_exit_code_of_a_trial_says_whether_this_version_can_use_the_data(
    tmp_path: Path,
) -> None:
    bot = Bot(tmp_path, None, {"OLLIM_MODEL": "offline"})

    async def tried() -> int:
        process = await fork_server.start_bot(tmp_path, bot.environment(), bot.output, trial)
        async with asyncio.timeout(patience()):
            return await process.wait()

    assert await tried() == 0, bot.output.read_text()
    with closing(sqlite3.connect(bot.data / "state" / "ollim.db")) as database:
        database.execute("PRAGMA user_version = 99")
    assert await tried() == 1
    assert "belongs to a newer version of ollim-bot" in bot.output.read_text().splitlines()[-1]
