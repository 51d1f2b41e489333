"""Reads all state files and tells which cannot be understood."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ollim_bot.errors import NewerFormat
from ollim_bot.paths import DataPaths
from ollim_bot.plain_files import SizeLimit, UnsuitableFile
from ollim_bot.store.codecs.records import (
    ForkCodec,
    ForkMessagesCodec,
    InquiriesCodec,
    KnownBrowsersCodec,
    MemoryCodec,
    PendingUpdatesCodec,
    PingBudgetCodec,
    RuntimeConfigCodec,
    SessionIdCodec,
)
from ollim_bot.store.codecs.rows import (
    CHAT_MESSAGES,
    INBOX_ROWS,
    OUTBOX_ROWS,
    SESSION_EVENTS,
    LineCodec,
)
from ollim_bot.store.file_store import Codec, FormatIsNewer, Malformed
from ollim_bot.store.files import OsDisk

T = TypeVar("T")

_WITHOUT = "If you have a better copy, stop the bot and put it there; else it goes on without."
_PERMISSIONS = "Give the file back to the account that the bot runs as."
_SET_ASIDE = "Stop the bot and move it away; else the next start sets it aside."
_UPDATE = "Update ollim-bot, or move the file away."
_NAMED = "`ollim-bot config list` shows what counts instead."
_LEFT_OUT = "They stay where they are and harm nothing; copy the file if you want to look into it."


class Trouble(NamedTuple):
    """`is_grave` where the content does not count as long as it is like that."""

    sentence: str
    step: str
    is_grave: bool = True


def stored(path: Path, codec: Codec[T]) -> T:
    """The value; as if there were no file where it cannot be read, which others say."""
    try:
        return codec.decode(OsDisk().read(path, SizeLimit.STATE))[0]
    except (OSError, Malformed, FormatIsNewer):
        return codec.missing()


def state_troubles(paths: DataPaths, now: datetime) -> Iterator[Trouble]:
    for path, codec in _values(paths, now).items():
        yield from _of_value(path, codec)
    for path, lines in _logs(paths).items():
        yield from _of_log(path, lines)


def state_files(paths: DataPaths, now: datetime) -> int:
    """How many of them there are."""
    return sum(path.exists() for path in (*_values(paths, now), *_logs(paths)))


def _values(paths: DataPaths, now: datetime) -> Mapping[Path, Codec[Any]]:
    return {
        paths.sessions: SessionIdCodec(),
        paths.pending_updates: PendingUpdatesCodec(),
        paths.fork_messages: ForkMessagesCodec(),
        paths.fork: ForkCodec(),
        paths.inquiries: InquiriesCodec(),
        paths.ping_budget: PingBudgetCodec(lambda: now),
        paths.config: RuntimeConfigCodec(),
        paths.memory: MemoryCodec(),
        paths.web_browsers: KnownBrowsersCodec(),
    }


def _logs(paths: DataPaths) -> Mapping[Path, LineCodec[Any]]:
    """Without the ledger, which has a check of its own."""
    return {
        paths.session_history: SESSION_EVENTS,
        paths.inbox: INBOX_ROWS,
        paths.outbox: OUTBOX_ROWS,
        paths.messages: CHAT_MESSAGES,
    }


def _of_value(path: Path, codec: Codec[Any]) -> Iterator[Trouble]:
    shown = f"state/{path.name}"
    try:
        _, warnings = codec.decode(OsDisk().read(path, SizeLimit.STATE))
    except FileNotFoundError:
        return
    except OSError as refused:
        yield _unreadable(path, refused)
    except Malformed as malformed:
        yield Trouble(f"{shown} cannot be understood ({malformed})", _WITHOUT)
    except FormatIsNewer as newer:
        reason = NewerFormat(path, newer.found, newer.known).reason.partition(".")[0]
        yield Trouble(f"{shown} {reason}", _UPDATE)
    else:
        yield from (Trouble(f"{shown}: {each}", _NAMED, is_grave=False) for each in warnings)


def _of_log(path: Path, codec: LineCodec[Any]) -> Iterator[Trouble]:
    try:
        content = OsDisk().read(path, SizeLimit.LOG)
    except FileNotFoundError:
        return
    except OSError as refused:
        yield _unreadable(path, refused)
        return
    # Behind the last line end stands what is being written right now, or nothing.
    lines = content.split(b"\n")[:-1]
    bad = sum(not _is_entry(line, codec) for line in lines if line.strip())
    if bad:
        some = "1 line" if bad == 1 else f"{bad} lines"
        yield Trouble(
            f"state/{path.name} has {some} that cannot be read", _LEFT_OUT, is_grave=False
        )


def _unreadable(path: Path, refused: OSError) -> Trouble:
    step = _SET_ASIDE if isinstance(refused, UnsuitableFile) else _PERMISSIONS
    return Trouble(f"state/{path.name} cannot be read: {refused.strerror}", step)


def _is_entry(line: bytes, codec: LineCodec[Any]) -> bool:
    try:
        codec.decode(line)
    except Malformed:
        return False
    return True
