"""Due items: what was due and stays open until the owner answers it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.jobs import ItemKind, Reminder, Routine
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.snoozing import note_of

# The row of an answer, which follows the end row of the occurrence; the newest one counts.
ANSWERED = "answered"


class Answer(StrEnum):
    DONE = "done"
    TAKEN = "taken"
    NOT_TAKEN = "not_taken"
    SNOOZED = "snoozed"
    MOVED = "moved"
    LET_GO = "let_go"
    UNDONE = "undone"


def item_key(occurrence: str) -> str:
    """The short name of an item in the buttons of its cards."""
    return hashlib.sha256(occurrence.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class DueItem:
    """What was due at one occurrence of a job.

    `note` is the job as a text, from which a snooze makes a reminder. `card` is the newest message
    that shows the item. `shown` counts those messages; `again_at` is when the next one is due.
    `answered_by` is a surface, or `agent`. `until` is the moment that a snooze or a move chose.
    """

    occurrence: str
    title: str
    due: datetime
    note: str
    card: MessageId
    is_dose: bool = False
    shown: int = 1
    again_at: datetime | None = None
    answer: Answer | None = None
    answered_at: datetime | None = None
    answered_by: str = ""
    until: datetime | None = None

    @classmethod
    def of(
        cls, job: Reminder | Routine, occurrence: Occurrence, card: MessageId, now: datetime
    ) -> DueItem:
        nag = job.spec.nag
        return cls(
            occurrence.id,
            job.spec.title,
            (occurrence.scheduled_at or now).astimezone(now.tzinfo),
            note_of(job),
            card,
            job.spec.kind is ItemKind.DOSE,
            # By the hour of UTC: Python adds to the wall clock of a zone.
            again_at=None if nag is None else now.astimezone(UTC) + nag.pause,
        )

    @property
    def key(self) -> str:
        return item_key(self.occurrence)

    @property
    def is_open(self) -> bool:
        return self.answer is None

    def answered(
        self, answer: Answer, now: datetime, by: str, until: datetime | None = None
    ) -> DueItem:
        return replace(
            self, answer=answer, answered_at=now, answered_by=by, until=until, again_at=None
        )

    def row(self, answer: Answer, now: datetime, by: str) -> LedgerRow:
        """The row of an answer in the ledger."""
        after = (now.astimezone(UTC) - self.due.astimezone(UTC)).total_seconds()
        facts: Mapping[str, object] = {"answer": answer.value, "after_s": round(after), "by": by}
        return LedgerRow(now, ANSWERED, Occurrence.parse(self.occurrence), facts)
