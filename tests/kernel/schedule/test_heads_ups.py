"""One line before the moment, once: heads-ups, when to leave, and timers."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.schedule.scene import NOW, ScheduleScene, schedule_scene
from tests.kernel.schedule.test_firing import HOUR, MINUTE
from tests.kernel.schedule.test_full_disk import FullableDisk

from ollim_bot.kernel.schedule.extra_times import announcement, heads_ups_between, next_heads_up
from ollim_bot.kernel.store.calendar_files import CalendarFiles
from ollim_bot.kernel.values.calendar import CalendarCopy, CalendarEvent
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.jobs import JobSpec, Routine
from ollim_bot.kernel.values.leave_by import departures, moment_to_leave
from ollim_bot.kernel.values.run_history import part_in_words

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
        assert at.is_right


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
        assert at.is_right


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
        assert at.is_right


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
        assert at.is_right


async def test_a_heads_up_of_what_need_not_come_is_dropped_while_it_is_quiet(
    tmp_path: Path,
) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.configure("quiet_hours", "10:00-12:00")
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
        assert at.is_right


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


PLACE = "Main Street 5"


def event(start: timedelta = HOUR, **more: Any) -> CalendarEvent:
    given = {"id": "e1", "summary": "Dentist", "location": PLACE} | more
    begins = NOW + start
    return CalendarEvent(calendar="Work", start=begins, end=begins + HOUR, **given)


def keep(at: ScheduleScene, *events: CalendarEvent) -> None:
    CalendarFiles(at.paths).write_copy(CalendarCopy("Work", "a.example (hidden)", events, NOW))


def travel(at: ScheduleScene, minutes: str) -> None:
    at.configure("travel_minutes", minutes)


def cards(at: ScheduleScene) -> list[str]:
    return [each.card.text for each in at.log if each.card is not None]


def ends(at: ScheduleScene, name: str = "e1") -> list[tuple[str, str]]:
    return [(row.state, str(row.facts.get("reason", ""))) for row in at.ended(name)]


async def test_it_is_said_once_when_to_leave_also_through_a_restart(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        travel(at, "20")
        keep(at, event())
        await at.advance(39 * 60, step=60)
        assert at.log == []
        await at.advance(2 * 60, step=30)
        await at.until(lambda: cards(at) == ["Leave by 10:55\nDentist at 11:15, Main Street 5"])
        assert at.log[0].card is not None
        assert at.log[0].card.buttons == ()
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        keep(at, event(), event(id="e2", summary="Other", location=""))
        await at.advance(90 * 60, step=60)
        assert len(at.log) == 1
        assert ends(at) == [("done", "")]
        assert at.is_right


async def test_the_agent_is_shown_when_to_leave_without_the_words_of_the_event(
    tmp_path: Path,
) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        travel(at, "20")
        keep(at, event())
        await at.advance(41 * 60, step=60)
        await at.until(lambda: at.log)
        (message,) = at.log
        assert message.text == "Leave by 10:55 for an event at 11:15."
        told = [row for row in at.rows if row.occurrence and row.occurrence.job_id == "e1"]
        assert {str(row.facts["job"]) for row in told} == {"leave by (Work)"}
        assert not any(word in str(row) for row in told for word in ("Dentist", PLACE))
        assert told[0].occurrence is not None
        assert part_in_words(told[0].occurrence) == "heads-up, 20 min before"


async def test_an_event_that_is_moved_is_told_for_its_new_time_and_a_cancelled_one_never(
    tmp_path: Path,
) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        travel(at, "20")
        keep(at, event(), event(id="e2", summary="Barber"))
        await at.advance(30 * 60, step=60)
        keep(at, event(2 * HOUR))
        await at.advance(60 * 60, step=60)
        assert at.log == []
        await at.advance(11 * 60, step=60)
        await at.until(lambda: cards(at) == ["Leave by 11:55\nDentist at 12:15, Main Street 5"])
        assert ends(at, "e2") == []


async def test_an_event_that_is_found_late_is_told_at_once(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        travel(at, "20")
        await at.advance(60)
        keep(at, event(15 * MINUTE))
        await at.advance(60, step=30)
        await at.until(lambda: cards(at) == ["Leave now\nDentist at 10:30, Main Street 5"])


@pytest.mark.parametrize(("late", "when"), [(60.0, "Leave by 5:40"), (60.001, "Leave now")])
def test_a_time_to_leave_that_is_over_is_not_told_as_if_it_came(late: float, when: str) -> None:
    begins = datetime(2026, 11, 20, 0, 15, tzinfo=UTC)
    now = (begins - 20 * MINUTE + timedelta(seconds=late)).astimezone(ZoneInfo("Asia/Kathmandu"))
    there = event()._replace(start=begins, end=begins + HOUR)
    (departure,) = departures([CalendarCopy("Łódź", "a.example", (there,), NOW)], 20)
    message = departure.message(now)
    assert message.card is not None
    assert message.card.text == f"{when}\nDentist at 6:00, Main Street 5"
    assert message.text == f"{when} for an event at 6:00."


async def test_after_downtime_it_is_not_said_when_the_event_has_begun(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        travel(at, "20")
        keep(at, event(), event(100 * MINUTE, id="e2", summary="Barber"))
        await at.advance(30)
    await clock.advance(90 * 60)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.until(lambda: cards(at) == ["Leave now\nBarber at 11:55, Main Street 5"])
        assert ends(at) == [("missed", "the event had begun")]
        assert at.is_right


async def test_while_it_is_quiet_it_is_not_said_and_not_later_either(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.configure("quiet_hours", "10:00-11:00")
        travel(at, "20")
        keep(at, event())
        await at.advance(55 * 60, step=60)
        assert cards(at) == []
        assert ends(at) == [("skipped", "quiet")]


async def test_without_the_setting_nothing_is_said_and_it_counts_from_its_change_on(
    tmp_path: Path,
) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        keep(at, event(), event(2 * HOUR, id="e2", summary="Barber"))
        await at.advance(65 * 60, step=60)
        travel(at, "30")
        await at.advance(26 * 60, step=60)
        await at.until(lambda: cards(at) == ["Leave by 11:45\nBarber at 12:15, Main Street 5"])
        travel(at, "off")
        keep(at, event(3 * HOUR, id="e3"))
        await at.advance(2 * 3600, step=60)
        assert len(at.log) == 1
        assert ends(at, "e1") == []


async def test_what_cannot_be_recorded_is_tried_again(tmp_path: Path) -> None:
    disk = FullableDisk()
    async with schedule_scene(ScriptedEngine(), tmp_path, disk=disk) as at:
        travel(at, "20")
        keep(at, event(25 * MINUTE))
        await at.advance(60)
        disk.is_full = True
        await at.advance(6 * 60, step=30)
        disk.is_full = False
        await at.advance(30)
        await at.until(lambda: cards(at) == ["Leave now\nDentist at 10:40, Main Street 5"])


@pytest.mark.parametrize(
    "without",
    [
        {"location": ""},
        {"location": "  "},
        {"location": "https://meet.example/abc"},
        {"is_declined": True},
    ],
)
def test_no_one_leaves_for_an_event_without_a_place_or_a_declined_one(
    without: dict[str, Any],
) -> None:
    assert moment_to_leave(event(**without), 20) is None
    assert moment_to_leave(event(), None) is None
    assert moment_to_leave(event(is_busy=False), 20) == NOW + 40 * MINUTE
    day = date(2026, 2, 25)
    whole = CalendarEvent("e1", "Work", "Fair", day, day + timedelta(days=1), True, PLACE)
    assert moment_to_leave(whole, 20) is None


def test_an_event_that_two_calendars_have_is_told_once() -> None:
    copies = [CalendarCopy("Work", "", (event(),)), CalendarCopy("Me", "", (event(id="other"),))]
    assert len(departures(copies, 20)) == 1


TIMER = {"plain": "true", "set-at": f'"{NOW.isoformat()}"'}


def shown(at: ScheduleScene, name: str = "t1") -> list[Card | None]:
    return [each.card for each in at.log if each.id == f"timer-{name}"]


async def test_a_timer_has_a_card_that_counts_to_its_end_and_says_when_it_is_over(
    tmp_path: Path,
) -> None:
    clock = ManualClock(NOW)
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        at.remind("t1", 25 * MINUTE, "Take the bread out.", **TIMER)
        at.remind("w1", 25 * MINUTE, "Drink water.", plain="true")
        await at.advance(35, step=5)
        end = NOW + 25 * MINUTE
        running = Card("Timer until today 10:40", "Take the bread out", until=end)
        assert shown(at) == [running]
        assert shown(at, "w1") == []
    async with schedule_scene(ScriptedEngine(), tmp_path, clock=clock) as at:
        await at.advance(60, step=30)
        assert shown(at) == [running]
        await at.advance(25 * 60, step=30)
        await at.until(lambda: at.reminders == [])
        await at.advance(60, step=30)
        assert shown(at) == [Card("Timer over: Take the bread out")]
        assert sorted(at.pings) == ["Drink water.", "Take the bread out."]
        assert at.is_right


async def test_the_card_follows_a_timer_that_is_moved_or_cancelled(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.remind("t1", 25 * MINUTE, "Take the bread out.", **TIMER)
        await at.advance(35, step=5)
        file = at.remind("t1", 40 * MINUTE - timedelta(seconds=35), "Take the bread out.", **TIMER)
        await at.advance(35, step=5)
        (card,) = shown(at)
        assert card is not None
        assert card.until == NOW + 40 * MINUTE
        file.unlink()
        await at.advance(60, step=5)
        assert shown(at) == [Card("Timer cancelled: Take the bread out")]
        assert at.pings == []


async def test_a_timer_that_a_run_has_set_shows_nothing_before_its_ping(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        by_run = {"set-at": TIMER["set-at"], "set-by": "routine:abc"}
        at.remind("t1", 25 * MINUTE, "Look.", **by_run)
        await at.advance(60, step=5)
        assert at.log == []
