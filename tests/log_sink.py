"""A log that a test can read, and records to log."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from ollim_bot.kernel.base.clock import SystemClock
from ollim_bot.kernel.base.logs import set_up_logging
from ollim_bot.kernel.base.settings import LogFormat, LogLevel

BERLIN = ZoneInfo("Europe/Berlin")
LOGGER = logging.getLogger("ollim_bot.scheduling")
NINE = datetime(2026, 11, 15, 8, 0, tzinfo=UTC).timestamp()


@contextmanager
def root_logger_restored() -> Iterator[None]:
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def sink(log_format: LogFormat, *secrets: str, level: LogLevel = LogLevel.INFO) -> io.StringIO:
    """A stream with everything that is logged from now on."""
    stream = io.StringIO()
    set_up_logging(level, log_format, secrets=secrets, clock=SystemClock(BERLIN), stream=stream)
    return stream


def at_nine(message: str, *args: object, **more: object) -> logging.LogRecord:
    values = {"name": LOGGER.name, "levelno": 20, "levelname": "INFO", "created": NINE}
    return logging.makeLogRecord({**values, "msg": message, "args": args, **more})


def failure(error: BaseException) -> BaseException:
    """The error, raised and caught."""
    try:
        raise error
    except type(error) as raised:
        return raised
