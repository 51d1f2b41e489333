"""One transaction: the repositories that a step uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ollim_bot.kernel.store.connection import Statements, escaped, look_up, unescaped
from ollim_bot.kernel.store.file_store import parse_object, render_json
from ollim_bot.kernel.store.records import RECORDS, Records

if TYPE_CHECKING:
    from ollim_bot.kernel.store.change_rows import ChangeRows
    from ollim_bot.kernel.store.delivery_rows import Channels, Deliveries, PushButtons
    from ollim_bot.kernel.store.due_item_rows import DueItems
    from ollim_bot.kernel.store.inbox_rows import InboxInputs
    from ollim_bot.kernel.store.mark_rows import Marks
    from ollim_bot.kernel.store.message_log import MessageLog
    from ollim_bot.kernel.store.run_ledger import LedgerRows
    from ollim_bot.kernel.store.search_index import SearchIndex
    from ollim_bot.kernel.store.session_history import SessionHistory
    from ollim_bot.kernel.store.stored_texts import StoredTexts
    from ollim_bot.kernel.store.usage_rows import UsageRows
    from ollim_bot.kernel.store.webhook_deliveries import WebhookDeliveries

R = TypeVar("R")
T = TypeVar("T")


class RepositorySpec(Generic[T]):
    """A repository, whose class `place` names as in `look_up`; each transaction makes its own.

    It is made with the statements, and with the attributes of the transaction that it `needs`.
    """

    def __init__(self, place: str, *needs: str) -> None:
        self.place = place
        self._needs = needs

    def __set_name__(self, owner: type[Transaction], name: str) -> None:
        self._name = name

    def __get__(self, tx: Transaction, owner: type[Transaction]) -> T:
        needed = (getattr(tx, name) for name in self._needs)
        made: T = look_up(self.place)(tx.statements, *needed)
        tx.__dict__[self._name] = made
        return made


class Transaction(Records):
    """Everything that a step can read and change, all or nothing.

    A step is repeatable: it takes time, ids and chance as arguments, and changes only the
    transaction. `now` is the moment at which the transaction began.
    """

    session_history: RepositorySpec[SessionHistory] = RepositorySpec(
        "kernel.store.session_history:SessionHistory"
    )
    ledger: RepositorySpec[LedgerRows] = RepositorySpec("kernel.store.run_ledger:LedgerRows")
    inbox: RepositorySpec[InboxInputs] = RepositorySpec("kernel.store.inbox_rows:InboxInputs")
    messages: RepositorySpec[MessageLog] = RepositorySpec(
        "kernel.store.message_log:MessageLog", "index", "now"
    )
    deliveries: RepositorySpec[Deliveries] = RepositorySpec(
        "kernel.store.delivery_rows:Deliveries", "messages", "budget"
    )
    channels: RepositorySpec[Channels] = RepositorySpec(
        "kernel.store.delivery_rows:Channels", "messages"
    )
    job_ops: RepositorySpec[JobOps] = RepositorySpec("kernel.store.transaction:JobOps")
    due_items: RepositorySpec[DueItems] = RepositorySpec(
        "kernel.store.due_item_rows:DueItems", "log"
    )
    webhook_deliveries: RepositorySpec[WebhookDeliveries] = RepositorySpec(
        "kernel.store.webhook_deliveries:WebhookDeliveries", "ledger"
    )
    changes: RepositorySpec[ChangeRows] = RepositorySpec("kernel.store.change_rows:ChangeRows")
    usage: RepositorySpec[UsageRows] = RepositorySpec("kernel.store.usage_rows:UsageRows")
    push_buttons: RepositorySpec[PushButtons] = RepositorySpec(
        "kernel.store.delivery_rows:PushButtons"
    )
    marks: RepositorySpec[Marks] = RepositorySpec("kernel.store.mark_rows:Marks", "now")
    meta: RepositorySpec[Meta] = RepositorySpec("kernel.store.transaction:Meta")
    texts: RepositorySpec[StoredTexts] = RepositorySpec("kernel.store.stored_texts:StoredTexts")

    def __init__(
        self, statements: Statements, now: datetime, index: type[SearchIndex] | None = None
    ) -> None:
        super().__init__(statements, now)
        self.index = index

    @property
    def statements(self) -> Statements:
        """For rows that no repository offers."""
        return self._statements

    @property
    def log(self) -> Callable[[], MessageLog]:
        """The messages, for a repository that seldom needs them."""
        return lambda: self.messages

    @property
    def changed(self) -> frozenset[str]:
        """The names of what the step has changed so far."""
        return self._statements.touched


# Everything that a commit can change, by the names that subscribers get.
NAMES = frozenset(
    (
        *(spec.name for spec in RECORDS),
        *(name for name, each in vars(Transaction).items() if isinstance(each, RepositorySpec)),
        "transcripts",
    )
)
Step = Callable[[Transaction], R]


class JobOp(NamedTuple):
    """A change of a job file that belongs to a commit; `what` describes only the change."""

    id: str
    what: Mapping[str, object]


class JobOps:
    """Changes of job files that are committed with rows and applied after the commit."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def add(self, op: JobOp) -> None:
        """Add the change, unless its id was ever added."""
        self._statements.write(
            "job_ops",
            "INSERT INTO job_ops (seq, id, value, is_done)"
            " VALUES ((SELECT coalesce(max(seq), 0) + 1 FROM job_ops), ?, ?, 0)"
            " ON CONFLICT (id) DO NOTHING",
            escaped(op.id),
            render_json(dict(op.what)).decode(),
        )

    def pending(self) -> list[JobOp]:
        """The changes still to be applied, in the order in which they were added."""
        rows = self._statements.rows("SELECT id, value FROM job_ops WHERE is_done = 0 ORDER BY seq")
        return [JobOp(unescaped(row[0]), parse_object(row[1].encode())) for row in rows]

    def find(self, op_id: str) -> tuple[JobOp, bool] | None:
        """The change, and whether it is applied or given up; None if it was never added."""
        found = self._statements.row(
            "SELECT value, is_done FROM job_ops WHERE id = ?", escaped(op_id)
        )
        return (
            None
            if found is None
            else (JobOp(op_id, parse_object(found[0].encode())), bool(found[1]))
        )

    def describe(self, op: JobOp) -> None:
        """Replace what is known of the change."""
        self._statements.write(
            "job_ops",
            "UPDATE job_ops SET value = ? WHERE id = ?",
            render_json(dict(op.what)).decode(),
            escaped(op.id),
        )

    def done(self, op_id: str) -> None:
        self._statements.write(
            "job_ops", "UPDATE job_ops SET is_done = 1 WHERE id = ?", escaped(op_id)
        )


class Meta:
    """Facts of the store about the database itself."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def get(self, name: str) -> str | None:
        found = self._statements.row("SELECT value FROM meta WHERE name = ?", name)
        return None if found is None else str(found[0])

    def put(self, name: str, value: str) -> None:
        self._statements.write(
            "meta",
            "INSERT INTO meta (name, value) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            name,
            value,
        )

    def remove(self, name: str) -> None:
        self._statements.write("meta", "DELETE FROM meta WHERE name = ?", name)
