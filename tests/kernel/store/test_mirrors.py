"""State files are kept current after commits; any content at a start is read or reported."""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from devtools.doubles.disks import SteppedDisk
from devtools.doubles.journal import RecordingJournal
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.kernel.store.scene import NOW, StoreScene

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.store.database import Database
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.records import MIRRORED, RecordSpec
from ollim_bot.kernel.store.session_history import KeptHistory
from ollim_bot.kernel.store.steps import leave_update
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.sessions import SessionChange, SessionEvent
from ollim_bot.kernel.values.updates import PendingUpdate, PendingUpdates


def with_session(scene: StoreScene, name: str) -> Database:
    database = scene.open()
    database.run(lambda tx: tx.session.put(SessionId(name)))
    return database


def event(name: str) -> SessionEvent:
    return SessionEvent(SessionId(name), SessionChange.CREATED, NOW)


def history(scene: StoreScene) -> list[str]:
    content = (scene.state / "session_history.jsonl").read_text()
    return [json.loads(line)["session_id"] for line in content.splitlines()]


def test_a_file_has_the_new_value_when_the_step_returns(scene: StoreScene) -> None:
    database = with_session(scene, "abc")
    sessions = scene.state / "sessions.json"
    assert sessions.read_text() == "abc"
    assert stat.S_IMODE(sessions.stat().st_mode) == 0o600
    database.run(lambda tx: tx.session.put(None))
    assert not sessions.exists()


def test_a_hand_edit_while_the_bot_was_stopped_becomes_the_value(scene: StoreScene) -> None:
    with_session(scene, "abc").close()
    (scene.state / "sessions.json").write_text("by-hand\n")
    database = scene.open()
    assert database.run(lambda tx: tx.session.get()) == "by-hand"
    assert scene.problems == []
    assert (scene.state / "sessions.json").read_text() == "by-hand"


def test_a_file_removed_by_hand_takes_its_value_with_it(scene: StoreScene) -> None:
    with_session(scene, "abc").close()
    (scene.state / "sessions.json").unlink()
    assert scene.open().run(lambda tx: tx.session.get()) is None
    assert scene.problems == []


def test_a_file_that_nobody_changed_changes_nothing(scene: StoreScene) -> None:
    for name in ("abc", "def", "ghi"):
        with_session(scene, name).close()
        assert scene.open().run(lambda tx: tx.session.get()) == name
    assert scene.problems == []


def test_what_cannot_be_understood_is_set_aside_and_the_value_stays(scene: StoreScene) -> None:
    database = scene.open()
    waiting = PendingUpdates((PendingUpdate(NOW, "news", "9f3c01aa"),))
    database.run(lambda tx: tx.updates.put(waiting))
    database.close()
    path = scene.state / "pending_updates.json"
    written = path.read_bytes()
    path.write_text("{ not JSON")
    database = scene.open()
    assert database.run(lambda tx: tx.updates.get()) == waiting
    assert path.read_bytes() == written
    (kept,) = scene.state.glob("pending_updates.json.corrupt-*")
    assert kept.read_text() == "{ not JSON"
    assert len(scene.problems) == 1
    assert kept.name in scene.problems[0]


def test_a_file_of_a_newer_version_is_left_as_it_is(scene: StoreScene) -> None:
    scene.open().close()
    path = scene.state / "config.json"
    path.write_text('{"version": 99}')
    database = scene.open()
    database.run(lambda tx: tx.config.put(tx.config.get()))
    database.run(lambda tx: tx.session.put(SessionId("abc")))
    assert path.read_text() == '{"version": 99}'
    assert "newer" in scene.problems[0]


def killed_before_its_mirror(scene: StoreScene, before: str, after: str) -> None:
    """The state after a kill between the commit of `after` and the write of its mirror."""
    database = with_session(scene, before)
    path = scene.state / "sessions.json"
    # A folder of that name keeps the mirror from being written, but not the commit.
    path.unlink()
    path.mkdir()
    (path / "in-the-way").touch()
    database.run(lambda tx: tx.session.put(SessionId(after)))
    (path / "in-the-way").unlink()
    path.rmdir()
    path.write_text(before)


