"""A value in a file: changes are atomic, and an unreadable file is never overwritten."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from devtools.doubles.disks import SteppedDisk
from tests.storage.data_directory import DataDirectory

from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.errors import NewerFormat, Unreadable, WriteFailed
from ollim_bot.ports import Disk
from ollim_bot.store.codecs.config import RuntimeConfigCodec
from ollim_bot.store.file_store import FileStore, Malformed, parse_json
from ollim_bot.store.files import OsDisk


def config_file(data: DataDirectory, disk: Disk | None = None) -> FileStore[RuntimeConfig]:
    return data.file_store(data.paths.config, RuntimeConfigCodec(), disk)


def set_concurrency(store: FileStore[RuntimeConfig], number: int) -> None:
    store.transact(lambda config: (config.with_value("bg_concurrency", number), None))


def set_aside(data: DataDirectory) -> list[Path]:
    return sorted(data.paths.state.glob("*.corrupt-*"))


def test_what_cannot_be_understood_is_set_aside_with_its_bytes_and_told(
    data: DataDirectory,
) -> None:
    garbage = b'\xff\x00{"ts": [tr\n'
    data.paths.config.write_bytes(garbage)
    assert config_file(data).read() == RuntimeConfig()
    (kept,) = set_aside(data)
    assert kept.name.startswith("config.json.corrupt-")
    assert kept.read_bytes() == garbage
    assert [problem.kept_as for problem in data.problems] == [kept]


def test_a_folder_or_a_pipe_in_the_place_of_a_file_is_set_aside_too(data: DataDirectory) -> None:
    for make in (Path.mkdir, os.mkfifo):
        make(data.paths.config)
        assert config_file(data).read() == RuntimeConfig()
    assert [problem.reason for problem in data.problems] == ["not a regular file"] * 2
    assert len(set_aside(data)) == 2


def test_work_goes_on_after_a_file_was_set_aside(data: DataDirectory) -> None:
    data.paths.config.write_bytes(b"[")
    set_concurrency(config_file(data), 2)
    assert config_file(data).read().bg_concurrency == 2


@pytest.mark.real_process
def test_a_file_that_may_not_be_read_is_never_taken_for_empty() -> None:
    """Run as an ordinary account, since root may read everything."""
    child = [sys.executable, "-m", "tests.storage.unreadable_file"]
    ran = subprocess.run(child, capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines() == ["read refused", "transact refused", "bytes kept"], ran.stderr


def test_a_read_error_of_the_disk_is_not_taken_for_empty_either(data: DataDirectory) -> None:
    def fail(step: str, _: Path) -> None:
        if step == "read":
            raise OSError(errno.EIO, "Input/output error")

    store = config_file(data, SteppedDisk(OsDisk(), fail))
    with pytest.raises(Unreadable, match="Input/output error"):
        store.read()
    with pytest.raises(Unreadable):
        set_concurrency(store, 9)
    assert not data.paths.config.exists()


def test_a_newer_format_is_left_untouched_and_told(data: DataDirectory) -> None:
    newer = b'{"version": 2, "what": "ever"}'
    data.paths.config.write_bytes(newer)
    store = config_file(data)
    store.read()
    store.read()
    assert len(data.problems) == 1
    assert "newer ollim-bot (format 2; this one knows 1)" in str(data.problems[0])
    with pytest.raises(NewerFormat):
        set_concurrency(store, 2)
    assert data.paths.config.read_bytes() == newer


def test_files_are_private_and_an_existing_one_keeps_its_mode(data: DataDirectory) -> None:
    set_concurrency(config_file(data), 2)
    assert stat.S_IMODE(data.paths.config.stat().st_mode) == 0o600
    data.paths.config.chmod(0o640)
    set_concurrency(config_file(data), 4)
    assert stat.S_IMODE(data.paths.config.stat().st_mode) == 0o640


@pytest.mark.parametrize("step", ["write", "sync", "replace", "sync_folder"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_failing_step_leaves_a_whole_value_and_no_temporary_file(
    data: DataDirectory, step: str, code: int
) -> None:
    set_concurrency(config_file(data), 2)

    def fail(at: str, _: Path) -> None:
        if at == step:
            raise OSError(code, os.strerror(code))

    store = config_file(data, SteppedDisk(OsDisk(), fail))
    with pytest.raises(WriteFailed, match=os.strerror(code)):
        set_concurrency(store, 4)
    left = config_file(data).read().bg_concurrency
    assert left == (4 if step == "sync_folder" else 2)
    assert list(data.paths.state.glob(".*.tmp")) == []


def test_a_value_that_did_not_change_is_not_written(data: DataDirectory) -> None:
    steps: list[str] = []
    store = config_file(data, SteppedDisk(OsDisk(), lambda step, _: steps.append(step)))
    store.transact(lambda config: (config, None))
    assert steps == ["read"]


def test_a_wrong_setting_is_named_ignored_and_kept(data: DataDirectory) -> None:
    data.paths.config.write_text('{"bg_concurrency": 99, "of_tomorrow": 1, "thinking.main": 500}')
    config = config_file(data).read()
    assert (config.bg_concurrency, config.thinking_main) == (3, 500)
    named = [str(problem) for problem in data.problems]
    assert [("bg_concurrency" in text, "of_tomorrow" in text) for text in named] == [
        (True, False),
        (False, True),
    ]
    config_file(data).transact(lambda config: (config.with_default("thinking.main"), None))
    assert json.loads(data.paths.config.read_text()) == {
        "version": 1,
        "bg_concurrency": 99,
        "of_tomorrow": 1,
    }


@pytest.mark.parametrize(
    "raw", [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000, b"NaN", b"\xff"], ids=range(5)
)
def test_hostile_json_is_malformed_and_nothing_else(raw: bytes) -> None:
    with pytest.raises(Malformed):
        parse_json(raw)
