"""What the scheduler says to the owner."""

from __future__ import annotations

from collections.abc import Mapping

from ollim_bot.domain.occurrences import OccurrenceState

NOT_READY = "The agent was not ready in time, so here it is as you wrote it."
WAS_CUT_OFF = "The bot was stopped before the agent could say it, so here it is as you wrote it."

# What the ledger says of whatever ends without having been begun.
NOT_RUN: Mapping[str, object] = {"silent_because": "it was not run"}

_WHY: Mapping[OccurrenceState, str] = {
    OccurrenceState.FAILED: "The agent could not do it, so here it is as you wrote it.",
    OccurrenceState.TIMED_OUT: "The agent took too long, so here it is as you wrote it.",
    OccurrenceState.SKIPPED: "The agent could not be asked, so here it is as you wrote it.",
    OccurrenceState.INTERRUPTED: "The agent was stopped, so here it is as you wrote it.",
}


def why_plainly(state: OccurrenceState) -> str:
    """Why a reminder comes from the program; empty where the agent just did not say it."""
    return _WHY.get(state, "")


def interrupted(title: str) -> str:
    return (
        f"“{title}” was cut off by a restart after it had begun to act, so it was not repeated. "
        "Look whether all of it was done."
    )


def given_up(title: str) -> str:
    return f"“{title}” was cut off by restarts again and again, and was given up."


def cost_cap(dollars: float) -> str:
    return (
        f"Today has cost ${dollars:.2f} or more, so jobs do not ask the model until tomorrow. "
        "`/config daily_cost_cap` changes that."
    )
