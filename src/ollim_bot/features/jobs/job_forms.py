"""One job for the page, as a form and as its file: every change is the owner's, and can be undone.

What the form does not change stays as it is in the file, byte for byte.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import NamedTuple

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import (
    BadPhrase,
    ChangedMeanwhile,
    NotFound,
    OllimError,
    WrongInput,
)
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.logs import unless_refused
from ollim_bot.kernel.base.moments import length_text, parse_length
from ollim_bot.kernel.changes.file_changes import acting
from ollim_bot.kernel.conversation.buttons import PressOn
from ollim_bot.kernel.store import frontmatter
from ollim_bot.kernel.store.document import BadDocument
from ollim_bot.kernel.store.frontmatter import CannotEdit
from ollim_bot.kernel.store.job_folder import read_text
from ollim_bot.kernel.store.job_formats import FieldProblem, JobReading
from ollim_bot.kernel.store.job_types import JOB_TYPES
from ollim_bot.kernel.store.routine_format import RHYTHM_FIELDS, rhythm_changes
from ollim_bot.kernel.store.steps import leave_update, quiet_settings
from ollim_bot.kernel.store.store import Store, changes_of
from ollim_bot.kernel.values.answer_plans import with_plan_of
from ollim_bot.kernel.values.cards import Button, Card, CardLine
from ollim_bot.kernel.values.changes import Changer
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.job_fields import JobField, lengths
from ollim_bot.kernel.values.job_form import (
    TEXT,
    WHEN,
    JobForm,
    address_of,
    dated,
    form_of,
    next_moments,
    plain_lines,
    when_in_words,
)
from ollim_bot.kernel.values.jobs import Job, JobText, Reminder, Routine
from ollim_bot.kernel.values.overviews import CANCEL, MADE_OF, PAUSE, RESUME, RUN, SKIP
from ollim_bot.kernel.values.phrases.durations import normalized, parse_duration
from ollim_bot.kernel.values.phrases.moment import moment_to_keep, parse_day
from ollim_bot.kernel.values.phrases.rhythm import Ends, bounded, parse_rhythm, split_ends
from ollim_bot.kernel.values.ports import JobRepositories
from ollim_bot.kernel.values.quiet import QuietHours
from ollim_bot.kernel.values.repeats import (
    MOST_TIMES,
    REPEATS,
    AfterDone,
    DayRule,
    Repeat,
    Rhythm,
    read_rhythm,
)
from ollim_bot.kernel.values.schedule import ScheduledJob, skipped_moment
from ollim_bot.kernel.values.updates import owner_did
from ollim_bot.kernel.values.views import ActingView, OtherReading, Preview, ViewAnswer

FILE = "file"
_SEPARATORS = re.compile(r"[,;]|\band\b")
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
        name = TEXT if problem.field is None else problem.field
        if name in ("run-at", *RHYTHM_FIELDS) and name not in ("until", "times"):
            name = WHEN
        is_shown = name in (TEXT, WHEN, "until", "times") or name in _typed_fields(job.kind)
        raise WrongField(name if is_shown else FILE, f"{problem.complaint()}.")
    return EditedFile(after, reading.job)


def by_line(problem: FieldProblem) -> str:
    where = "" if problem.line is None else f"Line {problem.line}: "
    return f"{where}{problem.complaint()}."


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
    fields = _typed_fields(job.kind)
    changes = {name: _read(fields[name], typed[name].strip()) for name in fields if name in typed}
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
            with suppress(WrongInput):
                rhythm = read_rhythm(said)
                if not isinstance(rhythm, Repeat):
                    return rhythm, Ends()
                return rhythm, Ends(rhythm.start, rhythm.until, rhythm.times)
        raise WrongField(WHEN, str(bad), bad.readings) from None
    except WrongInput as wrong:
        raise WrongField(WHEN, f"{wrong}.") from None


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


def _typed_fields(kind: JobKind) -> Mapping[str, JobField]:
    return {name: each for name, each in JOB_TYPES[kind].rules.items() if each.form}


def _read(field: JobField, typed: str) -> object:
    """The value for the file; None if the file has no such line."""
    if field.form and field.form.choices:
        return {name: in_file for name, _, in_file in field.form.choices}.get(typed, typed)
    if field.read is lengths:
        return [_length(each.strip()) for each in _SEPARATORS.split(typed) if each.strip()] or None
    return " ".join(typed.split()) or None


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


Difference = Callable[[ScheduledJob | None, ScheduledJob | None], Awaitable[str]]

SAVE, SAVE_FILE, MY_WORDS = "save", "save-file", "my-words"
# What the buttons of a job's card do too.
_PRESSES = {"pause": PAUSE, "resume": RESUME, "skip": SKIP, "run": RUN, "delete": CANCEL}

_BOTH = (
    "The file was changed while you typed. Nothing is saved yet: what you typed stands in the "
    "fields, and beneath it what the file has now."
)
_FORMER = (
    "This was changed since, so the change was not undone. The file as it was before the change "
    "stands below, and beneath it what the file has now."
)
_STALE = "The file was changed meanwhile. Save shows you both."
_CONFLICT = "The file was changed meanwhile. Nothing was saved; here are both."
_NOT_SHOWN = "The file was changed meanwhile. Read it again before you say that it is yours."
_KEEPS_MARK = (
    "The line `untrusted` stays: the text may come from others. "
    "Press These are my words to take the mark away."
)
_KEEPS_ID = "The id stays as it is: with another id it would be another job."
_WRONG_FILE = "The file is not right. Mend it below."


class _Stored(NamedTuple):
    """A job's file, and the job as the program has it; None if the file is wrong."""

    kind: JobKind
    file: JobText
    job: Job | None


