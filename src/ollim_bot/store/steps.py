"""Steps that several parts of the program use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date, datetime
from uuid import uuid4

from ollim_bot.domain.cards import ButtonPrompt
from ollim_bot.domain.initiative import Setter
from ollim_bot.domain.notices import Notice
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.updates import PendingUpdate
from ollim_bot.store.transaction import Transaction


def leave_update(tx: Transaction, update: PendingUpdate) -> None:
    """Leave an update for the main session.

    Updates beyond the cap stay readable in the ledger. An id that is already pending is not left a
    second time.
    """
    pending = tx.updates.get()
    if any(entry.id == update.id for entry in pending.entries):
        return
    after, dropped = pending.appended(update)
    tx.updates.put(after)
    tx.ledger.append(
        *(LedgerRow(update.ts, "update_dropped", facts={"message": old.message}) for old in dropped)
    )


def new_notice(sentence: str, *, key: str | None = None) -> Notice:
    """`key` identifies what must not be told again; by default it is the sentence."""
    return Notice(uuid4().hex, key or sentence, " ".join(sentence.split()))


def leave_notice(tx: Transaction, notice: Notice, now: datetime, *, for_agent: bool = True) -> None:
    """Tell the owner, once for each key; with `for_agent`, tell the main session too."""
    record = tx.notices.get()
    if record.knows(notice.key):
        return
    tx.notices.put(record.with_new(notice))
    if for_agent:
        leave_update(tx, PendingUpdate(now, notice.text, notice.id))


def new_prompt(text: str, now: datetime, untrusted: tuple[str, ...] = ()) -> ButtonPrompt:
    """`untrusted` are the sources of untrusted text read by the turn that makes the button."""
    return ButtonPrompt(os.urandom(4).hex(), text, now.timestamp(), untrusted)


def store_prompts(tx: Transaction, prompts: Sequence[ButtonPrompt]) -> None:
    """Keep the prompts behind the buttons of a message that is added in the same step."""
    for prompt in prompts:
        tx.inquiries.change(lambda known, prompt=prompt: known.stored(prompt))  # type: ignore[misc]


def change_provider(tx: Transaction, kind: str) -> None:
    """Make `kind` the current provider, and return to the session that it had last."""
    memory, session = tx.provider.get().moved_to(kind, tx.session.get())
    tx.provider.put(memory)
    tx.session.put(session)


def count_set(tx: Transaction, setter: Setter, today: date) -> str:
    """Count one more job set by a background run; returns a reason if it is refused.

    `today` is the owner's date. The count holds across processes and restarts.
    """
    after, refusal = tx.initiative.get().one_more(setter.run, today)
    tx.initiative.put(after)
    return refusal
