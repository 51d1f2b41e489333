"""A hostile calendar loses at most its own events, and takes little time."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.features.calendars.calendar_server import ics
from tests.features.calendars.test_expansion import CASES

from ollim_bot.features.calendars.expansion import (
    MOST_OF_SERIES,
    Expansion,
    ExpansionLimits,
    NoCalendar,
    Window,
    expand,
)
from ollim_bot.features.calendars.feeds import CalendarFeeds
from ollim_bot.kernel.base.errors import CalendarFailed
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.calendar_files import CalendarFiles

# The time limit may strike while Python cleans up an object; it strikes again a second later.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 16, 9, 12, tzinfo=BERLIN)
WINDOW = Window.around(NOW, BERLIN)
QUICK = ExpansionLimits(events=3000, series_seconds=0.2)
GOOD = "SUMMARY:Dentist\nDTSTART:20261116T140000\nDTEND:20261116T150000"

HOSTILE = {
    "every second since 1970": "DTSTART:19700101T000000Z\nRRULE:FREQ=SECONDLY",
    "every second, with a length of a day": (
        "DTSTART:20261116T000000Z\nDURATION:P1D\nRRULE:FREQ=SECONDLY"
    ),
    "a day that never comes": (
        "DTSTART:20200101T000000Z\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"
    ),
    "an interval of nothing": "DTSTART:20261116T000000Z\nRRULE:FREQ=DAILY;INTERVAL=0",
    "a negative count": "DTSTART:20261116T000000Z\nRRULE:FREQ=DAILY;COUNT=-5",
    "a huge count": f"DTSTART:20261116T000000Z\nRRULE:FREQ=DAILY;COUNT={'9' * 400}",
    "a rule without sense": "DTSTART:20261116T000000Z\nRRULE:FREQ=DAILY;FREQ=;=;BYDAY=99XX",
    "a thousand times a day": (
        "DTSTART:20261116T000000Z\nRRULE:FREQ=DAILY;BYHOUR="
        + ",".join(map(str, range(24)))
        + ";BYMINUTE="
        + ",".join(map(str, range(60)))
    ),
    "a begin at the end of time": "DTSTART:99991231T235959Z\nDURATION:P999999D",
    "a begin before time": "DTSTART:00000000T000000Z",
    "a length of ages": "DTSTART:20261116T000000Z\nDURATION:P99999999999D",
    "no begin": "SUMMARY:x",
    "two begins": "DTSTART:20261116T000000Z\nDTSTART:20271116T000000Z",
    "a zone that is a path": "DTSTART;TZID=../../../etc/passwd:20261116T000000",
    "many dates left out": "DTSTART:20261116T000000Z\nRRULE:FREQ=DAILY\nEXDATE:"
    + ",".join(["20261117T000000Z"] * 2000),
    "an event in an event": "BEGIN:VEVENT\n" * 50
    + "DTSTART:20261116T000000Z\n"
    + "END:VEVENT\n" * 50,
    "the words of the end, in a text": (
        "DTSTART:20100101T000000Z\nSUMMARY:END:VCALENDAR\n"
        "DESCRIPTION:END:VEVENT\n END:VEVENT BEGIN:VEVENT"
    ),
    "a colon and a semicolon": "DTSTART;;;=:::20261116\n;:;:\n=",
    "a name of a megabyte": f"DTSTART:20261116T000000Z\nSUMMARY:{'x' * 1_000_000}",
    "zero bytes": "DTSTART:20261116T000000Z\nSUMMARY:a\0b\x1b[2J",
}


def expanded(raw: bytes) -> Expansion:
    return expand(raw, "Work", WINDOW, QUICK)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_event_does_not_touch_the_others(name: str) -> None:
    found = expanded(ics(HOSTILE[name], GOOD, head="X-WR-TIMEZONE:../../etc/passwd\n"))
    assert [event for event in found.events if event.summary == "Dentist"]
    assert len(found.events) <= MOST_OF_SERIES + 1
    assert all(len(event.summary) <= 300 for event in found.events)


def test_what_is_not_kept_is_said() -> None:
    every_second = expand(ics("DTSTART:20261116T080000Z\nRRULE:FREQ=SECONDLY"), "Work", WINDOW)
    assert every_second.limits == "1 event repeats too often to be all kept."
    assert len(every_second.events) == MOST_OF_SERIES
    assert every_second.events[0].begins(BERLIN) == NOW
    never = expanded(ics(HOSTILE["every second since 1970"], "DTSTART:no", "DTSTART:no", GOOD))
    assert never.limits == (
        "2 events were not understood. 1 event repeats too often to be all kept."
    )
    dates = ["DTSTART:20261116"] * 50
    many = expand(ics(*dates, "DTSTART:20261201"), "Work", WINDOW, ExpansionLimits(events=50))
    assert many.limits == "Only the 50 events nearest to today are kept."
    assert {event.start for event in many.events} == {NOW.date()}


def test_events_that_take_long_do_not_use_up_the_time_of_others() -> None:
    slow = [HOSTILE["every second since 1970"]] * 4
    weekly = GOOD + "\nRRULE:FREQ=WEEKLY;COUNT=3"
    found = expand(
        ics(*slow, weekly), "Work", WINDOW, ExpansionLimits(series_seconds=0.4, all_seconds=0.6)
    )
    assert [event.summary for event in found.events] == ["Dentist"] * 3
    assert found.limits == "4 events repeat too often to be all kept."


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"", "It holds no calendar."),
        (b"\xff\xfe\x00", "It holds no calendar."),
        (b"<!doctype html><HTML>BEGIN", "It holds a web page, not a calendar."),
        (ics(GOOD)[:-20], "The calendar is cut off before its end."),
        (b"BEGIN:VCALENDAR\r\nEND:VEVENT\r\nEND:VCALENDAR", "The calendar cannot be understood."),
    ],
)
def test_a_text_that_is_no_calendar_is_said_to_be_none(raw: bytes, sentence: str) -> None:
    with pytest.raises(NoCalendar) as raised:
        expanded(raw)
    assert str(raised.value) == sentence


TOKENS = (
    *("RRULE:FREQ=SECONDLY", "RRULE:FREQ=YEARLY;BYDAY=53MO", "INTERVAL=0", "COUNT=-1", "T999999Z"),
    *("BEGIN:VEVENT", "END:VEVENT", "END:VCALENDAR", "BEGIN:VTIMEZONE", "TZID=", "VALUE=DATE"),
    *(
        "\0",
        "\r",
        "\n ",
        ":",
        ";",
        ",",
        "=",
        '"',
        "\\",
        "\ufeff",
        "\u2028",
        "9" * 30,
        "-",
        "\ud7ff",
    ),
)


def mutated(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(lines))
        line = lines[at]
        cut = chance.randint(0, len(line))
        match chance.randint(0, 5):
            case 0:
                lines[at] = line[:cut] + chance.choice(TOKENS) + line[cut:]
            case 1:
                lines.insert(at, chance.choice(lines))
            case 2 if len(lines) > 1:
                del lines[at]
            case 3:
                lines[at] = line[:cut]
            case 4:
                lines[at] = line[:cut] + chance.choice(TOKENS)
            case _:
                other = chance.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
    return "\n".join(lines)


def test_no_text_makes_it_fail_in_another_way() -> None:
    chance = random.Random(17)
    cases = [case for case in CASES.values() if "FREQ=DAILY\n" not in f"{case.events[0]}\n"]
    outcomes = set[bool]()
    for _ in range(150):
        case = chance.choice(cases)
        text = ics(*case.events, GOOD, head=case.head).decode().replace("{zone}", "Europe/Berlin")
        raw = mutated(text.replace("\r\n", "\n"), chance).encode("utf-8", "replace")
        try:
            found = expand(raw, "Work", WINDOW, QUICK)
        except NoCalendar:
            outcomes.add(False)
        else:
            outcomes.add(True)
            assert all(event.ends(BERLIN) >= event.begins(BERLIN) for event in found.events)
    assert outcomes == {True, False}


@pytest.mark.real_process
def test_a_calendar_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    feeds = CalendarFeeds(paths, CalendarFiles(paths), expand_seconds=1.0)
    heavy = "DTSTART:20261116T000000Z\nRRULE:FREQ=DAILY\nEXDATE:" + "20261117T000000Z," * 300_000
    (tmp_path / "heavy.ics").write_bytes(ics(heavy))
    with pytest.raises(CalendarFailed, match="needs more time or memory"):
        feeds.subscribe("heavy.ics", "Work", NOW)
    assert not paths.calendars.exists()
