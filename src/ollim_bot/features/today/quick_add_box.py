"""Adds a reminder, a routine or a task from one line, without a model.

Its words are data: a reminder shows them, and no command or tag in them acts. A line has a key of
the page, so that a second Enter, or a retry after a lost answer, adds nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import count
from typing import NamedTuple, TypeVar

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import BadPhrase, DuplicateId, OllimError
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.base.text import literal
from ollim_bot.kernel.changes.file_changes import acting
from ollim_bot.kernel.conversation.desktop_notices import ONLY_HERE, Reach
from ollim_bot.kernel.store.job_formats import REMINDERS
from ollim_bot.kernel.store.routine_format import ROUTINES, rhythm_fields
from ollim_bot.kernel.store.steps import quiet_settings
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.changes import TASK as PLACE_OF_TASK
from ollim_bot.kernel.values.changes import Changer, ChangeRow, task_words
from ollim_bot.kernel.values.job_form import dated
from ollim_bot.kernel.values.jobs import Reminder, Routine
from ollim_bot.kernel.values.phrases.moment import moment_to_keep, parse_day
from ollim_bot.kernel.values.phrases.rhythm import parse_rhythm
from ollim_bot.kernel.values.ports import JobRepositories, JobRepository, TaskList
from ollim_bot.kernel.values.quiet import IN_QUIET_HOURS, QuietSettings, quiet_until
from ollim_bot.kernel.values.repeats import read_rhythm
from ollim_bot.kernel.values.surface_state import AddedLine
from ollim_bot.kernel.values.tasks import FILE_LIST, Task, due_words, one_line
from ollim_bot.kernel.values.views import OtherReading, Preview, ViewAnswer
from ollim_bot.kernel.values.wishes import wish_from_words
from ollim_bot.offline.quick_add import Addition, read_line
from ollim_bot.offline.vocabulary import AddTask, Remind, RoutineWish


@dataclass(frozen=True, slots=True)
class NewTask:
    """`list` is the name of its list; empty for the usual one."""

    title: str
    due: date | None = None
    list: str = ""


@dataclass(frozen=True, slots=True)
class QuickAdd:
    """One way to read a line; `name` tells the ways of one line apart."""

    name: str
    what: Reminder | Routine | NewTask
    is_in_quiet: bool = False

    @property
    def title(self) -> str:
        return self.what.title if isinstance(self.what, NewTask) else self.what.spec.title

    def when(self, now: datetime) -> str:
        """`tomorrow, Wed 18 Nov, 9:00 · once`, or that it is a task."""
        if isinstance(self.what, NewTask):
            due = self.what.due
            return f"a task, {due_words(due, now.date())}" if due else "a task, without a moment"
        return " · ".join((*_moments(self.what, now), *self._manner()))

    def _manner(self) -> list[str]:
        assert not isinstance(self.what, NewTask)
        spec = self.what.spec
        is_timer = isinstance(self.what, Reminder) and self.what.set_at is not None
        return [
            *(["a timer"] if is_timer else []),
            *([f"comes again {spec.nag.in_words}"] if spec.nag else []),
            *([] if spec.plain else ["the agent does it then"]),
            *([IN_QUIET_HOURS] if self.is_in_quiet else []),
        ]


@dataclass(frozen=True, slots=True)
class QuickLine:
    """The ways to read a line. The first is meant, unless there is a `problem`: then none is."""

    ways: tuple[QuickAdd, ...] = ()
    problem: str = ""

    def chosen(self, name: str) -> QuickAdd | None:
        """The way with this name, or without a name the one that is meant."""
        if name:
            return next((each for each in self.ways if each.name == name), None)
        return None if self.problem else next(iter(self.ways), None)


def plain_line(text: str) -> str:
    """The text in one line, without control characters."""
    controls = ("Cc", "Cs", "Zl", "Zp")
    seen = (" " if unicodedata.category(char) in controls else char for char in text)
    return " ".join("".join(seen).split())


def _moments(job: Reminder | Routine, now: datetime) -> list[str]:
    zone = now.tzinfo or UTC
    if isinstance(job, Reminder):
        return [dated(job.due(zone).replace(second=0), now), "once"]
    words, coming = job.rhythm.explain(), job.next_after(now, zone)
    rhythm = f"{words[:1].lower()}{words[1:]}"
    return [rhythm, f"next {dated(coming, now)}"] if coming else [rhythm]


J = TypeVar("J", Reminder, Routine)

_OTHER_WAY = "That way to read the line is over. Look at what it says now, and press again."
# Stands for the id of a job that is only shown.
_SHOWN_ID = "00000000"


class _Settings(NamedTuple):
    now: datetime
    quiet: QuietSettings
    nag_default: str | None


# The fields of a form that `add` takes.
LINE_FIELDS = ("line", "reading", "key")


@dataclass(eq=False)
class QuickAdds:
    """`tasks` returns the list in use; it is called in a thread."""

    _store: Store
    _repositories: JobRepositories
    _tasks: Callable[[], TaskList]
    _clock: Clock
    _reach: Reach = field(default_factory=Reach)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def preview(self, line: str) -> Preview:
        """What the line would add, and the other ways to read it; nothing for an empty line."""
        if not plain_line(line):
            return Preview()
        settings = await self._settings()
        read, now = await asyncio.to_thread(_ways, line, settings), settings.now
        meant = read.chosen("")
        others = [OtherReading(each.when(now), each.name) for each in read.ways if each != meant]
        # The page shows plain words; what is typed comes as it is.
        why = read.problem.replace("`", "")
        words = (why,) if meant is None else (meant.when(now), meant.title)
        return Preview(words, tuple(others), is_error=meant is None)

    async def add(self, line: str, way: str, key: str) -> ViewAnswer:
        """Add what the line says, in the way with that name; once for each key."""
        if not key:
            return _refused("The page is older than the bot. Reload it.")
        settings = await self._settings()
        async with self._one_at_a_time:
            known = (await self._store.read(lambda tx: tx.added_lines.get())).find(key)
            if known is not None and known.told:
                return ViewAnswer(known.told)
            read = await asyncio.to_thread(_ways, line, settings)
            chosen = read.chosen(way)
            if chosen is None:
                return _refused(read.problem or _OTHER_WAY)
            try:
                told = await self._add(chosen, key, settings.now, is_begun=known is not None)
            except OllimError as refused:
                return _refused(str(refused))
            return ViewAnswer(told)

    async def _add(self, chosen: QuickAdd, key: str, now: datetime, *, is_begun: bool) -> str:
        what = chosen.what
        if isinstance(what, NewTask):
            # Noted first: a task that may be there already is looked for before it is added again.
            await self._note(AddedLine(key))
            task = await asyncio.to_thread(self._add_task, what, may_be_there=is_begun)
            due = f", {due_words(task.due, now.date())}" if task.due else ""
            told = f"Task added: {literal(task.title)}{due}."
        else:
            job = await asyncio.to_thread(self._add_job, what, key)
            told, task = _job_told(job, now) + await self._reach_told(job), None
        await self._note(AddedLine(key, told), None if is_begun else task)
        return told

    async def _reach_told(self, job: Reminder | Routine) -> str:
        """The first reminder and the first routine say if nothing but the page can show them."""
        if not await self._store.read(self._reach.is_page_only):
            return ""
        jobs = self._repositories
        same = jobs.reminders.all if isinstance(job, Reminder) else jobs.routines.all
        return f" {ONLY_HERE}" if len(await asyncio.to_thread(same)) == 1 else ""

    async def _note(self, line: AddedLine, task: Task | None = None) -> None:
        def step(tx: Transaction) -> None:
            tx.added_lines.change(lambda known: known.including(line))
            if task is not None and task.list != FILE_LIST:
                # Changes of the file are seen in it.
                place = f"{PLACE_OF_TASK}:{task.id}"
                row_key, words = tx.changes.new_key(place), task_words(task)
                tx.changes.put(ChangeRow(row_key, tx.now, place, Changer.PAGE, None, words))

        await self._store.transact(step)

    def _add_task(self, new: NewTask, *, may_be_there: bool) -> Task:
        tasks = self._tasks()
        if may_be_there:
            title = one_line(new.title)
            same = [each for each in tasks.tasks() if (each.title, each.due) == (title, new.due)]
            if same:
                return same[-1]
        with acting(Changer.PAGE):
            return tasks.add(new.title, new.due, list_name=new.list)

    def _add_job(self, job: Reminder | Routine, key: str) -> Reminder | Routine:
        if isinstance(job, Reminder):
            return _stored(self._repositories.reminders, job, key)
        return _stored(self._repositories.routines, job, key)

    async def _settings(self) -> _Settings:
        now = self._clock.now()

        def question(tx: Transaction) -> _Settings:
            return _Settings(now, quiet_settings(tx, now.tzinfo), tx.config.get().nag_default)

        return await self._store.read(question)


def _refused(sentence: str) -> ViewAnswer:
    return ViewAnswer(sentence, is_error=True, field="line")


def _stored(repository: JobRepository[J], job: J, key: str) -> J:
    """Add the job with an id that the key makes; the one that is there, if it was added before."""
    for number in count():
        job_id = hashlib.sha256(f"{number} {key}".encode("utf-8", "replace")).hexdigest()[:8]
        new = replace(job, spec=replace(job.spec, id=job_id))
        try:
            with acting(Changer.PAGE):
                repository.add(new)
        except DuplicateId:
            there = repository.get(job_id).item
            if there.spec.message != job.spec.message:
                continue
            return there
        return new
    raise AssertionError("there is always another id")


def _ways(line: str, settings: _Settings) -> QuickLine:
    read, problem = read_line(plain_line(line), settings.now), ""
    ways: list[QuickAdd] = []
    try:
        for name, intent in read.ways:
            try:
                ways.append(QuickAdd(name, _made(intent, settings)))
            except BadPhrase as refused:
                problem = str(refused)
                if isinstance(intent, RoutineWish):
                    others = [replace(intent, every=each) for each in refused.readings]
                    ways += [QuickAdd(each.every, _made(each, settings)) for each in others]
    except OllimError as refused:
        return QuickLine(problem=str(refused))
    zone = settings.now.tzinfo or UTC
    seen = (
        replace(each, is_in_quiet=quiet_until(settings.quiet, each.what.due(zone)) is not None)
        if isinstance(each.what, Reminder)
        else each
        for each in ways
    )
    return QuickLine(tuple(seen), read.problem or problem)


def _made(intent: Addition, settings: _Settings) -> Reminder | Routine | NewTask:
    now, usual = settings.now, settings.nag_default
    if isinstance(intent, AddTask):
        due = parse_day(intent.due, now.date()) if intent.due else None
        return NewTask(one_line(intent.task), due, intent.list)
    fields: Mapping[str, object]
    if isinstance(intent, Remind):
        timer = {"set-at": now} if intent.is_timer else {}
        moment = moment_to_keep(intent.when, now)
        fields = {"run-at": moment, "plain": not intent.is_run, **timer}
        text, fields = wish_from_words(intent.task, JobKind.REMINDER, fields, nag_default=usual)
        return REMINDERS.made({"id": _SHOWN_ID, **fields}, text)
    rhythm = intent.cron
    if intent.every:
        rhythm = parse_rhythm(intent.every, now, settings.quiet.hours, spares_night=True)
    given = {name: each for name, each in rhythm_fields(read_rhythm(rhythm)).items() if each}
    text, fields = wish_from_words(intent.message, JobKind.ROUTINE, given, nag_default=usual)
    return ROUTINES.made({"id": _SHOWN_ID, **fields}, text)


def _job_told(job: Reminder | Routine, now: datetime) -> str:
    title, zone = literal(job.spec.title), now.tzinfo or UTC
    if isinstance(job, Reminder):
        return f"Reminder set: {title}, {describe(job.due(zone), now)}."
    coming = job.next_after(now, zone)
    then = f" Next: {describe(coming, now)}." if coming else ""
    words = job.rhythm.explain()
    return f"Routine set: {title}, {words[:1].lower()}{words[1:]}.{then}"
