"""A state file with any content at a start is read, or it is reported and nothing is lost."""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
from functools import partial
from pathlib import Path

import pytest
from devtools.doubles.disks import SteppedDisk
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.store.scene import NOW, StoreScene

from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.domain.updates import PendingUpdate, PendingUpdates
from ollim_bot.store.database import Database
from ollim_bot.store.files import OsDisk
from ollim_bot.store.records import MIRRORED, RecordSpec
from ollim_bot.store.steps import leave_update
from ollim_bot.store.transaction import Transaction

EACH_MIRROR = pytest.mark.parametrize("spec", MIRRORED, ids=lambda spec: spec.file)
VERSIONED = [
    spec for spec in MIRRORED if spec.file in {"inquiries.json", "config.json", "fork.json"}
]


def value_of(database: Database, spec: RecordSpec[object]) -> object:
    return database.run(lambda tx: getattr(tx, spec.name).get())


def set_concurrency(tx: Transaction, number: int) -> None:
    tx.config.change(lambda config: config.with_value("bg_concurrency", number))


def leave(database: Database, text: str) -> None:
    database.run(partial(leave_update, update=PendingUpdate(NOW, text, text)))


@EACH_MIRROR
def test_what_cannot_be_understood_is_set_aside_with_its_bytes_and_told(
    scene: StoreScene, spec: RecordSpec[object]
) -> None:
    garbage = b'\xff\x00{"ts": [tr\n'
    (scene.state / spec.file).write_bytes(garbage)
    database = scene.open()
    assert value_of(database, spec) == spec.missing(NOW)
    (kept,) = scene.state.glob("*.corrupt-*")
    assert kept.name.startswith(f"{spec.file}.corrupt-")
    assert kept.read_bytes() == garbage
    assert [kept.name in sentence for sentence in scene.problems] == [True]


@EACH_MIRROR
def test_a_folder_or_a_pipe_in_the_place_of_a_file_is_set_aside_too(
    scene: StoreScene, spec: RecordSpec[object]
) -> None:
    for make in (Path.mkdir, os.mkfifo):
        (scene.state / spec.file).unlink(missing_ok=True)
        make(scene.state / spec.file)
        database = scene.open()
        assert value_of(database, spec) == spec.missing(NOW)
        database.close()
    assert ["not a regular file" in sentence for sentence in scene.problems] == [True, True]
    assert len(list(scene.state.glob("*.corrupt-*"))) == 2


@EACH_MIRROR
def test_work_goes_on_after_a_file_was_set_aside(
    scene: StoreScene, spec: RecordSpec[object]
) -> None:
    (scene.state / spec.file).write_bytes(b"[")
    leave(scene.open(), "and on")
    (entry,) = json.loads(scene.paths.pending_updates.read_text())
    assert entry["message"] == "and on"


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
    database.write_mirrors()
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
