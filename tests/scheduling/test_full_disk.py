"""A disk that takes nothing more: nothing is run, what was ordered comes, and all is caught up."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from tests.scheduling.scene import NOW, Day, day
from tests.scheduling.test_firing import HOUR, MINUTE, pings
from tests.storage.places import QuickDisk

from ollim_bot.domain.chat import Author
from ollim_bot.domain.ledger_check import check
from ollim_bot.testing.clock import ManualClock
from ollim_bot.testing.disks import SteppedDisk
from ollim_bot.testing.engine import ScriptedEngine, Waits


class SmallDisk(SteppedDisk):
    """While it `is_full`, no file grows of those whose names begin so; removing goes on."""

    def __init__(self, names: str = "") -> None:
        super().__init__(QuickDisk(), self._room)
        self.is_full = False
        self._names = names

    def _room(self, step: str, path: Path) -> None:
        if self.is_full and step in ("write", "append") and path.name.startswith(self._names):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def shown(at: Day) -> list[str]:
    """What came by itself, as it was seen."""
    return at.surface.posted_by(Author.BACKGROUND)


async def test_a_reminder_comes_once_although_it_cannot_be_claimed(tmp_path: Path) -> None:
    disk, engine = SmallDisk(), ScriptedEngine().then(pings("Drink water!"))
    async with day(engine, tmp_path, disk=disk) as at:
        at.remind("w1", MINUTE)
        await at.passes(30)
        disk.is_full = True
        await at.passes(90)
        assert shown(at) == ["Drink water."]
        assert engine.prompts == []
        assert at.reminders == ["w1"]
        disk.is_full = False
        await at.passes(30)
        await at.until(lambda: at.reminders == [])
        assert shown(at) == ["Drink water."]
        assert len(at.ended("w1")) == 1
        assert at.states("w1")[-1] == "delivered"
        assert check(at.rows, at.clock.now(), at.clock.now()) == []


async def test_what_was_shown_is_still_known_when_only_the_ledger_is_full(tmp_path: Path) -> None:
    disk, engine = SmallDisk("ledger"), ScriptedEngine()
    async with day(engine, tmp_path, disk=disk) as at:
        at.remind("w1", MINUTE)
        await at.passes(30)
        disk.is_full = True
        await at.passes(90)
        assert shown(at) == ["Drink water."]
        disk.is_full = False
        await at.passes(30)
        await at.until(lambda: at.reminders == [])
        assert shown(at) == ["Drink water."]


async def test_a_routine_waits_for_room_and_is_run_once(tmp_path: Path) -> None:
    disk, engine = SmallDisk(), ScriptedEngine()
    async with day(engine, tmp_path, disk=disk) as at:
        at.routine("plan", "16 10 * * *", background="true")
        await at.passes(30)
        disk.is_full = True
        await at.passes(90)
        assert engine.prompts == []
        disk.is_full = False
        await at.passes(30)
        await at.until(lambda: at.ended("plan"))
        assert len(engine.prompts) == 1
        assert len(at.ended("plan")) == 1
        assert check(at.rows, at.clock.now(), at.clock.now()) == []


async def test_that_the_disk_is_full_is_told_once(tmp_path: Path) -> None:
    disk = SmallDisk("ledger")
    async with day(ScriptedEngine(), tmp_path, disk=disk) as at:
        at.remind("w1", MINUTE)
        at.remind("w2", MINUTE)
        await at.passes(30)
        disk.is_full = True
        await at.passes(90)
        await at.until(lambda: at.told)
        assert len([text for text in at.told if "ledger" in text]) == 1, at.told


async def test_a_disk_that_fills_up_while_the_machine_sleeps_ends_nothing(tmp_path: Path) -> None:
    disk, engine = SmallDisk(), ScriptedEngine()
    async with day(engine, tmp_path, disk=disk) as at:
        at.remind("w1", HOUR)
        at.routine("plan", "0 * * * *", background="true")
        await at.passes(30)
        disk.is_full = True
        at.clock.jump(4 * 3600)
        await at.passes(60)
        assert shown(at) == ["Drink water."]
        assert engine.prompts == []
        disk.is_full = False
        await at.passes(60)
        await at.until(lambda: at.reminders == [])
        assert shown(at) == ["Drink water."]
        assert check(at.rows, at.clock.now(), at.clock.now()) == []


async def test_a_start_with_a_ledger_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    disk, engine, clock = SmallDisk("ledger"), ScriptedEngine().then(Waits()), ManualClock(NOW)
    async with day(engine, tmp_path, clock=clock, disk=disk) as at:
        at.remind("w1", MINUTE)
        at.remind("w2", HOUR, "Stretch.")
        at.routine("plan", "0 * * * *", background="true")
        await at.passes(61)
        await at.until(lambda: engine.prompts)
    await clock.advance(4 * 3600)
    disk.is_full = True
    async with day(engine, tmp_path, clock=clock, disk=disk) as at:
        await at.passes(60)
        assert sorted(shown(at)) == ["Drink water.", "Stretch."]
        disk.is_full = False
        await at.passes(60)
        await at.until(lambda: at.reminders == [])
        assert sorted(shown(at)) == ["Drink water.", "Stretch."]
        assert check(at.rows, clock.now(), clock.now()) == []
