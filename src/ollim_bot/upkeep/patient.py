"""Whom the doctor looks at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ollim_bot.environment.place import Place
from ollim_bot.settings import Settings


@dataclass(frozen=True, slots=True)
class Patient:
    """An installation, as far as it can be told what it is like.

    `problems` are what is wrong with the settings; then `settings` is None, and `place` too if it
    cannot be told where the data is.
    """

    settings: Settings | None
    place: Place | None
    problems: Sequence[str]
    environ: Mapping[str, str]
    now: datetime
