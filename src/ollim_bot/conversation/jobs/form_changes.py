"""What was typed into the form of a job, as changes of its file: only what was typed changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import NamedTuple

from ollim_bot.domain.cron import Cron
from ollim_bot.domain.job_form import NO, TEXT, WHEN, YES, plain_lines
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.jobs import Job, Reminder, Routine
from ollim_bot.domain.lengths import length_text, parse_length
from ollim_bot.domain.phrases.durations import normalized, parse_duration
from ollim_bot.domain.phrases.moment import moment_to_keep, parse_day
from ollim_bot.domain.phrases.repeat import Ends, bounded, split_ends
from ollim_bot.domain.phrases.rhythm import parse_rhythm
from ollim_bot.domain.quiet import QuietHours
from ollim_bot.domain.repeats import (
    MOST_TIMES,
    REPEATS,
    AfterDone,
    DayRule,
    Repeat,
    Rhythm,
    read_rhythm,
)
from ollim_bot.errors import BadPhrase, WrongInput
from ollim_bot.store import frontmatter
from ollim_bot.store.document import BadDocument
from ollim_bot.store.frontmatter import CannotEdit
from ollim_bot.store.job_folder import read_text
from ollim_bot.store.job_formats import FieldProblem, JobReading
from ollim_bot.store.job_types import JOB_TYPES
from ollim_bot.store.routine_format import RHYTHM_FIELDS, rhythm_changes

FILE = "file"
_CRON = re.compile(r"[\d*/,-]+ [\d*/,-]+( \S+){3}", re.ASCII)
_NO_END = "What follows its answer has no end. Leave this empty."


class WrongField(WrongInput):
    """`field` is its name in the form; `readings` are other words that may be meant."""

    def __init__(self, field: str, sentence: str, readings: Sequence[str] = ()) -> None:
        super().__init__(sentence)
        self.field = field
        self.readings = tuple(readings)


class EditedFile(NamedTuple):
    """The text of a file after an edit, and the job that it holds."""

    text: str
    job: Job


def edited_by_fields(
    job: Job, text: str, typed: Mapping[str, str], now: datetime, quiet: QuietHours | None
) -> EditedFile:
    """The file `text` of the job with the typed fields, by their names in the form.

    `quiet` are the owner's quiet hours. Raises `WrongField`.
    """
    body = typed[TEXT].strip() if TEXT in typed else None
    return _edited(job, text, _changes(job, typed, now, quiet), body)


def without_mark(job: Job, text: str) -> EditedFile:
    """The file `text` of the job without the mark of untrusted words. Raises `WrongField`."""
    return _edited(job, text, {"untrusted": None})


def _edited(
    job: Job, text: str, changes: Mapping[str, object], body: str | None = None
) -> EditedFile:
    try:
        after = frontmatter.edited(text, changes, body)
    except CannotEdit as refused:
        raise WrongField(FILE, f"{refused}. Change the file itself, below.") from None
    reading = read_text(JOB_TYPES[job.kind], after)
    if reading.job is None:
        problem = next((each for each in reading.problems if each.field), reading.problems[0])
        raise WrongField(form_field(problem), f"{problem.complaint()}.")
    return EditedFile(after, reading.job)


def edited_as_file(kind: JobKind, before: str, typed: str) -> EditedFile:
    """The whole file as it was typed, with the line ends of the file.

    Raises `WrongField` with all problems, each with its line.
    """
    text = plain_lines(typed).replace("\n", "\r\n" if "\r\n" in before else "\n")
    reading: JobReading[Job] = read_text(JOB_TYPES[kind], text)
    if reading.job is None:
        raise WrongField(FILE, "\n".join(map(by_line, reading.problems)))
    return EditedFile(text, reading.job)


def by_line(problem: FieldProblem) -> str:
    where = "" if problem.line is None else f"Line {problem.line}: "
    return f"{where}{problem.complaint()}."


def form_field(problem: FieldProblem) -> str:
    """The field of the form that has the problem; a field that the form has not is the file's."""
    name = problem.field
    if name is None:
        return TEXT
    if name in ("until", "times"):
        return name
    if name in (*RHYTHM_FIELDS, "run-at"):
        return WHEN
    return name if name in (*_READERS, "enabled") else FILE


def mark_in(text: str) -> str:
    """The mark `untrusted` of a file, even if the file is wrong."""
    try:
        found = frontmatter.parse(text).fields.get("untrusted")
    except BadDocument:
        line = re.search(r"^untrusted[ \t]*:(.*)$", text, re.MULTILINE)
        return line[1].strip() if line else ""
    return "" if found is None else str(found.value)


def _changes(
    job: Job, typed: Mapping[str, str], now: datetime, quiet: QuietHours | None
) -> dict[str, object]:
    there = now.astimezone(job.spec.zone(now.tzinfo or UTC))
    changes = {name: _READERS[name](typed[name].strip()) for name in _READERS if name in typed}
    if isinstance(job, Reminder) and WHEN in typed:
        try:
            changes["run-at"] = moment_to_keep(typed[WHEN], there)
        except BadPhrase as bad:
            raise WrongField(WHEN, str(bad), bad.readings) from None
    if isinstance(job, Routine) and any(name in typed for name in (WHEN, "until", "times")):
        # The hours of a cron line in another zone are not those of the owner's night.
        own = quiet if job.spec.timezone is None else None
        before, after = rhythm_changes(job.rhythm), _rhythm(job.rhythm, typed, there, own)
        said = rhythm_changes(after).items()
        changes |= {name: value for name, value in said if value != before[name]}
    return changes


