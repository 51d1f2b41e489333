"""The real bot goes on as a new version, and as the old one if the new one does not start.

Only the environments of the versions are fake: each start of the bot runs this tree. In `make
chaos`, `test_whole_update.py` does the same with real environments and pip.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from tests.e2e import fork_server
from tests.e2e.bot import Bot
from tests.e2e.discord.discord_scene import real_engine_scene
from tests.features.install.fake_installation import OLD, FakeInstallation
from tests.patience import patience

from ollim_bot import __version__
from ollim_bot.features.install.releases import version_in
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.upkeep.hand_over import Phase, UpdateRecord
from ollim_bot.kernel.values.presence import Version

BROUGHT_BACK = f"Version {__version__} did not start, so {OLD} goes on with all data as it was: "


class RealBotScene:
    """This tree takes the place of both versions in turn. `before_switch` is called in between."""

    def __init__(self, home: Path, bot: Bot | None = None) -> None:
        self.bot = bot or Bot(home, None, {"OLLIM_MODEL": "offline"})
        self.fake = FakeInstallation(home)
        self.installation = self.fake.installation()
        self.before_switch: Callable[[], object] = lambda: None

    async def update(self) -> str:
        """Update the running bot as another terminal does, and return what both tell."""
        record = await asyncio.to_thread(self.run)
        await self.bot.reconnect()
        await self.bot.note(str(record))
        return str(record)

    def run(self, old: str = str(OLD), new: str = __version__) -> UpdateRecord:
        self.fake.newest = new
        self.fake.write_plan()
        version = Version.of(old)
        assert version is not None
        installation = replace(self.installation, version=version)

        def say(text: str) -> None:
            if text.startswith("Starting"):
                self.before_switch()

        return self.fake.updater(installation, say, environ=self.bot.environment()).run()

    def database_version(self, number: int | None = None) -> int:
        """The version of the database; with a number of its own, no bot can start on it."""
        with closing(sqlite3.connect(self.bot.data / "state" / "ollim.db")) as database:
            if number is not None:
                database.execute(f"PRAGMA user_version = {number}")
            return int(database.execute("PRAGMA user_version").fetchone()[0])


@pytest.mark.own_process
async def test_the_bot_goes_on_as_the_new_or_as_the_old_version(tmp_path: Path) -> None:
    scene = RealBotScene(tmp_path)
    bot = scene.bot
    try:
        await bot.start()
        await bot.ask("hello")
        pid = bot.pid
        scene.before_switch = partial(scene.database_version, 99)
        said = await scene.update()
        assert said.startswith(BROUGHT_BACK)
        assert "belongs to a newer version of ollim-bot" in said
        assert version_in(scene.installation.environment) == OLD
        assert scene.database_version() != 99
        for words in ("cut off", "earlier copy", "lost"):
            assert not any(words in text for text in await bot.notes())
        assert await bot.ask("hello again")
        assert not scene.installation.beside.exists()
        assert not scene.fake.paths.before_update.exists(), "the data was put back"

        # It holds back until its heartbeat has come.
        scene.before_switch = lambda: None
        assert await scene.update() == f"Updated from {OLD} to {__version__}."
        assert running_pid(scene.fake.paths.bot_pid) == pid, "in the same terminal"
    finally:
        await bot.kill()


@pytest.mark.minutes
@pytest.mark.real_engine
async def test_what_the_owner_writes_meanwhile_is_answered_once(tmp_path: Path) -> None:
    """Though the new version cannot use the data, and the old one is brought back."""
    async with real_engine_scene(tmp_path) as discord:
        scene = RealBotScene(tmp_path, discord.bot)
        reached, said = threading.Event(), threading.Event()

        def hold() -> None:
            scene.database_version(99)
            reached.set()
            assert said.wait(patience())

        scene.before_switch = hold
        await discord.ask("hello", "Hi Ada.")
        update = asyncio.create_task(asyncio.to_thread(scene.run))
        await discord.until(lambda: asyncio.to_thread(reached.is_set))
        discord.model.answers("I am.")
        discord.discord.say("are you there?")
        said.set()
        await discord.said("I am.")
        record = await update
        assert record.phase is Phase.RETURNED
        await discord.said_with(str(record))
        assert sum("I am." in each.text for each in discord.discord.said) == 1


def trial() -> None:
    sys.argv.append("--trial")
    import_module("ollim_bot.surfaces.terminal.main").run()


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
