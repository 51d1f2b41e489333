"""Whether a background run may speak to the owner now: decided by code, never by the prompt."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ollim_bot.domain.jobs import ReportMode
from ollim_bot.domain.outgoing import Charge
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.runs import Run


@dataclass(frozen=True, slots=True)
class Allowed:
    charge: Charge


@dataclass(frozen=True, slots=True)
class Refused:
    """`reason` is for the agent: why, and what to do instead."""

    reason: str


Verdict = Allowed | Refused


def is_ordered(run: Run) -> bool:
    """Whether its next ping is what the owner has ordered, and not the bot's initiative."""
    return run.policy.must and run.policy.allow_ping and not run.has_pinged


def charged(
    budget: PingBudget,
    run: Run,
    now: datetime,
    *,
    wants_critical: bool,
    is_busy: bool,
    daily_cap: int,
) -> tuple[PingBudget, Verdict]:
    """The budget after this ping was paid for, and whether it may be sent.

    In this order: pings allowed at all, one for each run, the owner not being answered, a token
    left. A critical ping skips the last three, once in a run and a few times a day; beyond that it
    is an ordinary one. What the owner has ordered to be delivered is neither refused nor charged.
    """
    if not run.policy.allow_ping:
        return budget, Refused(f"Pings are switched off for this job. {_instead(run)}")
    if is_ordered(run):
        return budget, Allowed(Charge.NOTHING)
    if wants_critical and not run.critical_used:
        paid, is_paid = budget.critical_spent(now, daily_cap)
        if is_paid:
            return paid, Allowed(Charge.CRITICAL)
    if run.has_pinged:
        return budget, Refused(f"This run has pinged once already. {_instead(run)}")
    if is_busy:
        return budget, Refused(f"The owner is in the middle of a conversation. {_instead(run)}")
    paid, is_paid = budget.spent_by(run.occurrence, now)
    if is_paid:
        return paid, Allowed(Charge.TOKEN)
    line = paid.status_line(now)
    return paid, Refused(f"The ping budget is used up ({line}). {_instead(run)}")


def _instead(run: Run) -> str:
    if run.policy.report is ReportMode.BLOCKED:
        return "End without a message."
    return "Leave it with `report_updates`, or end without a message."
