"""The open fork survives a restart, and a bad file of it hurts nobody else."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.domain.strategies import json_values
from tests.storage.chat_strategies import forks
from tests.storage.places import DataDirectory, QuickDisk

from ollim_bot.domain.forks import Fork
from ollim_bot.domain.sessions import SessionId
from ollim_bot.errors import NewerFormat
from ollim_bot.store.codecs.records import ForkCodec
from ollim_bot.store.file_store import FormatIsNewer, Malformed

AT = datetime(2026, 2, 24, 10, 15, tzinfo=timezone(timedelta(hours=-8)))
STAMP = "2026-02-24T10:15:00-08:00"
FORK = Fork("f1", SessionId("fork-1"), SessionId("main-1"), "taxes", timedelta(minutes=10), AT, AT)
CODEC = ForkCodec()


def written(fork: Fork) -> bytes:
    encoded = CODEC.encode(fork)
    assert encoded is not None
    return encoded


def test_a_person_can_read_it() -> None:
    assert json.loads(written(FORK)) == {
        "version": 1,
        "id": "f1",
        "session": "fork-1",
        "main": "main-1",
        "topic": "taxes",
        "idle_seconds": 600,
        "last_activity": STAMP,
        "began": STAMP,
        "resumed_from": None,
        "is_prompted": False,
        "has_answered": False,
        "last_answer": "",
        "resumed_at": None,
        "model": None,
        "seen": [],
    }


@given(forks)
def test_a_fork_reads_back_as_it_was_written(fork: Fork) -> None:
    assert CODEC.decode(written(fork)) == (fork, ())


@given(st.timedeltas(timedelta(microseconds=1), timedelta.max))
def test_a_fork_is_never_written_so_that_it_cannot_be_read(limit: timedelta) -> None:
    fork, _ = CODEC.decode(written(replace(FORK, idle_limit=limit)))
    assert fork is not None
    assert abs(fork.idle_limit - limit) < timedelta(seconds=1)


@given(forks, json_values)
def test_keys_of_a_later_version_are_passed_over(fork: Fork, value: object) -> None:
    stored = json.loads(written(fork)) | {"mood": value}
    assert CODEC.decode(json.dumps(stored).encode()) == (fork, ())


@given(forks, st.sampled_from(sorted(json.loads(written(FORK)))), st.just("") | json_values)
@example(FORK, "idle_seconds", 2**63)
@example(FORK, "idle_seconds", 0)
def test_a_damaged_field_makes_a_malformed_file_or_a_right_one(
    fork: Fork, name: str, value: object
) -> None:
    stored = json.loads(written(fork)) | {name: value}
    try:
        found, _ = CODEC.decode(json.dumps(stored).encode())
    except (Malformed, FormatIsNewer):
        return
    assert found is not None
    assert CODEC.decode(written(found)) == (found, ())


@given(st.binary())
def test_any_bytes_are_malformed_and_nothing_worse(raw: bytes) -> None:
    with pytest.raises(Malformed):
        CODEC.decode(raw)


def test_no_fork_is_no_file(data: DataDirectory) -> None:
    stores = data.open()
    assert stores.fork.read() is None
    stores.fork.transact(lambda _: (FORK, None))
    assert stat.S_IMODE(data.paths.fork.stat().st_mode) == 0o600
    assert data.open().fork.read() == FORK
    stores.fork.transact(lambda _: (None, None))
    assert not data.paths.fork.exists()
    assert data.open().fork.read() is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(garbage=st.binary())
def test_what_cannot_be_understood_is_set_aside_with_its_bytes_and_told(
    data: DataDirectory, garbage: bytes
) -> None:
    for old in data.paths.state.glob("*.corrupt-*"):
        old.unlink()
    data.problems.clear()
    data.paths.fork.write_bytes(garbage)
    stores = data.open(QuickDisk())
    assert stores.fork.read() is None
    (kept,) = data.paths.state.glob("*.corrupt-*")
    assert kept.name.startswith("fork.json.corrupt-")
    assert kept.read_bytes() == garbage
    assert [problem.kept_as for problem in data.problems] == [kept]
    assert kept.name in stores.updates.read().entries[-1].message
    stores.fork.transact(lambda _: (FORK, None))
    assert data.open().fork.read() == FORK


def test_a_folder_or_a_pipe_in_the_place_of_the_file_is_set_aside_too(data: DataDirectory) -> None:
    for make in (Path.mkdir, os.mkfifo):
        make(data.paths.fork)
        assert data.open().fork.read() is None
    assert [problem.reason for problem in data.problems] == ["not a regular file"] * 2


@pytest.mark.parametrize("more", [{}, {"what": "ever"}])
def test_a_newer_format_is_left_untouched_and_told(
    data: DataDirectory, more: Mapping[str, object]
) -> None:
    newer = json.dumps({"version": 2, **more}).encode()
    data.paths.fork.write_bytes(newer)
    store = data.open().fork
    assert store.read() is None
    assert len(data.problems) == 1
    with pytest.raises(NewerFormat):
        store.transact(lambda _: (FORK, None))
    assert data.paths.fork.read_bytes() == newer
