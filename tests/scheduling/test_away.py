"""What was missed while the bot was away is told once, whatever the clock and the disk do."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from tests.scheduling.scene import NOW, ScheduleScene, schedule_scene
from tests.scheduling.test_firing import HOUR
from tests.scheduling.test_full_disk import FullableDisk

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
