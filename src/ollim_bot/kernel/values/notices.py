"""The notices that were told to the owner, and those that wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ollim_bot.kernel.base.text import counted, joined

GATHERING = timedelta(seconds=2)
BETWEEN_NOTICES = timedelta(minutes=10)
MOST_TOLD = 200
MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Notice:
    """`key` identifies what must not be told again.

    `for_reminder`: a reminder or the conversation is at stake, so that the notice may follow the
    last one at once.
    `untrusted` names who else wrote a part of the text; empty if it is all the program's own.
    """

    id: str
    key: str
    text: str
    for_reminder: bool = False
    untrusted: str = ""


@dataclass(frozen=True, slots=True)
class NoticeRecord:
    """`told` has what was told, by key, and when, the newest as the last; `untold` waits.

    `outage` counts for each job how often it failed since the model stopped answering; None
    while the model answers.
    """

    told: Mapping[str, datetime] = field(default_factory=dict)
    last_told_at: datetime | None = None
    untold: tuple[Notice, ...] = ()
    outage: Mapping[str, int] | None = None

    def knows(self, key: str) -> bool:
        return key in self.told or any(each.key == key for each in self.untold)

    def pause(self, now: datetime) -> timedelta:
        """How long the notices that wait are still to wait for others; nothing if none waits."""
        if not self.untold:
            return timedelta()
        passed = None if self.last_told_at is None else now - self.last_told_at
        # After a clock that was set back the last notice lies in the future.
        is_soon = passed is not None and timedelta() <= passed < BETWEEN_NOTICES
        if passed is None or not is_soon or any(each.for_reminder for each in self.untold):
            return GATHERING
        return max(GATHERING, BETWEEN_NOTICES - passed)

    def with_new(self, notice: Notice) -> NoticeRecord:
        return replace(self, untold=(*self.untold, notice))

    def having_told(self, notices: Sequence[Notice], now: datetime) -> NoticeRecord:
        """Record told notices.

        The newest keys stay, in the order of telling: a clock may go back.
        """
        keys = [each.key for each in notices]
        told = {key: when for key, when in self.told.items() if key not in keys}
        kept = [*told.items(), *((key, now) for key in keys)][-MOST_TOLD:]
        ids = {each.id for each in notices}
        untold = tuple(each for each in self.untold if each.id not in ids)
        return replace(self, told=dict(kept), last_told_at=now, untold=untold)

    def without(self, key: str) -> NoticeRecord:
        """Forget the key, so that it is told when it comes again."""
        return replace(self, told={name: at for name, at in self.told.items() if name != key})

    def withdrawn(self, key: str) -> NoticeRecord:
        """It is over: what waits is not told any more, and it is told when it comes again."""
        rest = tuple(each for each in self.untold if each.key != key)
        return replace(self.without(key), untold=rest)

    def with_outage(self, job: str) -> NoticeRecord:
        """The model did not answer, and the job failed."""
        touched = self.outage or {}
        return replace(self, outage={**touched, job: touched.get(job, 0) + 1})

    def keys(self, start: str) -> list[str]:
        """The keys with this beginning, among those told and those that wait."""
        known = (*self.told, *(each.key for each in self.untold))
        return [key for key in known if key.startswith(start)]


def failing_key(job_id: str, reason: str = "") -> str:
    """Begins the same for all reasons why a job fails."""
    return f"failing {job_id}: {reason}"


def outage_over(touched: Mapping[str, int]) -> str:
    """What the owner is told when the model answers again."""
    jobs = [
        f"“{job}”" + ("" if number == 1 else f" ({number} times)")
        for job, number in touched.items()
    ]
    if (more := len(jobs) - MOST_NAMED) > 0:
        jobs = [*jobs[:MOST_NAMED], counted(more, "other")]
    return (
        f"The model answers again. Not done without it: {joined(jobs)}. `ollim-bot runs` says more."
    )
