"""Due items: what was due and stays open until the owner answers it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from ollim_bot.domain.cards import Card
from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.jobs import ItemKind, JobKind, Nag, Reminder, Routine, short_title
from ollim_bot.domain.moments import elapsed
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.snoozing import nag_in, note_fields, note_of, reminder_from, root_in

# The row of an answer, which follows the end row of the occurrence; the newest one counts.
ANSWERED = "answered"

# How long an answer can be undone. The reminder that a snooze made must not be due before.
_UNDO_FOR = timedelta(minutes=10)
_MARGIN = timedelta(seconds=5)
_MOST_EARLIER = 5
# The card of an item that no message has shown.
NO_CARD = MessageId("")
# Marks, towards the agent, the item whose card is the newest thing said.
JUST_SHOWN = "just shown"


class Answer(StrEnum):
    DONE = "done"
    TAKEN = "taken"
    NOT_TAKEN = "not_taken"
    SNOOZED = "snoozed"
    MOVED = "moved"
    LET_GO = "let_go"
    UNDONE = "undone"


def item_key(occurrence: str) -> str:
    """The short name of an item in the buttons of its cards; all parts of a moment have it."""
    return hashlib.sha256(occurrence.partition("#")[0].encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class DueItem:
    """What was due at one occurrence of a job; `title` has no untrusted text.

    `note` is the job as a text, from which a snooze makes a reminder. `card` is the newest message
    that shows the item. `shown` counts those messages; `again_at` is when the next one is due, if
    the item is open then. A dose that is taken after `late_after` is nearer to the next one.
    `is_followed_up` says that a later check of its chain, or a later moment of its job, asks in its
    place. `earlier` are the newest of those moments that were not answered, and `earlier_count` is
    their whole number.

    `waiting` is the message that shows it when the quiet ends; without any message yet, `card` is
    the same, and afterwards empty if it was answered before it came. `same_as` is the key of the
    item that is meant, where a run by hand came while that was there: it has no life of its own.

    `answered_by` is a surface, or `agent`. `until` is the moment that a snooze or a move chose, and
    `copy` the id of the reminder that it made. `asked` and `footer` are what the message showed
    before the answer; an Undo, until `undo_until`, shows them again.
    """

    occurrence: str
    title: str
    due: datetime
    note: str
    card: MessageId
    is_dose: bool = False
    shown: int = 1
    again_at: datetime | None = None
    late_after: datetime | None = None
    is_followed_up: bool = False
    waiting: MessageId | None = None
    same_as: str = ""
    answer: Answer | None = None
    answered_at: datetime | None = None
    answered_by: str = ""
    until: datetime | None = None
    copy: str = ""
    asked: Card | None = None
    footer: str = ""
    undo_until: datetime | None = None
    earlier: tuple[datetime, ...] = ()
    earlier_count: int = 0

    @classmethod
    def of(
        cls, job: Reminder | Routine, occurrence: Occurrence, card: MessageId, now: datetime
    ) -> DueItem:
        nag, is_dose = job.spec.nag, job.spec.kind is ItemKind.DOSE
        due = (occurrence.scheduled_at or now).astimezone(now.tzinfo)
        return cls(
            occurrence.id,
            job.spec.title,
            due,
            note_of(job),
            card,
            is_dose,
            # By the hour of UTC: Python adds to the wall clock of a zone.
            again_at=None if nag is None else now.astimezone(UTC) + nag.pause,
            late_after=_nearer_to_next(job, due) if is_dose else None,
        )

    @classmethod
    def of_missed(cls, job: Reminder | Routine, occurrence: Occurrence, now: datetime) -> DueItem:
        """The item of a moment that passed while the bot was away, and comes on no card."""
        return replace(cls.of(job, occurrence, NO_CARD, now), shown=0, again_at=None)

    @property
    def key(self) -> str:
        return item_key(self.occurrence)

    @property
    def short_title(self) -> str:
        """The title as part of a line."""
        return short_title(self.title)

    @property
    def owner_title(self) -> str:
        """The title on the owner's own cards; untrusted text is marked."""
        return self.as_reminder.spec.owner_title if self.untrusted else self.short_title

    @property
    def untrusted(self) -> str:
        """What the run that set the job had read; empty if that was nothing untrusted."""
        return str(note_fields(self.note)["spec"].get("untrusted") or "")

    @property
    def is_open(self) -> bool:
        return self.answer is None and not self.is_followed_up and not self.same_as

    @property
    def is_put_off(self) -> bool:
        """Whether its answer was another moment, at which a reminder comes."""
        return self.answer in (Answer.SNOOZED, Answer.MOVED)

    def is_still_put_off(self, now: datetime) -> bool:
        """Whether that reminder has not come yet; since then it stands for itself."""
        return self.is_put_off and self.until is not None and self.until > now

    @property
    def as_reminder(self) -> Reminder:
        """The job as a reminder for this moment."""
        return reminder_from(self.note, Occurrence.parse(self.occurrence).job_id, self.due)

    @property
    def nag(self) -> Nag | None:
        return nag_in(self.note)

    @property
    def is_of_routine(self) -> bool:
        return Occurrence.parse(self.occurrence).kind is JobKind.ROUTINE

    def is_of_same_job(self, other: DueItem) -> bool:
        """Whether both are moments of one routine, or checks of one chain."""
        one, two = Occurrence.parse(self.occurrence), Occurrence.parse(other.occurrence)
        if JobKind.ROUTINE in (one.kind, two.kind):
            return (one.kind, one.job_id) == (two.kind, two.job_id)
        return root_in(self.note) == root_in(other.note)

    def is_after(self, other: DueItem) -> bool:
        """Whether it is a later moment of the same job."""
        return self.is_of_same_job(other) and self.due > other.due

    def in_place_of(self, older: DueItem) -> DueItem:
        """The item that asks from now on, where an older moment was not answered."""
        moments = sorted({*self.earlier, *older.earlier, older.due}, reverse=True)
        count = self.earlier_count + older.earlier_count + 1
        return replace(self, earlier=tuple(moments[:_MOST_EARLIER]), earlier_count=count)

    @property
    def is_by_hand(self) -> bool:
        return Occurrence.parse(self.occurrence).manual

    def is_of(self, kind: JobKind, job_id: str) -> bool:
        occurrence = Occurrence.parse(self.occurrence)
        return (occurrence.kind, occurrence.job_id) == (kind, job_id)

    def is_same_dose(self, now: datetime) -> bool:
        """Whether its dose is the last that was due; a single one always is."""
        if not self.is_dose or self.late_after is None:
            return self.is_dose
        following = self.late_after.astimezone(UTC) + elapsed(self.due, self.late_after)
        return now.astimezone(UTC) < following

    def answered(
        self,
        answer: Answer,
        now: datetime,
        by: str,
        until: datetime | None = None,
        copy: str = "",
    ) -> DueItem:
        undo_until = now.astimezone(UTC) + _UNDO_FOR
        if until is not None:
            undo_until = min(undo_until, until.astimezone(UTC) - _MARGIN)
        return replace(
            self,
            answer=answer,
            answered_at=now,
            answered_by=by,
            until=until,
            copy=copy,
            undo_until=undo_until if undo_until > now else None,
        )

    def reopened(self) -> DueItem:
        """The item without its answer, as the Undo leaves it."""
        return replace(
            self,
            answer=None,
            answered_at=None,
            answered_by="",
            until=None,
            copy="",
            asked=None,
            footer="",
            undo_until=None,
            again_at=None,
        )

    def can_undo(self, now: datetime) -> bool:
        return self.undo_until is not None and now.astimezone(UTC) < self.undo_until

    def row(self, answer: Answer, now: datetime, by: str) -> LedgerRow:
        """The row of an answer in the ledger; it names the reminder that a snooze made."""
        after = elapsed(self.due, now).total_seconds()
        facts: Mapping[str, object] = {"answer": answer.value, "after_s": round(after), "by": by}
        if self.copy and answer is not Answer.UNDONE:
            facts = {**facts, "reminder": self.copy}
        return LedgerRow(now, ANSWERED, Occurrence.parse(self.occurrence), facts)


def _nearer_to_next(job: Reminder | Routine, due: datetime) -> datetime | None:
    """The moment in the middle between this dose and the next; None for a single one."""
    if not isinstance(job, Routine) or due.tzinfo is None:
        return None
    following = job.next_after(due, due.tzinfo)
    return following and due.astimezone(UTC) + elapsed(due, following) / 2
