"""Heads-ups: one line before the moment, once, never instead of it and never after it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from hypothesis import given
from hypothesis import strategies as st
from tests.scheduling.scene import NOW, ScheduleScene, schedule_scene
from tests.scheduling.test_firing import HOUR, MINUTE
from tests.scheduling.test_full_disk import FullableDisk
from tests.scheduling.test_plain_delivery import is_right

from ollim_bot.domain.cron import Cron
from ollim_bot.domain.jobs import JobSpec, Routine
from ollim_bot.schedule.extra_times import announcement, heads_ups_between, next_heads_up

DENTIST: dict[str, Any] = {"before": "[30m, 10m]", "plain": "true"}
ZONES = [ZoneInfo(name) for name in ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe")]
# Both clock changes of all three zones lie within these months.
YEAR = st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 1), timezones=st.just(UTC))


def parts(at: ScheduleScene, job: str) -> dict[str, str]:
    """The end of each heads-up, with its reason."""
    return {
        row.occurrence.part: str(row.facts.get("reason", row.state))
        for row in at.ended(job)
        if row.occurrence is not None
    }


async def test_a_heads_up_comes_before_its_moment_and_the_moment_comes_too(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.remind("w1", HOUR, "Dentist.", **DENTIST)
        await at.advance(30 * 60 + 1, step=29)
        await at.until(lambda: at.pings == ["in 30 min: Dentist"])
        assert at.log[0].card is None
        await at.advance(20 * 60, step=30)
        await at.until(lambda: at.pings[1:] == ["in 10 min: Dentist"])
        await at.advance(10 * 60, step=30)
        await at.until(lambda: at.reminders == [])
        assert at.pings[2:] == ["Dentist."]
        # What comes by itself names its job, on the page and on Discord.
        assert [each.job for each in at.log] == ["Dentist"] * 3
        assert parts(at, "w1") == {"before-30m": "done", "before-10m": "done", "": "done"}
        assert is_right(at)


async def test_a_heads_up_goes_with_its_job_where_that_is_moved_or_cancelled(
    tmp_path: Path,
) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.remind("w1", 40 * MINUTE, "Dentist.", **DENTIST)
        gone = at.remind("w2", 40 * MINUTE, "Barber.", **DENTIST)
        await at.advance(5 * 60, step=30)
        at.remind("w1", HOUR, "Dentist.", **DENTIST)
        gone.unlink()
        await at.advance(28 * 60, step=60)
        assert at.pings == []
        await at.advance(3 * 60, step=60)
        await at.until(lambda: at.pings == ["in 30 min: Dentist"])
        assert is_right(at)


async def test_after_a_sleep_only_the_newest_comes_and_says_how_long_is_left(
    tmp_path: Path,
) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.remind("w1", HOUR, "Dentist.", **DENTIST)
        await at.advance(30)
        at.clock.jump(52 * 60)
        await at.advance(15)
        await at.until(lambda: at.pings == ["in 7 min: Dentist"])
        assert parts(at, "w1") == {"before-30m": "superseded", "before-10m": "done"}
        assert is_right(at)


async def test_a_heads_up_does_not_come_after_its_moment(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        at.remind("w1", HOUR, "Dentist.", **DENTIST)
        await at.advance(30)
    await clock.advance(3 * 3600)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["Dentist."]
        found = parts(at, "w1")
        assert found == {"before-30m": "superseded", "before-10m": "superseded", "": "done"}
        assert is_right(at)


async def test_a_heads_up_of_what_need_not_come_is_dropped_while_it_is_quiet(
    tmp_path: Path,
) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.store.run(
            lambda tx: tx.config.change(lambda now: now.with_value("quiet_hours", "10:00-12:00"))
        )
        at.remind("w1", 12 * MINUTE, "Dentist.", before="[10m]", plain="true")
        at.remind("w2", 12 * MINUTE, "Barber.", before="[10m]", plain="true", must="false")
        await at.advance(125)
        assert at.pings == ["in 10 min: Dentist"]
        assert parts(at, "w2") == {"before-10m": "quiet"}


async def test_the_heads_up_the_card_and_the_nag_of_what_must_come_are_marked_for_the_channels(
    tmp_path: Path,
) -> None:
    nagging = {"before": "[10m]", "plain": "true", "nag": '"10m x 1"'}
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.remind("w1", 12 * MINUTE, "Dentist.", **nagging)
        at.remind("w2", 12 * MINUTE, "Barber.", must="false", **nagging)
        await at.advance(23 * 60, step=30)
        await at.until(lambda: len(at.log) == 6)
        marks = {(each.job, each.must) for each in at.log}
        assert marks == {("Dentist", True), ("Barber", False)}


async def test_a_heads_up_that_cannot_be_recorded_is_tried_again(tmp_path: Path) -> None:
    disk = FullableDisk()
    async with schedule_scene(ScriptedEngine(), tmp_path, disk=disk) as at:
        at.remind("w1", 12 * MINUTE, "Dentist.", before="[10m]", plain="true")
        await at.advance(30)
        disk.is_full = True
        await at.advance(150)
        disk.is_full = False
        await at.advance(30)
        await at.until(lambda: at.pings == ["in 9 min: Dentist"])
        assert is_right(at)


@given(
    st.sampled_from(ZONES),
    st.sampled_from(["*/20 * * * *", "30 2 * * *", "0 9 * * 1-5", "45 1 * * sun"]),
    YEAR,
    st.lists(st.integers(1, 3000), min_size=1, max_size=5, unique=True),
    st.integers(1, 6 * 24 * 60),
)
def test_heads_ups_precede_their_moments_by_real_time_in_every_zone(
    zone: ZoneInfo, cron: str, start: datetime, minutes: list[int], span: int
) -> None:
    lengths = tuple(timedelta(minutes=each) for each in minutes)
    job = Routine(JobSpec(id="a", message="a", before=lengths), Cron.parse(cron))
    end = start + timedelta(minutes=span)
    found = heads_ups_between(job, start, end, zone)
    assert len({each.occurrence for each in found}) == len(found)
    for each in found:
        assert start < each.at <= end
        assert each.moment - each.at == each.occurrence.comes_before
        assert each.occurrence.scheduled_at == each.at
        assert job.next_after(each.moment - timedelta(seconds=1), zone) == each.moment
    following = next_heads_up(job, start, zone)
    assert following is not None
    assert following == (found[0].at if found else following)
    assert (following <= end) is bool(found)
    assert set(Counter(each.occurrence.comes_before for each in found)) <= {*lengths}


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (30 * MINUTE, "in 30 min"),
        (89 * MINUTE, "in 1 h 29 min"),
        (timedelta(seconds=20), "in 1 min"),
    ],
)
def test_a_heads_up_says_how_long_is_left(left: timedelta, words: str) -> None:
    spec = JobSpec(id="a", message="dentist")
    assert announcement(spec, NOW + left, NOW) == f"{words}: dentist"
