"""The format of routines, apart because cron lines load a library that reminders do without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ollim_bot.domain.cron import Cron
from ollim_bot.domain.jobs import JobKind, Routine
from ollim_bot.errors import BadCron
from ollim_bot.store.document import Field
from ollim_bot.store.job_formats import Fault, FieldRule, JobFormat, WrongValue, flag, text


def cron(field: Field) -> Cron:
    try:
        return Cron.parse(text(field))
    except BadCron as bad:
        raise WrongValue(str(bad)) from None


def _fields(routine: Routine) -> dict[str, object]:
    return {"cron": routine.cron} | ({} if routine.quiet else {"quiet": False})


def _faults(values: Mapping[str, Any], _: str) -> Iterator[Fault]:
    if "quiet" in values and values.get("background"):
        yield "quiet", "is for routines in the conversation only; remove it, or background: true"


ROUTINES = JobFormat(
    JobKind.ROUTINE,
    own_rules=(FieldRule("cron", cron), FieldRule("quiet", flag)),
    required=("id", "cron"),
    background_by_default=False,
    build=lambda spec, values: Routine(spec, values["cron"], values.get("quiet", True)),
    own_fields=_fields,
    faults=_faults,
)
