"""What the jobs would do in the days to come, played through on a clock that is only imagined.

The rules are those of the real schedule: what was missed, what overlaps, how many background runs
there are at once, and what the ping budget pays for. How long a run takes is a guess.
"""

from __future__ import annotations

from ollim_bot.domain.rehearsal.findings import MOST_ASKED, Finding, findings, warnings
from ollim_bot.domain.rehearsal.simulation import (
    Assumptions,
    Fire,
    Guess,
    Ping,
    Rehearsal,
    rehearse,
)

__all__ = [
    "MOST_ASKED",
    "Assumptions",
    "Finding",
    "Fire",
    "Guess",
    "Ping",
    "Rehearsal",
    "findings",
    "rehearse",
    "warnings",
]
