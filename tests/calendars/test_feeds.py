"""Subscribed calendars: read again in time, each on its own, with the last good copy kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.calendars.calendar_server import Answer, CalendarServer, ics, served
from tests.ports import unused_port

from ollim_bot.domain.calendar import CalendarCopy
from ollim_bot.errors import CalendarFailed, OllimError, WrongInput
from ollim_bot.integrations.calendars.feeds import CalendarFeeds
from ollim_bot.integrations.calendars.refreshing import CalendarRefresher, take_calendar_address
from ollim_bot.paths import DataPaths
from ollim_bot.store.calendars import CalendarFiles, CalendarSource
from ollim_bot.testing.clock import ManualClock

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 16, 9, 12, tzinfo=BERLIN)
DENTIST = "SUMMARY:Dentist\nDTSTART:20261116T140000\nDTEND:20261116T150000"


class Place:
    def __init__(self, root: Path) -> None:
        (root / "state" / ".locks").mkdir(parents=True)
        self.paths = DataPaths(root)
        self.files = CalendarFiles(self.paths)
        self.feeds = CalendarFeeds(self.paths, self.files)
        self.clock = ManualClock(NOW, BERLIN)
        self.told: list[tuple[str, str | None]] = []
        self.refresher = CalendarRefresher(self.feeds, self._tell, self.clock)

    async def _tell(self, sentence: str, *, key: str | None = None) -> None:
        if (sentence, key) not in self.told and key not in [each for _, each in self.told]:
            self.told.append((sentence, key))

    def refreshed(self, now: datetime) -> CalendarCopy:
        (source,) = self.files.sources()
        copy = self.feeds.refresh(source, now)
        assert copy is not None
        assert self.files.copies() == (copy,)
        return copy


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def server() -> Iterator[CalendarServer]:
    with served(Answer(body=ics(DENTIST), headers={"ETag": '"1"'})) as serving:
        yield serving


def test_a_calendar_is_kept_with_its_last_good_copy(place: Place, server: CalendarServer) -> None:
    copy = place.feeds.subscribe(server.address(), "Work", NOW)
    (event,) = copy.events
    assert (event.summary, event.begins(BERLIN)) == ("Dentist", NOW.replace(hour=14, minute=0))
    assert copy.origin == "127.0.0.1 (hidden)"
    assert place.files.sources() == (CalendarSource("Work", server.address(), etag='"1"'),)

    server.answer = lambda _, headers: Answer(304 if headers.get("if-none-match") else 500)
    later = place.refreshed(NOW + timedelta(minutes=15))
    assert (later.events, later.as_of) == (copy.events, NOW + timedelta(minutes=15))

    server.answer = lambda _path, _headers: Answer(404)
    failed = place.refreshed(NOW + timedelta(minutes=30))
    assert (failed.events, failed.as_of) == (copy.events, later.as_of)
    assert "no calendar at the address" in failed.problem

    server.answer = lambda _path, _headers: Answer(body=b"<html>Sign in</html>")
    failed = place.refreshed(NOW + timedelta(minutes=45))
    assert failed.problem == "It holds a web page, not a calendar."
    assert (failed.failing_since, place.files.text("Work")) == (
        NOW + timedelta(minutes=30),
        ics(DENTIST),
    )

    server.answer = lambda _path, _headers: Answer(body=ics(DENTIST, DENTIST))
    well = place.refreshed(NOW + timedelta(minutes=60))
    assert (len(well.events), well.problem, well.failing_since) == (2, "", None)


def test_an_unchanged_calendar_is_computed_anew_when_the_window_has_moved(place: Place) -> None:
    birthday = "DTSTART;VALUE=DATE:20261116\nRRULE:FREQ=YEARLY"
    (place.paths.root / "family.ics").write_bytes(ics(birthday))
    place.feeds.subscribe("family.ics", None, NOW)
    (copy,) = place.files.copies()
    assert (copy.name, copy.origin, len(copy.events)) == ("Calendar", "family.ics", 2)
    later = place.refreshed(NOW + timedelta(days=340))
    assert [each.start.year for each in later.events] == [2027, 2028]


def test_what_cannot_be_read_is_not_added(place: Place, server: CalendarServer) -> None:
    (place.paths.root / "state" / "own.ics").write_bytes(ics(DENTIST))
    outside = place.paths.root.parent / f"{place.paths.root.name}.ics"
    outside.write_bytes(ics(DENTIST))
    (place.paths.root / "link.ics").symlink_to(outside)
    wrong = ["http://x.org/a.ics", "state/own.ics", str(outside), "link.ics", "../a.ics"]
    for where in wrong:
        with pytest.raises(WrongInput):
            place.feeds.subscribe(where, "Work", NOW)
    with pytest.raises(WrongInput):
        place.feeds.subscribe(server.address(), "a\nb", NOW)
    with pytest.raises(CalendarFailed):
        place.feeds.subscribe("missing.ics", "Work", NOW)
    server.answer = lambda _path, _headers: Answer(304)
    with pytest.raises(CalendarFailed):
        place.feeds.subscribe(server.address(), "Work", NOW)
    assert not place.paths.calendars.exists()


def test_one_calendar_is_subscribed_once_and_removed_by_its_name(place: Place) -> None:
    source = CalendarSource("Work", "https://x.org/a.ics")
    place.files.add(source, CalendarCopy("Work", "x.org (hidden)"), b"")
    with pytest.raises(WrongInput, match="there already, as Work"):
        place.feeds.subscribe("webcal://x.org/a.ics", "Other", NOW)
    with pytest.raises(WrongInput, match="of that name already"):
        place.feeds.subscribe("https://x.org/b.ics", "work", NOW)
    with pytest.raises(OllimError, match="no subscribed calendar Home"):
        place.feeds.unsubscribe("Home")
    assert place.feeds.unsubscribe("WORK") == "Work"
    assert (place.files.copies(), place.files.sources()) == ((), ())


async def test_a_failing_calendar_stops_no_other_and_is_told_once_after_a_day(
    place: Place, server: CalendarServer
) -> None:
    gone = f"http://127.0.0.1:{unused_port()}/secret.ics"
    hostile = ics("DTSTART:20261116T080000Z\nRRULE:FREQ=SECONDLY", DENTIST, "DTSTART:no")
    (place.paths.root / "hostile.ics").write_bytes(hostile)
    for source in (
        CalendarSource("Gone", gone),
        CalendarSource("Hostile", file="hostile.ics"),
        CalendarSource("Work", server.address()),
    ):
        place.files.add(source, CalendarCopy(source.name, ""), b"")
    await place.refresher.refresh()
    gone_copy, hostile_copy, work = place.files.copies()
    assert (len(hostile_copy.events), len(work.events)) == (2001, 1)
    assert "not understood" in hostile_copy.limits
    assert "too often" in hostile_copy.limits
    assert (gone_copy.failing_since, place.told) == (NOW, [])
    for name in ("Hostile", "Work"):
        place.files.remove(name)
    for _ in range(3):
        place.clock.jump(24 * 3600)
        await place.refresher.refresh()
    ((sentence, key),) = place.told
    assert sentence == (
        "The calendar Gone could not be read for a day; nothing is shown. "
        "The address could not be reached: Connection refused."
    )
    assert gone not in f"{sentence}{key}"


async def test_a_pasted_address_is_subscribed_and_answered_without_it(
    place: Place, server: CalendarServer
) -> None:
    answer = await take_calendar_address(place.feeds, place.clock, server.address())
    assert answer.words == (
        "Calendar is added, with 1 event. "
        "Next: Mon 16 Nov, 14:00–15:00, Dentist. "
        "`ollim-bot cal unsubscribe Calendar` removes it; to name it yourself, remove it, then run "
        "`ollim-bot cal subscribe - --name Work`."
    )
    assert answer.untrusted is not None
    again = await take_calendar_address(place.feeds, place.clock, server.address())
    assert again.words == "No calendar was added. That calendar is there already, as Calendar."
    assert "7f3a" not in f"{answer}{again}"


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - a clock tells nobody that a task has gone to sleep
            await asyncio.sleep(0.01)


async def test_the_calendars_are_read_every_quarter_of_an_hour(place: Place) -> None:
    asked = asyncio.Queue[datetime]()
    loop = asyncio.get_running_loop()

    def answer(_path: str, _headers: dict[str, str]) -> Answer:
        loop.call_soon_threadsafe(asked.put_nowait, place.clock.now())
        return Answer(500)

    with served(answer) as server:
        place.files.add(CalendarSource("Work", server.address()), CalendarCopy("Work", ""), b"")
        running = asyncio.create_task(place.refresher.run())
        assert await asked.get() == NOW
        await _until(lambda: place.clock.sleeping == 1)
        await place.clock.advance(15 * 60 - 1)
        assert (place.clock.sleeping, asked.empty()) == (1, True)
        await place.clock.advance(1)
        assert await asked.get() == NOW + timedelta(minutes=15)
        running.cancel()


async def test_other_calendars_are_read_along_and_told_once_when_they_keep_failing(
    place: Place,
) -> None:
    failing = CalendarCopy("Google", "Google").failed("It is gone.", NOW - timedelta(days=2))
    asked: list[datetime] = []

    def read(now: datetime) -> list[CalendarCopy]:
        asked.append(now)
        if len(asked) == 2:
            raise RuntimeError("a fault of our own")
        return [failing]

    refresher = CalendarRefresher(place.feeds, place._tell, place.clock, read)
    for _ in range(3):
        await refresher.refresh()
    assert asked == [NOW] * 3
    ((sentence, _),) = place.told
    assert "It is gone." in sentence
