"""Every store that the program has, as seams: one bundle, whatever is behind them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from ollim_bot.domain.cards import ButtonPrompt, ButtonPrompts
from ollim_bot.domain.definitions import Armed
from ollim_bot.domain.forks import Fork
from ollim_bot.domain.inbox import InboxRow
from ollim_bot.domain.initiative import Setter
from ollim_bot.domain.jobs import Reminder, Routine, WebhookSpec
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.run_history import History, checkpoint_row, reach_back
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.domain.sessions import SessionEvent, SessionId
from ollim_bot.domain.updates import PendingUpdate, PendingUpdates
from ollim_bot.ports import Log, Shelf, StateStore, Store

# How many rows of the ledger a start reads at first; if they do not say enough, four times more.
_NEWEST = 512


class Claims(Protocol):
    """The right to begin an occurrence, which is given once among all threads and processes."""

    def claim(
        self, occurrence: Occurrence, now: datetime, facts: Mapping[str, object] | None = None
    ) -> bool:
        """Append `due` if the ledger has no row of the occurrence yet; True if it had none.

        `now` must be the moment at which it was found to be due: what is claimed before its time
        raises `ValueError`.
        """

    def claim_all(self, rows: Sequence[LedgerRow]) -> Set[Occurrence]:
        """The same for many at once, in one write, each with all of its rows that are given.

        Returns the occurrences of which there was no row.
        """


@dataclass(frozen=True, slots=True)
class Stores:
    session: Store[SessionId | None]
    session_history: Log[SessionEvent]
    updates: Store[PendingUpdates]
    fork: Store[Fork | None]
    inquiries: Store[ButtonPrompts]
    config: Store[RuntimeConfig]
    memory: Store[Mapping[str, object]]
    ledger: Log[LedgerRow]
    claims: Claims
    inbox: Log[InboxRow]
    routines: Shelf[Routine]
    reminders: Shelf[Reminder]
    webhooks: Shelf[WebhookSpec]
    # The database that the records above are views on; None for stores in files alone.
    store: StateStore | None = None

    def leave_update(self, message: str, now: datetime, update_id: str | None = None) -> None:
        """As the step of that name, for callers that do not take steps yet."""
        update = PendingUpdate(now, message, update_id or os.urandom(4).hex())

        def step(tx: Any) -> None:
            pending: PendingUpdates = tx.updates.get()
            if all(entry.id != update.id for entry in pending.entries):
                after, dropped = pending.appended(update)
                tx.updates.put(after)
                facts = ({"message": old.message} for old in dropped)
                tx.ledger.append(*(LedgerRow(now, "update_dropped", facts=each) for each in facts))

        self.state.run(step)

    @property
    def state(self) -> StateStore:
        """The database; for stores that have one."""
        assert self.store is not None
        return self.store

    def count_set(self, setter: Setter, now: datetime) -> str:
        """As the step of that name, for callers that do not take steps yet."""

        def step(tx: Any) -> str:
            after, refusal = tx.initiative.get().one_more(setter.run, now.date())
            tx.initiative.put(after)
            return str(refusal)

        return self.state.run(step)

    def store_inquiry(self, prompt: str, now: datetime, untrusted: tuple[str, ...] = ()) -> str:
        """Keep the prompt behind a button that is to be shown; gives the key that it carries."""
        inquiry = ButtonPrompt(os.urandom(4).hex(), prompt, now.timestamp(), untrusted)
        self.inquiries.transact(lambda known: (known.stored(inquiry), None))
        return inquiry.key

    def forget_inquiries(self, keys: Set[str]) -> None:
        """Those of buttons that were not shown after all."""
        if keys:
            self.inquiries.transact(lambda known: (known.without(keys), None))

    def recent_history(self) -> History:
        """At least all occurrences without an end; the cost does not grow with the history."""
        return History.of(self._newest_rows(reach_back))

    def keep_checkpoint(self, now: datetime, watched_until: datetime) -> None:
        """Note in the ledger what has no end yet, for the next start and for the ledger's check."""
        self.ledger.append(checkpoint_row(now, watched_until, self.recent_history()))

    def armed_jobs(self) -> Armed:
        """The jobs that are armed, read back to the last row that lists them all (`roster`)."""
        rows = self._newest_rows(lambda rows: Armed().followed_by(rows).rostered is not None)
        return Armed().followed_by(rows)

    def _newest_rows(
        self, are_enough: Callable[[Sequence[LedgerRow]], bool]
    ) -> Sequence[LedgerRow]:
        limit = _NEWEST
        while True:
            rows = self.ledger.tail(limit).entries
            if len(rows) < limit or are_enough(rows):
                return rows
            limit *= 4