def test_a_commit_without_its_mirror_is_mirrored_at_the_next_start(scene: StoreScene) -> None:
    killed_before_its_mirror(scene, "old", "new")
    assert scene.open().run(lambda tx: tx.session.get()) == "new"
    assert (scene.state / "sessions.json").read_text() == "new"
    assert scene.problems == []


def test_a_hand_edit_wins_over_a_commit_without_its_mirror_which_is_kept(scene: StoreScene) -> None:
    killed_before_its_mirror(scene, "old", "new")
    (scene.state / "sessions.json").write_text("by-hand")
    assert scene.open().run(lambda tx: tx.session.get()) == "by-hand"
    (kept,) = scene.state.glob("sessions.json.unapplied-*")
    assert kept.read_text() == "new"
    assert kept.name in scene.problems[0]


def test_a_mirror_that_could_not_be_written_is_written_later(scene: StoreScene) -> None:
    database = with_session(scene, "old")
    path = scene.state / "sessions.json"
    path.unlink()
    path.mkdir()
    (path / "in-the-way").touch()
    database.run(lambda tx: tx.session.put(SessionId("new")))
    assert database.run(lambda tx: tx.session.get()) == "new"
    (path / "in-the-way").unlink()
    path.rmdir()
    database.tidy(is_idle=False)
    assert path.read_text() == "new"


def test_a_first_value_without_its_mirror_stays(scene: StoreScene) -> None:
    database = scene.open()
    path = scene.state / "sessions.json"
    path.mkdir()
    (path / "in-the-way").touch()
    database.run(lambda tx: tx.session.put(SessionId("first")))
    (path / "in-the-way").unlink()
    path.rmdir()
    assert scene.open().run(lambda tx: tx.session.get()) == "first"
    assert scene.problems == []


def test_no_file_is_read_while_the_bot_runs(scene: StoreScene) -> None:
    database = with_session(scene, "abc")
    (scene.state / "sessions.json").write_text("by-hand")
    assert database.run(lambda tx: tx.session.get()) == "abc"


def test_a_second_process_leaves_the_newest_value_in_the_file(scene: StoreScene) -> None:
    database = with_session(scene, "abc")
    other = scene.open(is_holder=False)
    other.run(lambda tx: tx.session.put(SessionId("of the other".replace(" ", "-"))))
    database.run(lambda tx: tx.memory.put({"a": 1}))
    assert (scene.state / "sessions.json").read_text() == "of-the-other"
    database.run(lambda tx: tx.session.put(SessionId("ours")))
    other.close()
    database.close()
    assert scene.open().run(lambda tx: tx.session.get()) == "ours"
    assert scene.problems == []


def test_a_file_that_may_not_be_read_is_left_alone_and_told(scene: StoreScene) -> None:
    with_session(scene, "abc").close()
    path = scene.state / "sessions.json"
    path.unlink()
    path.symlink_to(path)
    database = scene.open()
    assert database.run(lambda tx: tx.session.get()) == "abc"
    database.run(lambda tx: tx.session.put(SessionId("def")))
    assert path.is_symlink()
    assert "cannot be read" in scene.problems[0]


def test_session_events_are_appended_to_their_file(scene: StoreScene) -> None:
    database = scene.open()
    database.run(lambda tx: tx.session_history.append(event("a"), event("b")))
    database.run(lambda tx: tx.session_history.append(event("c")))
    assert history(scene) == ["a", "b", "c"]


def test_each_session_event_is_noted_once_and_no_other_change_is(scene: StoreScene) -> None:
    journal = RecordingJournal()
    database = scene.open(journal=journal)
    database.run(lambda tx: tx.session_history.append(event("0123456789")))
    database.run(lambda tx: tx.session.put(SessionId("0123456789")))
    database.close()
    assert journal.notes == [(scene.paths.session_history, "session created: 01234567")]


