"""A calendar file that is changed by hand is a change, is read at once, and is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from tests.file_changes import NOW, RowsBeside, file_changes
from tests.kernel.store.files.data_directory import DataDirectory

from ollim_bot.features.calendars.feeds import CalendarFeeds
from ollim_bot.features.calendars.refreshing import CalendarRefresher
from ollim_bot.kernel.changes.change_journal import ChangeJournal
from ollim_bot.kernel.schedule.job_index import SharedFiles
from ollim_bot.kernel.store.calendar_files import CalendarFiles, CalendarSource
from ollim_bot.kernel.values.calendar import CalendarCopy
from ollim_bot.kernel.values.changes import OF_CALENDAR, Changer

FAMILY = "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\nEND:VCALENDAR\n"
EVENT = (
    "BEGIN:VEVENT\nUID:1\nSUMMARY:Dentist\nDTSTART:20260224T140000Z\n"
    "DTEND:20260224T150000Z\nEND:VEVENT\n"
)


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return DataDirectory(tmp_path / "data")


def subscribed(data: DataDirectory, name: str = "family.ics") -> Path:
    path = data.paths.root / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(FAMILY)
    source = CalendarSource("Family", file=name)
    CalendarFiles(data.paths).add(source, CalendarCopy("Family", name), FAMILY.encode())
    return path


async def test_an_edit_is_a_change_by_hand_that_can_be_undone(data: DataDirectory) -> None:
    for name in ("family.ics", "plans/family.ics"):
        path = subscribed(data, name)
        clock, shared = ManualClock(NOW), SharedFiles(data.paths)
        changes = file_changes(data.paths, data.journal)
        changes.look([name])
        edits = ChangeJournal(data.journal, data.paths.root, clock)
        shared.touched()
        path.write_text(FAMILY + "X-NEW:1\n")
        assert shared.touched() == {path}
        edits.saw([path])
        await clock.advance(5)
        edits.settle()
        edits.keep_noted(changes)
        rows = RowsBeside(data.paths, lambda: NOW)
        (row, *_) = rows.query(lambda tx: tx.changes.newest(5))
        assert (row.place, row.by, row.untrusted) == (name, Changer.HAND, OF_CALENDAR)
        changes.undo_file(row, Changer.COMMAND)
        assert path.read_text() == FAMILY


@pytest.mark.real_process
async def test_only_a_file_that_has_changed_is_read_and_told(data: DataDirectory) -> None:
    path, told = data.paths.root / "family.ics", list[str]()
    path.write_text(FAMILY)
    feeds = CalendarFeeds(data.paths, CalendarFiles(data.paths))
    feeds.subscribe("family.ics", "Family", NOW)

    async def tell(sentence: str, *, key: str | None = None) -> None:
        raise AssertionError((sentence, key))

    refresher = CalendarRefresher(
        feeds, tell, ManualClock(NOW), tell_news=lambda: told.append("news")
    )
    await refresher.refresh_files()
    assert told == []
    path.write_text(FAMILY.replace("END:", f"{EVENT}END:"))
    await refresher.refresh_files()
    await refresher.refresh_files()
    assert told == ["news"]
    (copy,) = CalendarFiles(data.paths).copies()
    assert [each.summary for each in copy.events] == ["Dentist"]
