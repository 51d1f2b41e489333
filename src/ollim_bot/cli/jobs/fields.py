"""The fields of a job on the command line."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.completions import Completion, time_zones
from ollim_bot.cli.data import Data, open_data
from ollim_bot.cli.framework import ArgumentSpec, Given, argument
from ollim_bot.domain.jobs import ItemKind, Job, Routine, named_by_words
from ollim_bot.domain.moments import describe, near_zone, zone_named
from ollim_bot.errors import BadJob, DuplicateId, NotFound, WrongInput
from ollim_bot.store.job_folder import MarkdownRepository
from ollim_bot.store.job_formats import FieldRule, JobFormat

if TYPE_CHECKING:
    from ollim_bot.domain.hook_jobs import CalledJob
    from ollim_bot.domain.quiet import QuietHours

# Far below the limit of a job file, in any script.
LONGEST_MESSAGE = 100_000


S = TypeVar("S", bound=Job)


def flag(names: str, field: str, about: str, **reading: Any) -> ArgumentSpec:
    """`field` is the name, in the file, of the field that the flag sets."""
    return argument(*names.split(), dest=field, help=about, **reading)


def whole_number(text: str) -> int | str:
    """The number; other text is passed on, and refused as a field of the job."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else text


def _mode(text: str) -> str:
    return text.replace("-", "_")


def _zone(text: str) -> str:
    if zone_named(text):
        return text
    near = near_zone(text)
    hint = f"Did you mean {near}?" if near else "It takes a name such as Europe/Berlin."
    raise WrongInput(f"--timezone: {text!r} is not a time zone. {hint}")


def _skills(caller: Caller, _: Sequence[str]) -> Iterable[Completion]:
    from ollim_bot.store.skill_files import SkillFolder

    return map(Completion, sorted(SkillFolder(open_data(caller).paths.skills).read().loaded))


def _single(text: str) -> str:
    before, _, behind = text.partition("(")
    if "," in before + behind.rpartition(")")[2]:
        raise WrongInput(f"{text!r} looks like several. Give the flag once for each.")
    return text


_EACH = {"action": "append", "type": _single}

MESSAGE = flag(
    "-m --message", "message", "what to do, in words; - reads standard input", metavar="TEXT"
)
COMMON = (
    flag("--description", "description", "for lists, and the title above the text", metavar="TEXT"),
    flag(
        "--background --foreground",
        "background",
        "apart from, or in, the conversation",
        action="either",
    ),
    flag("--model", "model", "of a background job", metavar="opus|sonnet|haiku"),
    flag(
        "--thinking --no-thinking",
        "thinking",
        "whether a background job thinks first",
        action="either",
    ),
    flag(
        "--isolated --no-isolated",
        "isolated",
        "a background job apart from all that was said",
        action="either",
    ),
    flag(
        "--update-main-session",
        "update-main-session",
        "whether the conversation hears of a background run",
        metavar="always|on_ping|freely|blocked",
        type=_mode,
    ),
    flag(
        "--ping --no-ping",
        "allow-ping",
        "whether a background run may write to you",
        action="either",
    ),
    flag(
        "--allowed-tool",
        "allowed-tools",
        "a tool beyond the usual ones; repeat it for more",
        metavar="TOOL",
        **_EACH,
    ),
    flag(
        "--skill",
        "skills",
        "a skill to use; repeat it for more",
        metavar="NAME",
        completions=_skills,
        **_EACH,
    ),
    flag(
        "--timezone",
        "timezone",
        "of the job, if not yours",
        metavar="ZONE",
        type=_zone,
        completions=time_zones,
    ),
    flag("--late", "late", "what to do when it was missed", metavar="run|skip|tell"),
    flag("--must --no-must", "must", "whether it comes whatever happens", action="either"),
    flag("--plain --no-plain", "plain", "as you wrote it, without a model", action="either"),
    flag("--nag", "nag", "it comes again until you answer it", metavar='"10m x 4"'),
    flag("--first-step", "first-step", "what to do first, said the second time", metavar="TEXT"),
    flag(
        "--before",
        "before",
        "a heads-up so long before; repeat it for more",
        metavar="30m",
        **_EACH,
    ),
    flag(
        "--dose",
        "kind",
        "a medicine: answered with Taken or Skipped",
        action="store_const",
        const=ItemKind.DOSE.value,
    ),
    flag("--enabled --disabled", "enabled", "disabled: kept, but paused", action="either"),
)
AGENT = flag(
    "--agent",
    "plain",
    "the agent does it then, instead of sending your words",
    action="store_const",
    const=False,
)
ID = flag("--id", "id", "its name in commands; a new job gets one anyway", metavar="ID")


