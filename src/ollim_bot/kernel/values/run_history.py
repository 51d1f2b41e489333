"""The story of each occurrence, read from the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from ollim_bot.kernel.base.moments import duration_in_words
from ollim_bot.kernel.values.occurrences import (
    ANSWERED,
    Answer,
    LedgerRow,
    Occurrence,
    OccurrenceState,
    Progress,
    is_unwanted,
)

if TYPE_CHECKING:
    from ollim_bot.kernel.values.costs import Amount

# Rows that do not change the state of an occurrence: an attempt is about to ping or write
# (`attempt`, `tool`, `session`; once for each tool) or has reported (`tool`, `report`), the
# reminder was delivered to the owner, the owner answered it, a message waits for the end of the
# quiet (`message`, `text`, `until`), a digest has brought that message (`message`, `digest`), or it
# does not come any more (`message`, `why`).
EFFECT = "effect"
DELIVERED = "delivered"
HELD = "held"
RELEASED = "released"
DROPPED = "dropped"
NOTES = frozenset({EFFECT, DELIVERED, ANSWERED, HELD, RELEASED, DROPPED})

# Why a message or a time of an item does not come.
NEWER_CAME = "a later one came in its place"

# The facts of an end without any attempt: the program delivered the text itself.
PLAINLY: Mapping[str, object] = {"plain": True}

# Why a run without a message was silent that ended before its time.
CUT_SHORT = "it did not come to its end"

# The facts of what the sentinel delivered: that it did, and the ways by which it came.
BY = "by"
SENTINEL = "sentinel"
THROUGH = "through"

# The fact of a planned row: its moment.
PLANNED_AT = "at"

# The fact of a first row: the routine has to be delivered, by its run or by the program.
MUST = "must"

# The reason of an end at the return to an earlier copy: what came of it is not known any more.
FROM_COPY = "the state is that of an earlier copy"

# The program has started.
STARTED = "started"
CHECKPOINT = "checkpoint"
ARMED = "armed"
CHANGED = "changed"
REMOVED = "removed"
ROSTER = "roster"

_STEPS = {state.value: state for state in OccurrenceState}
_ENDS = frozenset(state.value for state in OccurrenceState if state.is_end)


def short_id_of(run: str) -> str:
    """Eight signs in the place of the id of a run, short enough to type."""
    return f"{crc32(run.encode()):08x}"


class RunStory(NamedTuple):
    """All rows of one occurrence, oldest first.

    Who shows it to the owner adds what the ledger does not know: `is_open` says that its card waits
    for an answer, `later` is the run of the reminder to which it was put off, and `spent` what it
    cost, if the model was asked.
    """

    occurrence: Occurrence
    rows: Sequence[LedgerRow]
    is_open: bool = False
    later: RunStory | None = None
    spent: Amount | None = None

    @property
    def id(self) -> str:
        return self.occurrence.id

    @property
    def short_id(self) -> str:
        return short_id_of(self.id)

    @property
    def facts(self) -> Mapping[str, object]:
        """The newest value of each fact; the cost is that of all attempts."""
        merged: dict[str, object] = {}
        for row in self.rows:
            merged |= row.facts
        found = (row.facts.get("cost_usd") for row in self.rows)
        costs = [cost for cost in found if isinstance(cost, int | float)]
        cost = round(sum(costs), 6) if costs else None
        cost = self.spent.usd if self.spent is not None else cost
        return merged if cost is None else merged | {"cost_usd": cost}

    @property
    def title(self) -> str:
        """What the job is called."""
        return str(self.facts.get("job") or self.occurrence.job_id)

    @property
    def last_word(self) -> str:
        """The last row that is more than a note, also one that no version of ours has written."""
        steps = [row.state for row in self.rows if row.state not in NOTES]
        return steps[-1] if steps else self.rows[-1].state

    @property
    def fired(self) -> datetime:
        """When it began, or came, or is planned for."""
        first = self.rows[0]
        if first.state != OccurrenceState.PLANNED:
            return first.ts
        if len(self.rows) == 1:
            return moment_in(first.facts, PLANNED_AT) or first.ts
        due = (row.ts for row in self.rows if row.state == OccurrenceState.DUE)
        return next(due, self.rows[-1].ts)

    @property
    def is_delivered(self) -> bool:
        """Whether the owner was given the reminder."""
        return self.delivery is not None

    @property
    def answer(self) -> LedgerRow | None:
        """The owner's answer; None if there is none, or it was undone."""
        newest = next((row for row in reversed(self.rows) if row.state == ANSWERED), None)
        return None if newest is None or newest.facts.get("answer") == Answer.UNDONE else newest

    @property
    def steps(self) -> list[tuple[OccurrenceState, LedgerRow]]:
        """The rows that changed its state."""
        return [(_STEPS[row.state], row) for row in self.rows if row.state in _STEPS]

    @property
    def state(self) -> OccurrenceState | None:
        """The last state; None if no row has one."""
        return next((_STEPS[row.state] for row in reversed(self.rows) if row.state in _STEPS), None)

    @property
    def attempts(self) -> int:
        return sum(row.state == OccurrenceState.RUNNING for row in self.rows)

    @property
    def had_effect(self) -> bool:
        """Whether an attempt was about to do something that cannot be undone."""
        return any(row.state == EFFECT for row in self.rows)

    @property
    def delivery(self) -> Mapping[str, object] | None:
        """The facts of the delivery to the owner; None if there was none."""
        return next((row.facts for row in self.rows if row.state == DELIVERED), None)

    @property
    def held(self) -> list[LedgerRow]:
        """A row for each message that had to wait for the end of the quiet."""
        return [row for row in self.rows if row.state == HELD]

    @property
    def waiting(self) -> LedgerRow | None:
        """The row of what still waits for the end of the quiet: a message, or its turn."""
        over = {row.facts.get("message") for row in self.rows if row.state in (RELEASED, DROPPED)}
        if self.end is not None:
            over.add(None)
        left = (row for row in self.held if row.facts.get("message") not in over)
        return next(left, None)

    @property
    def ends(self) -> list[LedgerRow]:
        """The end rows; a correct ledger has at most one."""
        return [row for row in self.rows if row.state in _ENDS]

    @property
    def end(self) -> LedgerRow | None:
        return next((row for row in self.rows if row.state in _ENDS), None)

    @property
    def is_owed(self) -> bool:
        """Whether it has ended and must still be delivered.

        Routines only: a reminder that is owed still has its file.
        """
        is_must = any(row.facts.get(MUST) for row in self.rows)
        is_known = self.end is not None and self.end.facts.get("reason") != FROM_COPY
        return is_must and is_known and not self.is_left_out and self.delivery is None

    @property
    def is_left_out(self) -> bool:
        """Whether it ended because it was no longer wanted, and not because the agent failed."""
        end = self.end
        if end is None:
            return False
        reason, is_manual = str(end.facts.get("reason")), self.occurrence.manual
        return end.state == OccurrenceState.MISSED or is_unwanted(reason, is_manual=is_manual)

    @property
    def progress(self) -> Progress:
        return Progress(self.state, self.attempts, self.had_effect)


