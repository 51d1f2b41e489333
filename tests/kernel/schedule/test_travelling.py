"""What was missed while the owner travelled or the bot was away is told once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine, Waits
from tests.kernel.schedule.owner_actions import pings
from tests.kernel.schedule.scene import NOW, ScheduleScene, schedule_scene
from tests.kernel.schedule.test_firing import HOUR
from tests.kernel.schedule.test_full_disk import FullableDisk
from tests.stores import Stores, on_store

from ollim_bot.kernel.schedule.ledger_records import MachineZoneWatch
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.ledger_check import check
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.travel import PlannedZone

# 10:15 in Berlin, 18:15 in Tokyo, 4:15 in New York.
NOON = datetime(2026, 2, 24, 9, 15, tzinfo=UTC)

BERLIN, TOKYO, NEW_YORK = "Europe/Berlin", "Asia/Tokyo", "America/New_York"

LOS_ANGELES, AUCKLAND = "America/Los_Angeles", "Pacific/Auckland"

PLAIN = {"plain": "true", "background": "true"}


def clock_in(zone: str, at: datetime = NOON) -> ManualClock:
    return ManualClock(at, ZoneInfo(zone))


async def travel(at: ScheduleScene, zone: str | None) -> None:
    at.configure("timezone", zone or "default")
    expected = zone or "UTC"
    await at.until(lambda: at.store.query(lambda tx: tx.zone.get()) == PlannedZone(expected))


async def wait_for(at: ScheduleScene, moment: str) -> None:
    """Let the machine sleep until a minute before the moment in UTC, and then let it pass."""
    due = datetime.fromisoformat(f"{moment}Z")
    at.clock.jump((due - at.clock.now()).total_seconds() - 60)
    await at.advance(75, step=15)


async def settled(at: ScheduleScene) -> None:
    await at.advance(10)
    assert check(at.rows, at.clock.now()) == []


def came(at: ScheduleScene, job: str) -> list[tuple[str, str]]:
    """When each occurrence of the job was due, and how it ended."""
    ends = ((row.occurrence, row.state) for row in at.ended(job))
    return [(one.key, state) for one, state in ends if one is not None]


async def test_a_time_of_day_follows_the_owner_at_once(tmp_path: Path) -> None:
    clock = clock_in(BERLIN)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await travel(at, BERLIN)
        at.routine("tea", "0 19 * * *", **PLAIN)
        at.write("reminders/call.md", {"id": "call", "run-at": "2026-02-24T20:00:00"}, "Call.")
        at.remind("fixed", timedelta(hours=3))
        at.routine("own", "0 19 * * *", timezone=BERLIN, **PLAIN)
        await at.advance(20)
        assert at.surface.statuses[-1].zone == BERLIN
        await travel(at, TOKYO)
        assert clock.now().tzinfo == ZoneInfo(TOKYO)
        await wait_for(at, "2026-02-24T10:00")
        assert at.surface.statuses[-1].zone == TOKYO, "the page shows the times of the new zone"
        await wait_for(at, "2026-02-24T11:00")
        assert came(at, "tea") == [("2026-02-24T10:00:00Z", "done")]
        assert came(at, "call") == [("2026-02-24T11:00:00Z", "done")]
        assert came(at, "own") == came(at, "fixed") == []
        await settled(at)


async def test_what_came_by_the_old_clock_does_not_come_again(tmp_path: Path) -> None:
    clock = clock_in(BERLIN, NOON - timedelta(hours=3))
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await travel(at, BERLIN)
        at.routine("pills", "0 9 * * *", **PLAIN)
        at.routine("noon", "0 12 * * *", **PLAIN)
        await at.advance(20)
        await wait_for(at, "2026-02-24T07:00")
        await wait_for(at, "2026-02-24T08:00")
        await travel(at, NEW_YORK)
        for moment in ("24T09:00", "24T11:00", "24T14:00", "24T17:00", "25T14:00"):
            await wait_for(at, f"2026-02-{moment}")
        assert came(at, "pills") == [
            ("2026-02-24T08:00:00Z", "done"),
            ("2026-02-24T14:00:00Z", "skipped"),
            ("2026-02-25T14:00:00Z", "done"),
        ]
        # It had not come yet, so it comes at the time of the new zone.
        assert came(at, "noon")[0] == ("2026-02-24T17:00:00Z", "done")
        await settled(at)


async def test_what_came_two_zones_ago_does_not_come_again_though_the_bot_dies(
    tmp_path: Path,
) -> None:
    clock = clock_in(BERLIN, NOON - timedelta(hours=3))
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await travel(at, BERLIN)
        at.routine("pills", "0 9,15 * * *", **PLAIN)
        await at.advance(20)
        await wait_for(at, "2026-02-24T08:00")
        await travel(at, NEW_YORK)
        await wait_for(at, "2026-02-24T11:00")
        await travel(at, LOS_ANGELES)
    # As if it had died before the last word of the move.
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock, runs=False) as at:
        await at.store.transact(lambda tx: tx.zone.put(PlannedZone(NEW_YORK)))
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.advance(20)
        for moment in ("24T17:00", "24T23:00", "25T17:00"):
            await wait_for(at, f"2026-02-{moment}")
        assert came(at, "pills") == [
            ("2026-02-24T08:00:00Z", "done"),
            ("2026-02-24T17:00:00Z", "skipped"),
            ("2026-02-24T23:00:00Z", "done"),
            ("2026-02-25T17:00:00Z", "done"),
        ]
        await settled(at)


async def test_what_the_clock_jumps_over_is_told_or_comes_late(tmp_path: Path) -> None:
    clock = clock_in(BERLIN)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await travel(at, BERLIN)
        at.routine("lunch", "0 12 * * *", description='"Eat lunch"', background="true")
        at.routine("walk", "0 18 * * *", **PLAIN)
        at.write(
            "reminders/mom.md", {"id": "mom", "run-at": "2026-02-24T15:00:00", **PLAIN}, "Call mom."
        )
        await at.advance(20)
        await travel(at, TOKYO)
        await at.advance(30)
        await at.until(lambda: at.reminders == [])
        assert came(at, "lunch") == [("2026-02-24T03:00:00Z", "missed")]
        assert came(at, "walk") == [("2026-02-24T09:00:00Z", "done")]
        assert came(at, "mom") == [("2026-02-24T06:00:00Z", "done")]
        told = [text for text in at.told if "jumped over" in text]
        assert told == [
            "Your clock has jumped over “Eat lunch”, today 12:00. Tell me if it should still run."
        ]
        await settled(at)


async def test_what_must_come_comes_where_the_clock_jumps_over_it(tmp_path: Path) -> None:
    clock = clock_in(BERLIN)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await travel(at, BERLIN)
        at.routine("pills", "0 12,14 * * *", kind="dose", late="skip", **PLAIN)
        at.routine("water", "30 11-16 * * *", must="true", **PLAIN)
        at.routine("rhythm", "30 11-16 * * *", **PLAIN)
        await at.advance(20)
        await travel(at, TOKYO)
        await at.advance(30)
        await at.until(lambda: len([each for each in at.log if each.card]) == 2)
        assert came(at, "pills") == [
            ("2026-02-24T03:00:00Z", "skipped"),
            ("2026-02-24T05:00:00Z", "done"),
        ]
        assert came(at, "water")[-1] == ("2026-02-24T07:30:00Z", "done")
        assert came(at, "rhythm") == []
        items = at.items
        assert [(each.short_title, f"{each.due:%H:%M}", each.earlier_count) for each in items] == [
            ("Plan the day", "12:00", 0),
            ("Plan the day", "14:00", 0),
            ("Plan the day", "16:30", 5),
        ]
        await settled(at)


async def test_a_reminder_under_way_ends_once(tmp_path: Path) -> None:
    engine, clock = ScriptedEngine().then(Waits(), pings("Call.")), clock_in(BERLIN)
    async with schedule_scene(engine, tmp_path, clock=clock) as at:
        await travel(at, BERLIN)
        at.write("reminders/call.md", {"id": "call", "run-at": "2026-02-24T10:16:00"}, "Call.")
        await at.advance(20)
        await at.advance(50)
        await at.until(lambda: "running" in at.states("call"))
        await travel(at, TOKYO)
        await at.advance(20)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.until(lambda: at.reminders == [])
        await wait_for(at, "2026-02-25T01:16")
        assert len({row.occurrence for row in at.ended("call")}) == 1
        assert len(at.pings) == 1
        assert check(at.rows, clock.now()) == []


async def test_a_skip_follows_the_new_clock(tmp_path: Path) -> None:
    clock = clock_in(BERLIN)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await travel(at, BERLIN)
        at.routine("tea", "0 19 * * *", **PLAIN)
        await at.advance(20)
        tea = Occurrence.parse("routine:tea:2026-02-24T18:00:00Z")
        await at.store.transact(lambda tx: tx.skips.change(lambda s: s.with_moment(tea, tx.now)))
        await travel(at, TOKYO)
        await wait_for(at, "2026-02-24T10:00")
        assert came(at, "tea") == [("2026-02-24T10:00:00Z", "skipped")]
        await settled(at)


@pytest.mark.parametrize("zone", [TOKYO, NEW_YORK])
async def test_a_zone_that_changed_while_the_bot_was_off_loses_nothing(
    tmp_path: Path, zone: str
) -> None:
    clock = clock_in(BERLIN)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await travel(at, BERLIN)
        at.routine("tea", "30 10 * * *", **PLAIN, late="run")
        at.write("reminders/call.md", {"id": "call", "run-at": "2026-02-24T10:40:00"}, "Call.")
        await at.advance(20)
    await clock.advance(3600)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock, runs=False) as at:
        at.configure("timezone", zone)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.advance(30)
        if zone == NEW_YORK:
            await wait_for(at, "2026-02-24T15:30")
            await wait_for(at, "2026-02-24T15:40")
        ends = [state for _, state in came(at, "tea")]
        assert ends.count("done") == 1
        assert [state for _, state in came(at, "call")] == ["done"]
        await settled(at)


async def test_the_zone_of_the_machine_is_offered_once_and_not_taken(tmp_path: Path) -> None:
    clock, zones, told = clock_in(BERLIN), [ZoneInfo(BERLIN)], list[str]()

    async def tell(sentence: str, _: str) -> None:
        told.append(sentence)

    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await travel(at, BERLIN)
        await at.store.transact(
            lambda tx: tx.config.change(lambda config: config.with_default("timezone"))
        )
        await at.until(lambda: str(clock.now().tzinfo) == "UTC")
        clock.set_zone(ZoneInfo(BERLIN))
        watch = MachineZoneWatch(at.store, clock, tell, lambda: zones[-1])
        at.tasks.append(asyncio.create_task(watch.run()))
        await at.advance(70)
        assert told == []
        zones.append(ZoneInfo(TOKYO))
        await at.advance(200)
        (offer,) = told
        assert offer == (
            "Your computer is on Asia/Tokyo time now; I still use Europe/Berlin. "
            "`/config timezone Asia/Tokyo` changes that."
        )
        assert clock.now().tzinfo == ZoneInfo(BERLIN)


@pytest.mark.parametrize("zone", [TOKYO, NEW_YORK])
async def test_a_crash_after_the_change_repeats_nothing(tmp_path: Path, zone: str) -> None:
    """The process crashes right after the configuration is stored."""
    clock = clock_in(BERLIN)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await travel(at, BERLIN)
        at.routine("pills", "16 10 * * *", **PLAIN)
        at.write("reminders/call.md", {"id": "call", "run-at": "2026-02-24T10:16:00"}, "Call.")
        await at.advance(65, step=1)
        await at.until(lambda: at.reminders == [])
        for task in at.tasks:
            task.cancel()
        await asyncio.gather(*at.tasks, return_exceptions=True)
        at.tasks.clear()
        at.configure("timezone", zone)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.advance(30)
        if zone == NEW_YORK:
            await wait_for(at, "2026-02-24T15:16")
        assert [state for _, state in came(at, "pills")] == ["done", "skipped"]
        assert len(came(at, "call")) == 1
        await settled(at)


async def test_a_reminder_that_is_first_seen_with_the_move_comes_once_though_the_bot_dies(
    tmp_path: Path,
) -> None:
    clock = clock_in(TOKYO)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await travel(at, TOKYO)
        await at.advance(20)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock, runs=False) as at:
        at.write("reminders/call.md", {"id": "call", "run-at": "2026-02-24T10:16:10"}, "Call.")
        at.configure("timezone", BERLIN)
    async with schedule_scene(ScriptedEngine().then(Waits()), tmp_path, clock=clock) as at:
        await at.until(lambda: "running" in at.states("call"))
    await clock.advance(60)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.advance(75, step=15)
        assert len(came(at, "call")) == 1
        await settled(at)


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