def without_moment(job: Job) -> str:
    """What stands in the place of the next moment of a job that has none."""
    if not job.spec.enabled:
        return "paused"
    return job.standstill if isinstance(job, Routine) else "when called"


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


class JobNoun(ABC, Generic[S]):
    """A kind of job on the command line.

    Every `now` is in the owner's zone; in `own_fields` it is in the job's. `main_flags`
    are the flags that say when the job is due, or with what it is called. `add_words` and
    `edit_words` are an example of what follows the verb.
    """

    form: JobFormat[S]
    flags: tuple[ArgumentSpec, ...]
    common: tuple[ArgumentSpec, ...] = COMMON
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
    def rules(self) -> Mapping[str, FieldRule]:
        """The fields that a job of this kind may have."""
        return self.form.rules

    @property
    def plural(self) -> str:
        return f"{self.name}s"

    def repository(self, data: Data) -> MarkdownRepository[S]:
        return data.repository(data.paths.jobs(self.form.kind), self.form)

    def id_of(self, given: Given, data: Data) -> str:
        """The id or the file that was given, or the id of the only job that its words fit.

        Raises `NotFound`, or `WrongInput` if several fit.
        """
        words, repository = str(given["job"]), self.repository(data)
        try:
            repository.get(words)
        except NotFound:
            jobs = [each.item for each in repository.all()]
            job = named_by_words(words, jobs, partial(self._when, now=data.now))
            if job is None:
                raise
            return job.spec.id
        except (BadJob, DuplicateId):
            pass
        return words

    def _when(self, job: S, now: datetime) -> str:
        moment = self.next(job, now)
        if moment is None:
            return without_moment(job)
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

    @abstractmethod
    def own_fields(
        self, given: Given, now: datetime, quiet: QuietHours | None
    ) -> dict[str, object]:
        """The fields made of flags of this kind only, such as those that say when.

        `quiet` are the owner's quiet hours.
        """

    @abstractmethod
    def upcoming(self, job: S, now: datetime) -> Iterator[datetime]:
        """The moments at which the job is due, paused or not; none if others call it."""

    @abstractmethod
    def promise(self, job: S, now: datetime) -> str:
        """When the job is due, or how it is called, in words."""

    @abstractmethod
    def facts(self, job: S, now: datetime) -> list[tuple[str, str]]:
        """The facts that only this kind of job has, each with its name."""


# Fields of jobs that come by the clock, and what a job that is called cannot choose.
_OF_THE_CLOCK = frozenset(
    {"background", "timezone", "late", "must", "plain", "kind", "nag", "first-step", "before"}
)
C = TypeVar("C", bound="CalledJob")


class CalledNoun(JobNoun[C]):
    """A kind of job that runs when something calls it."""

    common = tuple(each for each in COMMON if each.reading["dest"] not in _OF_THE_CLOCK)
    order = "by their ids"

    @property
    def rules(self) -> Mapping[str, FieldRule]:
        return {name: rule for name, rule in self.form.rules.items() if name not in _OF_THE_CLOCK}

    def own_fields(
        self,
        given: Given,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
        quiet: QuietHours | None,  # noqa: ARG002
    ) -> dict[str, object]:
        return {}

    def upcoming(self, job: C, now: datetime) -> Iterator[datetime]:  # noqa: ARG002
        return iter(())

    def promise(self, job: C, now: datetime) -> str:  # noqa: ARG002
        return "when it is called"

    def facts(self, job: C, now: datetime) -> list[tuple[str, str]]:  # noqa: ARG002
        return [*job.facts(None)]
