"""What a background run leaves in the ledger: a story that a person can read."""

from __future__ import annotations

from datetime import datetime

from ollim_bot.domain.events import Usage
from ollim_bot.domain.jobs import ReportMode
from ollim_bot.domain.runs import Run


def end_facts(
    run: Run, ended: datetime, usage: Usage, *, attempts: int, error: str
) -> dict[str, object]:
    """Everything that the end row of an occurrence carries."""
    facts: dict[str, object] = {
        "job": run.label,
        "started": run.began.isoformat(),
        "ended": ended.isoformat(),
        "attempts": attempts,
        "session": run.session,
        "pings": list(run.pings),
        "refused_pings": [{"reason": one.reason, "text": one.text} for one in run.refused_pings],
        "report": " ".join(run.reports),
        "tools": run.tools_used,
        "tokens": usage.context + usage.output,
        "cost_usd": round(usage.cost_usd, 6),
        "error": error,
        "silent_because": why_silent(run, error),
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [], 0)}


def why_silent(run: Run, error: str) -> str:
    """In words; empty if it was not."""
    if run.pings:
        return ""
    if error:
        return "it failed before it said anything"
    if run.refused_pings:
        return run.refused_pings[-1].reason
    if not run.policy.allow_ping:
        return "pings are switched off for this job"
    if run.reports:
        return "it reported to the main conversation instead"
    if run.policy.report is ReportMode.BLOCKED:
        return "it had nothing to say, and may not report"
    return "it had nothing to say"
