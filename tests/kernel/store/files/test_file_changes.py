"""A change can be undone once, unless the file was changed since."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from devtools.doubles.disks import failing_at
from tests.file_changes import NOW as NOW_OF_CHANGES
from tests.file_changes import RowsBeside, file_changes
from tests.kernel.store.files.data_directory import NOW, DataDirectory

from ollim_bot.kernel.base.errors import Unreadable, WriteFailed
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.changes.file_changes import FileChanges, UndoRefused
from ollim_bot.kernel.store.files import FileLock
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.changes import Changer
from ollim_bot.kernel.values.shared_files import FileChange, JobFile, JobFolder

R = TypeVar("R")

DAILY = JobFile(JobFolder.ROUTINES, "daily.md")
KEY = "0123abcd"
BACK, GONE = "is as it was before", "is gone again"


def undo_store(data: DataDirectory) -> FileChanges:
    """The changes, opened as by a new process."""
    return file_changes(data.paths, data.journal)


def refusal(data: DataDirectory, key: str = KEY) -> str:
    """Why it is not undone; empty if it is."""
    try:
        undo_store(data).undo(key)
    except UndoRefused as refused:
        return str(refused)
    return ""


def changed(data: DataDirectory, before: str | None, after: str, key: str = KEY) -> Path:
    path = data.paths.routines / "daily.md"
    path.write_text(after, newline="")
    undo_store(data).keep(FileChange(key, DAILY, before, after, NOW))
    return path


def test_a_changed_file_gets_back_what_it_held(data: DataDirectory) -> None:
    path = changed(data, "before\r\n\udcff", "after\n")
    assert undo_store(data).undo(KEY) == (DAILY, BACK)
    assert path.read_bytes() == b"before\r\n\xff"
    assert data.journal.notes == [(path, "undo: routines/daily.md")]


def test_it_works_once(data: DataDirectory) -> None:
    path = changed(data, "before", "after")
    with ThreadPoolExecutor(4) as threads:
        ends = sorted(threads.map(lambda _: refusal(data), range(4)))
    assert ends == ["", *["It was undone before."] * 3]
    path.write_text("after")
    assert refusal(data, KEY)
    assert path.read_text() == "after"


def test_a_later_change_under_the_same_key_is_undone_to_the_first_text(data: DataDirectory) -> None:
    changed(data, "before", "after")
    path = changed(data, "before", "later")
    assert undo_store(data).undo(KEY)[1] == BACK
    assert path.read_text() == "before"


def test_a_link_stays_a_link(data: DataDirectory) -> None:
    real = data.paths.root / "plan.md"
    (data.paths.routines / "daily.md").symlink_to(real)
    path = changed(data, "before", "after")
    undo_store(data).undo(KEY)
    assert path.is_symlink()
    assert real.read_text() == "before"


def test_what_is_kept_goes_after_a_year(data: DataDirectory) -> None:
    changed(data, "before", "after")
    at = NOW + timedelta(days=366)
    undo_store(data).keep(FileChange("99999999", DAILY, "x", "after", at))
    assert refusal(data, KEY)


@pytest.mark.parametrize("key", ["", f"../undo/{KEY}", "0123ABCD", "0123abcd0", "ffffffff"])
def test_an_unknown_key_undoes_nothing(data: DataDirectory, key: str) -> None:
    changed(data, "before", "after")
    assert refusal(data, key)


def test_a_full_disk_leaves_everything_as_it_is(data: DataDirectory) -> None:
    path = changed(data, "before", "after")
    full = file_changes(data.paths, data.journal, failing_at("write"))
    with pytest.raises(WriteFailed):
        full.undo(KEY)
    assert path.read_text() == "after"
    assert undo_store(data).undo(KEY)[1] == BACK


def test_a_file_that_cannot_be_read_is_left_alone(data: DataDirectory) -> None:
    path = changed(data, None, "after")
    path.unlink()
    path.mkdir()
    with pytest.raises(Unreadable):
        undo_store(data).undo(KEY)


def note_without_change(
    data: DataDirectory, before: str | None, after: str | None, key: str = KEY
) -> FileChange:
    """The note of a command that is killed before its change."""
    leave = undo_store(data).leave
    leave(str(DAILY), after, Changer.AGENT, key=key, session="conversation")
    return FileChange(key, DAILY, before, after, NOW_OF_CHANGES, by="conversation")


def test_a_noted_change_is_unseen_until_it_is_forgotten(data: DataDirectory) -> None:
    change = note_without_change(data, None, "after\udcff\r\n")
    (data.paths.routines / "daily.md").write_bytes(b"after\xff\r\n")
    assert undo_store(data).unseen() == [change]
    undo_store(data).forget(KEY)
    assert list(undo_store(data).unseen()) == []


@pytest.mark.parametrize(("before", "after"), [(None, "x"), ("x", "y"), ("x", None)])
def test_what_was_noted_and_never_done_is_forgotten(
    data: DataDirectory, before: str | None, after: str | None
) -> None:
    if before is not None:
        (data.paths.routines / "daily.md").write_text(before)
    note_without_change(data, before, after)
    assert list(undo_store(data).unseen()) == []
    assert list(undo_store(data).unseen()) == []


def test_what_came_and_went_was_done(data: DataDirectory) -> None:
    path = data.paths.routines / "daily.md"
    first = note_without_change(data, None, "x", "00000001")
    path.write_text("x")
    changes = [first, note_without_change(data, "x", None, "00000002")]
    path.unlink()
    assert undo_store(data).unseen() == changes


def test_what_somebody_has_changed_since_was_done(data: DataDirectory) -> None:
    change = note_without_change(data, None, "x")
    (data.paths.routines / "daily.md").write_text("by hand")
    assert undo_store(data).unseen() == [change]


@pytest.mark.real_time
def test_a_command_that_is_at_it_is_waited_for(data: DataDirectory) -> None:
    """Between note and change, the change would look as if it was never made."""
    with ThreadPoolExecutor(1) as threads:
        with FileLock(data.paths.lock_of(data.paths.routines)).held():
            change = note_without_change(data, None, "x")
            unseen = threads.submit(undo_store(data).unseen)
            with pytest.raises(TimeoutError):
                unseen.result(0.2)
            (data.paths.routines / "daily.md").write_text("x")
        assert unseen.result(10) == [change]


class CountedRows(RowsBeside):
    """Notes how many files each step has looked at."""

    def __init__(self, paths: DataPaths) -> None:
        super().__init__(paths, lambda: NOW)
        self.looked_at: list[int] = []

    def run(self, step: Step[R]) -> R:
        def counted(tx: Transaction) -> R:
            before = tx.changes.stamps()
            result = step(tx)
            after = tx.changes.stamps()
            self.looked_at.append(len(after.items() - before.items()))
            return result

        return super().run(counted)


def test_no_step_looks_at_more_than_a_few_of_very_many_files(data: DataDirectory) -> None:
    """What is due meanwhile waits for one step, and not for all files of a start."""
    for number in range(250):
        (data.paths.routines / f"blumen-{number}.md").write_text("Gieß sie.\n")
    rows = CountedRows(data.paths)
    FileChanges(data.paths, rows, data.journal, lambda: NOW).look()
    assert sum(rows.looked_at) >= 250
    assert max(rows.looked_at) <= 100
