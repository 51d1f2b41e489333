"""A job as a form for its owner: each field in words, and the file itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import islice
from typing import NamedTuple
from urllib.parse import quote

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import MONTHS, WEEKDAYS, clock_time, day_words, describe
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.job_fields import BY_CLOCK, JobField, written_value
from ollim_bot.kernel.values.jobs import Job, JobText, Reminder, Routine
from ollim_bot.kernel.values.phrases.moment import moment_to_keep, parse_day
from ollim_bot.kernel.values.phrases.rhythm import parse_rhythm
from ollim_bot.kernel.values.repeats import AfterDone, Repeat, Rhythm, read_rhythm

TEXT, WHEN = "text", "when"
_MOMENTS = 3


class FormField(NamedTuple):
    """`value` is what the field shows, and `choices` are all values that it can have, with words.

    `in_file` is what the file has now, where another value was typed while the file changed.
    """

    name: str
    label: str
    value: str
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    in_file: str | None = None


@dataclass(frozen=True, slots=True)
class JobForm:
    """A job as its owner edits it.

    `key` finds the job again: its id, or the name of a file without a valid one. `fields` are empty
    if the file is wrong: `problems` then say why, each with its line. `both` says why another
    version stands beside that of the file, and `typed` is the whole text of that.
    """

    key: str
    kind: JobKind
    title: str
    file: JobText
    now: datetime
    fields: Sequence[FormField] = ()
    rhythm: str = ""
    next: Sequence[datetime] = ()
    problems: Sequence[str] = ()
    untrusted: str = ""
    set_by: str = ""
    is_enabled: bool = True
    is_skipped: bool = False
    can_skip: bool = False
    can_run: bool = False
    typed: str | None = None
    both: str = ""

    @property
    def values(self) -> Mapping[str, str]:
        """What the file says, by the name of the field."""
        return {
            each.name: each.value if each.in_file is None else each.in_file for each in self.fields
        }

    def with_typed(self, why: str, typed: Mapping[str, str], file: str | None = None) -> JobForm:
        """The form with what was typed, beside what the file has; `why` is a sentence."""
        fields = [
            each._replace(value=typed[each.name], in_file=each.value)
            if typed.get(each.name, each.value) != each.value
            else each
            for each in self.fields
        ]
        return replace(self, fields=fields, typed=file, both=why)


def address_of(key: str) -> str:
    """Where the page shows the form of a job."""
    return f"/jobs/{quote(key, safe=':')}"


def form_of(
    job: Job,
    fields: Iterable[JobField],
    key: str,
    file: JobText,
    now: datetime,
    *,
    is_skipped: bool,
) -> JobForm:
    """The form of a job whose file is right; `is_skipped` says that its next moment is.

    `fields` are those that the file of such a job may have.
    """
    spec = job.spec
    return JobForm(
        key,
        job.kind,
        spec.owner_title or spec.id,
        file,
        now,
        tuple(_fields(job, fields, now)),
        when_in_words(job, now),
        next_moments(job, now),
        untrusted=spec.untrusted or "",
        set_by=spec.set_by or "",
        is_enabled=spec.enabled,
        is_skipped=is_skipped,
        can_skip=isinstance(job, Routine),
        can_run=not job.why_not_by_hand,
    )


def next_moments(job: Job, now: datetime) -> tuple[datetime, ...]:
    """The next three moments; none while it is paused, or if it has none."""
    zone = now.tzinfo or UTC
    if not job.spec.enabled:
        return ()
    if isinstance(job, Reminder):
        due = job.due(zone)
        return (due,) if due.astimezone(UTC) > now.astimezone(UTC) else ()
    if not isinstance(job, Routine):
        return ()
    coming = job.rhythm.moments_from(now + datetime.resolution, job.spec.zone(zone))
    return tuple(each.astimezone(zone) for each in islice(coming, _MOMENTS))


def when_in_words(job: Job, now: datetime) -> str:
    """`tomorrow, Wed 18 Nov, 9:00 · once`, or the rhythm; empty for a job that is called."""
    if isinstance(job, Reminder):
        return f"{dated(job.due(now.tzinfo or UTC), now)} · once"
    if not isinstance(job, Routine):
        return ""
    zone = f" in {job.spec.timezone}" if job.spec.timezone else ""
    return f"{job.rhythm.explain()}{zone}"


def dated(moment: datetime, now: datetime) -> str:
    """`tomorrow, Wed 18 Nov, 9:00`: the day by its name and by its date."""
    local = moment.astimezone(now.tzinfo)
    near = describe(local, now).split(" ")[0]
    day = day_words(local, now)
    days = day if near in WEEKDAYS else f"{near}, {day}"
    return f"{days}, {clock_time(local)}"


def _fields(job: Job, fields: Iterable[JobField], now: datetime) -> Iterator[FormField]:
    says = "What it says" if job.is_plain else "What the agent does then"
    yield FormField(TEXT, says, plain_lines(job.spec.message))
    shown = [(each, each.form) for each in fields if each.form and _has(job, each)]
    for field, words in sorted(shown, key=lambda each: each[1].place):
        value = written_value(getattr(job.spec, field.attribute, getattr(job, field.attribute, 0)))
        names = [name for name, _, in_file in words.choices if in_file == value]
        text = ", ".join(value) if isinstance(value, list) else str(value or "")
        if words.choices:
            text = names[0] if names else words.choices[0][0]
        usual = "Yes" if replace(job, spec=replace(job.spec, must=None)).must else "No"
        choices = tuple((name, said.format(usual=usual)) for name, said, _ in words.choices)
        yield FormField(field.name, words.label, text, words.hint, choices)
        if field.name == "description":
            yield from _fields_of_moment(job, now)


def _has(job: Job, field: JobField) -> bool:
    if field.name == "quiet":
        return not job.spec.background
    return job.kind.has_moments or not field.has(BY_CLOCK)


def _fields_of_moment(job: Job, now: datetime) -> Iterator[FormField]:
    if isinstance(job, Reminder):
        hint = "such as `tomorrow 9am`, `in 20 minutes` or `2026-12-24 18:00`"
        yield FormField(WHEN, "When", moment_text(job, now), hint)
    if not isinstance(job, Routine):
        return
    rhythm, there = job.rhythm, now.astimezone(job.spec.zone(now.tzinfo or UTC))
    hint = "such as `every weekday at 9:00`, `every 2 weeks on monday at 9:00` or a cron line"
    yield FormField(WHEN, "How often", rhythm_text(rhythm, there), hint)
    if isinstance(rhythm, AfterDone):
        return
    ends = rhythm if isinstance(rhythm, Repeat) else Repeat(rhythm)
    since = f", counted from {_day(ends.start)}" if ends.start else ""
    last = "the last day, such as `24 dec`; empty: no end"
    yield FormField("until", "Until", day_text(ends.until, there.date()), last)
    often = f"after so many times{since}; empty: no end"
    yield FormField("times", "Ends after", str(ends.times or ""), often)


def moment_text(job: Reminder, now: datetime) -> str:
    """The moment as it can be typed: in words if they are read as the same moment."""
    there = now.astimezone(job.spec.zone(now.tzinfo or UTC))
    due = job.due(now.tzinfo or UTC).astimezone(there.tzinfo)
    words = f"{due.day} {MONTHS[due.month - 1]} {due.year} {clock_time(due)}"
    with suppress(WrongInput):
        found = moment_to_keep(words, there)
        if (found if found.tzinfo else found.replace(tzinfo=due.tzinfo)) == due:
            return words
    return due.strftime("%Y-%m-%d %H:%M:%S").removesuffix(":00")


def rhythm_text(rhythm: Rhythm, now: datetime) -> str:
    """The rhythm without its end as it can be typed: in words if they are read as the same."""
    endless = replace(rhythm, until=None, times=None) if isinstance(rhythm, Repeat) else rhythm
    explained = endless.explain()
    spoken = explained.replace(" on Monday through Friday", " every weekday")
    for words in (explained, spoken, spoken.replace(" on ", " every ", 1)):
        with suppress(WrongInput):
            read = read_rhythm(parse_rhythm(words, now))
            if _days_and_times(read) == _days_and_times(endless):
                return words[:1].lower() + words[1:]
    if isinstance(endless, Repeat) and isinstance(endless.rule, Cron):
        return str(endless.rule)
    return endless.text


def _days_and_times(rhythm: Rhythm) -> tuple[object, object]:
    """Without its first day."""
    if isinstance(rhythm, Cron):
        return rhythm, ()
    return rhythm.rule if isinstance(rhythm, Repeat) else rhythm.days, rhythm.at


def day_text(day: date | None, today: date) -> str:
    """The day as it can be typed."""
    if day is None:
        return ""
    with suppress(WrongInput):
        if parse_day(_day(day), today) == day:
            return _day(day)
    return day.isoformat()


def _day(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def plain_lines(text: str) -> str:
    """The text as a box on the page gives it back."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
