"""The instances of calendars, in three zones, over a year with both clock changes.

The expectations are written by hand, or made by stepping through the days of the year.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.features.calendars.calendar_server import ics

from ollim_bot.features.calendars.expansion import Expansion, Window, expand
from ollim_bot.kernel.values.calendar import CalendarEvent

ZONES = ("Europe/Berlin", "America/New_York", "Pacific/Auckland")
NEW_YEAR, NEW_YEARS_EVE = date(2026, 1, 1), date(2026, 12, 31)
DAY = timedelta(days=1)
# Where an expectation is in the zone of the bot.
OWN = "{zone}"

Day = Callable[[date], bool]


@dataclass(frozen=True)
class Timed:
    """A local time in a zone; `hours` is the real duration."""

    day: date
    start: str
    hours: float
    zone: str = OWN


@dataclass(frozen=True)
class Whole:
    day: date
    days: int = 1


def in_2026(chosen: Day = lambda _: True, first: str = "01-01", last: str = "12-31") -> list[date]:
    day, end = date.fromisoformat(f"2026-{first}"), date.fromisoformat(f"2026-{last}")
    found = []
    while day <= end:
        found += [day] if chosen(day) else []
        day += DAY
    return found


def timed(
    days: Iterable[date], start: str = "09:00", hours: float = 1, zone: str = OWN
) -> list[Timed]:
    return [Timed(day, start, hours, zone) for day in days]


def on(*days: str) -> list[date]:
    return [date.fromisoformat(f"2026-{day}") for day in days]


def nine(*days: str) -> list[Timed]:
    return timed(on(*days))


def whole(days: Iterable[date], length: int = 1) -> list[Whole]:
    return [Whole(day, length) for day in days]


NINE = "DTSTART;TZID={zone}:20260105T090000\nDTEND;TZID={zone}:20260105T100000"
EARLY = "DTSTART;TZID={zone}:20251201T090000\nDTEND;TZID={zone}:20251201T100000"
BERLIN_NINE = NINE.replace("{zone}", "Europe/Berlin")
DAILY5 = f"{NINE}\nRRULE:FREQ=DAILY;COUNT=5"
FIVE = on("01-05", "01-06", "01-07", "01-08", "01-09")
SINGLE_DAY = "DTSTART;VALUE=DATE:20260510"


def exception(recurrence: str, lines: str) -> str:
    return f"UID:0@x.org\nRECURRENCE-ID{recurrence}\n{lines}"


def at(clock: str, hours: int = 1) -> str:
    end = f"{int(clock[9:11]) + hours:02}{clock[11:]}"
    return f"DTSTART;TZID={{zone}}:{clock}\nDTEND;TZID={{zone}}:{clock[:9]}{end}"


SEVENTH = ";TZID={zone}:20260107T090000"


class Case:
    """The instances of the events with these lines; `head` are the lines before them."""

    def __init__(self, instances: Sequence[Timed | Whole], *events: str, head: str = "") -> None:
        self.instances, self.events, self.head = instances, events, head


CASES: dict[str, Case] = {
    "one time in UTC": Case(
        timed(on("05-10"), "12:00", 1.5, "UTC"), "DTSTART:20260510T120000Z\nDTEND:20260510T133000Z"
    ),
    "one time in a zone": Case(nine("01-05"), NINE),
    "one time in another zone than the bot's": Case(
        timed(on("05-10"), "12:00", 1, "Asia/Kolkata"),
        "DTSTART;TZID=Asia/Kolkata:20260510T120000\nDTEND;TZID=Asia/Kolkata:20260510T130000",
    ),
    "begin and end in two zones": Case(
        timed(on("05-10"), "12:00", 8, "Europe/Berlin"),
        "DTSTART;TZID=Europe/Berlin:20260510T120000\nDTEND;TZID=America/New_York:20260510T140000",
    ),
    "a floating time is in the zone of the bot": Case(
        timed(on("07-10"), "12:00"), "DTSTART:20260710T120000\nDTEND:20260710T130000"
    ),
    "a floating time is in the zone of the calendar": Case(
        timed(on("07-10"), "12:00", 1, "Asia/Kolkata"),
        "DTSTART:20260710T120000\nDTEND:20260710T130000",
        head="X-WR-TIMEZONE:Asia/Kolkata\n",
    ),
    "the zone of the calendar does not move UTC": Case(
        timed(on("03-20", "03-27", "04-03"), "12:00", 1, "UTC"),
        "DTSTART:20260320T120000Z\nDTEND:20260320T130000Z\nRRULE:FREQ=WEEKLY;COUNT=3",
        head="X-WR-TIMEZONE:Europe/Berlin\n",
    ),
    "a calendar with a zone that does not exist": Case(
        timed(on("07-10"), "12:00"),
        "DTSTART:20260710T120000\nDTEND:20260710T130000",
        head="X-WR-TIMEZONE:Moon/Base\n",
    ),
    "a zone by its Windows name": Case(
        timed(on("07-10"), "12:00", 1, "Europe/Berlin"),
        "DTSTART;TZID=W. Europe Standard Time:20260710T120000\nDURATION:PT1H",
    ),
    "a zone in quotes": Case(
        timed(on("07-10"), "12:00", 1, "Europe/Berlin"),
        'DTSTART;TZID="Europe/Berlin":20260710T120000\nDURATION:PT1H',
    ),
    "a zone that the calendar defines": Case(
        timed(on("03-10", "04-10"), "12:00", 1, "Europe/Berlin"),
        "DTSTART;TZID=Custom:20260310T120000\nDURATION:PT1H\nRRULE:FREQ=MONTHLY;COUNT=2",
        head="BEGIN:VTIMEZONE\nTZID:Custom\n"
        "BEGIN:STANDARD\nDTSTART:19701025T030000\nTZOFFSETFROM:+0200\nTZOFFSETTO:+0100\n"
        "RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU\nEND:STANDARD\n"
        "BEGIN:DAYLIGHT\nDTSTART:19700329T020000\nTZOFFSETFROM:+0100\nTZOFFSETTO:+0200\n"
        "RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU\nEND:DAYLIGHT\nEND:VTIMEZONE\n",
    ),
    "a zone that nothing defines": Case(
        timed(on("07-10"), "12:00"), "DTSTART;TZID=Moon/Base:20260710T120000\nDURATION:PT1H"
    ),
    "all day, without an end": Case(whole(on("05-10")), SINGLE_DAY),
    "all day, ending where it begins": Case(
        whole(on("05-10")), f"{SINGLE_DAY}\nDTEND;VALUE=DATE:20260510"
    ),
    "several days are one event": Case(
        whole(on("05-10"), 4), f"{SINGLE_DAY}\nDTEND;VALUE=DATE:20260514"
    ),
    "all day, by a duration": Case(whole(on("05-10"), 2), f"{SINGLE_DAY}\nDURATION:P2D"),
    "all days of a month with a clock change": Case(
        whole(in_2026(first="03-01", last="04-10")),
        "DTSTART;VALUE=DATE:20260301\nRRULE:FREQ=DAILY;UNTIL=20260410",
    ),
    "all days of the other month with a clock change": Case(
        whole(in_2026(first="09-20", last="11-08")),
        "DTSTART;VALUE=DATE:20260920\nRRULE:FREQ=DAILY;COUNT=50",
    ),
    "a birthday": Case(whole(on("07-04")), "DTSTART;VALUE=DATE:19800704\nRRULE:FREQ=YEARLY"),
    "a birthday on a leap day": Case([], "DTSTART;VALUE=DATE:19800229\nRRULE:FREQ=YEARLY"),
    "every day of the year, in a zone": Case(timed(in_2026()), f"{EARLY}\nRRULE:FREQ=DAILY"),
    "every day in UTC": Case(
        timed(in_2026(), "05:00", 1, "UTC"),
        "DTSTART:20251201T050000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY",
    ),
    "every floating day over the clock changes": Case(
        timed(in_2026(lambda day: (day - date(2026, 3, 1)).days % 3 == 0, first="03-01"), "12:00"),
        "DTSTART:20260301T120000\nDURATION:PT1H\nRRULE:FREQ=DAILY;INTERVAL=3",
    ),
    "weeks that begin on Monday": Case(
        nine("01-05", "01-11", "01-19", "01-25"),
        f"{NINE}\nRRULE:FREQ=WEEKLY;INTERVAL=2;WKST=MO;BYDAY=SU,MO;COUNT=4",
    ),
    "twice a day": Case(
        [Timed(day, clock, 1) for day in on("01-05", "01-06") for clock in ("09:00", "18:00")],
        f"{NINE}\nRRULE:FREQ=DAILY;BYHOUR=9,18;COUNT=4",
    ),
    "every twelve hours": Case(
        [
            *timed(on("01-05"), "09:00", 1, "UTC"),
            *timed(on("01-05"), "21:00", 1, "UTC"),
            *timed(on("01-06"), "09:00", 1, "UTC"),
        ],
        "DTSTART:20260105T090000Z\nDURATION:PT1H\nRRULE:FREQ=HOURLY;INTERVAL=12;COUNT=3",
    ),
    "a count that began before the window": Case(
        nine("01-01", "01-02"), f"{EARLY}\nRRULE:FREQ=DAILY;COUNT=33"
    ),
    "a first day that the rule does not name": Case(
        nine("01-05", "01-07", "01-14"),
        f"{NINE}\nRRULE:FREQ=WEEKLY;BYDAY=WE;UNTIL=20260115T000000Z",
    ),
    "until the moment of the last one": Case(
        timed(on("01-05", "01-06", "01-07"), "09:00", 1, "UTC"),
        "DTSTART:20260105T090000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;UNTIL=20260107T090000Z",
    ),
    "until the second before": Case(
        timed(on("01-05", "01-06"), "09:00", 1, "UTC"),
        "DTSTART:20260105T090000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;UNTIL=20260107T085959Z",
    ),
    "until an evening that is the next day in UTC": Case(
        timed(on("03-07", "03-08", "03-09"), "20:00", 1, "America/New_York"),
        "DTSTART;TZID=America/New_York:20260307T200000\nDURATION:PT1H\n"
        "RRULE:FREQ=DAILY;UNTIL=20260310T000000Z",
    ),
    "until a day counts to its end": Case(
        nine("01-05", "01-06", "01-07"), f"{NINE}\nRRULE:FREQ=DAILY;UNTIL=20260107"
    ),
    "until a time without a zone": Case(
        nine("01-05", "01-06", "01-07"), f"{NINE}\nRRULE:FREQ=DAILY;UNTIL=20260107T090000"
    ),
    "until a day, of all-day events": Case(
        whole(on("05-10", "05-11", "05-12")), f"{SINGLE_DAY}\nRRULE:FREQ=DAILY;UNTIL=20260512"
    ),
    "left out, in the zone": Case(
        nine("01-05", "01-06", "01-08", "01-09"), f"{DAILY5}\nEXDATE;TZID={{zone}}:20260107T090000"
    ),
    "left out, in UTC": Case(
        timed(on("01-05", "01-07"), "09:00", 1, "Europe/Berlin"),
        f"{BERLIN_NINE}\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE:20260106T080000Z",
    ),
    "left out, in several lines": Case(
        nine("01-05", "01-08"),
        f"{DAILY5}\nEXDATE;TZID={{zone}}:20260106T090000,20260107T090000\n"
        "EXDATE;TZID={zone}:20260109T090000",
    ),
    "left out, by the day": Case(
        nine("01-05", "01-06", "01-08", "01-09"), f"{DAILY5}\nEXDATE;VALUE=DATE:20260107"
    ),
    "left out, of all-day events": Case(
        whole(on("05-10", "05-12")),
        f"{SINGLE_DAY}\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE;VALUE=DATE:20260511",
    ),
    "left out, the first": Case(timed(FIVE[1:]), f"{DAILY5}\nEXDATE;TZID={{zone}}:20260105T090000"),
    "left out, though it is not on": Case(
        timed(FIVE), f"{DAILY5}\nEXDATE;TZID={{zone}}:20260107T100000"
    ),
    "left out, one of two on a day": Case(
        [*nine("01-05"), *timed(on("01-05"), "10:00"), *nine("01-06")],
        f"{NINE}\nRRULE:FREQ=DAILY;BYHOUR=9,10;COUNT=4\nEXDATE;TZID={{zone}}:20260106T100000",
    ),
    "a further date": Case(
        [*timed(FIVE), *timed(on("02-01"), "11:00")],
        f"{DAILY5}\nRDATE;TZID={{zone}}:20260201T110000",
    ),
    "a further date that is there already": Case(
        timed(FIVE), f"{DAILY5}\nRDATE;TZID={{zone}}:20260107T090000"
    ),
    "further dates alone": Case(
        nine("01-05", "04-01", "09-01"),
        f"{NINE}\nRDATE;TZID={{zone}}:20260401T090000,20260901T090000",
    ),
    "a further date with its own length": Case(
        [
            *timed(on("01-05"), "09:00", 1, "UTC"),
            *timed(on("02-01"), "09:00", 3, "UTC"),
            *timed(on("03-01"), "09:00", 2, "UTC"),
        ],
        "DTSTART:20260105T090000Z\nDURATION:PT1H\n"
        "RDATE;VALUE=PERIOD:20260201T090000Z/PT3H,20260301T090000Z/20260301T110000Z",
    ),
    "one moved to another time": Case(
        [*nine("01-05", "01-06"), *timed(on("01-07"), "14:00"), *timed(FIVE[3:])],
        DAILY5,
        exception(SEVENTH, at("20260107T140000")),
    ),
    "one moved to another day": Case(
        [*nine("01-05", "01-06", "01-08", "01-09", "01-20")],
        DAILY5,
        exception(SEVENTH, at("20260120T090000")),
    ),
    "one moved out of the window": Case(
        nine("01-05", "01-06", "01-08", "01-09"), DAILY5, exception(SEVENTH, at("20270120T090000"))
    ),
    "one moved into the window": Case(
        nine("02-02"),
        f"{EARLY}\nRRULE:FREQ=DAILY;COUNT=3",
        exception(";TZID={zone}:20251202T090000", at("20260202T090000")),
    ),
    "one moved, named in UTC": Case(
        [
            *timed(on("01-05"), "09:00", 1, "Europe/Berlin"),
            *timed(on("01-06"), "14:00", 1, "Europe/Berlin"),
        ],
        f"{BERLIN_NINE}\nRRULE:FREQ=DAILY;COUNT=2",
        exception(":20260106T080000Z", at("20260106T140000").replace("{zone}", "Europe/Berlin")),
    ),
    "one moved, named by its day": Case(
        [*nine("01-05", "01-06"), *timed(on("01-07"), "14:00"), *timed(FIVE[3:])],
        DAILY5,
        exception(";VALUE=DATE:20260107", at("20260107T140000")),
    ),
    "one longer": Case(
        [*timed(FIVE[:2]), *timed(on("01-07"), "09:00", 3), *timed(FIVE[3:])],
        DAILY5,
        exception(SEVENTH, at("20260107T090000", 3)),
    ),
    "one made an all-day event's neighbour": Case(
        whole(on("05-10", "05-20")),
        f"{SINGLE_DAY}\nRRULE:FREQ=DAILY;COUNT=2",
        exception(";VALUE=DATE:20260511", "DTSTART;VALUE=DATE:20260520"),
    ),
    "one cancelled": Case(
        nine("01-05", "01-06", "01-08", "01-09"),
        DAILY5,
        exception(SEVENTH, f"{at('20260107T090000')}\nSTATUS:CANCELLED"),
    ),
    "this and all later ones, moved": Case(
        [*timed(FIVE[:2]), *timed(FIVE[2:], "11:00")],
        DAILY5,
        exception(f";RANGE=THISANDFUTURE{SEVENTH}", at("20260107T110000")),
    ),
    "this and all later ones, longer": Case(
        [*timed(FIVE[:2]), *timed(FIVE[2:], "09:00", 2)],
        DAILY5,
        exception(f";RANGE=THISANDFUTURE{SEVENTH}", at("20260107T090000", 2)),
    ),
    "an exception whose series is not there": Case(
        timed(on("01-07"), "14:00"), exception(SEVENTH, at("20260107T140000"))
    ),
    "the newer of two versions": Case(
        timed(on("01-07"), "14:00"),
        f"{at('20260107T140000')}\nSEQUENCE:2",
        f"UID:0@x.org\n{NINE}\nSEQUENCE:1",
    ),
    "cancelled": Case([], f"{NINE}\nSTATUS:CANCELLED"),
    "cancelled, the whole series": Case([], f"{DAILY5}\nSTATUS:cancelled"),
    "tentative": Case(nine("01-05"), f"{NINE}\nSTATUS:TENTATIVE"),
    "by a duration": Case(
        timed(on("01-05"), "09:00", 1.5), "DTSTART;TZID={zone}:20260105T090000\nDURATION:PT1H30M"
    ),
    "without an end": Case(timed(on("01-05"), "09:00", 0), "DTSTART;TZID={zone}:20260105T090000"),
    "an end before the begin": Case(
        timed(on("01-05"), "09:00", 0),
        "DTSTART;TZID={zone}:20260105T090000\nDTEND;TZID={zone}:20260105T080000",
    ),
    "a length that cannot be read": Case(
        timed(on("01-05"), "09:00", 0), "DTSTART;TZID={zone}:20260105T090000\nDURATION:PTXH"
    ),
    "on over midnight, from the year before": Case(
        [Timed(date(2025, 12, 31), "23:00", 2)],
        "DTSTART;TZID={zone}:20251231T230000\nDTEND;TZID={zone}:20260101T010000",
    ),
    "over before the window": Case(
        [], "DTSTART;TZID={zone}:20251231T230000\nDTEND;TZID={zone}:20260101T000000"
    ),
    "after the window": Case([], "DTSTART;TZID={zone}:20270101T000000\nDURATION:PT1H"),
    "a night with a clock change, by the clock": Case(
        [
            *timed(on("03-27"), "23:00", 8, "Europe/Berlin"),
            *timed(on("03-28"), "23:00", 7, "Europe/Berlin"),
            *timed(on("03-29"), "23:00", 8, "Europe/Berlin"),
        ],
        "DTSTART;TZID=Europe/Berlin:20260327T230000\nDTEND;TZID=Europe/Berlin:20260328T070000\n"
        "RRULE:FREQ=DAILY;COUNT=3",
    ),
    "a night with a clock change, by hours": Case(
        timed(on("10-30", "10-31", "11-01"), "23:00", 8, "America/New_York"),
        "DTSTART;TZID=America/New_York:20261030T230000\nDURATION:PT8H\nRRULE:FREQ=DAILY;COUNT=3",
    ),
    "a time that the clocks skip in Berlin": Case(
        [
            *timed(on("03-28"), "01:30", 1, "UTC"),
            *timed(on("03-29"), "01:30", 1, "UTC"),
            *timed(on("03-30"), "00:30", 1, "UTC"),
        ],
        "DTSTART;TZID=Europe/Berlin:20260328T023000\nDTEND;TZID=Europe/Berlin:20260328T033000\n"
        "RRULE:FREQ=DAILY;COUNT=3",
    ),
    "a time that the clocks skip in New York": Case(
        timed(on("03-08"), "07:30", 1, "UTC"),
        "DTSTART;TZID=America/New_York:20260308T023000\nDURATION:PT1H",
    ),
    "a time that the clocks skip in Auckland": Case(
        timed(on("09-26"), "14:30", 1, "UTC"),
        "DTSTART;TZID=Pacific/Auckland:20260927T023000\nDURATION:PT1H",
    ),
    "a time that the clocks show twice means the first": Case(
        [
            *timed(on("04-04"), "13:30", 0.5, "UTC"),
            *timed(on("10-24", "10-25"), "00:30", 0.5, "UTC"),
            *timed(on("10-26"), "01:30", 0.5, "UTC"),
            *timed(on("11-01"), "05:30", 0.5, "UTC"),
        ],
        "DTSTART;TZID=Europe/Berlin:20261024T023000\nDURATION:PT30M\nRRULE:FREQ=DAILY;COUNT=3",
        "DTSTART;TZID=America/New_York:20261101T013000\nDURATION:PT30M",
        "DTSTART;TZID=Pacific/Auckland:20260405T023000\nDURATION:PT30M",
    ),
    "two calendars in one text": Case(
        [*nine("01-05"), *timed(on("01-10"), "09:00", 1, "Asia/Kolkata")],
        NINE,
        head="END:VCALENDAR\nBEGIN:VCALENDAR\nX-WR-TIMEZONE:Asia/Kolkata\n"
        "BEGIN:VEVENT\nUID:k\nDTSTART:20260110T090000\nDURATION:PT1H\nEND:VEVENT\n"
        "END:VCALENDAR\nBEGIN:VCALENDAR\n",
    ),
    "small letters, folded lines, and parts that are not ours": Case(
        whole(on("05-10")),
        "dtstart;value=date:2026\n 0510\nBEGIN:VALARM\nTRIGGER:-PT15M\nEND:VALARM",
        head="BEGIN:VTODO\nUID:t\nDTSTART:20260101T090000\nEND:VTODO\n",
    ),
}


def expanded(raw: bytes, zone: str = "Europe/Berlin", calendar: str = "Work") -> Expansion:
    now = datetime(2026, 6, 15, 12, tzinfo=ZoneInfo(zone))
    return expand(raw, calendar, Window(NEW_YEAR, NEW_YEARS_EVE, now, ZoneInfo(zone)))


def span(event: CalendarEvent) -> tuple[date, date]:
    assert event.all_day is not isinstance(event.start, datetime)
    return event.start, event.end


def spans(expected: Iterable[Timed | Whole], zone: str) -> list[tuple[date, date]]:
    found: list[tuple[date, date]] = []
    for each in expected:
        if isinstance(each, Whole):
            found.append((each.day, each.day + each.days * DAY))
            continue
        wall = datetime.combine(each.day, time.fromisoformat(each.start))
        begins = wall.replace(tzinfo=ZoneInfo(each.zone.format(zone=zone))).astimezone(UTC)
        found.append((begins, begins + timedelta(hours=each.hours)))
    return found


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("name", CASES)
def test_a_calendar_has_exactly_these_instances(name: str, zone: str) -> None:
    case = CASES[name]
    lines = [each.replace("{zone}", zone) for each in case.events]
    found = expanded(ics(*lines, head=case.head), zone)
    assert [span(event) for event in found.events] == spans(case.instances, zone)
    ids = [event.id for event in found.events]
    assert len(set(ids)) == len(ids)
    assert found.limits == ""


def test_a_leap_day_comes_in_a_leap_year() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    now = datetime(2028, 1, 1, tzinfo=berlin)
    window = Window(date(2027, 12, 1), date(2028, 12, 31), now, berlin)
    found = expand(ics("DTSTART;VALUE=DATE:19800229\nRRULE:FREQ=YEARLY"), "Work", window)
    assert [span(event) for event in found.events] == [(date(2028, 2, 29), date(2028, 3, 1))]


def test_a_moved_instance_keeps_its_id_and_others_have_their_own() -> None:
    before = expanded(ics(DAILY5.replace("{zone}", "UTC")))
    moved = exception(SEVENTH, at("20260107T140000"))
    after = expanded(ics(*(each.replace("{zone}", "UTC") for each in (DAILY5, moved))))
    assert [event.id for event in before.events] == [event.id for event in after.events]
    other = expanded(ics(DAILY5.replace("{zone}", "UTC")), calendar="Home")
    assert not {event.id for event in before.events} & {event.id for event in other.events}


def test_the_words_of_an_event_and_whether_it_is_busy() -> None:
    found = expanded(
        ics(
            "DTSTART:20260510T120000Z\nSUMMARY:Lunch\\, late\nSUMMARY:no\n"
            "LOCATION:Caf\u00e9\nDESCRIPTION:one\\ntwo",
            "DTSTART:20260511T120000Z\nTRANSP:TRANSPARENT",
            "DTSTART:20260512T120000Z\nX-MICROSOFT-CDO-BUSYSTATUS:FREE",
            "DTSTART:20260513T120000Z\nTRANSP:OPAQUE",
        )
    )
    first = found.events[0]
    assert (first.summary, first.location) == ("Lunch, late", "Caf\u00e9")
    assert first.description == "one\ntwo"
    assert [event.is_busy for event in found.events] == [True, False, False, True]


_DECLINED = (
    "ATTENDEE;PARTSTAT=DECLINED:mailto:bob@example.org\n"
    "ATTENDEE;PARTSTAT=declined:MAILTO:ada@example.org"
)


def test_an_event_is_declined_if_the_guest_with_the_name_of_the_calendar_declined_it() -> None:
    events = (
        "DTSTART:20260510T120000Z\nATTENDEE;PARTSTAT=DECLINED:mailto:Ada@example.org",
        "DTSTART:20260511T120000Z\nATTENDEE;PARTSTAT=DECLINED:mailto:bob@example.org",
        "DTSTART:20260512T120000Z\nRRULE:FREQ=DAILY;COUNT=2\n" + _DECLINED,
    )
    named = expanded(ics(*events, head="X-WR-CALNAME:ada@example.org\n"))
    assert [event.is_declined for event in named.events] == [True, False, True, True]
    assert not any(event.is_declined for event in expanded(ics(*events)).events)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_text_in_another_encoding_is_read(encoding: str) -> None:
    text = ics("DTSTART:20260510T120000Z\nSUMMARY:Caf\u00e9").decode().encode(encoding)
    assert [event.summary for event in expanded(text).events] == ["Caf\u00e9"]
