"""Logs: whole lines, torn ones tolerated, rotated by month, and cheap to append to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ollim_bot.store.json_lines import JsonLines
from tests.storage.places import NOW, DataDirectory, QuickDisk

from ollim_bot.domain.inbox import Edited
from ollim_bot.domain.inputs import InputId
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.sessions import SessionChange, SessionEvent, SessionId
from ollim_bot.errors import Unreadable
from ollim_bot.plain_files import SizeLimit
from ollim_bot.ports import Log
from ollim_bot.store.codecs.rows import LEDGER_ROWS
from ollim_bot.store.files import FileLock, OsDisk
from ollim_bot.testing.disks import SteppedDisk

T = TypeVar("T")


def row(number: int, at: datetime = NOW) -> LedgerRow:
    return LedgerRow(at, "noted", facts={"number": number})


def test_a_torn_last_line_is_skipped_counted_and_never_swallows_the_next(
    data: DataDirectory,
) -> None:
    data.open().ledger.append(row(1))
    with data.paths.ledger.open("ab") as file:
        file.write(b'{"ts": "2026-11-15T09:00:00+00:00", "sta')
    assert data.open().ledger.read().skipped == 1
    data.open().ledger.append(row(2))
    view = data.open().ledger.read()
    assert list(view.entries) == [row(1), row(2)]
    assert view.skipped == 1


def test_a_whole_entry_that_only_lost_its_line_end_is_kept(data: DataDirectory) -> None:
    data.open().ledger.append(row(1))
    data.paths.ledger.write_bytes(data.paths.ledger.read_bytes().rstrip())
    data.open().ledger.append(row(2))
    assert list(data.open().ledger.read().entries) == [row(1), row(2)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary())
def test_any_bytes_in_a_log_never_crash_it_nor_hide_later_entries(
    data: DataDirectory, raw: bytes
) -> None:
    paths, stores = data.paths, data.open(QuickDisk())
    for path in (paths.ledger, paths.session_history, paths.inbox):
        path.write_bytes(raw)
    assert_appended(stores.ledger, row(7), raw)
    event = SessionEvent(SessionId("s"), SessionChange.CREATED, NOW)
    assert_appended(stores.session_history, event, raw)
    assert_appended(stores.inbox, Edited(NOW, InputId("a"), "words"), raw)


def assert_appended(log: Log[T], entry: T, raw: bytes) -> None:
    log.append(entry)
    for view in (log.read(), log.tail(99)):
        assert list(view.entries) == [entry]
        assert view.skipped == len([line for line in raw.split(b"\n") if line.strip()])


def test_an_append_that_does_not_fit_leaves_nothing_behind(data: DataDirectory) -> None:
    """In a process whose files may not grow past a size in the middle of a line."""
    script = """
import resource, signal, sys
from pathlib import Path
from ollim_bot.errors import WriteFailed
from tests.storage.places import DataDirectory
from tests.storage.test_json_lines import row
ledger = DataDirectory(Path(sys.argv[1])).open().ledger
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    for number in range(100):
        ledger.append(row(number))
except WriteFailed:
    print(number)
