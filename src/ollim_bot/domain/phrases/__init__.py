"""Moments, durations and rhythms in words: understood completely, or refused with a reason."""

from __future__ import annotations

from ollim_bot.domain.phrases.durations import parse_duration
from ollim_bot.domain.phrases.moment import (
    is_moment,
    moment_to_keep,
    parse_day,
    parse_moment,
)
from ollim_bot.domain.phrases.rhythm import parse_rhythm

__all__ = [
    "is_moment",
    "moment_to_keep",
    "parse_day",
    "parse_duration",
    "parse_moment",
    "parse_rhythm",
]
