"""What the lists of changes, runs and costs ask takes no longer after years."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from tests.storage.data_directory import NOW

from ollim_bot.domain.changes import Changer, ChangeRow
from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.receipts import counted_since
from ollim_bot.domain.taint import TaintMark
from ollim_bot.store.connection import Row, SqliteStatements, Value, connect_in_memory
from ollim_bot.store.schema import migrate
from ollim_bot.store.transaction import Transaction

ONE = Occurrence.scheduled(JobKind.ROUTINE, "plan", NOW)


class ExplainedStatements(SqliteStatements):
    """Notes the statements for which SQLite reads a whole table, also one that it need not sort."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.scanning: list[str] = []

    def _execute(self, sql: str, arguments: Sequence[Value], table: str = "") -> list[Row]:
        steps = self._connection.execute(f"EXPLAIN QUERY PLAN {sql}", arguments).fetchall()
        for *_, step in steps:
            is_whole = step.startswith("SCAN") and "USING" not in step and "LIMIT" not in sql
            if is_whole and step != "SCAN CONSTANT ROW":
                self.scanning.append(sql)
        return super()._execute(sql, arguments, table)


def ask_as_the_lists_do(tx: Transaction) -> None:
    """What the lists of changes, runs and costs ask."""
    change = ChangeRow("0a1b2c3d", NOW, "USER.md", Changer.HAND, "a", "b", undoes="99999999")
    tx.changes.put(change)
    assert tx.changes.is_undone("99999999")
    assert tx.changes.beginning("0a1") == [change]
    assert tx.changes.beginning("0a2") == []
    tx.changes.find("x")
    tx.changes.newest(20)
    assert tx.changes.likely("hand", "user", 20) == [change]
    assert tx.changes.likely("agent", "", 20, "0a1b2c3d") == []
    tx.changes.last_of("USER.md")
    tx.changes.unseen()
    tx.ledger.claim(ONE, NOW)
    tx.ledger.story(ONE)
    tx.ledger.stories_again(ONE)
    tx.ledger.stories_since(JobKind.ROUTINE, "plan", NOW - timedelta(days=30))
    tx.ledger.stories_since(JobKind.WEBHOOK, "bell", NOW - timedelta(days=30))
    tx.ledger.open_history()
    tx.ledger.rows_since(NOW - timedelta(days=7))
    tx.ledger.rows_about(counted_since(NOW.date(), NOW))
    tx.ledger.tail(1)
    tx.usage.since(NOW)
    tx.usage.of_occurrence(ONE.id)
    tx.usage.of_job(JobKind.ROUTINE, "plan", NOW)
    tx.usage.cost_since(NOW)
    tx.due_items.open()
    tx.due_items.answered_since(NOW)
    tx.marks.read(SessionId("main"), ["mail"], in_turn=True)
    tx.marks.of(SessionId("main"))
    tx.marks.in_last_day(NOW)
    tx.marks.leave(TaintMark("mail", NOW, path="notes/a.md"))
    tx.marks.of_files(["notes/a.md"])
    tx.marks.below("notes")
    tx.marks.of_tasks(["Tea"])
    tx.marks.untold()
    tx.marks.left()


def test_no_question_about_changes_runs_and_costs_reads_a_whole_table() -> None:
    with closing(connect_in_memory()) as connection:
        connection.execute("BEGIN")
        migrate(connection)
        statements = ExplainedStatements(connection, Path("ollim.db"))
        ask_as_the_lists_do(Transaction(statements, NOW))
        assert statements.scanning == []
