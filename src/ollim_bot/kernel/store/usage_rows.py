"""The usage rows: what each use of a model cost."""

from __future__ import annotations

from datetime import datetime

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.store.connection import (
    Row,
    Statements,
    Value,
    escaped,
    microseconds,
    moment_of,
    unescaped,
)
from ollim_bot.kernel.values.usage import Price, UsageKind, UsageRow

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
        return self._found("WHERE at >= ? ORDER BY seq + 0", microseconds(moment))

    def of_occurrence(self, occurrence: str) -> list[UsageRow]:
        return self._found("WHERE occurrence = ? ORDER BY seq", escaped(occurrence))

    def of_job(self, kind: JobKind, job_id: str, since: datetime) -> list[UsageRow]:
        """The rows of a job's runs not older than `since`, in the order of adding."""
        start = escaped(f"{kind}:{job_id}:")
        return self._found(
            "WHERE occurrence >= ? AND occurrence < ? AND at >= ? ORDER BY seq + 0",
            *(start, f"{start[:-1]};", microseconds(since)),
        )

    def _found(self, condition: str, *arguments: Value) -> list[UsageRow]:
        rows = self._statements.rows(f"SELECT {_COLUMNS} FROM usage {condition}", *arguments)
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
