"""Simulates what the jobs would do in the coming days.

The rules are those of the real schedule: `domain.decision` decides about each occurrence. How long
a run takes is assumed.
"""

from __future__ import annotations

from ollim_bot.domain.rehearsal.findings import MOST_ASKED, Finding, FindingKind, findings, warnings
from ollim_bot.domain.rehearsal.fires import AssumedRuns, Assumptions, Fire, Ping
from ollim_bot.domain.rehearsal.phone import PushDay, push_days
from ollim_bot.domain.rehearsal.simulation import Rehearsal, rehearse

__all__ = [
    "MOST_ASKED",
    "AssumedRuns",
    "Assumptions",
    "Finding",
    "FindingKind",
    "Fire",
    "Ping",
    "PushDay",
    "Rehearsal",
    "findings",
    "push_days",
    "rehearse",
    "warnings",
]
