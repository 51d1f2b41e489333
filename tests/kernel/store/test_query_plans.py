"""What a usual day and the lists of changes, runs and costs ask takes no longer after years."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from tests.kernel.store.files.data_directory import NOW

from ollim_bot.kernel.base.ids import MessageId, SessionId, TurnId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.store.connection import Row, SqliteStatements, Value, connect_in_memory
from ollim_bot.kernel.store.schema import migrate
from ollim_bot.kernel.store.transaction import JobOp, Transaction
from ollim_bot.kernel.values.changes import Changer, ChangeRow
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.inbox import Accepted, Ended, InputEnd, InputId, OwnerMessage, Taken
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.receipts import counted_since
from ollim_bot.kernel.values.taint import TaintMark

ONE = Occurrence.scheduled(JobKind.ROUTINE, "plan", NOW)
# What has no more rows after years.
SMALL = ("CONSTANT ROW", "channels", "inbox_turn", "search_state")
MESSAGE, INPUT = MessageId("m"), InputId("i")


class ExplainedStatements(SqliteStatements):
    """Notes the statements for which SQLite reads a whole table, also one that it need not sort."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.scanning: list[str] = []

    def _execute(self, sql: str, arguments: Sequence[Value], table: str = "") -> list[Row]:
        steps = self._connection.execute(f"EXPLAIN QUERY PLAN {sql}", arguments).fetchall()
        for *_, step in steps:
            is_whole = step.startswith("SCAN") and "USING" not in step and "LIMIT" not in sql
            if is_whole and step.removeprefix("SCAN ") not in SMALL:
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


def day(tx: Transaction) -> None:
    """Every operation of a usual day, except those that return whole tables."""
    tx.channels.join("discord", "account")
    message = ChatMessage(MESSAGE, NOW, Author.ASSISTANT, "hello", turn=TurnId("t"))
    tx.ledger.claim(ONE, NOW)
    tx.ledger.append(LedgerRow(NOW, "running", ONE))
    tx.ledger.checkpoint(NOW, NOW)
    tx.ledger.armed()
    tx.ledger.story(ONE)
    tx.ledger.rows_since(NOW - timedelta(days=1))
    tx.ledger.tail(10)
    tx.inbox.append(Accepted(NOW, OwnerMessage(INPUT, "web", NOW, "hello")))
    tx.inbox.append(Taken(NOW, TurnId("t"), (INPUT,)), Ended(NOW, (INPUT,), InputEnd.ANSWERED))
    tx.inbox.end_of(INPUT)
    tx.messages.add(message)
    tx.messages.page(10, MESSAGE)
    tx.messages.since_change(0, 10)
    tx.messages.since(NOW)
    tx.messages.of_turn(TurnId("t"))
    tx.messages.of_occurrence(ONE.id)
    tx.messages.newest_of_session(SessionId("s"), 5)
    tx.deliveries.next_open("discord")
    tx.deliveries.next_to_send("discord")
    tx.deliveries.note_try("discord", MESSAGE, [message], NOW)
    tx.deliveries.confirm_part("discord", MESSAGE, "1")
    tx.deliveries.next_edit("discord")
    tx.deliveries.note_shown("discord", MESSAGE, 1)
    tx.deliveries.refuse("discord", MESSAGE, "no", NOW)
    tx.deliveries.by_ref("discord", "1")
    tx.deliveries.refs(MESSAGE)
    tx.deliveries.known_refs("discord", 500)
    tx.job_ops.add(JobOp("1", {}))
    tx.job_ops.pending()
    tx.job_ops.done("1")


@pytest.mark.parametrize("step", [ask_as_the_lists_do, day])
def test_no_statement_reads_a_table_from_end_to_end(step: Callable[[Transaction], None]) -> None:
    with closing(connect_in_memory()) as connection:
        connection.execute("BEGIN")
        migrate(connection)
        statements = ExplainedStatements(connection, Path("ollim.db"))
        step(Transaction(statements, NOW))
        assert statements.scanning == []
