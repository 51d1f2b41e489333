"""The fields of a job on the command line."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ollim_bot.cli.data import Data, note
from ollim_bot.cli.framework import Caller, Flags, Given
from ollim_bot.domain.agent_caller import CALLED_BY, CONVERSATION
from ollim_bot.domain.jobs import JobKind, Reminder, Routine, Shelved
from ollim_bot.environment import near_zone, zone_named
from ollim_bot.errors import BadJob, DuplicateId, NotFound, WrongInput
from ollim_bot.paths import DataPaths
from ollim_bot.store.job_formats import JobFormat
from ollim_bot.store.job_shelf import MarkdownShelf

# Far below what a job file may hold, in any script.
LONGEST_MESSAGE = 100_000


class Flag(NamedTuple):
    """`field` is the name in the file of what the flag sets."""

    names: str
    field: str
    about: str
    reading: Mapping[str, Any]

    def add_to(self, parser: Flags) -> None:
        parser.add_argument(*self.names.split(), dest=self.field, help=self.about, **self.reading)


def whole_number(text: str) -> int | str:
    """A number where there is one; what else was typed is refused as a field of the job."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else text


def _mode(text: str) -> str:
    return text.replace("-", "_")


def _zone(text: str) -> str:
    if zone_named(text):
        return text
    near = near_zone(text)
    hint = f"Did you mean {near}?" if near else "It takes a name such as Europe/Berlin."
    raise WrongInput(f"--timezone: {text!r} is not a time zone. {hint}")


def _single(text: str) -> str:
    before, _, behind = text.partition("(")
    if "," in before + behind.rpartition(")")[2]:
        raise WrongInput(f"{text!r} looks like several. Give the flag once for each.")
    return text


_EITHER = {"action": "either"}
_EACH = {"action": "append", "type": _single}

MESSAGE = Flag(
    "-m --message", "message", "what to do, in words; - reads standard input", {"metavar": "TEXT"}
)
COMMON = (
    Flag("--description", "description", "one line for lists", {"metavar": "TEXT"}),
    Flag("--background --foreground", "background", "apart from, or in, the conversation", _EITHER),
    Flag("--model", "model", "of a background job", {"metavar": "opus|sonnet|haiku"}),
    Flag("--thinking --no-thinking", "thinking", "whether a background job thinks first", _EITHER),
    Flag(
        "--isolated --no-isolated",
        "isolated",
        "a background job apart from all that was said",
        _EITHER,
    ),
    Flag(
        "--update-main-session",
        "update-main-session",
        "whether the conversation hears of a background run",
        {"metavar": "always|on_ping|freely|blocked", "type": _mode},
    ),
    Flag("--ping --no-ping", "allow-ping", "whether a background run may write to you", _EITHER),
    Flag(
        "--allowed-tool",
        "allowed-tools",
        "a tool beyond the usual ones; repeat it for more",
        {"metavar": "TOOL", **_EACH},
    ),
    Flag("--skill", "skills", "a skill to use; repeat it for more", {"metavar": "NAME", **_EACH}),
    Flag("--timezone", "timezone", "of the job, if not yours", {"metavar": "ZONE", "type": _zone}),
    Flag("--late", "late", "what to do when it was missed", {"metavar": "run|skip|tell"}),
    Flag("--must --no-must", "must", "whether it comes whatever happens", _EITHER),
    Flag("--enabled --disabled", "enabled", "disabled: kept, but paused", _EITHER),
)
ID = Flag("--id", "id", "its name in commands; a new job gets one anyway", {"metavar": "ID"})


def add_flags(parser: Flags, *flags: Flag) -> None:
    for flag in flags:
        flag.add_to(parser)


def fields_given(given: Given, fields: Iterable[str]) -> dict[str, object]:
    """What was said of the job, under the names of the file."""
    return {name: given[name] for name in fields if name in given}


def message_given(given: Given) -> str | None:
    """The text of the job; None if none was given."""
    text = given.get("message")
    if text == "-":
        text = _standard_input()
    if text is not None and not text.strip():
        raise WrongInput('The message is empty. Example: -m "call the dentist"')
    if text is not None and len(text) > LONGEST_MESSAGE:
        raise WrongInput(
            f"The message is longer than {LONGEST_MESSAGE} characters. "
            "Put it in a file and name the file."
        )
    return text


def _standard_input() -> str:
    try:
        with open(0, "rb", closefd=False) as stream:
            return stream.read().decode("utf-8")
    except OSError as refused:
        raise WrongInput(f"Standard input cannot be read: {refused.strerror}.") from None
    except UnicodeDecodeError:
        raise WrongInput("Standard input is not UTF-8 text.") from None


def cleared(given: Given, fields: Iterable[str]) -> dict[str, object]:
    """The fields to take away."""
    names = [name.lstrip("-").replace("_", "-") for name in given.get("clear", ())]
    known = list(fields)
    for name in names:
        if name not in known:
            raise WrongInput(f"--clear: there is no field {name!r}. Fields: {', '.join(known)}.")
    return dict.fromkeys(names)


S = TypeVar("S", bound=Routine | Reminder)


