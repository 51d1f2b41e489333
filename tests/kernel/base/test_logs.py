"""Logs: one line per event, with its run and session, in text or in JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log_sink import LOGGER, at_nine, failure, root_logger_restored, sink

from ollim_bot.kernel.base.clock import SystemClock
from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.base.logs import learn_secrets, log_fields, set_up_logging
from ollim_bot.kernel.base.settings import LogFormat, LogLevel
from ollim_bot.kernel.values.tool_servers import ServerSpec


@pytest.fixture(autouse=True)
def root_logger_as_it_was() -> Iterator[None]:
    with root_logger_restored():
        yield


def test_an_event_is_a_line_of_text() -> None:
    stream = sink(LogFormat.TEXT)
    with log_fields(run="r1", session="s1"):
        LOGGER.handle(at_nine("%d jobs armed", 3))
    assert stream.getvalue() == (
        "2026-11-15 09:00:00 INFO scheduling: 3 jobs armed run=r1 session=s1\n"
    )


def test_an_event_is_an_object_of_json() -> None:
    stream = sink(LogFormat.JSON)
    with log_fields(run="r1", session="s1"):
        LOGGER.handle(at_nine("%d jobs armed", 3, cost=0.5, ok=True, none=None, job="a b"))
    assert json.loads(stream.getvalue()) == {
        "ts": "2026-11-15T09:00:00.000+01:00",
        "level": "INFO",
        "logger": "scheduling",
        "message": "3 jobs armed",
        "fields": {
            "cost": 0.5,
            "ok": True,
            "none": None,
            "job": "a b",
            "run": "r1",
            "session": "s1",
        },
    }


def test_an_exception_stands_below_its_event_and_set_in() -> None:
    stream = sink(LogFormat.TEXT)
    LOGGER.error("failed", exc_info=failure(ValueError("one\n2026-11-15 09:00:00 INFO forged: x")))
    first, *below = stream.getvalue().splitlines()
    assert first.endswith("ERROR scheduling: failed")
    assert all(line.startswith("    ") for line in below)
    assert below[-2:] == ["    ValueError: one", "    2026-11-15 09:00:00 INFO forged: x"]


def test_an_exception_is_a_field_of_its_own_in_json() -> None:
    stream = sink(LogFormat.JSON)
    LOGGER.error("failed", exc_info=failure(ValueError("one\ntwo")), stack_info=True)
    event = json.loads(stream.getvalue())
    assert event["exc"].endswith("ValueError: one\ntwo")
    assert event["stack"].startswith("Stack (most recent call last):")


@given(st.text())
def test_a_message_or_a_field_can_never_look_like_a_second_event(text: str) -> None:
    stream = sink(LogFormat.TEXT)
    LOGGER.handle(at_nine("%s", text, field=text))
    written = stream.getvalue()
    assert written.endswith("\n")
    assert len(written.splitlines()) == 1
    written.encode()


def test_fields_are_quoted_where_they_would_be_unclear() -> None:
    stream = sink(LogFormat.TEXT)
    LOGGER.handle(at_nine("x", a="two words", b="k=v", c="", d='"', e="plain-1", f="\x1b[31m"))
    assert stream.getvalue().endswith(
        r'x a="two words" b="k=v" c="" d="\"" e=plain-1 f=\x1b[31m' + "\n"
    )


def test_ambient_fields_hold_inside_and_end_with_their_block() -> None:
    stream = sink(LogFormat.TEXT)
    with log_fields(run="r1", session="s1"):
        with log_fields(run="r2"):
            LOGGER.warning("inner")
        LOGGER.warning("outer")
        LOGGER.warning("explicit", extra={"run": "r3"})
    LOGGER.warning("after")
    endings = [line.partition(": ")[2] for line in stream.getvalue().splitlines()]
    assert endings == [
        "inner run=r2 session=s1",
        "outer run=r1 session=s1",
        "explicit run=r3 session=s1",
        "after",
    ]


def test_ambient_fields_end_with_their_block_when_it_fails() -> None:
    stream = sink(LogFormat.TEXT)
    with pytest.raises(ValueError, match="x"), log_fields(run="r1"):
        raise ValueError("x")
    LOGGER.warning("after")
    assert "r1" not in stream.getvalue()


def test_setting_up_twice_does_not_double_the_lines() -> None:
    first = sink(LogFormat.TEXT)
    second = sink(LogFormat.TEXT)
    LOGGER.warning("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_other_peoples_loggers_go_the_same_way() -> None:
    stream = sink(LogFormat.TEXT, "hunter22")
    logging.getLogger("aiohttp.access").warning("GET /?token=abcdef by %s", "hunter22")
    assert stream.getvalue().endswith(
        "WARNING aiohttp.access: GET /?token=[redacted] by [redacted]\n"
    )


@pytest.mark.parametrize("level", list(LogLevel))
def test_only_events_of_the_level_and_above_are_written(level: LogLevel) -> None:
    stream = sink(LogFormat.TEXT, level=level)
    for name in LogLevel:
        LOGGER.log(logging.getLevelNamesMapping()[name.upper()], "x")
    assert len(stream.getvalue().splitlines()) == len(LogLevel) - list(LogLevel).index(level)


@pytest.mark.parametrize("level", [LogLevel.INFO, LogLevel.DEBUG])
def test_what_libraries_say_of_each_request_is_for_debugging(level: LogLevel) -> None:
    stream = sink(LogFormat.TEXT, level=level)
    logging.getLogger("watchfiles.main").info("1 change detected")
    logging.getLogger("mcp.server").info("Processing request")
    logging.getLogger("watchfiles.main").warning("cannot watch")
    seen = [line.rpartition(": ")[2] for line in stream.getvalue().splitlines()]
    known = ["cannot watch"]
    assert seen == (
        known if level is LogLevel.INFO else ["1 change detected", "Processing request", *known]
    )


def test_the_log_follows_the_owners_clock() -> None:
    stream, clock = io.StringIO(), SystemClock(ZoneInfo("Europe/Berlin"))
    set_up_logging(LogLevel.INFO, LogFormat.TEXT, secrets=(), clock=clock, stream=stream)
    LOGGER.handle(at_nine("before"))
    clock.set_zone(ZoneInfo("Asia/Tokyo"))
    LOGGER.handle(at_nine("after"))
    first, second = stream.getvalue().splitlines()
    assert "09:00:00" in first
    assert "17:00:00" in second


def test_secrets_that_are_learned_later_are_left_out_too() -> None:
    stream = sink(LogFormat.TEXT)
    spec = ServerSpec("web", url="https://me:swordfish@tools.example/s/a1b2c3d4e5f6/mcp?a=hunter22")
    learn_secrets([*spec.secrets, "/home/me/notes", "on"])
    LOGGER.handle(at_nine("POST %s from /home/me/notes is on", spec.url))
    logged = stream.getvalue()
    assert "tools.example" in logged
    assert "from /home/me/notes is on" in logged
    for secret in ("swordfish", "a1b2c3d4e5f6", "hunter22"):
        assert secret not in logged


def test_what_the_storage_refuses_is_one_line_with_its_reason() -> None:
    stream = sink(LogFormat.TEXT)
    full = failure(WriteFailed(Path("ollim.db"), "could not be written: no space left."))
    LOGGER.error("A card waits", exc_info=full)
    LOGGER.error("A card waits: %s", full, exc_info=full)
    lines = stream.getvalue().splitlines()
    reason = "A card waits: ollim.db: could not be written: no space left."
    assert [line.partition(" ERROR scheduling: ")[2] for line in lines] == [reason, reason]
