"""Whom the doctor looks at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ollim_bot.environment.place import Place
from ollim_bot.settings import Settings


@dataclass(frozen=True, slots=True)
class Patient:
    """An installation. `problems` is what is wrong with its settings.

    If there are any, `settings` is None; and so is `place`, if it is not clear where the data is.
    """

    settings: Settings | None
    place: Place | None
    problems: Sequence[str]
    environ: Mapping[str, str]
    now: datetime
