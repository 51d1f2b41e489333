"""The running bot's part of an update: what it starts, when it hands over, what it reports."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock

from ollim_bot.features.install.updater import BEGUN, BotUpdates, StartDetached, start_updater
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.upkeep.hand_over import (
    MaintenanceKind,
    Phase,
    UpdateRecord,
    maintenance,
    write_update,
)

NOW = datetime(2026, 11, 16, 6, 0, tzinfo=UTC)
FAILED = UpdateRecord("0.12.0", "0.13.0", "a", "b", NOW, Phase.FAILED, reason="it is late")


class Scene:
    """A bot whose updater is simulated by the test."""

    def __init__(self, root: Path) -> None:
        self.paths = DataPaths(root)
        self.paths.state.mkdir(parents=True)
        self.clock = ManualClock(NOW)
        self.told: dict[str, str] = {}
        self.started: list[Sequence[str]] = []
        self.restarts = 0
        self.is_idle = False
        self._updater = ExitStack()

    def updates(self, start: StartDetached | None = None) -> BotUpdates:
        start = start or self._start
        return BotUpdates(
            self.paths, self.clock, self._tell, lambda: self.is_idle, self._restart, start
        )

    def updater_ends(self, record: UpdateRecord) -> None:
        write_update(self.paths, record)
        self._updater.close()

    async def _tell(
        self, sentence: str, *, key: str | None = None, for_reminder: bool = False
    ) -> None:
        assert for_reminder or "did not begin" in sentence
        self.told.setdefault(key or sentence, sentence)

    def _restart(self) -> None:
        self.restarts += 1

    async def _start(self, words: Sequence[str]) -> None:
        self.started.append(words)
        self._updater.enter_context(maintenance(self.paths, MaintenanceKind.UPDATE, NOW))

    async def pause(self) -> None:
        """Wait longer than an updater may take to begin."""
        end = self.clock.now() + timedelta(seconds=40)
        await self.until(lambda: self.clock.now() > end)

    async def until(self, condition: Callable[[], object]) -> None:
        for _ in range(1000):
            if condition():
                return
            await self.clock.advance(1)
            await asyncio.sleep(0.002)
        raise AssertionError("it did not come to that")


@asynccontextmanager
async def running(updates: BotUpdates) -> AsyncIterator[None]:
    async def started() -> None:
        pass

    task = asyncio.create_task(updates.run(started))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_an_update_by_the_owner_begins_once_and_its_outcome_is_told(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    updates = scene.updates()
    async with running(updates):
        assert await updates.begin() == BEGUN
        assert "going on already" in await updates.begin()
        assert scene.started == [("update",)]
        scene.updater_ends(FAILED)
        await scene.until(lambda: scene.told)
    assert [*scene.told.values()] == ["No update to 0.13.0; 0.12.0 goes on: it is late."]
    assert scene.restarts == 0


async def test_a_daily_one_hands_over_only_when_idle(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    updates = scene.updates()
    async with running(updates):
        await updates.begin_daily()
        assert scene.started == [("update", "--when-idle")]
        ready = replace(FAILED, phase=Phase.READY, bot=os.getpid(), when_idle=True)
        write_update(scene.paths, ready)
        for _ in range(20):
            await scene.clock.advance(1)
            await asyncio.sleep(0.002)
        assert scene.restarts == 0
        scene.is_idle = True
        await scene.until(lambda: scene.restarts)
        scene.updater_ends(FAILED)


@pytest.mark.parametrize("is_daily", [True, False])
async def test_the_same_each_morning_is_told_once_and_to_one_who_asks_each_time(
    tmp_path: Path, is_daily: bool
) -> None:
    scene = Scene(tmp_path)
    updates = scene.updates()
    begin = updates.begin_daily if is_daily else updates.begin
    async with running(updates):
        for day in range(3):
            await begin()
            scene.updater_ends(replace(FAILED, began_at=NOW + timedelta(days=day)))
            await scene.pause()
        assert len(scene.told) == (1 if is_daily else 3)


async def test_a_morning_without_a_newer_version_is_no_news(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    write_update(scene.paths, FAILED)
    updates = scene.updates()
    async with running(updates):
        await updates.begin_daily()
        scene.updater_ends(FAILED)  # the record stays that of the last one
        await scene.pause()
    assert scene.told == {}


async def test_a_start_tells_the_outcome_of_the_last_day_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    done = replace(FAILED, phase=Phase.DONE, reason="")
    write_update(scene.paths, done)
    for _ in range(2):
        async with running(scene.updates()):
            await scene.until(lambda: scene.told)
    write_update(scene.paths, replace(FAILED, began_at=NOW + timedelta(seconds=1)))
    async with running(scene.updates()):
        for _ in range(20):
            await asyncio.sleep(0.002)
    write_update(scene.paths, done)
    assert [*scene.told.values()] == ["Updated from 0.12.0 to 0.13.0."]
    await scene.clock.advance(2 * 86400)
    scene.told.clear()
    async with running(scene.updates()):
        for _ in range(20):
            await asyncio.sleep(0.002)
    assert scene.told == {}


async def test_an_updater_that_does_not_begin_is_told(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    async def nothing(words: Sequence[str]) -> None:
        scene.started.append(words)

    updates = scene.updates(nothing)
    async with running(updates):
        await updates.begin()
        await scene.until(lambda: scene.told)
    assert "did not begin" in "".join(scene.told.values())


async def test_an_installation_that_cannot_be_updated_is_told_at_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path)

    async def refused(_: Sequence[str]) -> None:
        raise OllimError("It was installed by hand.")

    assert await scene.updates(refused).begin() == "It was installed by hand."
    assert scene.told == {}


@pytest.mark.real_process
async def test_what_the_bot_starts_so_is_no_child_of_it_and_may_do_what_the_owner_may(
    tmp_path: Path,
) -> None:
    paths = DataPaths(tmp_path / "data")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with single_instance_of(paths):
        await start_updater(paths, environ, ("config", "set", "bg_concurrency", "5"))
        for _ in range(2000):
            if paths.config.exists() and "bg_concurrency" in paths.config.read_text():
                return
            await asyncio.sleep(0.01)
    raise AssertionError("it was refused, as a command of the agent is")


def single_instance_of(paths: DataPaths) -> ExitStack:
    """Let this process hold the lock of the bot."""
    paths.state.mkdir(parents=True, mode=0o700)
    open_database(paths, lambda: NOW, is_holder=True, report=print).close()
    stack = ExitStack()
    stack.enter_context(single_instance(paths.bot_pid))
    return stack
