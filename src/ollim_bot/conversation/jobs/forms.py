"""One job for the page, as a form and as its file: every change is the owner's, and can be undone.

What the form does not change stays as it is in the file, byte for byte.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from ollim_bot.conversation.jobs.day import PressOn
from ollim_bot.conversation.jobs.form_changes import (
    FILE,
    EditedFile,
    WrongField,
    by_line,
    edited_as_file,
    edited_by_fields,
    mark_in,
    without_mark,
)
from ollim_bot.conversation.jobs.overviews import MADE_OF
from ollim_bot.domain.answer_plans import with_plan_of
from ollim_bot.domain.cards import Button, Card, CardLine
from ollim_bot.domain.changes import Changer
from ollim_bot.domain.chat import Author, ChatMessage
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.job_form import (
    WHEN,
    JobForm,
    address_of,
    dated,
    form_of,
    next_moments,
    plain_lines,
    when_in_words,
)
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.jobs import Job, JobText, Reminder, Routine
from ollim_bot.domain.overviews import CANCEL, PAUSE, RESUME, RUN, SKIP, skipped_moment
from ollim_bot.domain.schedule import ScheduledJob
from ollim_bot.domain.updates import owner_did
from ollim_bot.domain.views import OtherReading, Preview, ViewAnswer
from ollim_bot.errors import ChangedMeanwhile, NotFound, OllimError, StorageError, WrongInput
from ollim_bot.ports import Clock, JobRepositories
from ollim_bot.store.changes import acting
from ollim_bot.store.job_folder import read_text
from ollim_bot.store.job_types import JOB_TYPES
from ollim_bot.store.steps import leave_update, quiet_settings
from ollim_bot.store.store import Store, changes_of

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

_logger = logging.getLogger(__name__)


class _Stored(NamedTuple):
    """A job's file, and the job as the program has it; None if the file is wrong."""

    kind: JobKind
    file: JobText
    job: Job | None


class JobFormView:
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
        form = await asyncio.to_thread(self._form, key)
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
        when = when_in_words(after, now)
        is_once = isinstance(after, Reminder) or not coming
        words = when if is_once else f"{when}. Next: {coming}"
        difference, was, is_to_be = "", _scheduled(before.job), _scheduled(after)
        try:
            difference = await self._difference(was, is_to_be) if was or is_to_be else ""
        except StorageError:  # the moment is right all the same
            _logger.warning("The week could not be rehearsed for a draft", exc_info=True)
        return Preview(tuple(filter(None, (words, difference))))

    def _form(self, key: str) -> JobForm:
        return self._form_of(self._stored(key), key)

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
        return form_of(job, key, stored.file, now, is_skipped=is_skipped)

    def _stored(self, key: str) -> _Stored:
        """The job with this id, of any kind. Raises `NotFound` or `WrongInput`."""
        kind, colon, job_id = key.partition(":")
        is_named = bool(colon) and kind in [*JobKind]
        kinds, job_id = ([JobKind(kind)], job_id) if is_named else ([*JobKind], key)
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
        go = "/today" if is_gone else ""
        return ViewAnswer(answer.text, answer.is_error, go=go)

    async def _write(self, action: str, fields: Mapping[str, str]) -> ViewAnswer:
        """Save what was typed, or keep it as a draft if the file has changed."""
        try:
            job, is_changed = await asyncio.to_thread(self._save, action, fields)
        except ChangedMeanwhile:
            if action == MY_WORDS:
                raise WrongInput(_NOT_SHOWN) from None
            return self._conflict(fields)
        if not is_changed:
            return ViewAnswer("Nothing was changed.")
        now = self._clock.now()
        moments = next_moments(job, now)
        when = f", {dated(moments[0], now)}" if moments else ""
        text = f"Saved: {job.spec.short_title}{when}."
        told = f"changed: {job.spec.short_title}{when}."
        update = owner_did(self._clock.now(), told, secrets.token_hex(4))
        try:
            await self._store.transact(lambda tx: leave_update(tx, update))
        except StorageError:  # the file is saved, and shows it
            _logger.warning("The agent could not be told of an edit", exc_info=True)
        return ViewAnswer(text, go=address_of(fields.get("id", "")))

    def _conflict(self, fields: Mapping[str, str]) -> ViewAnswer:
        """Keep what was typed, and lead to the form that shows it beside what the file has."""
        while len(self._drafts) >= 20:
            del self._drafts[next(iter(self._drafts))]
        name = secrets.token_hex(8)
        self._drafts[name] = fields
        address = address_of(fields.get("id", ""))
        return ViewAnswer(_CONFLICT, is_error=True, go=f"{address}?draft={name}")

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
            typed = fields.get(FILE, "")
            return stored, edited_as_file(stored.kind, stored.file.text, typed)
        if stored.job is None:
            raise WrongField(FILE, _WRONG_FILE)
        if action == MY_WORDS:
            return stored, without_mark(stored.job, stored.file.text)
        typed_fields = _typed(self._form_of(stored, key), fields)
        quiet = self._store.query(quiet_settings).hours
        now = self._clock.now()
        return stored, edited_by_fields(stored.job, stored.file.text, typed_fields, now, quiet)


def _typed(form: JobForm, fields: Mapping[str, str]) -> Mapping[str, str]:
    """The given fields that have another value than the form."""
    given = {name: plain_lines(fields[name]) for name in form.values if name in fields}
    typed = {name: each for name, each in given.items() if each != form.values[name]}
    return typed | ({WHEN: fields["reading"]} if fields.get("reading") else {})


def _scheduled(job: Job | None) -> ScheduledJob | None:
    """The job as the week has it: None if it does not come by itself, or is paused."""
    is_coming = isinstance(job, Routine | Reminder) and job.spec.enabled
    return job if is_coming and isinstance(job, Routine | Reminder) else None
