"""A full disk: no job runs, reminders come nevertheless, and the rest is caught up later."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from devtools.doubles.channel import DeliveryFault, FakeChatService
from devtools.doubles.clock import ManualClock
from devtools.doubles.disks import SteppedDisk
from devtools.doubles.engine import Fails, ScriptedEngine, Step, Waits
from tests.kernel.schedule.owner_actions import pings
from tests.kernel.schedule.scene import NOW, ScheduleScene, schedule_scene
from tests.kernel.schedule.test_firing import HOUR, MINUTE
from tests.kernel.store.files.data_directory import QuickDisk

from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.events import FailureKind


class FullableDisk(SteppedDisk):
    """While it `is_full`, it refuses writes to files whose names begin with `names`."""

    def __init__(self, names: str = "") -> None:
        super().__init__(QuickDisk(), self._room)
        self.is_full = False
        self.names = names

    def is_full_for(self, name: str) -> bool:
        return self.is_full and name.startswith(self.names)

    def _room(self, step: str, path: Path) -> None:
        if self.is_full and step in ("write", "append") and path.name.startswith(self.names):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def shown(at: ScheduleScene) -> list[str]:
    """Background messages as the owner sees them: a post replaces an earlier one with its id."""
    seen = {one.id: one.text for one in at.surface.posts if one.author is Author.BACKGROUND}
    return list(seen.values())


async def test_a_routine_waits_for_room_and_is_run_once(tmp_path: Path) -> None:
    disk, engine = FullableDisk(), ScriptedEngine()
    async with schedule_scene(engine, tmp_path, disk=disk) as at:
        at.routine("plan", "16 10 * * *", background="true")
        await at.advance(30)
        disk.is_full = True
        await at.advance(90)
        assert engine.prompts == []
        disk.is_full = False
        await at.advance(30)
        await at.until(lambda: at.ended("plan"))
        assert len(engine.prompts) == 1
        assert len(at.ended("plan")) == 1
        assert at.is_right


async def test_that_the_disk_is_full_is_told_once(tmp_path: Path) -> None:
    disk = FullableDisk("ollim.db")
    async with schedule_scene(ScriptedEngine(), tmp_path, disk=disk) as at:
        at.remind("w1", MINUTE)
        at.remind("w2", MINUTE)
        await at.advance(30)
        disk.is_full = True
        await at.advance(90)
        disk.is_full = False
        await at.advance(30)
        await at.clock.advance(2)
        await at.until(lambda: at.told)
        assert len([text for text in at.told if "ollim.db" in text]) == 1, at.told


async def test_what_was_missed_is_kept_for_telling_before_the_ledger_says_so(
    tmp_path: Path,
) -> None:
    """Nor does a kill while the disk is full keep it from the owner."""
    disk, clock = FullableDisk("ollim.db"), ManualClock(NOW)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock, disk=disk) as at:
        at.routine("plan", "0 11 * * *", background="true", late="tell")
        await at.advance(20)
    await clock.advance(4 * 3600)
    disk.is_full = True
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock, disk=disk) as at:
        await at.advance(60)
        assert at.ended("plan") == []
        assert at.surface.statuses[-1].trouble.startswith("While I was away I missed")
    disk.is_full = False
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock, disk=disk) as at:
        await at.advance(60)
        assert [row.state for row in at.ended("plan")] == ["missed"]
        assert len([text for text in at.told if "While I was away" in text]) == 1


async def test_a_start_with_a_ledger_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    disk, engine, clock = FullableDisk("ollim.db"), ScriptedEngine().then(Waits()), ManualClock(NOW)
    async with schedule_scene(engine, tmp_path, clock=clock, disk=disk) as at:
        at.remind("w1", MINUTE)
        at.remind("w2", HOUR, "Stretch.")
        at.routine("plan", "0 * * * *", background="true")
        await at.advance(61)
        await at.until(lambda: engine.prompts)
    await clock.advance(4 * 3600)
    disk.is_full = True
    async with schedule_scene(engine, tmp_path, clock=clock, disk=disk) as at:
        await at.advance(60)
        assert sorted(shown(at)) == ["Drink water.", "Stretch."]
        disk.is_full = False
        await at.advance(60)
        await at.until(lambda: at.reminders == [])
        assert sorted(shown(at)) == ["Drink water.", "Stretch."]
        assert at.is_right


class DiskFillingEngine(ScriptedEngine):
    """Fills the disk when its first turn begins; that turn fails."""

    def __init__(self, disk: FullableDisk) -> None:
        super().__init__()
        self.then(Fails(FailureKind.OVERLOADED))
        self._disk = disk

    def next_script(self) -> Sequence[Step]:
        self._disk.is_full = self._disk.is_full or not self.has_begun
        self.has_begun = True
        return super().next_script()

    has_begun = False


async def test_an_attempt_that_fails_on_a_full_disk_ends_before_the_next_begins(
    tmp_path: Path,
) -> None:
    disk = FullableDisk()
    engine = DiskFillingEngine(disk)
    async with schedule_scene(engine, tmp_path, disk=disk) as at:
        at.routine("plan", "16 10 * * *", background="true")
        await at.advance(61)
        await at.until(lambda: disk.is_full)
        await at.advance(120)
        assert at.states("plan") == ["due", "running"]
        disk.is_full = False
        await at.advance(60)
        await at.until(lambda: at.ended("plan"))
        assert at.states("plan") == ["due", "running", "attempt_failed", "running", "done"]
        assert at.is_right


async def test_a_reminder_comes_once_although_it_cannot_be_claimed(tmp_path: Path) -> None:
    """It is owed until it is in the log: the page may be closed, and a kill loses it."""
    disk, engine = FullableDisk(), ScriptedEngine().then(pings("Drink water!"))
    async with schedule_scene(engine, tmp_path, disk=disk) as at:
        at.remind("w1", MINUTE)
        await at.advance(30)
        disk.is_full = True
        await at.advance(90)
        assert (shown(at), at.log, at.reminders) == (["Drink water."], [], ["w1"])
        assert engine.prompts == []
        newest = await at.chat.history(5)
        assert [one.text for one in newest] == ["Drink water."]
        disk.is_full = False
        await at.advance(30)
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["Drink water."]
        (message,) = (one for one in at.log if one.text == "Drink water.")
        assert message.footer.startswith("Late: it was due today 10:16.")
        assert message.card is not None
        assert len(await at.chat.history(5)) == len(at.log)
        assert shown(at) == ["Drink water."]
        assert len(at.ended("w1")) == 1
        assert at.states("w1")[-1] == "delivered"
        assert at.is_right


async def test_a_reminder_that_was_claimed_before_the_disk_was_full_is_shown(
    tmp_path: Path,
) -> None:
    disk, engine = FullableDisk(), ScriptedEngine().then(Waits())
    async with schedule_scene(engine, tmp_path, disk=disk) as at:
        at.remind("w1", MINUTE)
        await at.advance(61)
        await at.until(lambda: engine.prompts)
        disk.is_full = True
        await at.advance(70)
        assert (shown(at), at.pings) == (["Drink water."], [])
        disk.is_full = False
        await at.advance(30)
        await at.until(lambda: at.pings)
        assert at.pings == ["Drink water."]
        assert at.reminders == ["w1"]


@pytest.mark.parametrize("minutes", [1, 20], ids=["soon", "when its nonce is forgotten"])
async def test_what_a_service_was_given_on_a_full_disk_it_is_given_once(
    tmp_path: Path, minutes: int
) -> None:
    disk, clock = FullableDisk(), ManualClock(NOW)
    service = FakeChatService(clock)
    async with schedule_scene(
        ScriptedEngine(), tmp_path, clock=clock, disk=disk, channels=[service]
    ) as at:
        at.remind("w1", MINUTE)
        await at.advance(30)
        disk.is_full = service.is_down = True
        await at.advance(90)
        assert (service.texts, at.reminders) == ([], ["w1"])
        service.is_down = False
        await at.advance(10)
        assert service.texts == ["Drink water."]
        await at.advance(minutes * 60, step=10)
        disk.is_full = False
        await at.advance(60)
        await at.until(lambda: at.reminders == [])
        assert service.texts.count("Drink water.") == 1
        (message,) = (one for one in at.log if one.text == "Drink water.")
        refs = at.store.run(lambda tx: tx.deliveries.refs(message.id))
        assert refs == {service.name: (service.history[0].id,)}


async def test_a_reminder_is_not_called_delivered_while_it_is_on_its_way(tmp_path: Path) -> None:
    """The run ends after the program has sent the reminder and before the service answers."""
    engine, clock = ScriptedEngine().then(Waits()), ManualClock(NOW)
    service = FakeChatService(clock)
    async with schedule_scene(engine, tmp_path, clock=clock, channels=[service]) as at:
        at.configure("bg_fork_timeout", "62")
        at.remind("w1", MINUTE)
        await at.advance(61)
        service.may_answer.clear()
        await at.advance(64, step=1)
        assert at.ended("w1")
        assert at.states("w1")[-1] == "timed_out"
        assert at.reminders == ["w1"]
        service.may_answer.set()
        await at.advance(15)
        await at.until(lambda: at.reminders == [])
        assert service.texts.count("Drink water.") == 1


async def test_a_lost_answer_of_the_service_on_a_full_disk_doubles_nothing(tmp_path: Path) -> None:
    disk, clock = FullableDisk(), ManualClock(NOW)
    service = FakeChatService(clock)
    async with schedule_scene(
        ScriptedEngine(), tmp_path, clock=clock, disk=disk, channels=[service]
    ) as at:
        at.remind("w1", MINUTE)
        await at.advance(30)
        disk.is_full = True
        service.faults.append(DeliveryFault.ANSWER_LOST)
        await at.advance(300, step=10)
        disk.is_full = False
        await at.advance(60)
        await at.until(lambda: at.reminders == [])
        assert service.texts.count("Drink water.") == 1