class JobNoun(ABC, Generic[S]):
    """Every `now` is in the owner's zone, but for `when_given`: that one is in the job's.

    `say_when` shows how the flags say when the job is due.
    """

    form: JobFormat[S]
    flags: tuple[Flag, ...]
    say_when: str
    add_example: str
    edit_example: str

    @property
    def name(self) -> str:
        return self.form.kind.value

    @property
    def plural(self) -> str:
        return f"{self.name}s"

    def shelf(self, data: Data) -> MarkdownShelf[S]:
        return data.shelf(self.folder(data.paths), self.form)

    def next(self, job: S, now: datetime) -> datetime | None:
        """None while it is paused."""
        return next(self.upcoming(job, now)) if job.spec.enabled else None

    @abstractmethod
    def folder(self, paths: DataPaths) -> Path: ...

    @abstractmethod
    def when_given(self, given: Given, now: datetime) -> dict[str, object]:
        """The fields that say when, or none if the flags do not say."""

    @abstractmethod
    def upcoming(self, job: S, now: datetime) -> Iterator[datetime]:
        """The moments at which it is due, paused or not."""

    @abstractmethod
    def promise(self, job: S, now: datetime) -> str:
        """When it comes, the way a person would repeat it."""

    @abstractmethod
    def facts(self, job: S, now: datetime) -> list[tuple[str, str]]:
        """What only this kind of job has, by name, in words."""


# A listing needs none of the rest, and would take half as long again with it.
if TYPE_CHECKING:
    from ollim_bot.domain.initiative import Setter
    from ollim_bot.domain.occurrences import Occurrence
    from ollim_bot.store.job_formats import JobFormat


def setter(caller: Caller, data: Data) -> Setter | None:
    """The background run that calls; None for a person, and for the agent in the conversation."""
    if caller.agent in (None, CONVERSATION):
        return None
    from ollim_bot.domain.initiative import Setter
    from ollim_bot.domain.occurrences import Occurrence

    try:
        run = Occurrence.parse(caller.agent)
    except ValueError:
        raise WrongInput(f"{CALLED_BY} names no run, so nothing was changed.") from None
    return Setter(run.id, f"{run.kind}:{run.job_id}", _may_ping(run, data))


def set_in_background(job: S, by: Setter | None, data: Data) -> S:
    """The new job as the caller may set it, counted. Raises `WrongInput` where it may not."""
    if by is None:
        return job
    from ollim_bot.domain.initiative import objections, set_by

    job = set_by(job, by)
    _refuse(objections(None, job, by))
    _count(by, data)
    return job


def approval(by: Setter | None, data: Data) -> Callable[[S | None, S], None] | None:
    """Raises `WrongInput` where the caller may not make the second job of the first."""
    if by is None:
        return None
    from ollim_bot.domain.initiative import objections

    def approve(before: S | None, after: S) -> None:
        if before is None:
            raise WrongInput("A background run cannot mend a job whose file is wrong.")
        _refuse(objections(before, after, by))
        _count(by, data)

    return approve


def _refuse(reasons: Iterable[str]) -> None:
    if found := [f"{reason}." for reason in reasons]:
        raise WrongInput("\n".join(found))


def _count(by: Setter, data: Data) -> None:
    if refusal := data.stores(note).count_set(by, data.now):
        raise WrongInput(refusal)


def _may_ping(run: Occurrence, data: Data) -> bool:
    """As its job's file says; where there is none, it may not."""
    from ollim_bot.store.job_formats import REMINDERS, ROUTINES, WEBHOOKS

    forms: dict[JobKind, tuple[Any, JobFormat[Any]]] = {
        JobKind.ROUTINE: (data.paths.routines, ROUTINES),
        JobKind.REMINDER: (data.paths.reminders, REMINDERS),
        JobKind.WEBHOOK: (data.paths.webhooks, WEBHOOKS),
    }
    try:
        return bool(data.shelf(*forms[run.kind]).get(run.job_id).item.spec.allow_ping)
    except (NotFound, BadJob, DuplicateId):
        return False


def new_job(form: JobFormat[S], fields: Mapping[str, object], message: str) -> S:
    """With an id made up, unless `fields` name one. Raises `BadJob` with all that is wrong."""
    _refuse_background_fields(form, fields)
    return form.made({"id": _made_up_id(), **fields}, message.strip())


def shelved(shelf: MarkdownShelf[S], job: S, *, keep_id: bool) -> Shelved[S]:
    """Put the job on the shelf, under another id if its own is taken and need not be kept."""
    while True:
        try:
            return Shelved(job, shelf.add(job))
        except DuplicateId:
            if keep_id:
                raise
            job = replace(job, spec=replace(job.spec, id=_made_up_id()))


def _made_up_id() -> str:
    return os.urandom(4).hex()


def _refuse_background_fields(form: JobFormat[S], fields: Mapping[str, object]) -> None:
    # The file's own complaint would speak of lines, where there are flags.
    if not fields.get("background", form.background_by_default):
        for name in fields:
            if form.rules[name].background_only:
                raise WrongInput(f"{name}: is for background jobs only. Add --background.")
