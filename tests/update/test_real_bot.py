"""The real bot hands over to a new version, and goes on if that version does not start.

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
from pathlib import Path

import pytest
from tests.e2e import fork_server
from tests.e2e.bot import Bot
from tests.patience import patience
from tests.update.fake_installation import NEW, OLD, FakeInstallation

from ollim_bot.domain.presence import Version
from ollim_bot.upkeep.hand_over import UpdateRecord
from ollim_bot.upkeep.releases import InstalledProgram, release_source
from ollim_bot.upkeep.updater import StartLimits, Updater

NEXT = Version(0, 14, 0)


class RealBotScene:
    def __init__(self, home: Path) -> None:
        self.bot = Bot(home, None, {"OLLIM_MODEL": "offline"})
        self.fake = FakeInstallation(home)
        self.installation = self.fake.installation()

    async def update(self, old: Version, new: Version) -> str:
        """Update the running bot as another terminal does, and return what both tell."""
        self.fake.newest = str(new)
        self.fake.write_plan()
        record = await asyncio.to_thread(self._update, replace(self.installation, version=old))
        await self.bot.reconnect()
        await self.bot.note(str(record))
        return str(record)

    def _update(self, installation: InstalledProgram) -> UpdateRecord:
        environ = {**self.fake.environ, **self.bot.environment()}
        source = release_source(installation, environ)
        return Updater(
            self.fake.paths,
            installation,
            source,
            environ,
            lambda: datetime.now(UTC),
            print,
            limits=StartLimits(patience(), patience()),
        ).run()


@pytest.mark.own_process
async def test_the_bot_goes_on_as_the_new_or_as_the_old_version(tmp_path: Path) -> None:
    scene = RealBotScene(tmp_path)
    bot = scene.bot
    scene.fake.behaviour[str(NEXT)] = "migration in place"
    try:
        await bot.start()
        assert await scene.update(OLD, NEW) == "Updated from 0.12.0 to 0.13.0."
        assert await scene.update(NEW, NEXT) == (
            "Version 0.14.0 did not start, so 0.13.0 goes on with all data as it was: "
            "sqlite3.OperationalError: no such column: x."
        )
        for words in ("cut off", "earlier copy", "lost"):
            assert not any(words in text for text in await bot.notes())
        assert not scene.installation.beside.exists()
        assert not scene.fake.paths.before_update.exists(), "the data was put back"
    finally:
        await bot.kill()


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
