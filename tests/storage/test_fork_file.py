"""The file of the open fork reads back as written; a bad file is reported as malformed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.domain.strategies import json_values
from tests.storage.chat_strategies import forks

from ollim_bot.domain.forks import Fork
from ollim_bot.domain.ids import SessionId
from ollim_bot.store.codecs.records import FORK as CODEC
from ollim_bot.store.file_store import FormatIsNewer, Malformed

AT = datetime(2026, 2, 24, 10, 15, tzinfo=timezone(timedelta(hours=-8)))
STAMP = "2026-02-24T10:15:00-08:00"
FORK = Fork("f1", SessionId("fork-1"), SessionId("main-1"), "taxes", timedelta(minutes=10), AT, AT)


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
