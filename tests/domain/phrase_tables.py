"""Phrases and what they mean, of `phrases.txt`."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from tests.phrase_files import Row, pairs, read

NOW = datetime(2026, 11, 18, 10, 0)
ZONES = ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe")

_TABLES = read(Path(__file__).with_name("phrases.txt"))


def _length(words: str) -> timedelta:
    unit, _, count = words.partition("=")
    return timedelta(**{unit: int(count)})


MOMENTS = pairs(_TABLES["moments"])
WITH_OFFSET = pairs(_TABLES["with an offset"])
REFUSED_MOMENTS = pairs(_TABLES["refused moments"])
DURATIONS = {phrase: _length(words) for phrase, words in _TABLES["durations"]}
REFUSED_DURATIONS = pairs(_TABLES["refused durations"])
SHIFTS: list[Row] = _TABLES["shifts"]

VOCABULARY = """
    today tomorrow tonight this next day after the on at in from now and a an half quarter past to
    of morning afternoon evening night noon midnight o'clock am pm mon friday sat sunday jan feb
    december 24 3rd 31st 2026 2027 0 7 9 12 13 25 9:30 21:30 12am 9pm 20m 1h 90 minutes hours week
    months nine twenty 2026-12-24 2026-12-24t18:00 12/11 , . - z
"""
