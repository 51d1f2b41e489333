"""The format of routines, apart because cron lines load a library that reminders do without."""

from __future__ import annotations

from ollim_bot.domain.cron import Cron
from ollim_bot.domain.jobs import JobKind, Routine
from ollim_bot.errors import BadCron
from ollim_bot.store.document import Field
from ollim_bot.store.job_formats import FieldRule, JobFormat, WrongValue, text


def cron(field: Field) -> Cron:
    try:
        return Cron.parse(text(field))
    except BadCron as bad:
        raise WrongValue(str(bad)) from None


ROUTINES = JobFormat(
    JobKind.ROUTINE,
    own_rules=(FieldRule("cron", cron),),
    required=("id", "cron"),
    background_by_default=False,
    build=lambda spec, values: Routine(spec, values["cron"]),
    own_fields=lambda routine: {"cron": routine.cron},
)
