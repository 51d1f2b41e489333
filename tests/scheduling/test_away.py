"""What was missed while the bot was away is told once, whatever the clock and the disk do."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from tests.scheduling.scene import NOW, ScheduleScene, schedule_scene
from tests.scheduling.test_firing import HOUR
from tests.scheduling.test_full_disk import FullableDisk
from tests.stores import Stores, on_store

from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Step, Transaction

R = TypeVar("R")

ONCE = "While I was away I missed “Look at the mail”, today 11:00. Tell me if it should still run."


def routine(at: ScheduleScene) -> None:
    at.routine("mail", "0 11 * * *", "Look at the mail.", background="true", late="tell")


def updates(at: ScheduleScene) -> list[str]:
    return [update.message for update in at.stores.updates.read().entries]


async def test_what_was_told_before_the_clock_went_back_is_not_told_again(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    for start in (NOW, NOW + 2 * HOUR, NOW + timedelta(minutes=5), NOW + HOUR):
        async with schedule_scene(engine, tmp_path, clock=ManualClock(start)) as at:
            routine(at)
            await at.advance(40)
            assert at.scheduler.heartbeat_age is not None
            assert at.stores.state.query(lambda tx: tx.notices.get()).untold == ()
    assert at.told == [ONCE]
    assert updates(at) == [ONCE]
    assert [row.state for row in at.ended("mail")] == ["missed"]


async def test_on_a_full_disk_it_waits_to_be_told_once(tmp_path: Path) -> None:
    disk = FullableDisk()
    async with schedule_scene(ScriptedEngine(), tmp_path, disk=disk) as at:
        routine(at)
        await at.advance(40)
        disk.is_full = True
        at.clock.jump(2 * 3600)
        await at.advance(60)
        assert at.chat.status.trouble == ONCE
        assert at.ended("mail") == []
        disk.is_full = False
        await at.advance(700)
        await at.clock.advance(2)
        await at.until(lambda: ONCE in "\n".join(at.told))
        assert "\n".join(at.told).count(ONCE) == 1
        assert updates(at).count(ONCE) == 1
        assert [row.state for row in at.ended("mail")] == ["missed"]


class CountingStore:
    """Notes how many rows of the ledger each step writes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.written: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def transact(self, step: Step[R]) -> R:
        def counted(tx: Transaction) -> tuple[R, int]:
            before = tx.ledger.count()
            return step(tx), tx.ledger.count() - before

        result, rows = await self._store.transact(counted)
        self.written.append(rows)
        return result


async def test_of_very_many_that_were_missed_a_few_end_in_one_step(tmp_path: Path) -> None:
    """A message of the owner waits for one step. The owner is told of all in one message."""
    missed, seen = 350, list[CountingStore]()

    def counting(stores: Stores) -> Stores:
        seen.append(CountingStore(stores.state))
        return on_store(stores, seen[-1])

    for start in (NOW, NOW + 6 * HOUR):
        async with schedule_scene(
            ScriptedEngine(), tmp_path, clock=ManualClock(start), seen=counting
        ) as at:
            for number in range(missed):
                at.routine(f"bluete-{number}", "0 11 * * *", "Gieß sie.", plain="true", late="tell")
            await at.advance(40)
            ended = [row for row in at.rows if row.state == "missed"]
    assert len(ended) == missed
    assert max(seen[-1].written) <= 200
    assert len(at.told) == 1
    assert f"{missed} things" in at.told[0]
