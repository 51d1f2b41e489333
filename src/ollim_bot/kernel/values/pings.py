"""The ping budget, and the decision whether a ping may be sent."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.moments import elapsed
from ollim_bot.kernel.values.jobs import ReportMode
from ollim_bot.kernel.values.run_history import Refused

if TYPE_CHECKING:
    from ollim_bot.kernel.values.runs import Run

DEFAULT_CAPACITY = 5
DEFAULT_REFILL_MINUTES = 90
LARGEST_LIMIT = 1_000_000

# Rounding must not leave 0.9999999 of a token where one was refilled.
_TOLERANCE = 1e-9
# Each is used or returned soon; the limit drops those that crashes left behind.
_MOST_HELD = 50


class Charge(StrEnum):
    """What a message costs of the ping budget; refunded if it certainly was not sent."""

    NOTHING = "nothing"
    TOKEN = "token"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class PingBudget:
    """`available` lies between 0 and `capacity`; `now` is always in the owner's zone.

    `payments` counts all payments, so that a crash cannot cause a second one. `held` are the
    occurrences for which one token each is reserved.
    """

    capacity: int
    available: float
    refill_rate_minutes: int
    last_refill: datetime
    critical_used: int
    critical_reset_date: date
    daily_used: int
    daily_used_reset: date
    payments: int = 0
    held: tuple[str, ...] = ()

    @classmethod
    def full(cls, now: datetime) -> PingBudget:
        return cls(
            capacity=DEFAULT_CAPACITY,
            available=float(DEFAULT_CAPACITY),
            refill_rate_minutes=DEFAULT_REFILL_MINUTES,
            last_refill=now,
            critical_used=0,
            critical_reset_date=now.date(),
            daily_used=0,
            daily_used_reset=now.date(),
        )

    @property
    def tokens(self) -> int:
        return math.floor(self.available + _TOLERANCE)

    def refilled(self, now: datetime) -> PingBudget:
        """The budget at `now`: with the tokens that time has added, and today's counters.

        A clock that went back adds nothing, takes nothing, and counts from the new time on.
        """
        passed = max(timedelta(0), elapsed(self.last_refill, now))
        gained = passed / timedelta(minutes=1) / self.refill_rate_minutes
        today = now.date()
        return replace(
            self,
            available=min(float(self.capacity), self.available + gained),
            last_refill=now,
            critical_used=self.critical_used if today <= self.critical_reset_date else 0,
            critical_reset_date=today,
            daily_used=self.daily_used if today <= self.daily_used_reset else 0,
            daily_used_reset=today,
        )

    def refills_until(self, moment: datetime, now: datetime) -> int:
        """How many tokens time adds from `now` to `moment`, without regard to `capacity`."""
        bottomless = replace(self.refilled(now), capacity=LARGEST_LIMIT)
        return bottomless.refilled(moment).tokens - bottomless.tokens

    def spent(self, now: datetime) -> tuple[PingBudget, bool]:
        """One token less and True, or only refilled and False when there is no whole token."""
        budget = self.refilled(now)
        if budget.tokens < 1:
            return budget, False
        left = max(0.0, budget.available - 1)
        return replace(budget, available=left, daily_used=budget.daily_used + 1), True

    def set_aside(self, occurrence: str, now: datetime) -> tuple[PingBudget, bool]:
        """Reserve one token for the ping of that occurrence; repeating the call changes nothing.

        False if there is no token.
        """
        if occurrence in self.held:
            return self, True
        budget, is_paid = self.spent(now)
        held = (*budget.held, occurrence)[-_MOST_HELD:]
        return (replace(budget, held=held) if is_paid else budget), is_paid

    def spent_by(self, occurrence: str, now: datetime) -> tuple[PingBudget, bool]:
        """Like `spent`, with the token that is reserved for that occurrence, if there is one."""
        if occurrence not in self.held:
            return self.spent(now)
        return self.refilled(now)._without(occurrence), True

    def released(self, occurrence: str, now: datetime) -> PingBudget:
        """With the reserved token of that occurrence returned, if it was not used."""
        return self.given_back(now)._without(occurrence) if occurrence in self.held else self

    def _without(self, occurrence: str) -> PingBudget:
        return replace(self, held=tuple(each for each in self.held if each != occurrence))

    def given_back(self, now: datetime, pings: int = 1) -> PingBudget:
        """The budget with the tokens of pings that certainly were not sent."""
        budget = self.refilled(now)
        return replace(
            budget,
            available=min(float(budget.capacity), budget.available + pings),
            daily_used=max(0, budget.daily_used - pings),
        )

    def critical_spent(self, now: datetime, daily_cap: int) -> tuple[PingBudget, bool]:
        """One more critical ping today and True, or False when today's limit is reached."""
        budget = self.refilled(now)
        if budget.critical_used >= daily_cap:
            return budget, False
        return replace(budget, critical_used=budget.critical_used + 1), True

    def critical_given_back(self, now: datetime) -> PingBudget:
        budget = self.refilled(now)
        return replace(budget, critical_used=max(0, budget.critical_used - 1))

    def resized(self, now: datetime, *, capacity: int, refill_rate_minutes: int) -> PingBudget:
        """With other limits. A smaller capacity drops tokens; a larger one adds none.

        Raises `WrongInput` unless both limits are positive and of a sensible size.
        """
        if not (1 <= capacity <= LARGEST_LIMIT and 1 <= refill_rate_minutes <= LARGEST_LIMIT):
            raise WrongInput(
                "The ping budget takes a capacity and the minutes per ping, both whole numbers "
                f"from 1 to {LARGEST_LIMIT}, such as 5 and 90."
            )
        budget = self.refilled(now)
        return replace(
            budget,
            capacity=capacity,
            refill_rate_minutes=refill_rate_minutes,
            available=min(float(capacity), budget.available),
        )

    def status_line(self, now: datetime) -> str:
        """`budget: 3/5 (next refill in 42 min)`."""
        budget = self.refilled(now)
        line = f"budget: {budget.tokens}/{budget.capacity}"
        if budget.tokens >= budget.capacity:
            return line
        missing = 1 - (budget.available + _TOLERANCE) % 1
        minutes = math.ceil(missing * budget.refill_rate_minutes)
        return f"{line} (next refill in {minutes} min)"

    def full_status(self, now: datetime) -> str:
        """The status line, and today's use if there was any."""
        budget = self.refilled(now)
        lines = [budget.status_line(now)]
        if budget.daily_used:
            lines.append(f"used today: {budget.daily_used}")
        if budget.critical_used:
            lines.append(f"critical bypasses: {budget.critical_used}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class PingAllowed:
    """`held_until` is set for a ping that is accepted now and sent when the quiet ends."""

    charge: Charge
    held_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class PingRefused:
    """`reason` tells the agent why, and what to do instead."""

    reason: str


PingVerdict = PingAllowed | PingRefused


def is_must_ping(run: Run) -> bool:
    """Whether the next ping of the run delivers what the owner ordered."""
    return run.policy.must and run.policy.allow_ping and not run.has_pinged


def charged(
    budget: PingBudget,
    run: Run,
    now: datetime,
    *,
    wants_critical: bool,
    is_busy: bool,
    daily_cap: int,
) -> tuple[PingBudget, PingVerdict]:
    """The budget after paying for this ping, and whether the ping may be sent.

    The checks, in order: pings are allowed for the job, the run has not pinged, the owner is not
    being answered, a token is left. A critical ping skips the last three, once in a run and a few
    times a day; beyond that it counts as an ordinary one. A ping that the owner ordered is neither
    refused nor charged.
    """
    if not run.policy.allow_ping:
        return budget, PingRefused(f"{Refused.OFF}. {_instead(run)}")
    if is_must_ping(run):
        return budget, PingAllowed(Charge.NOTHING)
    if wants_critical and not run.critical_used:
        paid, is_paid = budget.critical_spent(now, daily_cap)
        if is_paid:
            return paid, PingAllowed(Charge.CRITICAL)
    if run.has_pinged:
        return budget, PingRefused(f"{Refused.ONCE}. {_instead(run)}")
    if is_busy:
        return budget, PingRefused(f"{Refused.BUSY}. {_instead(run)}")
    paid, is_paid = budget.spent_by(run.occurrence, now)
    if is_paid:
        return paid, PingAllowed(Charge.TOKEN)
    line = paid.status_line(now)
    return paid, PingRefused(f"{Refused.EMPTY} ({line}). {_instead(run)}")


def _instead(run: Run) -> str:
    if run.policy.report is ReportMode.BLOCKED:
        return "End without a message."
    return "Leave it with `report_updates`, or end without a message."