def test_a_kept_history_has_the_events_added_or_put_in_place_since(scene: StoreScene) -> None:
    database, kept = scene.open(), KeptHistory()

    def seen() -> list[str]:
        events = database.run(lambda tx: kept.events(tx.session_history))
        return [each.session_id for each in events]

    assert seen() == []
    database.run(lambda tx: tx.session_history.append(event("a"), event("b")))
    assert seen() == ["a", "b"]
    database.run(lambda tx: tx.session_history.append(event("c")))
    assert seen() == ["a", "b", "c"]
    database.run(lambda tx: tx.session_history.replace([event("a"), event("x"), event("c")]))
    assert seen() == ["a", "x", "c"]
    database.run(lambda tx: tx.session_history.replace([]))
    assert seen() == []


def test_events_missing_at_the_end_of_the_file_are_added_at_a_start(scene: StoreScene) -> None:
    database = scene.open()
    database.run(lambda tx: tx.session_history.append(event("a"), event("b"), event("c")))
    database.close()
    path = scene.state / "session_history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:10])
    scene.open().close()
    assert history_of_whole_lines(scene) == ["a", "b", "c"]


def history_of_whole_lines(scene: StoreScene) -> list[str]:
    lines = (scene.state / "session_history.jsonl").read_bytes().splitlines()
    return [json.loads(line)["session_id"] for line in lines if line.endswith(b"}")]


def test_an_event_that_a_person_added_becomes_part_of_the_history(scene: StoreScene) -> None:
    database = scene.open()
    database.run(lambda tx: tx.session_history.append(event("a"), event("b")))
    database.close()
    path = scene.state / "session_history.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    added = first.replace(b'"a"', b'"by-hand"')
    path.write_bytes(first + added + second)
    events = scene.open().run(lambda tx: tx.session_history.all())
    assert [each.session_id for each in events] == ["a", "by-hand", "b"]
    assert history(scene) == ["a", "by-hand", "b"]


def test_a_value_that_comes_back_does_not_make_the_file_of_another_process_a_hand_edit(
    scene: StoreScene,
) -> None:
    database = with_session(scene, "ours")
    other = scene.open(is_holder=False)
    other.run(lambda tx: tx.session.put(SessionId("theirs")))
    path = scene.state / "sessions.json"
    path.unlink()
    path.mkdir()
    (path / "in-the-way").touch()
    # A kill after the commit and before the mirror: the file is still from the other process.
    database.run(lambda tx: tx.session.put(SessionId("ours")))
    (path / "in-the-way").unlink()
    path.rmdir()
    path.write_text("theirs")
    assert scene.open().run(lambda tx: tx.session.get()) == "ours"
    assert scene.problems == []


VERSIONED = [
    spec for spec in MIRRORED if spec.file in {"inquiries.json", "config.json", "fork.json"}
]


def value_of(database: Database, spec: RecordSpec[object]) -> object:
    return database.run(lambda tx: getattr(tx, spec.name).get())


def set_concurrency(tx: Transaction, number: int) -> None:
    tx.config.change(lambda config: config.with_value("bg_concurrency", number))


def leave(database: Database, text: str) -> None:
    database.run(partial(leave_update, update=PendingUpdate(NOW, text, text)))


def test_what_cannot_be_understood_is_set_aside_with_its_bytes_and_told(scene: StoreScene) -> None:
    garbage = b'\xff\x00{"ts": [tr\n'
    for spec in MIRRORED:
        (scene.state / spec.file).write_bytes(garbage)
    database = scene.open()
    for spec, told in zip(MIRRORED, scene.problems, strict=True):
        assert value_of(database, spec) == spec.missing(NOW)
        (kept,) = scene.state.glob(f"{spec.file}.corrupt-*")
        assert kept.read_bytes() == garbage
        assert kept.name in told
    leave(database, "and on")
    (entry,) = json.loads(scene.paths.pending_updates.read_text())
    assert entry["message"] == "and on"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_a_folder_or_a_pipe_in_the_place_of_a_file_is_set_aside_too(
    scene: StoreScene, make: Callable[[Path], None]
) -> None:
    for spec in MIRRORED:
        make(scene.state / spec.file)
    database = scene.open()
    assert [value_of(database, spec) for spec in MIRRORED] == [
        spec.missing(NOW) for spec in MIRRORED
    ]
    assert ["not a regular file" in told for told in scene.problems] == [True] * len(MIRRORED)
    assert len(list(scene.state.glob("*.corrupt-*"))) == len(MIRRORED)


