"""Moments and durations in words: understood as a whole and for certain, or refused with a reason.

Each module opens with its part of the grammar.
"""

from __future__ import annotations

from ollim_bot.domain.phrases.durations import parse_duration
from ollim_bot.domain.phrases.moment import parse_moment

__all__ = ["parse_duration", "parse_moment"]
