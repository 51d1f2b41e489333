"""Each daily task runs once a day, while the bot is idle. A failed backup is reported."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock, run_ready_tasks
from devtools.doubles.immediate_store import ImmediateStore
from tests.features.keeping.backups import Home

from ollim_bot.features.keeping.backup import KEPT
from ollim_bot.features.keeping.daily import DailyTask, DailyUpkeep, back_up_daily
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.store.database import Database
from ollim_bot.kernel.values.runtime_config import RuntimeConfig

MIDNIGHT = datetime(2026, 11, 16, tzinfo=UTC)


@dataclass
class DailyUpkeepScene:
    """Records which tasks begin, and when. `is_busy` keeps tasks from beginning."""

    clock: ManualClock
    database: Database
    begun: list[str] = field(default_factory=list)
    is_busy: bool = False

    def task(self, name: str, *, only_in_hour: bool = False) -> DailyTask:
        async def run() -> None:
            self.begun.append(f"{name} {self.clock.now():%d %H:%M}")
            if name == "broken":
                raise OllimError("it is broken")

        def is_wanted(config: RuntimeConfig) -> bool:
            return config.auto_backup

        return DailyTask(name, is_wanted, run, only_in_hour)

    @asynccontextmanager
    async def running(self, *tasks: DailyTask) -> AsyncIterator[None]:
        store = ImmediateStore(self.database)
        daily = DailyUpkeep(store, self.clock, tasks, lambda: not self.is_busy)
        running = asyncio.create_task(daily.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def pass_hours(self, hours: float) -> None:
        await self.clock.advance(hours * 3600)
        await run_ready_tasks()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", MIDNIGHT).prepare()


@pytest.fixture
def scene(home: Home) -> DailyUpkeepScene:
    database = home.open()
    database.run(lambda tx: tx.config.put(RuntimeConfig().with_value("auto_backup", "on")))
    return DailyUpkeepScene(ManualClock(MIDNIGHT), database)


async def test_each_task_is_begun_once_a_day_in_their_order(scene: DailyUpkeepScene) -> None:
    async with scene.running(scene.task("backup"), scene.task("broken"), scene.task("update")):
        await scene.pass_hours(30.5)
    expected = [
        f"{name} {day} 06:00" for day in (16, 17) for name in ("backup", "broken", "update")
    ]
    assert scene.begun == expected


async def test_a_restart_does_not_repeat_it(scene: DailyUpkeepScene) -> None:
    for _ in range(3):
        async with scene.running(scene.task("backup")):
            await scene.pass_hours(6.5)
    assert scene.begun == ["backup 16 06:00"]


async def test_a_busy_bot_is_waited_for_within_what_a_task_allows(scene: DailyUpkeepScene) -> None:
    scene.is_busy = True
    async with scene.running(scene.task("backup"), scene.task("update", only_in_hour=True)):
        await scene.pass_hours(7.5)
        assert scene.begun == []
        scene.is_busy = False
        await scene.pass_hours(1)
    assert scene.begun == ["backup 16 07:31"]


async def test_what_is_off_is_not_begun_and_the_hour_can_be_chosen(scene: DailyUpkeepScene) -> None:
    off = RuntimeConfig()
    scene.database.run(lambda tx: tx.config.put(off))
    async with scene.running(scene.task("backup")):
        await scene.pass_hours(8)
        assert scene.begun == []
        late = off.with_value("auto_backup", "on").with_value("auto_update_hour", "22")
        scene.database.run(lambda tx: tx.config.put(late))
        await scene.pass_hours(15)
    assert scene.begun == ["backup 16 22:00"]


async def back_up(home: Home, told: list[str]) -> None:
    async def tell(sentence: str) -> None:
        told.append(sentence)

    await back_up_daily(home.paths, home.environment, ManualClock(home.now), tell)


async def test_the_newest_backups_are_kept_and_a_failure_is_told(home: Home) -> None:
    told: list[str] = []
    await back_up(home, told)
    folder = home.paths.backups()
    (first,) = folder.iterdir()
    for number in range(KEPT):
        shutil.copy(first, folder / f"ollim-bot-20261110T0{number}0000Z.tar.gz")
    await back_up(home, told)
    assert len(list(folder.iterdir())) == KEPT
    assert told == []
    (home.paths.state / "ollim.db").write_bytes(b"no database" * 1000)
    await back_up(home, told)
    (sentence,) = told
    assert sentence.startswith("The automatic backup of 2026-11-16 was not made. ")
    assert "is damaged" in sentence
    assert len(list(folder.iterdir())) == KEPT