@pytest.mark.parametrize("spec", VERSIONED, ids=lambda spec: spec.file)
@pytest.mark.parametrize("content", [b'{"version": 2}', b'{"version": 2, "what": "ever"}'])
def test_a_newer_format_is_left_untouched_and_told(
    scene: StoreScene, spec: RecordSpec[object], content: bytes
) -> None:
    path = scene.state / spec.file
    path.write_bytes(content)
    database = scene.open()
    assert value_of(database, spec) == spec.missing(NOW)
    database.run(lambda tx: set_concurrency(tx, 2))
    assert path.read_bytes() == content
    (sentence,) = scene.problems
    assert "newer ollim-bot (format 2; this one knows 1)" in sentence


def test_an_error_of_the_disk_is_not_taken_for_an_empty_file(scene: StoreScene) -> None:
    database = scene.open()
    database.run(lambda tx: set_concurrency(tx, 2))
    database.close()

    def fail(step: str, path: Path) -> None:
        if step == "read" and path == scene.paths.config:
            raise OSError(errno.EIO, "Input/output error")

    database = scene.open(disk=SteppedDisk(OsDisk(), fail))
    assert database.run(lambda tx: tx.config.get()).bg_concurrency == 2
    assert ["Input/output error" in sentence for sentence in scene.problems] == [True]


def test_files_are_private_and_an_existing_one_keeps_its_mode(scene: StoreScene) -> None:
    database = scene.open()
    database.run(lambda tx: set_concurrency(tx, 2))
    assert stat.S_IMODE(scene.paths.config.stat().st_mode) == 0o600
    scene.paths.config.chmod(0o640)
    database.run(lambda tx: set_concurrency(tx, 4))
    assert stat.S_IMODE(scene.paths.config.stat().st_mode) == 0o640


