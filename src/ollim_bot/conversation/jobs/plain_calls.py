"""Delivers the calls of plain jobs without any model."""

from __future__ import annotations

from datetime import datetime

from ollim_bot.conversation.disk_gate import DiskGate
from ollim_bot.conversation.message_poster import MessagePoster
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.item_messages import delivery_id
from ollim_bot.domain.jobs import CalledJob
from ollim_bot.domain.lateness import is_late
from ollim_bot.domain.occurrences import LedgerRow, Occurrence, OccurrenceState, SkipReason
from ollim_bot.domain.pings import Charge
from ollim_bot.domain.run_history import PLAINLY
from ollim_bot.domain.runs import late_label, taint_of_job
from ollim_bot.domain.taint import marked_taint, untrusted_label, untrusted_message
from ollim_bot.domain.text import shortened
from ollim_bot.domain.updates import PendingUpdate
from ollim_bot.domain.webhook_data import has_words_of_sender, plain_text
from ollim_bot.domain.webhooks import AcceptedCall
from ollim_bot.store.messages import Sender
from ollim_bot.store.steps import leave_update
from ollim_bot.store.transaction import Transaction

_BUDGET_USED_UP = "the ping budget is used up"
_LONGEST_IN_UPDATE = 500


class PlainCalls:
    def __init__(self, poster: MessagePoster, gate: DiskGate) -> None:
        self._poster = poster
        self._gate = gate

    async def deliver(self, hook: CalledJob, occurrence: Occurrence) -> None:
        """Post the text of the call for one token of the ping budget, and end the occurrence.

        While it is quiet, the message waits for the digest. Without a token the text is left for
        the agent. All of it is one step, so that no crash leads to a second message.
        """
        await self._gate.commit(lambda tx: self._deliver(tx, hook, occurrence))

    def _deliver(self, tx: Transaction, hook: CalledJob, occurrence: Occurrence) -> None:
        message = _message(hook, occurrence, tx.webhook_deliveries.get(occurrence), tx.now)
        facts: dict[str, object] = {"job": hook.spec.title, "untrusted": taint_of_job(hook).mark}
        state = OccurrenceState.DONE
        if tx.budget.take(lambda budget: budget.spent_by(occurrence.id, tx.now)):
            self._poster.hold_or_add(tx, message, Sender(Charge.TOKEN))
            facts |= {**PLAINLY, "pings": [message.id]}
        else:
            unsaid = _unsaid(message, hook)
            leave_update(tx, unsaid)
            why = {"silent_because": _BUDGET_USED_UP, "report": unsaid.message}
            state, facts = (
                OccurrenceState.SKIPPED,
                facts | {"reason": SkipReason.BUDGET.value, **why},
            )
        tx.ledger.append(LedgerRow(tx.now, state.value, occurrence, facts))


def _message(
    hook: CalledJob, occurrence: Occurrence, call: AcceptedCall | None, now: datetime
) -> ChatMessage:
    body, data = hook.spec.message, call.fields if call else {}
    # Words that the owner wrote are the owner's, whoever calls.
    is_from_sender = has_words_of_sender(body, hook.fields, data)
    taint = taint_of_job(hook) if is_from_sender else marked_taint(hook.spec.untrusted)
    late = late_label(call.at, now, is_call=True) if call and is_late(call.at, now) else ""
    return ChatMessage(
        delivery_id(occurrence),
        now,
        Author.BACKGROUND,
        plain_text(body, data),
        footer=" ".join(filter(None, (late, untrusted_label(taint)))),
        # Without a description, the title would be the text itself.
        job=hook.spec.short_title if hook.spec.description else hook.spec.id,
        occurrence=occurrence.id,
        untrusted=untrusted_message(taint),
    )


def _unsaid(message: ChatMessage, hook: CalledJob) -> PendingUpdate:
    """One update for each hook: its callers decide how often this happens."""
    text = shortened(" ".join(message.text.split()), _LONGEST_IN_UPDATE)
    said = f"“{message.job}” was called and not shown, because {_BUDGET_USED_UP}. Its text: {text}"
    source = message.untrusted.source if message.untrusted else ""
    return PendingUpdate(message.at, said, f"budget {hook.spec.id}", source)
