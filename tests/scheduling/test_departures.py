"""Leave by: one message before each event with a place, once, and none after the event began."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from tests.scheduling.scene import NOW, ScheduleScene, schedule_scene
from tests.scheduling.test_firing import HOUR, MINUTE
from tests.scheduling.test_full_disk import FullableDisk
from tests.scheduling.test_plain_delivery import is_right

from ollim_bot.domain.calendar import CalendarCopy, CalendarEvent
from ollim_bot.domain.leave_by import departures, moment_to_leave
from ollim_bot.domain.run_history import part_in_words
from ollim_bot.store.calendars import write_copy

PLACE = "Main Street 5"


def event(start: timedelta = HOUR, **more: Any) -> CalendarEvent:
    given = {"id": "e1", "summary": "Dentist", "location": PLACE} | more
    begins = NOW + start
    return CalendarEvent(calendar="Work", start=begins, end=begins + HOUR, **given)


def keep(at: ScheduleScene, *events: CalendarEvent) -> None:
    write_copy(at.paths, CalendarCopy("Work", "a.example (hidden)", events, NOW))


def travel(at: ScheduleScene, minutes: str) -> None:
    _set(at, "travel_minutes", minutes)


def _set(at: ScheduleScene, key: str, value: str) -> None:
    at.store.run(lambda tx: tx.config.change(lambda now: now.with_value(key, value)))


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
        assert is_right(at)


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
        assert is_right(at)


async def test_while_it_is_quiet_it_is_not_said_and_not_later_either(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        _set(at, "quiet_hours", "10:00-11:00")
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


def test_no_one_leaves_for_a_whole_day() -> None:
    day = date(2026, 2, 25)
    whole = CalendarEvent("e1", "Work", "Fair", day, day + timedelta(days=1), True, PLACE)
    assert moment_to_leave(whole, 20) is None


def test_an_event_that_two_calendars_have_is_told_once() -> None:
    copies = [CalendarCopy("Work", "", (event(),)), CalendarCopy("Me", "", (event(id="other"),))]
    assert len(departures(copies, 20)) == 1
