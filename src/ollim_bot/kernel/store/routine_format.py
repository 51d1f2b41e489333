"""The format of routines, apart because rhythms load a library that reminders do without."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from ollim_bot.kernel.base.errors import BadCron, BadRepeat
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.store.job_formats import Fault, JobFormat
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.job_fields import (
    NO,
    YES,
    Field,
    FlagWords,
    FormWords,
    JobField,
    WrongValue,
    flag,
    text,
    whole,
    words,
    written_value,
)
from ollim_bot.kernel.values.jobs import JobSpec, Routine
from ollim_bot.kernel.values.repeats import (
    MOST_TIMES,
    AfterDone,
    DayRule,
    Repeat,
    Rhythm,
    clock_text,
    days_text,
    read_clocks,
    read_day,
    read_days,
)

# The fields that say when a routine comes.
RHYTHM_FIELDS = ("cron", "every", "after-done", "at", "from", "until", "times")
T = TypeVar("T")


def _read(read: Callable[[str], T]) -> Callable[[Field], T]:
    def value(field: Field) -> T:
        try:
            return read(text(field))
        except (BadCron, BadRepeat) as bad:
            raise WrongValue(str(bad)) from None

    return value


def _clocks(field: Field) -> object:
    if isinstance(field.value, list):
        return _read(lambda _: read_clocks(words(field)))(field._replace(text=""))
    return _read(lambda one: read_clocks([one]))(field)


def rhythm_fields(rhythm: Rhythm) -> dict[str, object]:
    """The fields of a file that say so."""
    if isinstance(rhythm, Cron):
        return {"cron": rhythm}
    if isinstance(rhythm, AfterDone):
        days, at = days_text(rhythm.days), clock_text(rhythm.at)
        return {"after-done": days, "at": at, "from": rhythm.start}
    clocks = tuple(map(clock_text, rhythm.at))
    fields = {
        "cron" if isinstance(rhythm.rule, Cron) else "every": rhythm.rule,
        "at": clocks[0] if len(clocks) == 1 else clocks or None,
        "from": rhythm.start,
        "until": rhythm.until,
        "times": rhythm.times,
    }
    return {name: value for name, value in fields.items() if value is not None}


def rhythm_changes(rhythm: Rhythm) -> dict[str, object]:
    """All fields that say when, as a file has them; None for those that this rhythm has not."""
    said = {name: written_value(value) for name, value in rhythm_fields(rhythm).items()}
    return {**dict.fromkeys(RHYTHM_FIELDS), **said}


def _built(spec: JobSpec, values: Mapping[str, Any]) -> Routine:
    start, at = values.get("from"), values.get("at", ())
    rhythm: Rhythm
    if "after-done" in values:
        rhythm = AfterDone(values["after-done"], at[0], values["from"])
    elif "every" in values or start or values.keys() & {"until", "times"}:
        rule = values["every"] if "every" in values else values["cron"]
        rhythm = Repeat(rule, at, start, values.get("until"), values.get("times"))
    else:
        rhythm = values["cron"]
    return Routine(spec, rhythm, values.get("quiet", True))


def _fields(routine: Routine) -> dict[str, object]:
    return rhythm_fields(routine.rhythm) | ({} if routine.quiet else {"quiet": False})


def _faults(values: Mapping[str, Any], _: str) -> Iterator[Fault]:
    if "quiet" in values and values.get("background"):
        yield "quiet", "is for routines in the conversation only; remove it, or background: true"
    repeat = next((name for name in ("every", "after-done") if name in values), None)
    if repeat is not None:
        yield from _faults_of_repeat(repeat, values)
    elif "at" in values:
        yield "at", "is for every and after-done; a cron line has its times in itself"
    elif "times" in values and "from" not in values:
        yield "times", "needs from, the day from which they are counted, such as 2026-11-17"
    if {"from", "until"} <= values.keys() and values["until"] < values["from"]:
        yield "until", "is earlier than from"


def _faults_of_repeat(repeat: str, values: Mapping[str, Any]) -> Iterator[Fault]:
    for name, right in (("at", "9:00"), ("from", "2026-11-17")):
        if name not in values:
            yield name, f"is missing beside {repeat}; write it like {right}"
    if repeat == "every":
        return
    if len(values.get("at", ())) > 1:
        yield "at", "is one time of day beside after-done, such as 9:00"
    for name in ("until", "times"):
        if name in values:
            yield name, "is for cron and every; what follows its answer has no end"


ROUTINES = JobFormat(
    JobKind.ROUTINE,
    own_rules=(
        JobField("cron", _read(Cron.parse)),
        JobField("every", _read(DayRule.parse)),
        JobField("after-done", _read(read_days)),
        JobField("at", _clocks),
        JobField("from", _read(read_day)),
        JobField("until", _read(read_day)),
        JobField("times", partial(whole, low=1, high=MOST_TIMES)),
        JobField(
            "quiet",
            flag,
            FlagWords("--quiet --no-quiet", "whether it waits for the end of the quiet"),
            form=FormWords(
                "In quiet hours",
                choices=((YES, "Waits until they end", None), (NO, "Comes all the same", False)),
                place=2,
            ),
        ),
    ),
    required=("id",),
    moments=("cron", "every", "after-done"),
    background_by_default=False,
    build=_built,
    own_fields=_fields,
    faults=_faults,
)
