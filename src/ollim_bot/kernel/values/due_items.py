"""Due items: what asks for an answer, its cards, its words, and what an answer does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind, OccurrenceKind
from ollim_bot.kernel.base.moments import (
    Nag,
    clock_time,
    describe,
    duration_in_words,
    elapsed,
    instant,
    late_label,
    later,
    short_clock,
)
from ollim_bot.kernel.base.text import comma_parts
from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card, Color
from ollim_bot.kernel.values.jobs import (
    Chain,
    ItemKind,
    JobSpec,
    Late,
    Model,
    Reminder,
    ReportMode,
    Routine,
    short_title,
)
from ollim_bot.kernel.values.occurrences import ANSWERED, Answer, LedgerRow, Occurrence

_MORNING, _EVENING = 9, 20
# A snooze is counted in whole minutes.
_MINUTE = timedelta(minutes=1)


def snoozed_until(wait: str, now: datetime) -> datetime:
    """The moment that a button means: `10m`, `1h`, `today` for later today, or `9am` for tomorrow.

    Days and hours are by the clocks of `now`.
    """
    match wait:
        case "10m":
            return later(now, timedelta(minutes=10), _MINUTE)
        case "1h":
            return later(now, timedelta(hours=1), _MINUTE)
        case "today":
            # In three hours, or earlier in the evening, but at least an hour from now.
            soonest, latest = (later(now, timedelta(hours=each), _MINUTE) for each in (1, 3))
            return max(soonest, min(latest, _at(now.date(), _EVENING, now)))
        case _:
            return _at(now.date() + timedelta(days=1), _MORNING, now)


def _at(day: date, hour: int, now: datetime) -> datetime:
    wall = datetime(day.year, day.month, day.day, hour)
    return instant(wall, now.tzinfo) if now.tzinfo else wall


def note_of(job: Reminder | Routine) -> str:
    """The job without its moment, as a text from which a snooze makes a reminder.

    A routine's moment is snoozed as a plain reminder: the agent has done its part.
    """
    spec = job.spec
    if not isinstance(job, Reminder):
        spec = replace(spec, plain=True, background=True, must=job.must)
    known = asdict(spec) | {
        "timezone": str(spec.timezone or ""),
        "nag": str(spec.nag or ""),
        "before": [each.total_seconds() for each in spec.before],
    }
    return json.dumps({"spec": known, "chain": job.chain._asdict()})


@lru_cache(maxsize=256)
def note_fields(note: str) -> dict[str, dict[str, Any]]:
    """The fields of the note; those of open items are asked for again and again."""
    fields: dict[str, dict[str, Any]] = json.loads(note)
    return fields


@lru_cache(maxsize=256)
def nag_in(note: str) -> Nag | None:
    """How often the job comes again until it is answered."""
    written = note_fields(note)["spec"].get("nag")
    return Nag.parse(written) if written else None


def root_in(note: str) -> str:
    """The id that all checks of the chain share."""
    known = note_fields(note)
    return str(known["chain"]["parent"] or known["spec"]["id"])


def first_step_in(note: str) -> str:
    """The smallest step towards it; empty if the job names none."""
    return str(note_fields(note)["spec"].get("first_step", ""))


def with_first_step(item: DueItem, step: str, untrusted: str = "") -> DueItem:
    """The item with another first step, whose words may have a mark."""
    fields = json.loads(item.note)
    spec = fields["spec"]
    sources = comma_parts(f"{spec.get('untrusted') or ''},{untrusted}")
    mark = ", ".join(dict.fromkeys(sources))
    fields["spec"] = {**spec, "first_step": step, **({"untrusted": mark} if mark else {})}
    return replace(item, note=json.dumps(fields))


def reminder_from(note: str, new_id: str, run_at: datetime) -> Reminder:
    """The reminder of the note, with the rest of its chain, at another moment."""
    spec, chain = note_fields(note)["spec"], note_fields(note)["chain"]
    zone = spec["timezone"]
    made = JobSpec(
        **spec
        | {
            "id": new_id,
            "model": Model(spec["model"]) if spec["model"] else None,
            "update_main_session": ReportMode(spec["update_main_session"]),
            "late": Late(spec["late"]) if spec["late"] else None,
            "allowed_tools": tuple(spec["allowed_tools"]),
            "skills": tuple(spec["skills"]),
            "kind": ItemKind(spec["kind"]) if spec.get("kind") else None,
            "nag": nag_in(note),
            "before": tuple(timedelta(seconds=each) for each in spec.get("before", ())),
            "timezone": ZoneInfo(zone) if zone else None,
        }
    )
    return Reminder(made, run_at, Chain(**chain))


# How long an answer can be undone. The reminder that a snooze made must not be due before.
_UNDO_FOR = timedelta(minutes=10)
_MARGIN = timedelta(seconds=5)
# The card of an item that no message has shown.
NO_CARD = MessageId("")
# Marks, towards the agent, the item whose card is the newest thing said.
JUST_SHOWN = "just shown"


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
    place; `has_later` that a later one came after its answer. `earlier` are the newest of those
    moments that were not answered, and `earlier_count` is their whole number.

    `waiting` is the message that shows it when the quiet ends; without any message yet, `card` is
    the same, and afterwards empty if it was answered before it came. `same_as` is the key of the
    item that is meant, where a run by hand came while that was there: it has no life of its own.

    `answered_by` is a surface, or `agent`. `until` is the moment that a snooze or a move chose, and
    `copy` the id of the reminder that it made, `is_in_quiet` says that this comes in the
    quiet. It can be taken back on the card until `undo_until`. With `is_passed`, a later dose asks.
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
    has_later: bool = False
    waiting: MessageId | None = None
    same_as: str = ""
    answer: Answer | None = None
    answered_at: datetime | None = None
    answered_by: str = ""
    until: datetime | None = None
    copy: str = ""
    is_in_quiet: bool = False
    is_passed: bool = False
    undo_until: datetime | None = None
    earlier: tuple[datetime, ...] = ()
    earlier_count: int = 0

    @classmethod
    def of(
        cls, job: Reminder | Routine, occurrence: Occurrence, card: MessageId, now: datetime
    ) -> DueItem:
        nag, is_dose = job.spec.nag, job.spec.kind is ItemKind.DOSE
        due = (occurrence.scheduled_at or now).astimezone(now.tzinfo)
        # A single dose is nearer to no other.
        following = None
        if is_dose and isinstance(job, Routine) and due.tzinfo is not None:
            following = job.next_after(due, due.tzinfo)
        return cls(
            occurrence.id,
            job.spec.title,
            due,
            note_of(job),
            card,
            is_dose,
            # By the hour of UTC: Python adds to the wall clock of a zone.
            again_at=None if nag is None else now.astimezone(UTC) + nag.pause,
            late_after=following and due.astimezone(UTC) + elapsed(due, following) / 2,
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
        return replace(self, earlier=tuple(moments[:5]), earlier_count=count)

    @property
    def is_by_hand(self) -> bool:
        return Occurrence.parse(self.occurrence).manual

    def is_of(self, kind: OccurrenceKind, job_id: str) -> bool:
        occurrence = Occurrence.parse(self.occurrence)
        return (occurrence.kind, occurrence.job_id) == (kind, job_id)

    def is_same_dose(self, now: datetime) -> bool:
        """Whether its dose is the last that was due; a single one always is."""
        if not self.is_dose or self.late_after is None:
            return self.is_dose
        following = self.late_after.astimezone(UTC) + elapsed(self.due, self.late_after)
        return now.astimezone(UTC) < following

    def answered(
        self, answer: Answer, now: datetime, by: str, until: datetime | None = None, copy: str = ""
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
            is_in_quiet=False,
            undo_until=None,
            again_at=None,
            has_later=False,
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


DONE, TAKEN, NOT_TAKEN = "done", "taken", "not_taken"
SNOOZE, MOVE, LET_GO, UNDO = "snooze", "move", "let_go", "undo"
# Begins the data where an action is for items and for other things too.
ITEM = "item"
# A wait that the owner says in words.
OTHER = "other"
BREAK_DOWN = "break_down"

_WAITS: Mapping[str, str] = {"10m": "Snooze 10 min", "1h": "1 h", "9am": "Tomorrow 9:00"}
_MOVES: Mapping[str, str] = {"today": "Later today", "9am": "Tomorrow"}
_ASK_WHEN = "When? (in 20 minutes, 17:30, friday 9:00)"


def open_card(item: DueItem, now: datetime, words: str = "", title: str = "") -> Card:
    """The card of an open item; `words` below a `title` come in place of those of the job.

    Each time that the item comes, the card has other words: those of the job, then the first step
    or how long ago it was, then a question with other buttons, and that with the time it is open.
    """
    if item.shown == 1:
        if not words:
            title, words = ("", item.title) if item.untrusted else item.as_reminder.spec.said
        return _titled(words, _asking(item), item, title)
    if item.shown == 2:
        words = first_step_in(item.note) or f"{item.owner_title} · {_age(item, now)} ago"
        return _titled(words, _asking(item), item)
    since = f" after {_age(item, now)}" if item.shown > 3 else ""
    return _titled(f"Still open{since}: {item.owner_title}?", _deciding(item), item)


def _age(item: DueItem, now: datetime) -> str:
    whole = elapsed(item.due, now)
    return duration_in_words(max(_MINUTE, whole - whole % _MINUTE))


def _titled(words: str, buttons: tuple[Button, ...], item: DueItem, title: str = "") -> Card:
    # The file of a reminder is gone when it asks.
    job = Occurrence.parse(item.occurrence).job_id if item.is_of_routine else ""
    first, rest = (title, words) if title else (words, "")
    if first == " ".join(first.split()) and len(first) <= 256:
        return Card(first, rest, buttons=buttons, job=job)
    return Card("Reminder", "\n".join(filter(None, (first, rest))), buttons=buttons, job=job)


def waiting_buttons(item: DueItem) -> tuple[Button, ...]:
    """All that the cards of an open item offer, however often it came."""
    known = [*_asking(item), *_deciding(item)]
    return tuple({each.custom_id: each for each in known if each.action != MOVE}.values())


def _asking(item: DueItem) -> tuple[Button, ...]:
    # A dose is not for tomorrow: the next one is.
    waits = [each for each in _WAITS.items() if not (item.is_dose and each[0] == "9am")]
    return (
        *settling_buttons(item),
        *(Button(label, SNOOZE, f"{item.key}:{wait}") for wait, label in waits),
        Button("Other…", SNOOZE, f"{item.key}:{OTHER}", asks=_ASK_WHEN),
        *_breaking_down(item),
    )


def _deciding(item: DueItem) -> tuple[Button, ...]:
    moves = [each for each in _MOVES.items() if not (item.is_dose and each[0] == "9am")]
    return (
        *settling_buttons(item),
        *(Button(label, MOVE, f"{ITEM}:{item.key}:{wait}") for wait, label in moves),
        Button("Let it go", LET_GO, item.key),
        *_breaking_down(item),
    )


def _breaking_down(item: DueItem) -> tuple[Button, ...]:
    return () if item.is_dose else (break_down_button(f"{ITEM}:{item.key}"),)


def break_down_button(ref: str, line: int = 0) -> Button:
    """Makes small steps of what `ref` names: `item:` with a key, or `task:` with an id."""
    return Button("Break it down", BREAK_DOWN, ref, line=line)


def settling_buttons(item: DueItem) -> tuple[Button, ...]:
    """The buttons that answer the item for good."""
    if not item.is_dose:
        return (Button("Done", DONE, item.key, ButtonStyle.SUCCESS),)
    return (
        Button("Taken", TAKEN, item.key, ButtonStyle.SUCCESS),
        Button("Skipped", NOT_TAKEN, item.key),
    )


def settled_card(item: DueItem, now: datetime) -> Card:
    """The line of an answered item, with Undo as long as that is possible."""
    color = Color.GREEN if item.answer in (Answer.DONE, Answer.TAKEN) else Color.BLUE
    card = Card(settled_line(item, now), color=color)
    if not item.can_undo(now):
        return card
    return card._replace(buttons=(undo_button(item.key),))


def undo_button(key: str) -> Button:
    """Takes the answer back, or says why not."""
    return Button("Undo", UNDO, f"{ITEM}:{key}")


def settled_line(item: DueItem, now: datetime, title: str = "") -> str:
    """`✓ drink water · 9:04`, `⏱ drink water · again at 9:14`, with the day where it is another.

    Without a `title` it has that of the owner's cards.
    """
    at = (item.answered_at or now).astimezone(now.tzinfo)
    clock, title = short_moment(at, at), title or item.owner_title
    match item.answer:
        case Answer.SNOOZED:
            return f"⏱ {title} · again {_moment(_rounded(item, at), at)}"
        case Answer.MOVED:
            return f"⏱ {title} · moved to {describe(_rounded(item, at), at)}"
        case Answer.LET_GO:
            return f"– {title} · let go {clock}"
        case Answer.NOT_TAKEN:
            return f"– {title} · skipped {clock}"
        case Answer.TAKEN if item.late_after is not None and at > item.late_after:
            return f"✓ {title} · {clock} · that was the {short_moment(item.due, at)} one"
        case _:
            return f"✓ {title} · {clock}"


def passed_card(item: DueItem, asked: datetime, now: datetime) -> Card:
    """The line of an earlier message, which asked then; a newer one asks now."""
    when = _moment(asked.replace(second=0, microsecond=0), now)
    return Card(f"{item.owner_title} · asked {when}", earlier_of=item.key)


def _rounded(item: DueItem, at: datetime) -> datetime:
    """The chosen moment, without seconds unless it is near."""
    until = item.until or at
    is_near = elapsed(at, until) < 2 * _MINUTE
    return until if is_near else until.replace(second=0, microsecond=0)


def _moment(moment: datetime, now: datetime) -> str:
    local = moment.astimezone(now.tzinfo)
    return f"at {clock_time(local)}" if local.date() == now.date() else describe(moment, now)


def short_moment(moment: datetime, now: datetime) -> str:
    """The time of day without seconds, and the day where it is not that of `now`."""
    local = moment.astimezone(now.tzinfo)
    return short_clock(local) if local.date() == now.date() else describe(local, now)


def delivery_id(occurrence: Occurrence) -> MessageId:
    """Derive the id from the occurrence, so that a crash cannot lead to a second message."""
    digest = hashlib.sha256(occurrence.id.encode()).digest()
    return MessageId(str(int.from_bytes(digest[:7])))


def why_now(reason: str, late_since: datetime | None, now: datetime) -> str:
    """The footer of the message: that it is late, if it is, and why the program delivers it."""
    return reason if late_since is None else f"{late_label(late_since, now)} {reason}".rstrip()


class Settlement(NamedTuple):
    """`until` is the moment to which the item is put off."""

    answer: Answer
    until: datetime | None = None


def done(item: DueItem) -> Settlement:
    return Settlement(Answer.TAKEN if item.is_dose else Answer.DONE)


def let_go(item: DueItem) -> Settlement:
    return Settlement(Answer.NOT_TAKEN if item.is_dose else Answer.LET_GO)


def not_today(item: DueItem, now: datetime) -> Settlement:
    """Move a reminder to tomorrow. A dose and a routine come by themselves on another day."""
    if item.is_dose or item.is_of_routine:
        return let_go(item)
    return Settlement(Answer.MOVED, snoozed_until("9am", now))


def move_button(reminder_id: str, end: datetime) -> Button:
    """Moves a reminder to the end of the quiet that it lies in."""
    data = f"{JobKind.REMINDER}:{reminder_id}:{int(end.timestamp())}"
    return Button(f"Move to {clock_time(end)}", MOVE, data)
