"""What a background run leaves in the ledger: a story that a person can read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ollim_bot.domain.events import Usage
from ollim_bot.domain.jobs import ReportMode
from ollim_bot.domain.occurrences import Occurrence, OccurrenceState
from ollim_bot.domain.provider import Price
from ollim_bot.domain.runs import Run

_NOTHING_USED = Usage()


@dataclass(frozen=True, slots=True)
class Outcome:
    """`error` says why it did not work, if it did not."""

    state: OccurrenceState
    usage: Usage = _NOTHING_USED
    error: str = ""


def end_facts(
    run: Run, occurrence: Occurrence, outcome: Outcome, ended: datetime, *, attempts: int
) -> dict[str, object]:
    """Everything that the last row of an attempt carries; what is empty is left out."""
    usage = outcome.usage
    facts: dict[str, object] = {
        "job": run.label,
        "started": run.began.isoformat(),
        "ended": ended.isoformat(),
        "lateness": _lateness(run, occurrence),
        "attempts": attempts,
        "session": run.session,
        "answered": run.has_answered,
        "pings": list(run.pings),
        "refused_pings": [{"reason": one.reason, "text": one.text} for one in run.refused_pings],
        "report": " ".join(run.reports),
        "tools": list(run.tools_used),
        "tokens": usage.context + usage.output,
        "cost_usd": round(usage.cost_usd, 6),
        "price": "" if usage.price is Price.LISTED else usage.price.value,
        "error": outcome.error,
        "silent_because": why_silent(run, outcome.error),
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [], 0)}


def why_silent(run: Run, error: str) -> str:
    """In words; empty if it was not."""
    if run.pings or run.has_answered:
        return ""
    if error:
        return "it did not come to its end"
    if not run.policy.allow_ping:
        return "pings are switched off for this job"
    if run.refused_pings:
        return f"its ping was refused: {why_refused(run)}"
    if run.reports:
        return "it reported to the main conversation instead"
    if run.policy.report is ReportMode.BLOCKED:
        return "it had nothing to say, and may not report"
    return "it had nothing to say"


def why_refused(run: Run) -> str:
    """In the words of its last ping that was."""
    return _first_sentence(run.refused_pings[-1].reason)


def _first_sentence(reason: str) -> str:
    """Why; what follows is advice for the agent."""
    sentence = reason.partition(". ")[0].removesuffix(".")
    return sentence[:1].lower() + sentence[1:]


def _lateness(run: Run, occurrence: Occurrence) -> int:
    """Seconds from the due moment to the start."""
    due = occurrence.scheduled_at
    return 0 if due is None else max(0, int((run.began.astimezone(UTC) - due).total_seconds()))
