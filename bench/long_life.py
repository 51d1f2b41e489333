"""Fills a store with what a long life leaves: messages, runs, costs, sessions, open things."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from devtools.doubles.engine import ScriptedEngine

from bench.history import fill_history
from bench.ledger import run_rows
from ollim_bot.domain.due_items import DueItem
from ollim_bot.domain.ids import MessageId, SessionId
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.jobs import JobSpec, Reminder
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.sessions import SessionChange, SessionEvent
from ollim_bot.domain.usage import Price, UsageKind, UsageRow
from ollim_bot.store.store import Store
from ollim_bot.store.transaction import Transaction

LEDGER_ROWS = 100_000
OPEN = 50
_ROWS_OF_RUN = 4
_RUNS = LEDGER_ROWS // _ROWS_OF_RUN
_JOBS = 30
_SESSIONS = 100
_BETWEEN = timedelta(minutes=15)


def live_long(store: Store, now: datetime) -> None:
    """As many ledger rows and messages as the contract names, and what came with them."""
    store.run(fill_history)
    store.run(lambda tx: tx.ledger.append(*_ledger(now)))
    store.run(lambda tx: tx.usage.add(*_usage(now)))
    store.run(lambda tx: tx.session_history.append(*_sessions(now)))
    store.run(lambda tx: _open_items(tx, now))


def talked(folder: Path) -> ScriptedEngine:
    """An engine with a hundred sessions."""
    engine = ScriptedEngine()
    for number in range(_SESSIONS):
        engine.store(SessionId(f"talk{number}"), folder, f"What about number {number}?")
    return engine


def open_item(number: int, now: datetime) -> DueItem:
    due = now - timedelta(minutes=number + 1)
    job = Reminder(JobSpec(id=f"open{number}", message=f"Call number {number}."), due)
    occurrence = Occurrence.scheduled(JobKind.REMINDER, job.spec.id, due)
    return DueItem.of(job, occurrence, MessageId(f"c{number}"), due)


def _ledger(now: datetime) -> Iterator[LedgerRow]:
    for number in range(_RUNS):
        yield from run_rows(f"j{number % _JOBS}", _at(number, now))


def _usage(now: datetime) -> Iterator[UsageRow]:
    for number in range(_RUNS):
        at = _at(number, now)
        run = Occurrence.scheduled(JobKind.ROUTINE, f"j{number % _JOBS}", at)
        yield UsageRow(at, UsageKind.RUN, "m", Price.LISTED, 900, 500, occurrence=run.id)


def _sessions(now: datetime) -> Iterator[SessionEvent]:
    for number in range(_RUNS):
        session = SessionId(f"s{number}")
        yield SessionEvent(session, SessionChange.ISOLATED_BG, _at(number, now))


def _open_items(tx: Transaction, now: datetime) -> None:
    for number in range(OPEN):
        tx.due_items.put(open_item(number, now))


def _at(number: int, now: datetime) -> datetime:
    return now - _BETWEEN * (_RUNS - number)
