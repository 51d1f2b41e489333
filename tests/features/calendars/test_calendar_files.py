"""The files of the calendars: private, whole, and set aside when they cannot be understood."""

from __future__ import annotations

import errno
import stat
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path

import pytest
from devtools.doubles.disks import SteppedDisk

from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.calendar_files import (
    CalendarFiles,
    CalendarSource,
    Stored,
    readable_copies,
)
from ollim_bot.kernel.store.file_store import StoreProblem
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.values.calendar import CalendarCopy, CalendarEvent

AT = datetime(2026, 11, 16, 9, 12, tzinfo=UTC)
EVENTS = (
    CalendarEvent("a", "Work", "Dentist \ud83d", AT, AT, location="x", description="y"),
    CalendarEvent("b", "Work", "", date(2026, 11, 16), date(2026, 11, 18), True, is_busy=False),
)
COPY = CalendarCopy(
    "Work",
    "x.org (hidden)",
    EVENTS,
    AT,
    date(2026, 9, 17),
    date(2027, 12, 21),
    "UTC",
    "no",
    AT,
    "-",
)
SOURCE = CalendarSource("Work", "https://x.org/secret.ics", etag='"1"', modified="Mon")


@pytest.fixture
def paths(tmp_path: Path) -> DataPaths:
    (tmp_path / "state").mkdir()
    return DataPaths(tmp_path)


def test_a_copy_is_read_back_as_it_was_written(paths: DataPaths) -> None:
    CalendarFiles(paths).write_copy(COPY)
    CalendarFiles(paths).write_copy(COPY._replace(name="home", events=()))
    home, work = readable_copies(paths)
    assert (home.name, work) == ("home", COPY)
    CalendarFiles(paths).write_copy(COPY._replace(name="WORK", events=()))
    assert [each.name for each in readable_copies(paths)] == ["home", "WORK"]


def test_every_file_is_private(paths: DataPaths) -> None:
    CalendarFiles(paths).add(SOURCE, COPY, b"BEGIN:VCALENDAR")
    files = [*paths.calendars.iterdir()]
    assert len(files) == 3
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
    assert stat.S_IMODE(paths.calendars.stat().st_mode) == 0o700


def test_a_reading_updates_a_calendar_that_is_still_there(paths: DataPaths) -> None:
    files = CalendarFiles(paths)
    files.add(SOURCE, COPY, b"old")
    newer = SOURCE._replace(etag='"2"')
    first = COPY._replace(limits="new")
    assert files.update(newer, first, b"new", since=Stored(SOURCE, COPY)) == first
    assert (files.sources(), files.text("work")) == ((newer,), b"new")
    assert files.update(newer, COPY, None, since=Stored(newer, first)) == COPY
    assert (files.copies(), files.text("Work")) == ((COPY,), b"new")


def test_a_reading_keeps_a_good_one_that_ended_before_it(paths: DataPaths) -> None:
    files = CalendarFiles(paths)
    files.add(SOURCE, COPY, b"old")
    began = Stored(SOURCE, COPY)
    newer, at = COPY._replace(limits="new"), datetime(2026, 11, 16, 9, tzinfo=UTC)
    assert files.update(SOURCE._replace(etag='"2"'), newer, b"new", since=began) == newer
    late = COPY._replace(events=())
    for copy, text in ((COPY.failed("slow", at), None), (late, b"late"), (late, None)):
        assert files.update(SOURCE._replace(etag='"3"'), copy, text, since=began) == newer
    assert (files.copies(), files.text("Work")) == ((newer,), b"new")
    assert files.sources() == (SOURCE._replace(etag='"2"'),)


def test_a_reading_takes_the_place_of_one_that_failed_before_it(paths: DataPaths) -> None:
    files = CalendarFiles(paths)
    files.add(SOURCE, COPY, b"old")
    began, failed = Stored(SOURCE, COPY), COPY.failed("slow", datetime(2026, 11, 16, 9, tzinfo=UTC))
    assert files.update(SOURCE, failed, None, since=began) == failed
    newer = COPY._replace(limits="new")
    assert files.update(SOURCE, newer, b"new", since=began) == newer
    assert (files.copies(), files.text("Work")) == ((newer,), b"new")


class _Crash(Exception):
    pass


