"""What a year of history costs those who claim, start and check."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from tests.stores import Stores

from bench.bars import Bar
from bench.fixtures import prepared, running
from bench.measure import Result, compare
from bench.storage import NO_GROWTH
from ollim_bot.domain.cron import Cron
from ollim_bot.domain.definitions import Armed, Definition
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.jobs import JobSpec, Routine
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.run_history import History, checkpoint_row, claiming_row

# In the past, since the check uses the real clock.
END = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 365
DAILY = 30
ROUNDS = 60
MOST_SECONDS = 2.0

_SECOND = timedelta(seconds=1)


def measure(folder: Path) -> list[Result]:
    _, old = prepared(folder / "data")
    _, new = prepared(folder / "new")
    write_a_year(old)
    command = str(Path(sys.executable).with_name("ollim-bot"))
    numbers = count()

    def claim(on: Stores) -> None:
        on.ledger.claim(Occurrence.scheduled(JobKind.REMINDER, f"r{next(numbers)}", END), END)

    check = compare(
        f"runs check, {DAYS * DAILY} runs, cold",
        running([command, "runs", "check"], folder),
        "python -c pass",
        running([sys.executable, "-c", "pass"], folder),
        rounds=3,
        most_more=MOST_SECONDS,
    )
    return [
        check,
        compare(
            "claim with a year before it",
            lambda: claim(old),
            "with none",
            lambda: claim(new),
            rounds=ROUNDS,
            of=Bar.NO_GROWTH,
            most_times=NO_GROWTH,
        ),
        compare(
            "what is unfinished, a year before it",
            lambda: unfinished(old),
            "with none",
            lambda: unfinished(new),
            rounds=ROUNDS,
        ),
    ]


def unfinished(stores: Stores) -> History:
    return stores.state.query(lambda tx: tx.ledger.open_history())


def write_a_year(stores: Stores) -> None:
    for month in _by_month(sorted(_year(), key=lambda row: row.ts)):
        stores.ledger.append(*month)


def _year() -> Iterator[LedgerRow]:
    start = END - timedelta(days=DAYS)
    jobs = [
        Routine(JobSpec(id=f"j{n}", message="words"), Cron.parse(f"{n} {n % 24} * * *"))
        for n in range(DAILY)
    ]
    yield from Armed().rows_for([Definition.of(job, UTC) for job in jobs], start, start)
    for job in jobs:
        job_id = job.spec.id
        moments = job.rhythm.between(start + _SECOND, END + _SECOND, UTC)
        yield from (row for at in moments for row in run_rows(job_id, at))
    for day in range(1, DAYS + 1):
        at = start + timedelta(days=day)
        yield checkpoint_row(at, at, History({}))


def run_rows(job_id: str, at: datetime) -> Iterator[LedgerRow]:
    one = Occurrence.scheduled(JobKind.ROUTINE, job_id, at)
    end = {"attempts": 1, "job": "Morning briefing", "report": "x" * 200, "tools": ["Read"] * 4}
    yield claiming_row(one, at)
    yield LedgerRow(at, "running", one, {"attempt": 1, "job": "Morning briefing"})
    yield LedgerRow(at, "effect", one, {"attempt": 1, "tool": "mcp__discord__ping_user"})
    yield LedgerRow(at, "done", one, end)


def _by_month(rows: list[LedgerRow]) -> Iterator[list[LedgerRow]]:
    for month in sorted({row.ts.strftime("%Y-%m") for row in rows}):
        yield [row for row in rows if row.ts.strftime("%Y-%m") == month]
