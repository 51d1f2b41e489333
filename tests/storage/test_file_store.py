"""State files: whole steps, nothing taken for empty, nothing wrecked."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.storage.places import NOW, DataDirectory
from tests.stores import Stores

from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.updates import PendingUpdate, PendingUpdates
from ollim_bot.errors import NewerFormat, Unreadable, WriteFailed
from ollim_bot.paths import DataPaths
from ollim_bot.store.file_store import Malformed
from ollim_bot.store.files import OsDisk
from ollim_bot.store.json_fields import parse_json
from ollim_bot.testing.disks import SteppedDisk

STORES: dict[str, Callable[[Stores], Any]] = {
    "sessions": lambda stores: stores.session,
    "pending_updates": lambda stores: stores.updates,
    "inquiries": lambda stores: stores.inquiries,
    "config": lambda stores: stores.config,
    "memory": lambda stores: stores.memory,
}
EACH_STORE = pytest.mark.parametrize("name", STORES)


def path_of(data: DataDirectory, name: str) -> Path:
    path: Path = getattr(data.paths, name)
    return path


def set_aside(data: DataDirectory) -> list[Path]:
    return sorted(data.paths.state.glob("*.corrupt-*"))


@EACH_STORE
def test_what_cannot_be_understood_is_set_aside_with_its_bytes_and_told(
    data: DataDirectory, name: str
) -> None:
    path, garbage = path_of(data, name), b'\xff\x00{"ts": [tr\n'
    path.write_bytes(garbage)
    store = STORES[name](data.open())
    missing = STORES[name](DataDirectory(data.paths.root.parent / "new").open()).read()
    assert store.read() == missing
    (kept,) = set_aside(data)
    assert kept.name.startswith(f"{path.name}.corrupt-")
    assert kept.read_bytes() == garbage
    assert [problem.kept_as for problem in data.problems] == [kept]
    told = data.open().updates.read().entries
    assert [kept.name in update.message for update in told] == [True]


@EACH_STORE
def test_a_folder_or_a_pipe_in_the_place_of_a_file_is_set_aside_too(
    data: DataDirectory, name: str
) -> None:
    for make in (Path.mkdir, os.mkfifo):
        path_of(data, name).unlink(missing_ok=True)
        make(path_of(data, name))
        STORES[name](data.open()).read()
    assert [problem.reason for problem in data.problems] == ["not a regular file"] * 2
    assert len(set_aside(data)) == 2


@EACH_STORE
def test_work_goes_on_after_a_file_was_set_aside(data: DataDirectory, name: str) -> None:
    path_of(data, name).write_bytes(b"[")
    STORES[name](data.open()).transact(lambda value: (value, None))
    data.open().leave_update("and on", NOW)
    assert data.open().updates.read().entries[-1].message == "and on"


def test_a_file_that_may_not_be_read_is_never_taken_for_empty() -> None:
    """Shown as an ordinary account, since the superuser may read everything."""
    child = [sys.executable, "-m", "tests.storage.unreadable_file"]
    ran = subprocess.run(child, capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines() == ["read refused", "transact refused", "bytes kept"], ran.stderr


def test_a_read_error_of_the_disk_is_not_taken_for_empty_either(data: DataDirectory) -> None:
    def fail(step: str, _: Path) -> None:
        if step == "read":
            raise OSError(errno.EIO, "Input/output error")

    store = data.open(SteppedDisk(OsDisk(), fail)).config
    with pytest.raises(Unreadable, match="Input/output error"):
        store.read()
    with pytest.raises(Unreadable):
        store.transact(lambda value: (value.with_value("bg_concurrency", 9), None))
    assert not data.paths.config.exists()


@pytest.mark.parametrize("name", ["inquiries", "config", "memory"])
def test_a_newer_format_is_left_untouched_and_told(data: DataDirectory, name: str) -> None:
    path, newer = path_of(data, name), b'{"version": 2, "what": "ever"}'
    path.write_bytes(newer)
    store = STORES[name](data.open())
    store.read()
    store.read()
    assert len(data.problems) == 1
    assert "newer ollim-bot (format 2; this one knows 1)" in str(data.problems[0])
    with pytest.raises(NewerFormat):
        store.transact(lambda value: (value, None))
    assert path.read_bytes() == newer


def test_files_are_private_and_an_existing_one_keeps_its_mode(data: DataDirectory) -> None:
    stores = data.open()
    stores.config.transact(lambda config: (config.with_value("bg_concurrency", 2), None))
    assert stat.S_IMODE(data.paths.config.stat().st_mode) == 0o600
    data.paths.config.chmod(0o640)
    stores.config.transact(lambda config: (config.with_value("bg_concurrency", 4), None))
    assert stat.S_IMODE(data.paths.config.stat().st_mode) == 0o640


@pytest.mark.parametrize("step", ["write", "sync", "replace", "sync_folder"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_failing_step_leaves_a_whole_value_and_no_temporary_file(
    data: DataDirectory, step: str, code: int
) -> None:
    data.open().config.transact(lambda config: (config.with_value("bg_concurrency", 2), None))

    def fail(at: str, _: Path) -> None:
        if at == step:
            raise OSError(code, os.strerror(code))

    store = data.open(SteppedDisk(OsDisk(), fail)).config
    with pytest.raises(WriteFailed, match=os.strerror(code)):
        store.transact(lambda config: (config.with_value("bg_concurrency", 4), None))
    left = data.open().config.read().bg_concurrency
    assert left == (4 if step == "sync_folder" else 2)
    assert list(data.paths.state.glob(".*.tmp")) == []


def test_a_value_that_did_not_change_is_not_written(data: DataDirectory) -> None:
    steps: list[str] = []
    store = data.open(SteppedDisk(OsDisk(), lambda step, _: steps.append(step))).config
    store.transact(lambda config: (config, None))
    assert steps == ["read"]


def test_no_session_and_no_updates_are_no_files(data: DataDirectory) -> None:
    stores = data.open()
    stores.session.transact(lambda _: (SessionId("sess-1"), None))
    assert data.paths.sessions.read_bytes() == b"sess-1"
    stores.session.transact(lambda _: (None, None))
    stores.leave_update("hello", NOW)
    assert json.loads(data.paths.pending_updates.read_text())[0]["message"] == "hello"
    stores.updates.transact(lambda _: (PendingUpdates(), None))
    assert not data.paths.sessions.exists()
    assert not data.paths.pending_updates.exists()


def test_a_dropped_update_stays_readable_in_the_ledger(data: DataDirectory) -> None:
    stores = data.open()
    for number in range(13):
        stores.leave_update(f"update {number}", NOW)
    waiting = json.loads(data.paths.pending_updates.read_text())
    assert waiting[0]["message"] == "(4 earlier update(s) omitted — cap reached)"
    assert [entry["message"] for entry in waiting[1:]] == [f"update {n}" for n in range(4, 13)]
    dropped = [row.facts["message"] for row in stores.ledger.read().entries]
    assert dropped == [f"update {n}" for n in range(4)]


def test_the_notice_of_omitted_updates_counts_on_after_a_restart(data: DataDirectory) -> None:
    for number in range(25):
        stores = data.open()
        stores.leave_update(f"update {number}", NOW)
    assert data.open().updates.read().omitted == 16
    assert len(json.loads(data.paths.pending_updates.read_text())) == 10


def test_an_update_that_looks_like_the_notice_is_an_update(data: DataDirectory) -> None:
    stores = data.open()
    text = "(3 earlier update(s) omitted — cap reached)"
    stores.leave_update(text, NOW)
    stores.leave_update("second", NOW)
    found = data.open().updates.read()
    assert [update.message for update in found.entries] == [text, "second"]
    assert found.omitted == 0


def test_updates_written_by_hand_need_no_id(data: DataDirectory) -> None:
    data.paths.pending_updates.write_text('[{"ts": "2026-02-24T10:15:00-08:00", "message": "m"}]')
    (update,) = data.open().updates.read().entries
    assert update == PendingUpdate(update.ts, "m", None)
    assert update.ts.isoformat() == "2026-02-24T10:15:00-08:00"


def test_a_wrong_setting_is_named_ignored_and_kept(data: DataDirectory) -> None:
    data.paths.config.write_text('{"bg_concurrency": 99, "of_tomorrow": 1, "thinking.main": 500}')
    config = data.open().config.read()
    assert (config.bg_concurrency, config.thinking_main) == (3, 500)
    named = [str(problem) for problem in data.problems]
    assert [("bg_concurrency" in text, "of_tomorrow" in text) for text in named] == [
        (True, False),
        (False, True),
    ]
    data.open().config.transact(lambda config: (config.with_default("thinking.main"), None))
    assert json.loads(data.paths.config.read_text()) == {
        "version": 1,
        "bg_concurrency": 99,
        "of_tomorrow": 1,
    }


def test_settings_at_their_defaults_are_not_stored(data: DataDirectory) -> None:
    store = data.open().config
    store.transact(lambda config: (config.with_value("auto_update", "on"), None))
    assert json.loads(data.paths.config.read_text()) == {"version": 1, "auto_update": True}
    store.transact(lambda config: (config.with_value("auto_update", "off"), None))
    assert store.read() == RuntimeConfig()
    assert not data.paths.config.exists()


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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(1.5))
@given(raw=st.binary() | JSONISH.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_in_any_state_file_never_crash_a_read(data: DataDirectory, raw: bytes) -> None:
    for leftover in data.paths.state.glob("*.json*"):
        leftover.unlink()
    for name in STORES:
        path_of(data, name).write_bytes(raw)
    stores = data.open()
    for name, store in STORES.items():
        value = store(stores).read()
        try:
            store(stores).transact(lambda held: (held, None))
        except NewerFormat:
            assert path_of(data, name).read_bytes() == raw
            continue
        assert store(stores).read() == value or name == "pending_updates"


@pytest.mark.parametrize(
    "raw", [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000, b"NaN", b"\xff"], ids=range(5)
)
def test_hostile_json_is_malformed_and_nothing_else(raw: bytes) -> None:
    with pytest.raises(Malformed):
        parse_json(raw)


def test_data_paths_of_two_directories_do_not_meet(tmp_path: Path) -> None:
    one, two = DataDirectory(tmp_path / "one"), DataDirectory(tmp_path / "two")
    one.open().session.transact(lambda _: (SessionId("x"), None))
    assert two.open().session.read() is None
    assert DataPaths(tmp_path / "one").sessions.read_text() == "x"
