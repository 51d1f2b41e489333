"""The run ledger: the rows of each occurrence, and which jobs are armed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.job_kinds import EventKind, JobKind
from ollim_bot.kernel.store.codecs.ledger_codec import LEDGER_ROWS
from ollim_bot.kernel.store.connection import (
    Row,
    Statements,
    Value,
    escaped,
    look_up,
    microseconds,
    moment_of,
    unescaped,
)
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState
from ollim_bot.kernel.values.run_history import (
    ARMED,
    CHANGED,
    DELIVERED,
    REMOVED,
    ROSTER,
    History,
    RunStory,
    checkpoint_row,
    claimed_by,
    claiming_row,
)

if TYPE_CHECKING:
    from ollim_bot.kernel.values.definitions import Armed

_CLOSING = frozenset({DELIVERED, *(state.value for state in OccurrenceState if state.is_end)})
# The rows that tell which jobs are armed.
_DEFINING = (ARMED, CHANGED, REMOVED, ROSTER)
# Later than every moment and place.
_LAST = 2**62


class LedgerRows:
    """The ledger. Only `rows_since`, `page` and `tail` read more rows than they return."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def append(self, *rows: LedgerRow) -> None:
        """Append the rows; an occurrence is open until it has its end, and is delivered if owed."""
        last = self._statements.number("SELECT max(seq) FROM ledger") if rows else 0
        for seq, row in enumerate(rows, last + 1):
            occurrence = None if row.occurrence is None else escaped(row.occurrence.id)
            self._statements.write(
                "ledger",
                "INSERT INTO ledger (seq, at, occurrence, state, value) VALUES (?, ?, ?, ?, ?)",
                seq,
                microseconds(row.ts),
                occurrence,
                escaped(row.state),
                LEDGER_ROWS.encode(row).decode(),
            )
            if row.occurrence is None:
                continue
            is_open = row.state not in _CLOSING
            if not is_open:
                story = self.story(row.occurrence)
                is_open = story.end is None or story.is_owed
            self._statements.write(
                "ledger",
                "INSERT INTO occurrences (id, seq, is_open) VALUES (?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET"
                " is_open = CASE WHEN excluded.is_open = 0 THEN 0 WHEN ? THEN 1"
                " ELSE occurrences.is_open END",
                *(occurrence, seq, int(is_open), row.state == OccurrenceState.PLANNED),
            )

    def claim(
        self, occurrence: Occurrence, now: datetime, facts: Mapping[str, object] | None = None
    ) -> bool:
        """Append `due` if the occurrence has not begun; True if it had not.

        `now` is the moment at which the occurrence was found due: a claim ahead of its time raises
        `ValueError`.
        """
        return bool(self.claim_all([claiming_row(occurrence, now, facts)]))

    def claim_all(self, rows: Sequence[LedgerRow]) -> Set[Occurrence]:
        """Append the rows of occurrences that have not begun, and return those occurrences."""
        free = {one for one in claimed_by(rows) if not self.has(one)}
        self.append(*(row for row in rows if row.occurrence in free))
        return free

    def has(self, occurrence: Occurrence) -> bool:
        """Whether the occurrence has begun or ended; one that is only planned has not."""
        newest = self._statements.row(
            "SELECT state FROM ledger WHERE occurrence = ? ORDER BY seq DESC LIMIT 1",
            escaped(occurrence.id),
        )
        return newest is not None and newest[0] != OccurrenceState.PLANNED

    def story(self, occurrence: Occurrence) -> RunStory:
        """All rows of one occurrence; none if it was never claimed."""
        rows = self._found("WHERE occurrence = ? ORDER BY seq", escaped(occurrence.id))
        return History.of(rows).stories.get(occurrence) or RunStory(occurrence, ())

    def moments_of(self, kind: JobKind, job_id: str) -> Iterator[Occurrence]:
        """The moments of a job that have rows, the newest first."""
        start = escaped(f"{kind}:{job_id}:")
        end = f"{start}~"
        while True:
            found = self._statements.row(
                "SELECT max(id) FROM occurrences WHERE id > ? AND id < ?", start, end
            )
            if found is None or found[0] is None:
                return
            end = found[0]
            one = Occurrence.parse(unescaped(end))
            if not one.manual and not one.part:
                yield one

    def stories_since(self, kind: JobKind, job_id: str, since: datetime) -> list[RunStory]:
        """The stories of a job's moments and calls not older than `since`, as they began."""
        start = escaped(f"{kind}:{job_id}:")
        first, at_least = start, 0
        if kind.has_moments:
            first = escaped(Occurrence.scheduled(kind, job_id, since).id)
        else:
            # The ids of calls have no order; their rows are in that of time.
            at_least = self._statements.number(
                "SELECT seq FROM ledger WHERE at >= ? ORDER BY at LIMIT 1", microseconds(since)
            )
            if not at_least:
                return []
        rows = self._found(
            "WHERE occurrence >= ? AND occurrence < ? AND seq >= ? ORDER BY seq + 0",
            *(first, f"{start[:-1]};", at_least),
        )
        return [*History.of(rows).stories.values()]

    def stories_again(self, first: Occurrence) -> list[RunStory]:
        """The times that the occurrence was planned to come again, in order."""
        start = escaped(first.id)
        between = "WHERE occurrence > ? AND occurrence < ? ORDER BY seq + 0"
        stories = History.of(self._found(between, f"{start}#", f"{start}$")).stories.values()
        return [each for each in stories if each.occurrence.is_again]

    def open_history(self) -> History:
        """The stories of the occurrences that have no end, or are still to be delivered."""
        # A cross join keeps the order of the tables: the few open occurrences come first.
        rows = self._statements.rows(
            "SELECT ledger.value FROM occurrences CROSS JOIN ledger"
            " WHERE occurrences.is_open = 1 AND ledger.occurrence = occurrences.id"
            " ORDER BY ledger.seq + 0"
        )
        return History.of(_decoded(rows))

    def checkpoint(self, now: datetime, watched_until: datetime) -> None:
        """Record the occurrences without an end, and until when all due ones have rows."""
        self.append(checkpoint_row(now, watched_until, self.open_history()))

    def armed(self) -> Armed:
        """The armed jobs, from the last roster on."""
        rows = self._found(
            "WHERE occurrence IS NULL AND state IN (?, ?, ?, ?) AND seq >= ? ORDER BY seq",
            *(*_DEFINING, self._last_roster()),
        )
        none: Armed = look_up("kernel.values.definitions:Armed")()
        return none.followed_by(rows)

    def newest(self, state: str) -> LedgerRow | None:
        """The newest row of this state that belongs to no occurrence."""
        last = "WHERE occurrence IS NULL AND state = ? ORDER BY seq DESC LIMIT 1"
        return next(iter(self._found(last, state)), None)

    def rows_since(self, since: datetime) -> list[LedgerRow]:
        """The rows not older than `since`, in the order in which they were appended."""
        # `seq + 0` keeps SQLite from reading the whole ledger in its order instead of sorting a
        # part.
        return self._found("WHERE at >= ? ORDER BY seq + 0", microseconds(since))

    def rows_about(
        self,
        since: datetime,
        until: datetime | None = None,
        due: tuple[datetime, datetime] | None = None,
    ) -> list[LedgerRow]:
        """The rows not older than `since`, after those that tell which jobs were armed then.

        With `until`, those before it, and the later rows of the occurrences that they are about.
        With `due`, without the rows of moments before the first of these or from the second on.
        """
        begin, end = microseconds(since), _LAST if until is None else microseconds(until)
        first = self._statements.number(
            "SELECT seq FROM ledger WHERE occurrence IS NULL AND state = ? AND at < ?"
            " ORDER BY seq DESC LIMIT 1",
            ROSTER,
            begin,
        )
        rows = self._statements.rows(
            "SELECT value, occurrence FROM ledger WHERE seq IN ("
            " SELECT seq FROM ledger WHERE at >= ? AND at < ?"
            " UNION SELECT seq FROM ledger WHERE occurrence IS NULL AND state IN (?, ?, ?, ?)"
            " AND seq >= ? AND at < ?"
            " UNION SELECT seq FROM ledger WHERE at + 0 >= ? AND occurrence IN ("
            " SELECT occurrence FROM ledger WHERE at >= ? AND at < ?"
            " AND occurrence IS NOT NULL AND ? < ?)) ORDER BY seq + 0",
            *(begin, end, *_DEFINING, first, end, begin, begin, end, end, _LAST),
        )
        return _decoded(rows if due is None else _due_between(rows, *due))

    def first_moment_after(self, moment: datetime) -> datetime | None:
        """When the first row was written that is not older than `moment`; None if there is none."""
        row = self._statements.row(
            "SELECT at FROM ledger WHERE at >= ? ORDER BY at LIMIT 1", microseconds(moment)
        )
        return None if row is None else moment_of(row[0])

    def newest_ids(self, before: int, limit: int) -> list[tuple[str, int]]:
        """Occurrences and the places of their first rows, below the place `before`."""
        rows = self._statements.rows(
            "SELECT id, seq FROM occurrences WHERE seq < ? ORDER BY seq DESC LIMIT ?", before, limit
        )
        return [(unescaped(row[0]), int(row[1])) for row in rows]

    def newest_of_job(self, job_id: str, before: int, limit: int) -> list[tuple[str, int]]:
        """As `newest_ids`, of the jobs and events with this id."""
        found: list[tuple[str, int]] = []
        for kind in (*JobKind, *EventKind):
            start = escaped(f"{kind}:{job_id}:")
            rows = self._statements.rows(
                "SELECT id, seq FROM occurrences WHERE id > ? AND id < ? AND seq < ?"
                " ORDER BY seq + 0 DESC LIMIT ?",
                *(start, f"{start[:-1]};", before, limit),
            )
            found += [(unescaped(row[0]), int(row[1])) for row in rows]
        return sorted(found, key=lambda each: -each[1])[:limit]

    def ids(self) -> Iterator[str]:
        """The ids of all occurrences."""
        rows = self._statements.rows("SELECT id FROM occurrences ORDER BY id")
        return (unescaped(row[0]) for row in rows)

    def rows_of(self, ids: Iterable[str]) -> list[LedgerRow]:
        """The rows of these occurrences, in the order in which they were appended."""
        asked = "SELECT value, seq FROM ledger WHERE occurrence = ? ORDER BY seq"
        rows = [row for each in ids for row in self._statements.rows(asked, escaped(each))]
        return _decoded(sorted(rows, key=lambda row: int(row[1])))

    def tail(self, limit: int) -> list[LedgerRow]:
        """The newest rows, oldest first."""
        return self._found("ORDER BY seq DESC LIMIT ?", limit)[::-1]

    def page(self, after: int, limit: int) -> tuple[list[LedgerRow], int]:
        """The rows after the place `after`, oldest first, and the place of the last one.

        Without further rows, the place stays the same. Start at 0 to read all rows.
        """
        rows = self._statements.rows(
            "SELECT value, seq FROM ledger WHERE seq > ? ORDER BY seq LIMIT ?", after, limit
        )
        return _decoded(rows), int(rows[-1][1]) if rows else after

    def count(self) -> int:
        return self._statements.number("SELECT count(*) FROM ledger")

    def newest_place(self) -> int:
        """The place of the newest row; another one after each change of the ledger."""
        return self._statements.number("SELECT coalesce(max(seq), 0) FROM ledger")

    def _found(self, condition: str, *arguments: Value) -> list[LedgerRow]:
        return _decoded(self._statements.rows(f"SELECT value FROM ledger {condition}", *arguments))

    def _last_roster(self) -> int:
        """The place of the last readable roster; 0 if there is none."""
        before = 2**62
        while True:
            found = self._statements.row(
                "SELECT value, seq FROM ledger WHERE occurrence IS NULL AND state = ? AND seq < ?"
                " ORDER BY seq DESC LIMIT 1",
                ROSTER,
                before,
            )
            if found is None:
                return 0
            before = int(found[1])
            with suppress(ValueError):
                look_up("kernel.values.definitions:roster_of")(_decoded([found])[0])
                return before


def _due_between(rows: Sequence[Row], first: datetime, end: datetime) -> list[Row]:
    """The rows without those of moments outside of the two; it decodes none of them."""
    moments = tuple(kind.value + ":" for kind in JobKind if kind.has_moments)
    # The ids of moments end with the moment, and such texts are in the order of time.
    least, most = (Occurrence.scheduled(JobKind.ROUTINE, "x", each).key for each in (first, end))
    return [
        row
        for row in rows
        if row[1] is None or not row[1].startswith(moments) or least <= row[1][-len(least) :] < most
    ]


def _decoded(rows: Sequence[Row]) -> list[LedgerRow]:
    return [LEDGER_ROWS.decode(row[0].encode()) for row in rows]