class History(NamedTuple):
    """The stories by occurrence, in the order in which they began."""

    stories: Mapping[Occurrence, RunStory]

    @classmethod
    def of(cls, rows: Iterable[LedgerRow]) -> History:
        """Read the stories. Rows without an occurrence are ignored.

        A moment that was planned, withdrawn and planned again begins with its newest plan.
        """
        found: dict[Occurrence, list[LedgerRow]] = {}
        for row in rows:
            if row.occurrence is not None:
                its_rows = found.setdefault(row.occurrence, [])
                if row.state == OccurrenceState.PLANNED and is_withdrawn(its_rows):
                    its_rows.clear()
                its_rows.append(row)
        return cls({each: RunStory(each, its_rows) for each, its_rows in found.items()})

    @property
    def unfinished(self) -> list[RunStory]:
        return [story for story in self.stories.values() if story.end is None]

    @property
    def begun(self) -> list[RunStory]:
        """The unfinished ones without those that are planned for later."""
        planned = OccurrenceState.PLANNED
        return [story for story in self.unfinished if story.state is not planned]

    @property
    def owed(self) -> list[RunStory]:
        return [story for story in self.stories.values() if story.is_owed]

    @property
    def newest_first(self) -> list[RunStory]:
        stories = self.stories.values()
        return sorted(stories, key=lambda story: story.fired.timestamp(), reverse=True)


def planned_row(
    occurrence: Occurrence, title: str, at: datetime, now: datetime, **more: object
) -> LedgerRow:
    """The first row of a time that something comes again, or of what follows an answer."""
    facts = {"job": title, PLANNED_AT: at.astimezone(UTC).isoformat(), **more}
    return LedgerRow(now, OccurrenceState.PLANNED.value, occurrence, facts)


def is_withdrawn(rows: Sequence[LedgerRow]) -> bool:
    """Whether the rows are those of a plan that ended before its moment."""
    return [row.state for row in rows] == [OccurrenceState.PLANNED, OccurrenceState.SKIPPED]


def part_in_words(one: Occurrence) -> str:
    """`time 2`, or `heads-up, 30 min before`; empty for the moment itself."""
    length = one.comes_before
    if length is not None:
        return f"heads-up, {duration_in_words(length)} before"
    return f"time {one.part}" if one.part else ""


def moment_in(facts: Mapping[str, object], name: str) -> datetime | None:
    """The moment that a fact of a row names; None if it names none."""
    try:
        moment = datetime.fromisoformat(str(facts.get(name)))
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def claiming_row(
    occurrence: Occurrence, now: datetime, facts: Mapping[str, object] | None = None
) -> LedgerRow:
    """The first row of every occurrence."""
    return LedgerRow(now, OccurrenceState.DUE.value, occurrence, facts or {})


def claimed_by(rows: Iterable[LedgerRow]) -> set[Occurrence]:
    """The occurrences that `rows` claim.

    Raises `ValueError` if one of them is not due yet.
    """
    wanted = set[Occurrence]()
    for row in rows:
        if row.occurrence is None:
            raise ValueError(f"the row `{row.state}` begins no occurrence")
        moment = row.occurrence.scheduled_at
        if moment is not None and row.ts < moment:
            raise ValueError(f"{row.occurrence.id} is not due at {row.ts}")
        wanted.add(row.occurrence)
    return wanted


def checkpoint_row(now: datetime, watched_until: datetime, history: History) -> LedgerRow:
    """Records the occurrences without an end, for the check of the ledger.

    Every occurrence due until `watched_until` has its rows.
    """
    unfinished = [story.occurrence.id for story in history.unfinished]
    facts = {"watched_until": watched_until.isoformat(), "unfinished": unfinished}
    return LedgerRow(now, CHECKPOINT, facts=facts)


class Refused(StrEnum):
    """Why a ping may not be sent, as the agent is told."""

    OFF = "Pings are switched off for this job"
    ONCE = "This run has pinged once already"
    BUSY = "The owner is in the middle of a conversation"
    EMPTY = "The ping budget is used up"
