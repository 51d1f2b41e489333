"""Logging: one line for each event, with its run and session, and without secrets."""

from __future__ import annotations

import codecs
import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TextIO
from urllib.parse import quote, quote_plus

from ollim_bot.errors import StorageError
from ollim_bot.ports import Clock
from ollim_bot.settings import LogFormat, LogLevel

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
_STANDARD_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {
    "message",
    "asctime",
    "taskName",
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
    handler.addFilter(_add_ambient_fields)
    handler.addFilter(redacting)
    formatter = JsonFormatter if log_format is LogFormat.JSON else TextFormatter
    handler.setFormatter(formatter(clock))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # The libraries of signing in log whole requests, with codes and tokens in them.
    for verbose in ("asyncio", "markdown_it", "google", "oauthlib", "requests_oauthlib", "urllib3"):
        logging.getLogger(verbose).setLevel(logging.WARNING)
    least = logging.DEBUG if level is LogLevel.DEBUG else logging.WARNING
    for chatty in ("watchfiles", "mcp", "httpx2", "aiohttp.access"):
        logging.getLogger(chatty).setLevel(least)
    # The engine itself reports the end of its program, where that was not asked for.
    logging.getLogger("claude_agent_sdk").setLevel(
        logging.DEBUG if level is LogLevel.DEBUG else logging.CRITICAL
    )
    return redacting


@contextmanager
def log_fields(*, run: str | None = None, session: str | None = None) -> Iterator[None]:
    """Add these fields to every event logged inside; a None leaves the outer value."""
    given = {"run": run, "session": session}
    token = _FIELDS.set(
        {**_FIELDS.get(), **{name: value for name, value in given.items() if value is not None}}
    )
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
        self._spellings: frozenset[str] = frozenset()
        self.learn(*secrets)

    def learn(self, *secrets: str) -> None:
        known = (secret for secret in secrets if secret.strip().lower() not in _PLACEHOLDERS)
        spellings = (spelling for secret in known for spelling in _spellings(secret))
        self._spellings |= {text for text in spellings if len(text) >= SHORTEST_SECRET}

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self.redacted(_message(record)), None
        record.name = self.redacted(record.name)
        record.exc_text = self.redacted(_exception(record)) or None
        record.exc_info = None
        record.stack_info = self.redacted(record.stack_info or "") or None
        for name in _extra_names(record):
            value = record.__dict__.pop(name)
            record.__dict__[self.redacted(name)] = self._clean(value)
        return True

    def redacted(self, text: str) -> str:
        spans = [*self._secrets_in(text), *_shapes_in(text)]
        return _without(text, spans) if spans else text

    def _secrets_in(self, text: str) -> Iterator[tuple[int, int]]:
        for spelling in self._spellings:
            start = text.find(spelling)
            while start >= 0:
                yield start, start + len(spelling)
                start = text.find(spelling, start + 1)

    def _clean(self, value: object) -> object:
        text = _text(value)
        clean = self.redacted(text)
        return value if clean == text and _fits_json(value) else clean


@dataclass(slots=True)
class _Written:
    record: logging.LogRecord
    since: float
    left_out: int = 0


class ThrottledHandler(logging.StreamHandler[TextIO]):
    """Writes equal lines from one place at most once in `THROTTLE_SECONDS`.

    The number of omitted lines is written with the first line after that time, and when the handler
    closes. Lines that differ in text, fields or exception are all written.
    """

    def __init__(self, stream: TextIO, now: Callable[[], float]) -> None:
        super().__init__(stream)
        self._now = now
        self._written: dict[object, _Written] = {}

    def emit(self, record: logging.LogRecord) -> None:
        now = self._now()
        self._count_up(lambda written: now - written.since >= THROTTLE_SECONDS)
        key = _identity(record)
        if key in self._written:
            self._written[key].left_out += 1
            return
        if len(self._written) >= _MOST_REMEMBERED:
            oldest = next(iter(self._written.values()))
            self._count_up(lambda written: written is oldest)
        self._written[key] = _Written(record, now)
        super().emit(record)

    def close(self) -> None:
        self._count_up(lambda _: True)
        super().close()

    def _count_up(self, is_over: Callable[[_Written], bool]) -> None:
        """Write the counts of the entries for which `is_over`, which are in order of time."""
        while self._written:
            key = next(iter(self._written))
            if not is_over(self._written[key]):
                return
            written = self._written.pop(key)
            if written.left_out:
                super().emit(_counted(written))


class TextFormatter(logging.Formatter):
    """`2026-11-15 09:00:00 INFO schedule: message run=… session=…`, exceptions indented below."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, self._clock.now().tzinfo)
        fields = (f" {name}={_field(value)}" for name, value in _fields(record).items())
        event = f"{record.levelname} {_logger(record)}: {record.getMessage()}{''.join(fields)}"
        below = [*(record.exc_text or "").splitlines(), *(record.stack_info or "").splitlines()]
        return "\n    ".join(map(_printable, [f"{moment:%Y-%m-%d %H:%M:%S} {event}", *below]))


class JsonFormatter(logging.Formatter):
    """One object per line: ts, level, logger, message, fields, and exc or stack if present."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, self._clock.now().tzinfo)
        event = {
            "ts": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": _logger(record),
            "message": record.getMessage(),
            "fields": _fields(record),
        }
        tail = {"exc": record.exc_text, "stack": record.stack_info}
        return json.dumps(event | {name: text for name, text in tail.items() if text})


def _identity(record: logging.LogRecord) -> object:
    place = (record.name, record.levelno, record.pathname, record.lineno)
    fields = tuple((name, str(value)) for name, value in _fields(record).items())
    return place, record.getMessage(), record.exc_text, record.stack_info, fields


def _counted(written: _Written) -> logging.LogRecord:
    first = written.record
    times = "once more" if written.left_out == 1 else f"{written.left_out} more times"
    message = f"{first.getMessage()} ({times}, left out here)"
    place = (first.name, first.levelno, first.pathname, first.lineno)
    counted = logging.LogRecord(*place, message, None, None)
    counted.__dict__.update(_fields(first))
    return counted


def _add_ambient_fields(record: logging.LogRecord) -> bool:
    for name, value in _FIELDS.get().items():
        record.__dict__.setdefault(name, value)
    return True


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


def _shapes_in(text: str) -> Iterator[tuple[int, int]]:
    lowered = text.lower()
    for hints, shape in _SHAPES:
        if any(hint in lowered for hint in hints):
            yield from (match.span(1) for match in shape.finditer(text))


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    kept: list[str] = []
    position = 0
    for start, end in sorted(spans):
        if start >= position:
            kept += text[position:start], MARK
        position = max(position, end)
    return "".join([*kept, text[position:]])


def _message(record: logging.LogRecord) -> str:
    text = _shown(record.getMessage)
    if text is not None:
        refused = _refused(record)
        return text if refused is None or str(refused) in text else f"{text}: {refused}"
    args = record.args if isinstance(record.args, tuple) else (record.args,)
    return f"{_text(record.msg)} ({', '.join(map(_text, args))})"


def _refused(record: logging.LogRecord) -> StorageError | None:
    """What the storage refused: a sentence, of which the place in the program says no more."""
    fault = record.exc_info[1] if record.exc_info else None
    return fault if isinstance(fault, StorageError) else None


def _exception(record: logging.LogRecord) -> str:
    info = record.exc_info
    if _refused(record) is not None:
        return ""
    if record.exc_text or not info:
        return record.exc_text or ""
    text = _shown(lambda: logging.Formatter().formatException(info))
    return "an exception that cannot be shown" if text is None else text


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


def _extra_names(record: logging.LogRecord) -> list[str]:
    return [name for name in record.__dict__ if name not in _STANDARD_FIELDS]


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: record.__dict__[name] for name in _extra_names(record)}


def _field(value: object) -> str:
    text = str(value)
    return text if re.fullmatch(r"[^\s\"'=]+", text) else json.dumps(text, ensure_ascii=False)


def _logger(record: logging.LogRecord) -> str:
    return record.name.removeprefix("ollim_bot.")


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub(lambda found: _ESCAPED.encode(found[0])[0].decode(), text)
