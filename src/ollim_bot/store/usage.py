"""The usage rows: what each use of a model cost."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any

from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.provider import Price
from ollim_bot.domain.usage import UsageKind, UsageRow, micros
from ollim_bot.store.connection import Row, Statements, escaped, microseconds, moment_of, unescaped

_COLUMNS = "at, kind, turn, occurrence, model, price, micros, tokens"


class UsageRows:
    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def add(self, *rows: UsageRow) -> None:
        for row in rows:
            self._statements.write(
                "usage",
                f"INSERT INTO usage (seq, {_COLUMNS})"
                " VALUES ((SELECT coalesce(max(seq), 0) + 1 FROM usage), ?, ?, ?, ?, ?, ?, ?, ?)",
                microseconds(row.at),
                row.kind.value,
                escaped(row.turn) or None,
                escaped(row.occurrence) or None,
                escaped(row.model),
                row.price.value,
                row.micros,
                row.tokens,
            )

    def since(self, moment: datetime) -> list[UsageRow]:
        """The rows not older than `moment`, in the order in which they were added."""
        rows = self._statements.rows(
            f"SELECT {_COLUMNS} FROM usage WHERE at >= ? ORDER BY seq + 0", microseconds(moment)
        )
        return [*map(_row, rows)]

    def of_occurrence(self, occurrence: str) -> list[UsageRow]:
        rows = self._statements.rows(
            f"SELECT {_COLUMNS} FROM usage WHERE occurrence = ? ORDER BY seq", escaped(occurrence)
        )
        return [*map(_row, rows)]

    def of_job(self, kind: JobKind, job_id: str, since: datetime) -> list[UsageRow]:
        """The rows of a job's runs not older than `since`, in the order of adding."""
        start = escaped(f"{kind}:{job_id}:")
        rows = self._statements.rows(
            f"SELECT {_COLUMNS} FROM usage WHERE occurrence >= ? AND occurrence < ? AND at >= ?"
            " ORDER BY seq + 0",
            start,
            f"{start[:-1]};",
            microseconds(since),
        )
        return [*map(_row, rows)]

    def newest_place(self) -> int:
        """The place of the newest row; another one after each use of a model."""
        return self._statements.number("SELECT coalesce(max(seq), 0) FROM usage")

    def cost_since(self, moment: datetime) -> int:
        """The millionths of a dollar at listed prices."""
        return self._statements.number(
            "SELECT coalesce(sum(micros), 0) FROM usage WHERE at >= ?", microseconds(moment)
        )

    def reached_at(self, since: datetime, amount: int) -> datetime | None:
        """When the cost since then reached so many millionths of a dollar; None if it did not."""
        total = 0
        for row in sorted(self.since(since), key=lambda row: row.at):
            total += row.micros
            if row.micros and total >= amount:
                return row.at
        return None

    def page(self, after: int, limit: int) -> tuple[list[UsageRow], int]:
        """The rows after the place `after`, oldest first, and the place of the last one."""
        rows = self._statements.rows(
            f"SELECT {_COLUMNS}, seq FROM usage WHERE seq > ? ORDER BY seq LIMIT ?", after, limit
        )
        return [*map(_row, rows)], int(rows[-1][-1]) if rows else after

    def take_over(self) -> None:
        """Make rows of the costs that answers and runs of an older version have."""
        costs = "value LIKE '%\"cost_usd\"%'"
        said = self._statements.rows(f"SELECT at, turn, value FROM messages WHERE {costs}")
        ran = self._statements.rows(
            f"SELECT at, occurrence, value FROM ledger WHERE occurrence IS NOT NULL AND {costs}"
        )
        found = [*_of_answers(said), *_of_runs(ran)]
        self.add(*sorted(found, key=lambda row: row.at))


def _row(row: Row) -> UsageRow:
    at, kind, turn, occurrence, model, price, cost, tokens = row[:8]
    return UsageRow(
        moment_of(at),
        UsageKind(kind),
        unescaped(model),
        Price(price),
        int(cost),
        int(tokens),
        unescaped(turn or ""),
        unescaped(occurrence or ""),
    )


def _of_answers(rows: Collection[Row]) -> Iterator[UsageRow]:
    for at, turn, value in rows:
        stored = _object(value)
        spent = stored.get("spent")
        cost = _cost(spent)
        if cost and isinstance(spent, dict):
            kind = UsageKind.FORK if stored.get("in_fork") else UsageKind.TURN
            tokens = spent.get("context")
            named = unescaped(turn or "")
            counted = tokens if isinstance(tokens, int) else 0
            yield UsageRow(moment_of(at), kind, "", Price.LISTED, cost, counted, named)


def _of_runs(rows: Collection[Row]) -> Iterator[UsageRow]:
    for at, occurrence, value in rows:
        stored = _object(value)
        cost = _cost(stored)
        # The cost of a job that was done in the conversation is that of its answer.
        if cost and not stored.get("cost_in_answer"):
            tokens, named = stored.get("tokens"), unescaped(occurrence)
            counted = tokens if isinstance(tokens, int) else 0
            yield UsageRow(
                moment_of(at), UsageKind.RUN, "", Price.LISTED, cost, counted, occurrence=named
            )


def _object(value: str) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _cost(stored: object) -> int:
    cost = stored.get("cost_usd") if isinstance(stored, dict) else None
    return micros(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else 0