def crash_at(step: int, error: Exception | None = None) -> SteppedDisk:
    """A disk whose write of this number does not happen."""
    numbers = count()

    def fail(name: str, _: Path) -> None:
        if name == "replace" and next(numbers) == step:
            raise error or _Crash

    return SteppedDisk(OsDisk(), fail)


@pytest.mark.parametrize("step", range(3))
def test_a_new_calendar_of_which_a_crash_left_a_part_can_be_removed(
    paths: DataPaths, step: int
) -> None:
    with pytest.raises(_Crash):
        CalendarFiles(paths, disk=crash_at(step)).add(SOURCE, COPY, b"text")
    files = CalendarFiles(paths)
    known = {each.name for each in files.sources()}
    assert {each.name for each in files.copies()} <= known
    for name in known:
        files.remove(name)
    assert [*paths.calendars.glob("[!.]*")] == []


@pytest.mark.parametrize("step", range(3))
def test_of_a_new_calendar_that_cannot_be_stored_nothing_stays(paths: DataPaths, step: int) -> None:
    disk = crash_at(step, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(StorageError):
        CalendarFiles(paths, disk=disk).add(SOURCE, COPY, b"text")
    assert [*paths.calendars.glob("[!.]*")] == []


@pytest.mark.parametrize("step", range(3))
def test_a_text_is_stored_only_with_its_events(paths: DataPaths, step: int) -> None:
    """Else the next reading would find the text unchanged, and keep the old events."""
    files = CalendarFiles(paths)
    files.add(SOURCE, COPY, b"old")
    newer = COPY._replace(events=())
    with pytest.raises(_Crash):
        CalendarFiles(paths, disk=crash_at(step)).update(
            SOURCE._replace(etag='"2"'), newer, b"new", since=Stored(SOURCE, COPY)
        )
    if files.text("Work") == b"new":
        assert files.copies() == (newer,)
    if files.sources()[0].etag == '"2"':
        assert files.text("Work") == b"new"


def test_a_reading_that_ends_after_the_removal_brings_nothing_back(paths: DataPaths) -> None:
    files = CalendarFiles(paths)
    files.add(SOURCE, COPY, b"old")
    files.remove("Work")
    assert files.update(SOURCE, COPY, b"new", since=Stored(SOURCE, COPY)) is None
    assert [*paths.calendars.iterdir()] == []
    files.add(SOURCE._replace(address="https://y.org/other.ics"), COPY, b"other")
    assert files.update(SOURCE, COPY, b"new", since=Stored(SOURCE, COPY)) is None
    assert files.text("Work") == b"other"


@pytest.mark.parametrize("garbage", [b"", b"{", b"[]", b"\xff\xfe", b'{"name": 3}', b"[" * 9999])
@pytest.mark.parametrize("ending", [".json", ".source.json"])
def test_a_file_that_cannot_be_understood_is_set_aside(
    paths: DataPaths, garbage: bytes, ending: str
) -> None:
    told: list[StoreProblem] = []
    files = CalendarFiles(paths, report=told.append)
    files.add(SOURCE, COPY, b"text")
    CalendarFiles(paths).write_copy(COPY._replace(name="Home"))
    (path,) = (
        each
        for each in paths.calendars.glob("work-????????.*")
        if each.name.endswith(ending) and each.name.count(".") == ending.count(".")
    )
    path.write_bytes(garbage)
    found = [each.name for each in files.copies()], [each.name for each in files.sources()]
    assert found == ((["Home"], ["Work"]) if ending == ".json" else (["Home", "Work"], []))
    assert len(told) == 1
    assert "state/calendars/work-" in str(told[0])
    assert len([*paths.calendars.glob("*.corrupt-*")]) == 1
    assert [each.read_bytes() for each in paths.calendars.glob("*.corrupt-*")] == [garbage]


def test_a_file_of_a_newer_version_is_left_untouched(paths: DataPaths) -> None:
    told: list[StoreProblem] = []
    files = CalendarFiles(paths, report=told.append)
    files.add(SOURCE, COPY, b"text")
    (path,) = paths.calendars.glob("*.source.json")
    path.write_text('{"version": 99}')
    assert files.sources() == ()
    assert path.read_text() == '{"version": 99}'
    assert "newer ollim-bot" in str(told[0])
