"""The fields of a job on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ollim_bot.kernel.base.errors import BadJob, DuplicateId, NotFound, WrongInput
from ollim_bot.kernel.base.moments import describe, near_zone, zone_named
from ollim_bot.kernel.store.job_folder import MarkdownRepository
from ollim_bot.kernel.store.job_formats import JobFormat
from ollim_bot.kernel.values.job_fields import (
    BY_CLOCK,
    FIELDS,
    Field,
    JobField,
    lengths,
    patterns,
    words,
    zone,
)
from ollim_bot.kernel.values.jobs import Job, Routine, named_by_words
from ollim_bot.surfaces.terminal.caller import Caller
from ollim_bot.surfaces.terminal.completions import Completion, time_zones
from ollim_bot.surfaces.terminal.framework import ArgumentSpec, Given, argument
from ollim_bot.surfaces.terminal.terminal_data import Data, open_data

if TYPE_CHECKING:
    from ollim_bot.kernel.values.quiet import QuietHours

# Far below the limit of a job file, in any script.
LONGEST_MESSAGE = 100_000


S = TypeVar("S", bound=Job)


def flag(names: str, field: str, about: str, **reading: Any) -> ArgumentSpec:
    """`field` is the name, in the file, of the field that the flag sets."""
    return argument(*names.split(), dest=field, help=about, **reading)


def whole_number(text: str) -> int | str:
    """The number; other text is passed on, and refused as a field of the job."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else text


def _zone(text: str) -> str:
    if zone_named(text):
        return text
    near = near_zone(text)
    hint = f"Did you mean {near}?" if near else "It takes a name such as Europe/Berlin."
    raise WrongInput(f"--timezone: {text!r} is not a time zone. {hint}")


def _skills(caller: Caller, _: Sequence[str]) -> Iterable[Completion]:
    from ollim_bot.kernel.store.skill_files import SkillFolder

    return map(Completion, sorted(SkillFolder(open_data(caller).paths.skills).read().loaded))


def _single(text: str) -> str:
    before, _, behind = text.partition("(")
    if "," in before + behind.rpartition(")")[2]:
        raise WrongInput(f"{text!r} looks like several. Give the flag once for each.")
    return text


_READINGS: Mapping[Callable[[Field], object], Mapping[str, object]] = {
    lengths: {"action": "append", "type": _single},
    patterns: {"action": "append", "type": _single},
    words: {"action": "append", "type": _single, "completions": _skills},
    zone: {"type": _zone, "completions": time_zones},
}


def flag_of(field: JobField) -> ArgumentSpec:
    """The flag that sets the field, which has one."""
    words = field.flag
    assert words is not None
    if words.sets is not None:
        reading: dict[str, object] = {"action": "store_const", "const": words.sets}
    elif " " in words.names:
        reading = {"action": "either"}
    else:
        reading = {"metavar": words.value, **_READINGS.get(field.read, {})}
    if "_" in words.value:
        reading["type"] = lambda text: text.replace("-", "_")
    return flag(words.names, field.name, words.about, **reading)


MESSAGE = flag(
    "-m --message", "message", "what to do, in words; - reads standard input", metavar="TEXT"
)
AGENT = flag(
    "--agent",
    "plain",
    "the agent does it then, instead of sending your words",
    action="store_const",
    const=False,
)
ID = flag("--id", "id", "its name in commands; a new job gets one anyway", metavar="ID")


def fields_given(given: Given, fields: Iterable[str]) -> dict[str, object]:
    """The given fields, by their names in the file."""
    return {name: given[name] for name in fields if name in given}


def message_given(given: Given) -> str | None:
    """The text of the job; None if none was given."""
    text = given.get("message")
    if text == "-":
        text = standard_input()
    if text is not None and not text.strip():
        raise WrongInput('The message is empty. Example: -m "call the dentist"')
    if text is not None and len(text) > LONGEST_MESSAGE:
        raise WrongInput(
            f"The message is longer than {LONGEST_MESSAGE} characters. "
            "Put it in a file and name the file."
        )
    return text


def standard_input() -> str:
    try:
        with open(0, "rb", closefd=False) as stream:
            return stream.read().decode("utf-8")
    except OSError as refused:
        raise WrongInput(f"Standard input cannot be read: {refused.strerror}.") from None
    except UnicodeDecodeError:
        raise WrongInput("Standard input is not UTF-8 text.") from None


