"""Occurrences: one due moment of one job, and the states it passes through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from ollim_bot.domain.jobs import JobKind

MAX_ATTEMPTS = 3


class OccurrenceState(StrEnum):
    DUE = "due"
    RUNNING = "running"
    ATTEMPT_FAILED = "attempt_failed"
    CUT_OFF = "cut_off"
    DONE = "done"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    SKIPPED = "skipped"
    MISSED = "missed"
    INTERRUPTED = "interrupted"

    @property
    def is_end(self) -> bool:
        return self in _ENDS


_ENDS = frozenset(
    {
        OccurrenceState.DONE,
        OccurrenceState.FAILED,
        OccurrenceState.TIMED_OUT,
        OccurrenceState.SKIPPED,
        OccurrenceState.MISSED,
        OccurrenceState.INTERRUPTED,
    }
)

_FOLLOWERS = {
    None: frozenset({OccurrenceState.DUE}),
    # A cost cap or a missing model ends an occurrence that never ran as `failed`.
    OccurrenceState.DUE: frozenset(
        {
            OccurrenceState.RUNNING,
            OccurrenceState.SKIPPED,
            OccurrenceState.MISSED,
            OccurrenceState.FAILED,
        }
    ),
    OccurrenceState.RUNNING: frozenset(
        {
            OccurrenceState.ATTEMPT_FAILED,
            OccurrenceState.CUT_OFF,
            OccurrenceState.DONE,
            OccurrenceState.FAILED,
            OccurrenceState.TIMED_OUT,
            OccurrenceState.INTERRUPTED,
        }
    ),
    # Between two attempts a job can be cancelled, or the last attempt be given up.
    OccurrenceState.ATTEMPT_FAILED: frozenset(
        {OccurrenceState.RUNNING, OccurrenceState.FAILED, OccurrenceState.SKIPPED}
    ),
    OccurrenceState.CUT_OFF: frozenset(
        {
            OccurrenceState.RUNNING,
            OccurrenceState.FAILED,
            OccurrenceState.SKIPPED,
            OccurrenceState.INTERRUPTED,
        }
    ),
}


def may_follow(before: OccurrenceState | None, after: OccurrenceState) -> bool:
    """Whether `after` may be the next row of an occurrence; nothing follows an end."""
    return after in _FOLLOWERS.get(before, frozenset())


class SkipReason(StrEnum):
    POLICY = "policy"
    DISABLED = "disabled"
    OVERLAP = "overlap"
    SUPERSEDED = "superseded"
    INVALID_TOOLS = "invalid tools"
    MISSING_SKILL = "missing skill"
    COST_CAP = "cost cap"
    SCREENING = "screening"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """`key` is the scheduled instant in UTC, or a webhook's delivery key."""

    kind: JobKind
    job_id: str
    key: str
    manual: bool = False

    @classmethod
    def scheduled(cls, kind: JobKind, job_id: str, at: datetime) -> Occurrence:
        return cls(kind, job_id, _instant_key(at))

    @classmethod
    def by_hand(cls, kind: JobKind, job_id: str, now: datetime) -> Occurrence:
        return cls(kind, job_id, _instant_key(now), manual=True)

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.job_id}:{self.key}" + (":manual" if self.manual else "")

    @classmethod
    def parse(cls, text: str) -> Occurrence:
        """The inverse of `id`; raises `ValueError` for anything else."""
        kind, _, rest = text.partition(":")
        job_id, _, key = rest.partition(":")
        if not (job_id and key):
            raise ValueError(f"{text!r} is not an occurrence: kind:job:moment")
        by_hand = key.removesuffix(":manual")
        return cls(JobKind(kind), job_id, by_hand, manual=by_hand != key)

    @property
    def scheduled_at(self) -> datetime | None:
        """None for a webhook's delivery."""
        if self.kind is JobKind.WEBHOOK and not self.manual:
            return None
        return datetime.fromisoformat(self.key)


def _instant_key(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One line of the run ledger.

    `state` is an `OccurrenceState`, or the name of another fact worth a row (`armed`,
    `update_dropped`), which has no occurrence.
    """

    ts: datetime
    state: str
    occurrence: Occurrence | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