def _rhythm(
    before: Rhythm, typed: Mapping[str, str], now: datetime, quiet: QuietHours | None
) -> Rhythm:
    """The rhythm with what was typed; words that name an end count before the end of the file."""
    ends = before if isinstance(before, Repeat) else Repeat(Cron.parse("0 0 * * *"))
    found, start = before, ends.start
    if WHEN in typed:
        found, said = _read_rhythm(typed[WHEN], now, quiet)
        ends = replace(ends, until=said.until or ends.until, times=said.times or ends.times)
        start = said.start or _kept_start(before, found)
    until = _day(typed["until"], now) if "until" in typed else ends.until
    times = _count(typed["times"]) if "times" in typed else ends.times
    if isinstance(found, AfterDone):
        for name, end in (("until", until), ("times", times)):
            if end is not None:
                raise WrongField(name, _NO_END)
        return replace(found, start=start or found.start)
    if isinstance(found, Repeat) and isinstance(found.rule, DayRule):
        return replace(found, start=start or found.start, until=until, times=times)
    rule = found.rule if isinstance(found, Repeat) else found
    return read_rhythm(bounded(str(rule), Ends(start, until, times), now))


def _read_rhythm(words: str, now: datetime, quiet: QuietHours | None) -> tuple[Rhythm, Ends]:
    """The rhythm that the words or a cron line name, and the ends that they name."""
    said = " ".join(words.split())
    try:
        if _CRON.fullmatch(said):
            return Cron.parse(said), Ends()
        rhythm = read_rhythm(parse_rhythm(said, now, quiet, spares_night=True))
        return rhythm, split_ends(normalized(said), now.date())[1]
    except BadPhrase as bad:
        if said.startswith(REPEATS):
            try:
                return _as_written(said)
            except WrongInput:
                pass
        raise WrongField(WHEN, str(bad), bad.readings) from None
    except WrongInput as wrong:
        raise WrongField(WHEN, f"{wrong}.") from None


def _as_written(text: str) -> tuple[Rhythm, Ends]:
    rhythm = read_rhythm(text)
    if isinstance(rhythm, Repeat):
        return rhythm, Ends(rhythm.start, rhythm.until, rhythm.times)
    return rhythm, Ends()


def _kept_start(before: Rhythm, after: Rhythm) -> date | None:
    """The first day of `before`, if `after` has the same days and goes on counting from it."""
    if isinstance(before, AfterDone):
        return before.start if isinstance(after, AfterDone) else None
    if not isinstance(before, Repeat) or before.start is None:
        return None
    if isinstance(before.rule, Cron):
        is_cron = isinstance(after, Cron) or isinstance(getattr(after, "rule", None), Cron)
        return before.start if is_cron else None
    if not isinstance(after, Repeat) or after.rule != before.rule or after.start is None:
        return None
    same = {
        "day": True,
        "week": after.start.weekday() == before.start.weekday(),
        "month": before.rule.place is not None or after.start.day == before.start.day,
    }
    return before.start if same[before.rule.unit] else None


def _day(words: str, now: datetime) -> date | None:
    if not words.strip():
        return None
    try:
        return parse_day(words, now.date())
    except BadPhrase as bad:
        raise WrongField("until", str(bad)) from None


def _count(words: str) -> int | None:
    if not words.strip():
        return None
    is_number = re.fullmatch(r"[0-9]{1,6}", words.strip()) is not None
    if not is_number or not 1 <= int(words) <= MOST_TIMES:
        right = f"a whole number from 1 to {MOST_TIMES}"
        raise WrongField("times", f"`{words.strip()[:40]}` is not {right}.")
    return int(words)


def _lengths(words: str) -> object:
    found = [_length(each.strip()) for each in re.split(r"[,;]|\band\b", words) if each.strip()]
    return found or None


def _length(words: str) -> str:
    try:
        return length_text(parse_length(words))
    except ValueError:
        pass
    try:
        return length_text(parse_duration(words.removesuffix("before").strip()))
    except (WrongInput, ValueError):
        raise WrongField(
            "before", f"`{words[:40]}` is not a length such as `30m`, `2h` or `1d`."
        ) from None


def _off(value: str) -> object:
    """What switches off what is on by itself; it is on without a line in the file."""
    return None if value == YES else False


_READERS: Mapping[str, Callable[[str], object]] = {
    "description": lambda words: " ".join(words.split()) or None,
    "nag": lambda words: words or None,
    "first-step": lambda words: " ".join(words.split()) or None,
    "before": _lengths,
    "kind": lambda value: None if value == NO else value,
    "must": {YES: True, NO: False}.get,
    "quiet": _off,
    "enabled": _off,
}