def cleared(given: Given, fields: Iterable[str]) -> dict[str, object]:
    """The fields to remove."""
    names = [name.lstrip("-").replace("_", "-") for name in given.get("clear", ())]
    known = list(fields)
    for name in names:
        if name not in known:
            raise WrongInput(f"--clear: there is no field {name!r}. Fields: {', '.join(known)}.")
    return dict.fromkeys(names)


class JobNoun(Generic[S]):
    """A kind of job on the command line; what is said here holds for one that is called.

    Every `now` is in the owner's zone; in `own_fields` it is in the job's. `main_flags`
    are the flags that say when the job is due, or with what it is called. `add_words` and
    `edit_words` are an example of what follows the verb.
    """

    form: JobFormat[S]
    flags: tuple[ArgumentSpec, ...]
    main_flags: str
    add_words: str
    edit_words: str
    order = "the next one first"
    example_id = "3f2a9c1b"
    example_words = "water"

    @property
    def name(self) -> str:
        return self.form.kind.value

    @property
    def add_example(self) -> str:
        return f"ollim-bot {self.name} add {self.add_words}"

    @property
    def edit_example(self) -> str:
        return f"ollim-bot {self.name} edit {self.edit_words}"

    @property
    def rules(self) -> Mapping[str, JobField]:
        """The fields that a job of this kind may have."""
        has_moments = self.form.kind.has_moments
        rules = self.form.rules.items()
        return {name: rule for name, rule in rules if has_moments or not rule.has(BY_CLOCK)}

    @property
    def common(self) -> Sequence[ArgumentSpec]:
        """The flags of the fields that jobs of all kinds have."""
        return [flag_of(each) for each in FIELDS if each.flag and each.name in self.rules]

    def repository(self, data: Data) -> MarkdownRepository[S]:
        return data.repository(data.paths.jobs(self.form.kind), self.form)

    def id_of(self, given: Given, data: Data) -> str:
        """The id or the file that was given, or the id of the only job that its words fit.

        Raises `NotFound`, or `WrongInput` if several fit.
        """
        named, repository = str(given["job"]), self.repository(data)
        try:
            repository.get(named)
        except NotFound:
            jobs = [each.item for each in repository.all()]
            job = named_by_words(
                named, jobs, lambda job: self.when(job, self.next(job, data.now), data.now)
            )
            if job is None:
                raise
            return job.spec.id
        except (BadJob, DuplicateId):
            pass
        return named

    def when(self, job: S, moment: datetime | None, now: datetime) -> str:
        """The next moment of the job in words, or why it has none."""
        if moment is None:
            if not job.spec.enabled:
                return "paused"
            return job.standstill if isinstance(job, Routine) else "when called"
        return describe(moment, now)

    def next(self, job: S, now: datetime) -> datetime | None:
        """The next moment; None while the job is paused, or if it has no moments."""
        return next(self.upcoming(job, now), None) if job.spec.enabled else None

    def completed(
        self,
        fields: Mapping[str, object],
        message: str,  # noqa: ARG002
    ) -> Mapping[str, object]:
        """The fields of a new job with this message, and those that could be left out."""
        return fields

    def cautions(self, job: S, caller: Caller) -> Iterator[str]:  # noqa: ARG002
        """Sentences about what keeps a new or changed job from working."""
        return iter(())

    def own_fields(
        self,
        given: Given,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
        quiet: QuietHours | None,  # noqa: ARG002
    ) -> dict[str, object]:
        """The fields made of flags of this kind only, such as those that say when.

        `quiet` are the owner's quiet hours.
        """
        return {}

    def upcoming(self, job: S, now: datetime) -> Iterator[datetime]:  # noqa: ARG002
        """The moments at which the job is due, paused or not; none if others call it."""
        return iter(())

    def promise(self, job: S, now: datetime) -> str:  # noqa: ARG002
        """When the job is due, or how it is called, in words."""
        return "when it is called"

    def facts(self, job: S, now: datetime) -> list[tuple[str, str]]:  # noqa: ARG002
        """The facts that only this kind of job has, each with its name."""
        return []
