"""Logging: one line for each event, with its run and session, and without secrets."""

from __future__ import annotations

import codecs
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from datetime import datetime
from types import MappingProxyType
from typing import TextIO, TypeVar
from urllib.parse import quote, quote_plus

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import StorageError
from ollim_bot.kernel.base.settings import LogFormat, LogLevel

R = TypeVar("R")

MARK = "[redacted]"
SHORTEST_SECRET = 4
# What people write where a key is asked for and none is needed.
_PLACEHOLDERS = frozenset(
    (
        *("anything", "changeme", "dummy", "empty", "example", "fake", "false", "lm-studio"),
        *("local", "localhost", "none", "not-needed", "nothing", "null", "ollama", "password"),
        *("placeholder", "secret", "test", "token", "true", "unused", "xxxx"),
    )
)
THROTTLE_SECONDS = 60.0

_MOST_REMEMBERED = 1000

_FIELDS: ContextVar[Mapping[str, str]] = ContextVar("log_fields", default=MappingProxyType({}))
_STANDARD_FIELDS = {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName"}
# The libraries of signing in log whole requests, with codes and tokens in them: never below this.
_VERBOSE = ("asyncio", "markdown_it", "google", "oauthlib", "requests_oauthlib", "urllib3")
_LEAST = {
    _VERBOSE: logging.WARNING,
    ("watchfiles", "mcp", "httpx2", "aiohttp.access"): logging.WARNING,
    # The engine itself reports the end of its program, where that was not asked for.
    ("claude_agent_sdk",): logging.CRITICAL,
}
# Looked up at import: a process that has run out of descriptors must still be able to log.
_ESCAPED = codecs.lookup("unicode_escape")
_UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# For each form of a secret: lower-case texts, one of which occurs in it or near it, so that most
# lines skip the pattern; and the pattern, whose group 1 is the secret.
_SHAPES = tuple(
    (hints, re.compile(shape, re.ASCII))
    for hints, shape in {
        (".",): r"([\w-]{23,28}\.[\w-]{6,7}\.[\w-]{27,})",  # a Discord bot
        ("/webhooks/", "/interactions/"): r"/(?:webhooks|interactions)/\d+/([\w-]{20,})",
        ("sk-ant-",): r"(sk-ant-[\w-]+)",
        ("ya29.", "1//", "gocspx-"): r"(ya29\.[\w.-]+|1//[\w-]{20,}|GOCSPX-[\w-]+)",  # Google
        ("bearer",): r"(?i:bearer)\s+([^\s\"',;]+)",
        ("authorization",): (
            r"(?i:authorization)(?:[\"']\s*,|\\?[\"']?\s*[:=])\s*b?\\?[\"']?([^\"'\r\n]+)"
        ),
        ("token=", "secret=", "password=", "key="): (
            r"(?i:token|secret|password|api[_-]?key)=([^&\s\"'<>]+)"
        ),
        ("token", "secret", "password", "key"): (
            r"(?i:token|secret|password|api[_-]?key)[\"']\s*:\s*[\"']([^\"']+)"
        ),
        ("code=", "key=", "sig="): r"[?&](?:code|key|sig)=([^&\s\"'<>#]+)",
        ("@",): r"://([^/\s@\"']+)@",
        # The path of a calendar's address is what keeps it secret.
        (".ics", "/published/", "/calendar/ical/", "/owa/calendar/"): (
            r"://[^/\s\"'<>]+(/(?:[^\s\"'<>]*\.(?i:ics)\b[^\s\"'<>]*"
            r"|(?:published|calendar/ical|owa/calendar)/[^\s\"'<>]+))"
        ),
        ("webcal",): r"(?i:webcals?)://[^/\s\"'<>]+(/[^\s\"'<>]+)",
    }.items()
)


def set_up_logging(
    level: LogLevel,
    log_format: LogFormat,
    *,
    secrets: Iterable[str],
    clock: Clock,
    stream: TextIO,
    now: Callable[[], float] = time.monotonic,
) -> RedactingFilter:
    """Send the events of every logger to `stream` and nowhere else.

    Equal lines from one place are written once a minute, followed by their count. The returned
    filter can `learn` further secrets later.
    """
    redacting = RedactingFilter(secrets)
    handler = ThrottledHandler(stream, now)
    handler.addFilter(redacting)
    handler.setFormatter(LineFormatter(log_format, clock))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for names, least in _LEAST.items():
        is_for_debugging = names is not _VERBOSE and level is LogLevel.DEBUG
        for name in names:
            logging.getLogger(name).setLevel(logging.DEBUG if is_for_debugging else least)
    return redacting


async def unless_refused(sentence: str, work: Awaitable[R]) -> R | None:
    """What `work` returns; None, with the sentence in the log, if the disk refuses it.

    For what is worth less than that the caller goes on; all else is left to the gate of the loop.
    """
    try:
        return await work
    except StorageError:
        logging.getLogger(__name__).warning("%s", sentence, exc_info=True)
        return None


@contextmanager
def refusal_logged(sentence: str) -> Iterator[None]:
    """Log the sentence, and go on after the block, if the disk refuses what is done inside."""
    try:
        yield
    except StorageError as refused:
        logging.getLogger(__name__).warning("%s: %s", sentence, refused)


@contextmanager
def log_fields(*, run: str | None = None, session: str | None = None) -> Iterator[None]:
    """Add these fields to every event logged inside; a None leaves the outer value."""
    given = {"run": run, "session": session}
    inner = {name: value for name, value in given.items() if value is not None}
    token = _FIELDS.set({**_FIELDS.get(), **inner})
    try:
        yield
    finally:
        _FIELDS.reset(token)


def learn_secrets(secrets: Iterable[str]) -> None:
    """Keep these out of all that is logged from now on, unless they are short or paths."""
    found = [each for each in secrets if len(each) >= 6 and not each.startswith(("/", "./"))]
    for handler in logging.getLogger().handlers:
        for each in handler.filters:
            if isinstance(each, RedactingFilter):
                each.learn(*found)


class RedactingFilter(logging.Filter):
    """Removes secrets from every part of a record; passes each record and never raises.

    The filter removes known secrets in each spelling in which they may be logged, and every text
    that has the shape of a key. It keeps secrets shorter than `SHORTEST_SECRET`, which are part of
    too many words, and placeholders such as `none`.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._spellings: set[str] = set()
        self.learn(*secrets)

    def learn(self, *secrets: str) -> None:
        known = (secret for secret in secrets if secret.strip().lower() not in _PLACEHOLDERS)
        spellings = {text for secret in known for text in _spellings(secret)}
        # A new set: another thread may be looking through the old one.
        self._spellings = self._spellings | {s for s in spellings if len(s) >= SHORTEST_SECRET}

    def filter(self, record: logging.LogRecord) -> bool:
        own, ambient = _fields(record), _FIELDS.get()
        for name in own:
            del record.__dict__[name]
        record.msg, record.exc_text = (self.redacted(text) for text in _texts(record))
        record.args = record.exc_info = None
        record.name = self.redacted(record.name)
        record.stack_info = self.redacted(record.stack_info or "") or None
        for name, value in {**own, **ambient, **own}.items():
            clean = self.redacted(text := _text(value))
            is_kept = clean == text and _fits_json(value)
            record.__dict__[self.redacted(name)] = value if is_kept else clean
        return True

    def redacted(self, text: str) -> str:
        kept: list[str] = []
        position = 0
        for start, end in sorted(self._spans(text)):
            if start >= position:
                kept += text[position:start], MARK
            position = max(position, end)
        return "".join([*kept, text[position:]])

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        for spelling in self._spellings:
            start = text.find(spelling)
            while start >= 0:
                yield start, start + len(spelling)
                start = text.find(spelling, start + 1)
        lowered = text.lower()
        for hints, shape in _SHAPES:
            if any(hint in lowered for hint in hints):
                yield from (match.span(1) for match in shape.finditer(text))


class ThrottledHandler(logging.StreamHandler[TextIO]):
    """Writes equal lines from one place at most once in `THROTTLE_SECONDS`.

    The number of omitted lines is written with the first line after that time, and when the handler
    closes. Lines that differ in text, fields or exception are all written.
    """

    def __init__(self, stream: TextIO, now: Callable[[], float]) -> None:
        super().__init__(stream)
        self._now = now
        # In order of time: the first record of each line, when it came, and how many came since.
        self._written: dict[object, tuple[logging.LogRecord, float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        now = self._now()
        self._count_up(now - THROTTLE_SECONDS, _MOST_REMEMBERED)
        place = (record.name, record.levelno, record.pathname, record.lineno)
        texts = (record.getMessage(), record.exc_text, record.stack_info, str(_fields(record)))
        if (written := self._written.get((place, texts))) is not None:
            first, since, left_out = written
            self._written[place, texts] = (first, since, left_out + 1)
            return
        self._count_up(now - THROTTLE_SECONDS, _MOST_REMEMBERED - 1)
        self._written[place, texts] = (record, now, 0)
        super().emit(record)

    def close(self) -> None:
        self._count_up(self._now(), 0)
        super().close()

    def _count_up(self, before: float, most: int) -> None:
        """Write the counts of the lines that came until then, and of the oldest above `most`."""
        while self._written:
            key = next(iter(self._written))
            first, since, left_out = self._written[key]
            if since > before and len(self._written) <= most:
                return
            del self._written[key]
            if left_out:
                times = "once more" if left_out == 1 else f"{left_out} more times"
                counted = copy(first)
                counted.created, counted.exc_text, counted.stack_info = time.time(), None, None
                counted.msg = f"{first.getMessage()} ({times}, left out here)"
                super().emit(counted)


class LineFormatter(logging.Formatter):
    """One event a line.

    As text `2026-11-15 09:00:00 INFO schedule: message run=… session=…`, exceptions indented below;
    as JSON an object with ts, level, logger, message, fields, and exc or stack if present.
    """

    def __init__(self, log_format: LogFormat, clock: Clock) -> None:
        super().__init__()
        self._format = log_format
        self._clock = clock

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, self._clock.now().tzinfo)
        logger, message = record.name.removeprefix("ollim_bot."), record.getMessage()
        fields, exc, stack = _fields(record), record.exc_text or "", record.stack_info or ""
        if self._format is LogFormat.JSON:
            event = {"ts": moment.isoformat(timespec="milliseconds"), "level": record.levelname}
            event |= {"logger": logger, "message": message}
            tail = {"exc": exc, "stack": stack}
            present = {name: text for name, text in tail.items() if text}
            return json.dumps({**event, "fields": fields, **present})
        shown = "".join(f" {name}={_field(value)}" for name, value in fields.items())
        line = f"{moment:%Y-%m-%d %H:%M:%S} {record.levelname} {logger}: {message}{shown}"
        lines = [line, *exc.splitlines(), *stack.splitlines()]
        return "\n    ".join(_UNPRINTABLE.sub(_escaped, each) for each in lines)


def _spellings(secret: str) -> Iterator[str]:
    """The secret, its lines, and its forms as quoted by Python, JSON and URLs."""
    yield secret
    yield from secret.splitlines()
    for show in (repr, ascii):
        yield show(secret)[1:-1]
        yield show("'\"" + secret)[4:-1]  # with both quotes present, repr escapes the single one
    yield repr(secret.encode("utf-8", "surrogatepass"))[2:-1]
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    for quoted in (quote, quote_plus):
        yield quoted(secret, errors="surrogatepass")
    yield quote(secret, safe="", errors="surrogatepass")


def _texts(record: logging.LogRecord) -> tuple[str, str]:
    """The message, and the exception; never raises.

    Of what the storage refused, the sentence is told and not the place in the program.
    """
    message, info = _shown(record.getMessage), record.exc_info
    if message is None:
        args = record.args if isinstance(record.args, tuple) else (record.args,)
        message = f"{_text(record.msg)} ({', '.join(map(_text, args))})"
    if info and isinstance(refused := info[1], StorageError):
        return message if str(refused) in message else f"{message}: {refused}", ""
    if record.exc_text or not info:
        return message, record.exc_text or ""
    text = _shown(lambda: logging.Formatter().formatException(info))
    return message, text or "an exception that cannot be shown"


def _text(value: object) -> str:
    text = _shown(lambda: str(value))
    return f"<{type(value).__name__} that cannot be shown>" if text is None else text


def _shown(show: Callable[[], str]) -> str | None:
    try:
        return show()
    except Exception:  # noqa: BLE001 - `str()` of a logged object may raise anything
        return None


def _fits_json(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and abs(value) < 2**63)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}


def _field(value: object) -> str:
    text = str(value)
    return text if re.fullmatch(r"[^\s\"'=]+", text) else json.dumps(text, ensure_ascii=False)


def _escaped(found: re.Match[str]) -> str:
    return _ESCAPED.encode(found[0])[0].decode()
