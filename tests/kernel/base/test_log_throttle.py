"""The same line is written once a minute with a count, and no event hides another."""

from __future__ import annotations

import asyncio
import io
import logging
import resource
import socket
from collections.abc import Iterator

import pytest
from tests.log_sink import BERLIN, LOGGER, failure, root_logger_restored

from ollim_bot.kernel.base.clock import SystemClock
from ollim_bot.kernel.base.logs import THROTTLE_SECONDS, log_fields, set_up_logging
from ollim_bot.kernel.base.settings import LogFormat, LogLevel


class CapturedLog:
    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.now = 1000.0
        set_up_logging(
            LogLevel.INFO,
            LogFormat.TEXT,
            secrets=["hunter2"],
            clock=SystemClock(BERLIN),
            stream=self.stream,
            now=lambda: self.now,
        )

    @property
    def lines(self) -> list[str]:
        """The lines without their time stamp."""
        return [line[20:] for line in self.stream.getvalue().splitlines() if line[:2] == "20"]


@pytest.fixture
def log() -> Iterator[CapturedLog]:
    with root_logger_restored():
        yield CapturedLog()


def say(text: str, *args: object) -> None:
    LOGGER.warning(text, *args)


def test_a_line_that_comes_again_is_counted(log: CapturedLog) -> None:
    for _ in range(500):
        say("the port is %s", "taken")
    assert log.lines == ["WARNING scheduling: the port is taken"]
    log.now += THROTTLE_SECONDS - 1
    say("the port is %s", "taken")
    assert len(log.lines) == 1
    log.now += 1
    say("the port is %s", "taken")
    assert log.lines[1:] == [
        "WARNING scheduling: the port is taken (500 more times, left out here)",
        "WARNING scheduling: the port is taken",
    ]


def test_the_count_comes_with_whatever_is_written_next_and_at_the_end(log: CapturedLog) -> None:
    say("again")
    say("again")
    log.now += THROTTLE_SECONDS
    say("something else")
    assert log.lines[1:] == [
        "WARNING scheduling: again (once more, left out here)",
        "WARNING scheduling: something else",
    ]
    for _ in range(3):
        say("last")
    logging.root.handlers[0].close()
    assert log.lines[3:] == [
        "WARNING scheduling: last",
        "WARNING scheduling: last (2 more times, left out here)",
    ]


def test_a_line_that_came_once_is_written_again_after_its_time(log: CapturedLog) -> None:
    for _ in range(3):
        say("each minute")
        log.now += THROTTLE_SECONDS
    assert log.lines == ["WARNING scheduling: each minute"] * 3


def test_what_differs_in_anything_is_another_event(log: CapturedLog) -> None:
    for number in range(300):
        say("run %d failed", number)
    LOGGER.error("run 1 failed")
    LOGGER.warning("run 1 failed")
    logging.getLogger("ollim_bot.other").warning("run 1 failed")
    for run in ("a", "b"):
        with log_fields(run=run):
            say("it failed")
    for reason in ("this", "that"):
        LOGGER.warning("it broke", exc_info=failure(ValueError(reason)))
    assert len(log.lines) == 300 + 3 + 2 + 2


def test_no_secret_is_in_a_count(log: CapturedLog) -> None:
    for _ in range(3):
        say("the word is %s", "hunter2")
    log.now += THROTTLE_SECONDS
    say("next")
    assert "hunter2" not in log.stream.getvalue()
    assert "[redacted] (2 more times" in log.stream.getvalue()


def test_what_is_remembered_is_bounded_and_counted_all_the_same(log: CapturedLog) -> None:
    say("first")
    say("first")
    for number in range(1000):
        say("line %d", number)
    assert "WARNING scheduling: first (once more, left out here)" in log.lines


async def test_a_process_without_descriptors_does_not_fill_the_log(log: CapturedLog) -> None:
    """The event loop logs each connection that it cannot accept, many times a second."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    clients = [socket.socket() for _ in range(30)]
    try:
        for client in clients:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
        used = max(client.fileno() for client in clients) + 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (used, before[1]))
        for _ in range(20):
            await asyncio.sleep(0)
        assert "out of system resource" in log.stream.getvalue()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for client in clients:
            client.close()
        server.close()
    assert len(log.stream.getvalue()) < 10_000