class JobFormView(ActingView[JobForm]):
    """An `ActingView` of the job `id`, which may be written `kind:id`.

    With the key of a `change`, what the file held before that stands beside what it holds now.
    The fields of an action are `id`, `version` of the form, and what the form has now.
    `press_on` is the router of buttons; `difference` says what one job in place of another changes
    in the coming week.
    """

    def __init__(
        self,
        store: Store,
        repositories: JobRepositories,
        clock: Clock,
        press_on: PressOn,
        difference: Difference,
    ) -> None:
        self._store = store
        self._repositories = repositories
        self._clock = clock
        self._press_on = press_on
        self._difference = difference
        # What was typed while the file changed.
        self._drafts: dict[str, Mapping[str, str]] = {}

    async def look(self, asked: Mapping[str, str]) -> JobForm:
        key = asked.get("id", "")
        form = await asyncio.to_thread(lambda: self._form_of(self._stored(key), key))
        change = await self._store.read(lambda tx: tx.changes.find(asked.get("change", "")))
        if change is not None and change.place == f"{form.kind.plural}/{form.file.name}":
            return form.with_typed(_FORMER, {}, change.before)
        draft = self._drafts.get(asked.get("draft", ""), {})
        if draft.get("id") != key:
            return form
        return form.with_typed(_BOTH, _typed(form, draft), draft.get(FILE))

    def changes(self) -> AsyncIterator[None]:
        return changes_of(self._store, *MADE_OF, "changes")

    async def act(self, surface: str, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        try:
            with acting(Changer.PAGE):
                if action in _PRESSES:
                    return await self._press(surface, action, fields.get("id", ""))
                if action in (SAVE, SAVE_FILE, MY_WORDS):
                    return await self._write(action, fields)
        except WrongField as wrong:
            return ViewAnswer(str(wrong), is_error=True, field=wrong.field)
        except OllimError as refused:
            return ViewAnswer(str(refused), is_error=True)
        return ViewAnswer("There is no such button here.", is_error=True)

    async def preview(self, action: str, fields: Mapping[str, str]) -> Preview:
        """When the job would come, and what would change in the coming week."""
        try:
            before, edited = await asyncio.to_thread(self._edited, action, fields)
        except WrongField as wrong:
            readings = tuple(OtherReading(each, each) for each in wrong.readings)
            return Preview((str(wrong),), readings if wrong.field == WHEN else (), is_error=True)
        except ChangedMeanwhile:
            return Preview((_STALE,))
        except OllimError as refused:
            return Preview((str(refused),), is_error=True)
        if edited.text == before.file.text:
            return Preview()
        after, now = with_plan_of(edited.job, before.job), self._clock.now()
        coming = ", then ".join(dated(each, now) for each in next_moments(after, now))
        words = when_in_words(after, now)
        if coming and not isinstance(after, Reminder):
            words = f"{words}. Next: {coming}"
        difference, was, is_to_be = None, _scheduled(before.job), _scheduled(after)
        if was or is_to_be:
            # The moment is right all the same.
            rehearsing = self._difference(was, is_to_be)
            why = "The week could not be rehearsed for a draft"
            difference = await unless_refused(why, rehearsing)
        return Preview(tuple(filter(None, (words, difference))))

    def _form_of(self, stored: _Stored, key: str) -> JobForm:
        now = self._clock.now()
        if stored.job is None:
            reading = read_text(JOB_TYPES[stored.kind], stored.file.text)
            problems = [by_line(each) for each in reading.problems]
            kind, file = stored.kind, stored.file
            return JobForm(key, kind, file.name, file, now, problems=problems)
        job, is_skipped = stored.job, False
        if isinstance(job, Routine):
            skips = self._store.query(lambda tx: tx.skips.get())
            is_skipped = skipped_moment(job, skips, now) is not None
        fields = JOB_TYPES[job.kind].rules.values()
        return form_of(job, fields, key, stored.file, now, is_skipped=is_skipped)

    def _stored(self, key: str) -> _Stored:
        """The job with this id, of any kind. Raises `NotFound` or `WrongInput`."""
        kind, colon, job_id = key.partition(":")
        kinds = [JobKind(kind)] if colon and kind in [*JobKind] else [*JobKind]
        job_id = job_id if len(kinds) == 1 else key
        found: dict[JobKind, JobText] = {}
        for each in kinds:
            with suppress(NotFound):
                found[each] = self._repositories.of(each).text_of(job_id)
        if not found:
            raise NotFound(f"There is no job {key[:60]}. It may be over, or deleted.")
        if len(found) > 1:
            names = " or ".join(f"/jobs/{each}:{job_id}" for each in found)
            raise WrongInput(f"Several jobs have the id {job_id}. Open {names}.")
        ((of, file),) = found.items()
        job: Job | None = read_text(JOB_TYPES[of], file.text).job
        if job is not None and job.follows_answers:
            # Its next moment is not in the file.
            job = self._repositories.of(of).get(job_id).item
        return _Stored(of, file, job)

    async def _press(self, surface: str, action: str, key: str) -> ViewAnswer:
        """Press the button that the card of the job has for it."""
        stored = await asyncio.to_thread(self._stored, key)
        if stored.job is None:
            raise WrongInput(_WRONG_FILE)
        now, title = self._clock.now(), stored.job.spec.short_title
        name = f"{stored.kind}:{stored.job.spec.id}"
        button = Button(action, _PRESSES[action], name, line=1)
        card = Card(title, lines=(CardLine(title),), buttons=(button,))
        shown = ChatMessage(MessageId("job"), now, Author.PROGRAM, card.text, card=card)
        answer = await self._press_on(surface, shown, button.custom_id, "")
        is_gone = action == "delete" and not answer.is_error
        return ViewAnswer(answer.text, answer.is_error, go="/today" if is_gone else "")

    async def _write(self, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        """Save what was typed, or keep it as a draft if the file has changed."""
        try:
            job, is_changed = await asyncio.to_thread(self._save, action, fields)
        except ChangedMeanwhile:
            if action == MY_WORDS:
                raise WrongInput(_NOT_SHOWN) from None
            while len(self._drafts) >= 20:
                del self._drafts[next(iter(self._drafts))]
            name = secrets.token_hex(8)
            self._drafts[name] = fields
            address = address_of(fields.get("id", ""))
            return ViewAnswer(_CONFLICT, is_error=True, go=f"{address}?draft={name}")
        if not is_changed:
            return ViewAnswer("Nothing was changed.")
        now = self._clock.now()
        moments = next_moments(job, now)
        what = f"{job.spec.short_title}{f', {dated(moments[0], now)}' if moments else ''}."
        update = owner_did(now, f"changed: {what}", secrets.token_hex(4))
        # The file is saved, and shows it.
        telling = self._store.transact(lambda tx: leave_update(tx, update))
        await unless_refused("The agent could not be told of an edit", telling)
        return ViewAnswer(f"Saved: {what}", go=address_of(fields.get("id", "")))

    def _save(self, action: str, fields: Mapping[str, str]) -> tuple[Job, bool]:
        """Write the file with what was typed; whether anything has changed."""
        before, edited = self._edited(action, fields)
        if edited.text == before.file.text:
            return edited.job, False
        if action != MY_WORDS and mark_in(edited.text) != mark_in(before.file.text):
            raise WrongField(FILE, _KEEPS_MARK)
        if before.job is not None and edited.job.spec.id != before.job.spec.id:
            raise WrongField(FILE, _KEEPS_ID)
        repository = self._repositories.of(before.kind)
        job_id = before.file.name if before.job is None else before.job.spec.id
        job: Job = repository.rewrite(job_id, edited.text, before.file.version)
        return job, True

    def _edited(self, action: str, fields: Mapping[str, str]) -> tuple[_Stored, EditedFile]:
        """The file as it is and as it would be.

        Raises `WrongField`, and `ChangedMeanwhile` if it is not the one that was shown.
        """
        key = fields.get("id", "")
        stored = self._stored(key)
        if fields.get("version", "") != stored.file.version:
            raise ChangedMeanwhile(stored.file.name)
        if action == SAVE_FILE:
            ends = "\r\n" if "\r\n" in stored.file.text else "\n"
            text = plain_lines(fields.get(FILE, "")).replace("\n", ends)
            reading: JobReading[Job] = read_text(JOB_TYPES[stored.kind], text)
            if reading.job is None:
                raise WrongField(FILE, "\n".join(map(by_line, reading.problems)))
            return stored, EditedFile(text, reading.job)
        if stored.job is None:
            raise WrongField(FILE, _WRONG_FILE)
        if action == MY_WORDS:
            return stored, _edited(stored.job, stored.file.text, {"untrusted": None})
        typed = _typed(self._form_of(stored, key), fields)
        quiet = self._store.query(quiet_settings).hours
        changes = _changes(stored.job, typed, self._clock.now(), quiet)
        body = typed[TEXT].strip() if TEXT in typed else None
        return stored, _edited(stored.job, stored.file.text, changes, body)


def _typed(form: JobForm, fields: Mapping[str, str]) -> Mapping[str, str]:
    """The given fields that have another value than the form."""
    given = {name: plain_lines(fields[name]) for name in form.values if name in fields}
    typed = {name: each for name, each in given.items() if each != form.values[name]}
    return typed | ({WHEN: fields["reading"]} if fields.get("reading") else {})


def _scheduled(job: Job | None) -> ScheduledJob | None:
    """The job as the week has it: None if it does not come by itself, or is paused."""
    return job if isinstance(job, Routine | Reminder) and job.spec.enabled else None
