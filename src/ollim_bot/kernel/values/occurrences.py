"""Occurrences: one due moment of one job, and the states it passes through."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from ollim_bot.kernel.base.job_kinds import EventKind, JobKind, OccurrenceKind
from ollim_bot.kernel.base.moments import length_text, parse_length

MAX_ATTEMPTS = 3

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
# The number of a time that an item comes again, or the length by which a heads-up comes before.
_PART = re.compile(r"[2-9]|[1-9][0-9]{1,3}|before-[0-9]{1,5}[mhd]", re.ASCII)
_BEFORE = "before-"
_EVENTS = frozenset(EventKind)
_BY_HAND = ":manual"
_DELIVERED = ":delivery"


class OccurrenceState(StrEnum):
    PLANNED = "planned"
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


_ENDS = frozenset(["done", "failed", "timed_out", "skipped", "missed", "interrupted"])
_FOLLOWERS: Mapping[str | None, str] = {
    None: "due planned",
    OccurrenceState.PLANNED: "due done skipped",
    # A cost cap or a missing model ends an occurrence that never ran as `failed`.
    OccurrenceState.DUE: "running skipped missed failed",
    # The first part of a webhook's attempt is the screening, which may skip it.
    OccurrenceState.RUNNING: "attempt_failed cut_off done failed timed_out interrupted skipped",
    # Between two attempts a job can be cancelled, or its last attempt can be given up.
    OccurrenceState.ATTEMPT_FAILED: "running failed skipped",
    OccurrenceState.CUT_OFF: "running failed skipped interrupted",
}


def may_follow(before: OccurrenceState | None, after: OccurrenceState) -> bool:
    """Whether `after` may be the next row of an occurrence; nothing follows an end."""
    return after in _FOLLOWERS.get(before, "").split()


class SkipReason(StrEnum):
    POLICY = "policy"
    DISABLED = "disabled"
    OVERLAP = "overlap"
    SUPERSEDED = "superseded"
    INVALID_TOOLS = "invalid tools"
    MISSING_SKILL = "missing skill"
    COST_CAP = "cost cap"
    SCREENING = "screening"
    BUDGET = "budget"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """`key` is the scheduled instant in UTC, or the name of a call, which may be any text.

    `job_id` is that of the job, or of the event. `part` is empty for the moment itself. A time that
    it comes again has a number from 2 on, and a heads-up the length by which it comes before, such
    as `before-30m`.
    """

    kind: OccurrenceKind
    job_id: str
    key: str
    manual: bool = False
    part: str = ""

    def __post_init__(self) -> None:
        if not self.job_id or ":" in self.job_id or not self.key:
            raise ValueError(f"{self.job_id!r} and {self.key!r} do not name an occurrence")
        if not self.is_call:
            _instant(self.key)
        if self.part and not (self.kind.has_moments and _PART.fullmatch(self.part)):
            raise ValueError(f"{self.part!r} is no part of a moment")

    @classmethod
    def scheduled(cls, kind: OccurrenceKind, job_id: str, at: datetime) -> Occurrence:
        return cls(kind, job_id, _instant_key(at))

    @classmethod
    def by_hand(cls, kind: OccurrenceKind, job_id: str, now: datetime) -> Occurrence:
        return cls(kind, job_id, _instant_key(now), manual=True)

    @property
    def id(self) -> str:
        part = f"#{self.part}" if self.part else ""
        suffix = _BY_HAND if self.manual else ""
        # A sender's own key must not pass for a manual run.
        if not self.manual and self.key.endswith((_BY_HAND, _DELIVERED)):
            suffix = _DELIVERED
        return f"{self.kind}:{self.job_id}:{self.key}{suffix}{part}"

    @classmethod
    @lru_cache(maxsize=512)
    def parse(cls, text: str) -> Occurrence:
        """The inverse of `id`; raises `ValueError` for anything else."""
        name, _, rest = text.partition(":")
        job_id, _, key = rest.partition(":")
        part = ""
        with suppress(ValueError):
            kind = EventKind(name) if name in _EVENTS else JobKind(name)
            if kind.has_moments:
                key, _, part = key.partition("#")
            manual = key.endswith(_BY_HAND)
            key = key.removesuffix(_BY_HAND if manual else _DELIVERED)
            occurrence = cls(kind, job_id, key, manual, part)
            if occurrence.id == text:
                return occurrence
        raise ValueError(f"{text!r} is not an occurrence: kind:job:moment")

    @property
    def scheduled_at(self) -> datetime | None:
        """The scheduled moment; None for a call, and for a time that it comes again.

        The moment of the latter depends on when it came before.
        """
        if self.is_call:
            return None
        if not self.part:
            return _instant(self.key)
        return None if self.is_again else _instant(self.key) - (self.comes_before or timedelta())

    @property
    def whole(self) -> Occurrence:
        """The moment itself."""
        return replace(self, part="") if self.part else self

    @property
    def is_again(self) -> bool:
        return bool(self.part) and not self.part.startswith(_BEFORE)

    @property
    def comes_before(self) -> timedelta | None:
        """The length by which a heads-up comes before the moment; None for anything else."""
        is_before = self.part.startswith(_BEFORE)
        return parse_length(self.part.removeprefix(_BEFORE)) if is_before else None

    def again(self, number: int) -> Occurrence:
        """The time with that number; the first has number 1."""
        return replace(self, part=str(number))

    def before(self, length: timedelta) -> Occurrence:
        """The heads-up that comes so long before the moment."""
        return replace(self, part=f"{_BEFORE}{length_text(length)}")

    @property
    def is_call(self) -> bool:
        """Whether a caller of the job caused it."""
        return not self.kind.has_moments and not self.manual


def _instant_key(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _instant(key: str) -> datetime:
    if not _INSTANT.fullmatch(key):
        raise ValueError(f"{key!r} is not a moment such as 2026-11-16T08:00:00Z")
    return datetime.fromisoformat(key)


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


class Progress(NamedTuple):
    """What the ledger says of an occurrence.

    `state` is its last state; `had_effect` says that an attempt may have had a lasting effect.
    """

    state: OccurrenceState | None = None
    attempts: int = 0
    had_effect: bool = False

    @property
    def has_ended(self) -> bool:
        return self.state is not None and self.state.is_end

    @property
    def is_begun(self) -> bool:
        return self.state not in (None, OccurrenceState.PLANNED, OccurrenceState.DUE)

    @property
    def may_retry(self) -> bool:
        return self.attempts < MAX_ATTEMPTS and not self.had_effect


_UNWANTED = frozenset({SkipReason.POLICY, SkipReason.SUPERSEDED, SkipReason.DISABLED})


def is_unwanted(reason: str, *, is_manual: bool) -> bool:
    """Whether what must be delivered is not delivered either after a skip for that reason.

    A manual run is not wanted twice at once; each moment of a routine is.
    """
    return reason in _UNWANTED or (is_manual and reason == SkipReason.OVERLAP)
