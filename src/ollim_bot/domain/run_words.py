"""What became of a run, and how late it was, in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from ollim_bot.domain.moments import describe

_IN_WORDS = {
    "timed_out": "timed out",
    "cut_off": "cut off",
    "attempt_failed": "to be tried again",
    "effect": "reached out",
}
_DEEDS = {"answered": "spoke in the conversation", "pings": "pinged", "report": "reported"}
_REASONS = {"policy": "you wanted it skipped"}


def in_words(state: str) -> str:
    """A state of the ledger, as a person says it."""
    return _IN_WORDS.get(state, state)


def outcome(facts: Mapping[str, object]) -> str:
    """Why it failed or was left out, what it did, or why it was silent; empty if nothing tells."""
    if error := str(facts.get("error") or facts.get("reason") or ""):
        return _REASONS.get(error, error).removesuffix(".")
    did = [word for name, word in _DEEDS.items() if facts.get(name)]
    why = str(facts.get("silent_because") or "")
    return " and ".join(did) if did else f"silent, because {why}" if why else ""


def late_label(due: datetime, now: datetime) -> str:
    """What stands below whatever comes late, whoever brings it."""
    return f"Late: it was due {describe(due, now)}."