@pytest.mark.parametrize("step", ["write", "sync", "replace", "sync_folder"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_file_that_cannot_be_written_stays_whole_and_is_written_later(
    scene: StoreScene, step: str, code: int
) -> None:
    failing = [False]

    def fail(at: str, _: Path) -> None:
        if failing[0] and at == step:
            raise OSError(code, os.strerror(code))

    database = scene.open(disk=SteppedDisk(OsDisk(), fail))
    database.run(lambda tx: set_concurrency(tx, 2))
    failing[0] = True
    database.run(lambda tx: set_concurrency(tx, 4))
    assert database.query(lambda tx: tx.config.get()).bg_concurrency == 4
    left = json.loads(scene.paths.config.read_text())["bg_concurrency"]
    assert left == (4 if step == "sync_folder" else 2)
    assert list(scene.state.glob(".*.tmp")) == []
    failing[0] = False
    database.tidy(is_idle=False)
    assert json.loads(scene.paths.config.read_text())["bg_concurrency"] == 4


def test_no_session_no_fork_and_no_updates_are_no_files(scene: StoreScene) -> None:
    database = scene.open()
    leave(database, "hello")
    database.run(lambda tx: tx.session.put(SessionId("sess-1")))
    assert scene.paths.sessions.read_bytes() == b"sess-1"
    assert json.loads(scene.paths.pending_updates.read_text())[0]["message"] == "hello"
    database.run(lambda tx: tx.updates.put(PendingUpdates()))
    database.run(lambda tx: tx.session.put(None))
    database.run(lambda tx: tx.fork.put(None))
    for path in (scene.paths.sessions, scene.paths.pending_updates, scene.paths.fork):
        assert not path.exists()


def test_omitted_updates_are_counted_in_the_file_also_after_a_restart(scene: StoreScene) -> None:
    for number in range(25):
        database = scene.open()
        leave(database, f"update {number}")
        database.close()
    waiting = json.loads(scene.paths.pending_updates.read_text())
    assert waiting[0]["message"] == "(16 earlier update(s) omitted — cap reached)"
    assert [entry["message"] for entry in waiting[1:]] == [f"update {n}" for n in range(16, 25)]
    database = scene.open()
    assert database.query(lambda tx: tx.updates.get()).omitted == 16
    rows = database.query(lambda tx: tx.ledger.page(0, 99))[0]
    assert [row.facts["message"] for row in rows] == [f"update {n}" for n in range(16)]


def test_an_update_that_looks_like_the_notice_is_an_update(scene: StoreScene) -> None:
    text = "(3 earlier update(s) omitted — cap reached)"
    database = scene.open()
    leave(database, text)
    leave(database, "second")
    database.close()
    found = scene.open().query(lambda tx: tx.updates.get())
    assert [update.message for update in found.entries] == [text, "second"]
    assert found.omitted == 0


def test_updates_written_by_hand_need_no_id(scene: StoreScene) -> None:
    stamp = "2026-02-24T10:15:00-08:00"
    scene.paths.pending_updates.write_text(json.dumps([{"ts": stamp, "message": "m"}]))
    (update,) = scene.open().query(lambda tx: tx.updates.get()).entries
    assert update == PendingUpdate(update.ts, "m", None)
    assert update.ts.isoformat() == stamp


def test_a_wrong_setting_is_named_ignored_and_kept(scene: StoreScene) -> None:
    scene.paths.config.write_text('{"bg_concurrency": 99, "of_tomorrow": 1, "thinking.main": 500}')
    database = scene.open()
    config = database.query(lambda tx: tx.config.get())
    assert (config.bg_concurrency, config.thinking_main) == (3, 500)
    assert [("bg_concurrency" in text, "of_tomorrow" in text) for text in scene.problems] == [
        (True, False),
        (False, True),
    ]
    database.run(lambda tx: tx.config.change(lambda each: each.with_default("thinking.main")))
    assert json.loads(scene.paths.config.read_text()) == {
        "version": 1,
        "bg_concurrency": 99,
        "of_tomorrow": 1,
    }


def test_settings_at_their_defaults_are_not_stored(scene: StoreScene) -> None:
    database = scene.open()
    database.run(lambda tx: tx.config.change(lambda config: config.with_value("auto_update", "on")))
    assert json.loads(scene.paths.config.read_text()) == {"version": 1, "auto_update": True}
    database.run(
        lambda tx: tx.config.change(lambda config: config.with_value("auto_update", "off"))
    )
    assert database.query(lambda tx: tx.config.get()) == RuntimeConfig()
    assert not scene.paths.config.exists()


KNOWN_NAMES = [
    *("version", "ts", "message", "id", "message_id", "fork_session_id", "parent_session_id"),
    *("prompt", "capacity", "available", "refill_rate_minutes", "last_refill", "a1b2c3d4"),
    *("critical_used", "critical_reset_date", "daily_used", "daily_used_reset", "model.main"),
]

JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KNOWN_NAMES) | st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=12,
)


@settings(max_examples=examples(0.5))
@given(raw=st.binary() | JSONISH.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_in_any_state_file_never_keep_a_start_from_going_on(raw: bytes) -> None:
    with tempfile.TemporaryDirectory() as root:
        scene = StoreScene(Path(root))
        for spec in MIRRORED:
            (scene.state / spec.file).write_bytes(raw)
        scene.paths.session_history.write_bytes(raw)
        database = scene.open()
        values = [value_of(database, spec) for spec in MIRRORED]
        database.close()
        again = scene.open()
        assert [value_of(again, spec) for spec in MIRRORED] == values
        scene.close()
