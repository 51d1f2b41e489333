"""What the jobs would do in the days to come, played through on a clock that is only imagined.

The rules are those of the real schedule: what was missed, what overlaps, how many background runs
there are at once, and what the ping budget pays for. How long a run takes is a guess.
"""

from __future__ import annotations

from ollim_bot.domain.rehearsal.adding import MOST_ASKED, warnings
from ollim_bot.domain.rehearsal.circumstances import Circumstances
from ollim_bot.domain.rehearsal.findings import Finding, findings
from ollim_bot.domain.rehearsal.fires import Fire, Guess, Ping
from ollim_bot.domain.rehearsal.rehearsing import Rehearsal, rehearse

__all__ = [
    "MOST_ASKED",
    "Circumstances",
    "Finding",
    "Fire",
    "Guess",
    "Ping",
    "Rehearsal",
    "findings",
    "rehearse",
    "warnings",
]