"""
    child = [sys.executable, "-c", script, str(data.paths.root)]
    written = int(subprocess.run(child, capture_output=True, text=True, check=True).stdout)
    view = data.open().ledger.read()
    assert list(view.entries) == [row(number) for number in range(written)]
    assert view.skipped == 0
    assert 5 < written < 100


def test_only_the_session_history_does_not_wait_for_the_disk(data: DataDirectory) -> None:
    synced: list[str] = []

    class Watching(OsDisk):
        def append(self, path: Path, data: bytes, mode: int, *, sync: bool) -> None:
            synced.append(f"{path.name} {sync}")
            super().append(path, data, mode, sync=sync)

    stores = data.open(Watching())
    stores.ledger.append(row(1))
    stores.inbox.append(Edited(NOW, InputId("a"), "words"))
    stores.session_history.append(SessionEvent(SessionId("s"), SessionChange.CREATED, NOW))
    names = ["ledger", "inbox", "session_history"]
    assert synced == [f"{name}.jsonl {name != 'session_history'}" for name in names]


def test_a_new_month_begins_a_new_file_and_reading_spans_them(data: DataDirectory) -> None:
    months = [datetime(2026, month, 28, 12, tzinfo=UTC) for month in (10, 11, 12)]
    for number, month in enumerate(months):
        data.open().ledger.append(row(number, month), row(number + 10, month))
    names = sorted(path.name for path in data.paths.state.glob("ledger*"))
    assert names == ["ledger-2026-10.jsonl", "ledger-2026-11.jsonl", "ledger.jsonl"]
    ledger = data.open().ledger
    assert [entry.facts["number"] for entry in ledger.read().entries] == [0, 10, 1, 11, 2, 12]
    assert [e.facts["number"] for e in ledger.read(months[1]).entries] == [1, 11, 2, 12]


def test_a_file_is_of_the_month_of_its_first_entry_that_can_be_read(data: DataDirectory) -> None:
    october = row(1, datetime(2026, 10, 28, tzinfo=UTC))
    data.open().ledger.append(october)
    data.paths.ledger.write_bytes(b'{"torn\n\n' + data.paths.ledger.read_bytes())
    data.open().ledger.append(row(2))
    assert data.paths.ledger.with_name("ledger-2026-10.jsonl").exists()
    assert list(data.open().ledger.read().entries) == [october, row(2)]


def test_reading_from_a_month_on_opens_no_older_file(data: DataDirectory) -> None:
    for month in (9, 10, 11):
        data.open().ledger.append(row(month, datetime(2026, month, 2, tzinfo=UTC)))
    opened: list[str] = []
    disk = SteppedDisk(OsDisk(), lambda _, path: opened.append(path.name))
    data.open(disk).ledger.read(datetime(2026, 10, 15, tzinfo=UTC))
    assert opened == ["ledger-2026-10.jsonl", "ledger.jsonl"]


def test_a_clock_that_jumps_about_neither_loses_nor_overwrites_a_month(
    data: DataDirectory,
) -> None:
    moments = [NOW + timedelta(days=days) for days in (0, 400, 0, 40, 400, 800, 0, 40, 1200, 0)]
    for number, moment in enumerate(moments):
        data.open().ledger.append(row(number, moment))
    numbers = [entry.facts["number"] for entry in data.open().ledger.read().entries]
    assert sorted(map(str, numbers)) == sorted(map(str, range(len(moments))))


def test_a_month_that_is_there_already_is_never_overwritten(data: DataDirectory) -> None:
    data.open().ledger.append(row(1))
    taken = data.paths.state / "ledger-2026-11.jsonl"
    taken.write_bytes(b"somebody's\n")
    data.open().ledger.append(row(2, NOW + timedelta(days=31)))
    assert taken.read_bytes() == b"somebody's\n"
    assert list(data.open().ledger.read().entries) == [row(1), row(2, NOW + timedelta(days=31))]


def test_compacting_keeps_lines_that_nobody_can_read(data: DataDirectory) -> None:
    data.paths.ledger.write_bytes(b"from the future\n")
    ledger = data.open().ledger
    ledger.append(row(1), row(2))
    ledger.compact(lambda rows: rows[1:])
    assert list(ledger.read().entries) == [row(2)]
    assert ledger.read().skipped == 1
    assert data.paths.ledger.read_bytes().startswith(b"from the future\n")


def test_an_append_reads_no_history(data: DataDirectory) -> None:
    """Whatever the length of the log: the second append of a process touches its end only."""
    steps: list[str] = []
    ledger = data.open(SteppedDisk(OsDisk(), lambda step, _: steps.append(step))).ledger
    ledger.append(row(1))
    ledger.append(row(2))
    steps.clear()
    ledger.append(row(3))
    assert steps == ["append"]


def test_session_events_are_noted_in_the_journal_and_others_are_not(data: DataDirectory) -> None:
    stores = data.open()
    event = SessionEvent(SessionId("0123456789"), SessionChange.BG_FORK, NOW, SessionId("main"))
    stores.session_history.append(event)
    stores.ledger.append(row(1))
    assert data.journal.notes == [(data.paths.session_history, "session bg_fork: 01234567")]


def make_huge(path: Path) -> None:
    path.touch()
    os.truncate(path, SizeLimit.LOG + 1)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, make_huge])
@pytest.mark.parametrize("name", ["ledger", "inbox", "session_history"])
def test_what_is_no_log_is_set_aside_and_work_goes_on(
    data: DataDirectory, name: str, make: Callable[[Path], None]
) -> None:
    """Neither waited at nor read, however the log is used first."""
    path = data.paths.state / f"{name}.jsonl"
    looks: list[Callable[[Log[Any]], object]] = [
        lambda log: log.read(),
        lambda log: log.tail(1),
        lambda log: log.compact(lambda entries: entries),
    ]
    for look in looks:
        path.unlink(missing_ok=True)
        make(path)
        look(getattr(data.open(), name))
    assert {problem.path.name for problem in data.problems} == {path.name}
    assert len(list(data.paths.state.glob(f"{path.name}.corrupt-*"))) == len(looks)


@pytest.mark.parametrize("make", [os.mkfifo, make_huge])
def test_a_pipe_in_the_place_of_a_log_does_not_keep_a_row_from_being_written(
    data: DataDirectory, make: Callable[[Path], None]
) -> None:
    make(data.paths.ledger)
    data.open().ledger.append(row(1))
    assert data.open().ledger.read().entries == [row(1)]


def test_who_only_looks_sets_nothing_aside(data: DataDirectory) -> None:
    data.paths.ledger.mkdir()
    lock = FileLock(data.paths.lock_of(data.paths.ledger))
    log = JsonLines(data.paths.ledger, LEDGER_ROWS, lock, disk=OsDisk(), rotate=True)
    with pytest.raises(Unreadable, match="not a regular file"):
        log.read()
    assert data.paths.ledger.is_dir()
