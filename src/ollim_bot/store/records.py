"""Single values and the session history: the state that people can read in files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, NamedTuple, NoReturn, TypeVar

from ollim_bot.domain.added_lines import AddedLines
from ollim_bot.domain.breakdowns import Breakdowns
from ollim_bot.domain.changes import BegunWrites
from ollim_bot.domain.digest import Digests
from ollim_bot.domain.inbox import FailedTurns
from ollim_bot.domain.initiative import SetByAgent
from ollim_bot.domain.notices import NoticeRecord
from ollim_bot.domain.overviews import OpenOverviews
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.presence import DailyRecord, PassedOver, Presence
from ollim_bot.domain.provider import ProviderMemory
from ollim_bot.domain.quiet import QuietChoice
from ollim_bot.domain.schedule import GivenNames, Grants, Skips
from ollim_bot.domain.sessions import ClearedConversation, SessionEvent
from ollim_bot.domain.skills import AgentSkills
from ollim_bot.domain.surface_state import DiscordState, PushState, WebState
from ollim_bot.domain.task_cards import TaskMoves, TaskUndos
from ollim_bot.domain.tool_servers import SERVER_RECORD, ToolServerRecord
from ollim_bot.domain.travel import PlannedZone
from ollim_bot.store.codecs.plain import plain_codec
from ollim_bot.store.codecs.records import (
    BUTTON_PROMPTS,
    FORK,
    FORK_MESSAGES,
    HELD_MESSAGES,
    MEMORY,
    PENDING_UPDATES,
    SESSION_EVENTS,
    SESSION_ID,
    RuntimeConfigCodec,
    ping_budget_codec,
)
from ollim_bot.store.connection import Statements
from ollim_bot.store.file_store import Codec

T = TypeVar("T")
R = TypeVar("R")

HISTORY_FILE = "session_history.jsonl"
GET_RECORD = "SELECT value FROM records WHERE name = ?"
PUT_RECORD = (
    "INSERT INTO records (name, value) VALUES (?, ?)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)


@dataclass(frozen=True)
class RecordSpec(Generic[T]):
    """One value by name; `file` is its mirror in `state/`, empty if it has none.

    `default` makes the value of a record that was never written, if that depends on the moment. As
    an attribute of `Records`, the spec gives the record of the transaction.
    """

    name: str
    codec: Codec[T]
    file: str = ""
    default: Callable[[datetime], T] | None = None

    def missing(self, now: datetime) -> T:
        return self.codec.missing() if self.default is None else self.default(now)

    def __get__(self, records: Records, owner: type[Records]) -> Record[T]:
        return Record(records._statements, self, records.now)


class Record(Generic[T]):
    """One value. `now` is the moment at which the transaction began."""

    def __init__(self, statements: Statements, spec: RecordSpec[T], now: datetime) -> None:
        self._statements = statements
        self._spec = spec
        self._now = now

    def get(self) -> T:
        stored = stored_record(self._statements, self._spec.name)
        if stored is None:
            return self._spec.missing(self._now)
        value, _ = self._spec.codec.decode(stored)
        return value

    def put(self, value: T) -> None:
        encoded = self._spec.codec.encode(value)
        if encoded != stored_record(self._statements, self._spec.name):
            store_record(self._statements, self._spec, encoded)

    def change(self, step: Callable[[T], T]) -> T:
        """Replace the value by `step(value)`, and return the new one."""
        value = step(self.get())
        self.put(value)
        return value

    def take(self, step: Callable[[T], tuple[T, R]]) -> R:
        """Replace the value by the first result of `step`, and return the second."""
        value, result = step(self.get())
        self.put(value)
        return result


def _plain(name: str, kind: type[T]) -> RecordSpec[T]:
    return RecordSpec(name, plain_codec(kind))


def _unused() -> NoReturn:
    raise AssertionError("the budget takes the moment of its transaction")


class Records:
    """The single values, one per line."""

    session = RecordSpec("session", SESSION_ID, "sessions.json")
    updates = RecordSpec("updates", PENDING_UPDATES, "pending_updates.json")
    fork_messages = RecordSpec("fork_messages", FORK_MESSAGES, "fork_messages.json")
    fork = RecordSpec("fork", FORK, "fork.json")
    inquiries = RecordSpec("inquiries", BUTTON_PROMPTS, "inquiries.json")
    budget = RecordSpec(
        "budget", ping_budget_codec(_unused), "ping_budget.json", default=PingBudget.full
    )
    config = RecordSpec("config", RuntimeConfigCodec(), "config.json")
    cleared = _plain("cleared", ClearedConversation)
    cleared_grants = _plain("cleared_grants", Grants)
    cleared_fork = RecordSpec("cleared_fork", FORK)
    overviews = _plain("overviews", OpenOverviews)
    presence = _plain("presence", Presence)
    daily = _plain("daily", DailyRecord)
    passed_over = _plain("passed_over", PassedOver)
    notices = _plain("notices", NoticeRecord)
    failed_turns = _plain("failed_turns", FailedTurns)
    provider = _plain("provider", ProviderMemory)
    names = _plain("names", GivenNames)
    grants = _plain("grants", Grants)
    skips = _plain("skips", Skips)
    quiet = _plain("quiet", QuietChoice)
    zone = _plain("zone", PlannedZone)
    held = RecordSpec("held", HELD_MESSAGES)
    digests = _plain("digests", Digests)
    initiative = _plain("initiative", SetByAgent)
    agent_skills = _plain("agent_skills", AgentSkills)
    tool_servers = _plain(SERVER_RECORD, ToolServerRecord)
    task_undos = _plain("task_undos", TaskUndos)
    task_moves = _plain("task_moves", TaskMoves)
    breakdowns = _plain("breakdowns", Breakdowns)
    begun_writes = _plain("begun_writes", BegunWrites)
    added_lines = _plain("added_lines", AddedLines)
    discord = _plain("discord", DiscordState)
    web = _plain("web", WebState)
    push = _plain("push", PushState)
    memory = RecordSpec("memory", MEMORY)

    def __init__(self, statements: Statements, now: datetime) -> None:
        self._statements = statements
        self.now = now


RECORDS: tuple[RecordSpec[object], ...] = tuple(
    spec for spec in vars(Records).values() if isinstance(spec, RecordSpec)
)
MIRRORED = tuple(spec for spec in RECORDS if spec.file)


def stored_record(statements: Statements, name: str) -> bytes | None:
    """The content of a record and of its mirror; None for a record without a file."""
    found = statements.row(GET_RECORD, name)
    return None if found is None else str(found[0]).encode()


def store_record(statements: Statements, spec: RecordSpec[T], encoded: bytes | None) -> None:
    """Replace the content of a record, and store the hash of its mirror."""
    if encoded is None:
        statements.write(spec.name, "DELETE FROM records WHERE name = ?", spec.name)
    else:
        statements.write(
            spec.name,
            PUT_RECORD,
            spec.name,
            encoded.decode(),
        )
    if spec.file:
        if statements.row("SELECT 1 FROM mirrors WHERE name = ?", spec.name) is None:
            note_hash(statements, spec.name, hash_of(None))
        note_hash(statements, spec.name, hash_of(encoded))


def hash_of(content: bytes | None) -> str:
    """The hash that identifies the content of a mirror; empty for no file."""
    return "" if content is None else hashlib.sha256(content).hexdigest()


def note_hash(statements: Statements, name: str, content: str) -> None:
    """Store the hash of the newest content that the mirror may hold."""
    statements.write(
        "mirrors",
        "INSERT INTO mirrors (name, hash, number)"
        " VALUES (?, ?, (SELECT coalesce(max(number), 0) + 1 FROM mirrors))"
        " ON CONFLICT (name, hash) DO UPDATE SET number = excluded.number",
        name,
        content,
    )


class SessionHistory:
    """The events of sessions, in order; also appended to `session_history.jsonl`."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def append(self, *events: SessionEvent) -> None:
        for event in events:
            line = SESSION_EVENTS.encode(event)
            self._statements.write(
                "session_history",
                "INSERT INTO session_history (seq, value)"
                " VALUES ((SELECT coalesce(max(seq), 0) + 1 FROM session_history), ?)",
                line.decode(),
            )
            self._statements.lines.append(line)

    def tail(self, limit: int) -> list[SessionEvent]:
        """The newest events, oldest first."""
        rows = self._statements.rows(
            "SELECT value FROM session_history ORDER BY seq DESC LIMIT ?", limit
        )
        return [_event(row[0]) for row in reversed(rows)]

    def all(self) -> list[SessionEvent]:
        return self.after(0)

    def after(self, place: int) -> list[SessionEvent]:
        rows = self._statements.rows(
            "SELECT value FROM session_history WHERE seq > ? ORDER BY seq", place
        )
        return [_event(row[0]) for row in rows]

    def places(self) -> tuple[int, int]:
        """Those of the first and the last event, 0 without any; after `replace`, others."""
        number = self._statements.number
        return (
            number("SELECT coalesce(min(seq), 0) FROM session_history"),
            number("SELECT coalesce(max(seq), 0) FROM session_history"),
        )

    def replace(self, events: list[SessionEvent]) -> None:
        """Replace all events by those that a person wrote into the file."""
        _, last = self.places()
        self.append(*events)
        self._statements.write(
            "session_history", "DELETE FROM session_history WHERE seq <= ?", last
        )
        self._statements.lines.clear()


class _KeptEvents(NamedTuple):
    first: int = 0
    last: int = 0
    events: tuple[SessionEvent, ...] = ()


class KeptHistory:
    """The session history, of which each event is read once until it is replaced."""

    def __init__(self) -> None:
        self._kept = _KeptEvents()

    def events(self, history: SessionHistory) -> tuple[SessionEvent, ...]:
        """All events, in order."""
        kept, (first, last) = self._kept, history.places()
        if first != kept.first or last < kept.last:
            kept = _KeptEvents(first)
        if last > kept.last:
            kept = _KeptEvents(first, last, (*kept.events, *history.after(kept.last)))
        self._kept = kept
        return kept.events


def _event(stored: str) -> SessionEvent:
    return SESSION_EVENTS.decode(stored.encode())
