"""The fields of jobs and their valid values; the format of reminders."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.jobs import (
    Chain,
    ItemKind,
    Job,
    JobSpec,
    Late,
    Model,
    Reminder,
    ReportMode,
    ignores_late,
)
from ollim_bot.domain.moments import Nag, length_text, parse_length, zone_named
from ollim_bot.domain.text import nearest
from ollim_bot.domain.tool_patterns import is_open, open_problem, problems
from ollim_bot.errors import BadJob
from ollim_bot.store.document import Document, Field

READ_AS_RUN = "is read as run, because it must come, however late; remove it"
JOB_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


class WrongValue(Exception):
    """`str()` says what is wrong and what would be valid."""


def wrong(field: Field, right: str) -> WrongValue:
    shown = field.text if field.text is not None else field.value
    return WrongValue(f"{_shortened(repr(shown))} is not right; it takes {right}")


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def text(field: Field) -> str:
    # A number or a word such as `true` is valid text: the quotes are only YAML's concern.
    if field.text is None or field.value is None:
        raise wrong(field, "text")
    return field.text


def one_line(field: Field) -> str:
    return " ".join(text(field).split())


def flag(field: Field) -> bool:
    if not isinstance(field.value, bool):
        raise wrong(field, "true or false")
    return field.value


def words(field: Field) -> tuple[str, ...]:
    right = "a list such as [one, two]"
    if not isinstance(field.value, list):
        raise wrong(field, right)
    if not all(isinstance(word, str) and word.strip() for word in field.value):
        raise wrong(field, right)
    return tuple(word.strip() for word in field.value)


def patterns(field: Field) -> tuple[str, ...]:
    """Patterns of tools, each of which can be used."""
    found = words(field)
    if errors := [error for pattern in found for error in problems(pattern).errors]:
        raise WrongValue(" ".join(errors).removesuffix("."))
    return found


def job_id(field: Field) -> str:
    value = text(field)
    if not JOB_ID.fullmatch(value):
        raise wrong(field, "lower-case letters, digits and hyphens, at most 40")
    return value


def setter(field: Field) -> str:
    value = text(field)
    kind, _, name = value.partition(":")
    if kind not in (*JobKind,) or not JOB_ID.fullmatch(name):
        raise wrong(field, "the job that has set it, such as routine:3f2a9c1b")
    return value


def zone(field: Field) -> ZoneInfo:
    found = zone_named(text(field))
    if found is None:
        raise wrong(field, "the name of a time zone such as Europe/Berlin")
    return found


def one_of(kind: type[StrEnum]) -> Callable[[Field], StrEnum]:
    def choice(field: Field) -> StrEnum:
        try:
            return kind(text(field))
        except ValueError:
            raise wrong(field, f"one of {', '.join(kind)}") from None

    return choice


def nag(field: Field) -> Nag:
    try:
        return Nag.parse(text(field))
    except ValueError as why:
        raise WrongValue(str(why).removesuffix(".")) from None


def lengths(field: Field) -> tuple[timedelta, ...]:
    """Heads-ups, the earliest first."""
    right = "a list of at most 5 lengths from 1m to 7d, such as [30m, 10m]"
    try:
        found = {parse_length(word) for word in words(field)}
    except ValueError:
        raise wrong(field, right) from None
    if len(found) > 5 or not all(_SHORTEST <= one <= _LONGEST for one in found):
        raise wrong(field, right)
    return tuple(sorted(found, reverse=True))


_SHORTEST, _LONGEST = timedelta(minutes=1), timedelta(days=7)


class FieldRule(NamedTuple):
    """A field's name in the file and in `JobSpec` or its kind, and how it is read."""

    name: str
    read: Callable[[Field], object]
    background_only: bool = False
    # A misspelt field of this kind would leave a job with more power than its author intended.
    restricts: bool = False

    @property
    def attribute(self) -> str:
        return self.name.replace("-", "_")


ALLOWED_TOOLS = "allowed-tools"
COMMON = (
    FieldRule("id", job_id),
    FieldRule("description", one_line),
    FieldRule("background", flag),
    FieldRule("model", one_of(Model), background_only=True),
    FieldRule("thinking", flag, background_only=True),
    FieldRule("isolated", flag, background_only=True, restricts=True),
    FieldRule("update-main-session", one_of(ReportMode), background_only=True, restricts=True),
    FieldRule("allow-ping", flag, background_only=True, restricts=True),
    FieldRule(ALLOWED_TOOLS, patterns, background_only=True, restricts=True),
    FieldRule("skills", words),
    FieldRule("timezone", zone),
    FieldRule("late", one_of(Late)),
    FieldRule("enabled", flag, restricts=True),
    FieldRule("must", flag),
    FieldRule("plain", flag),
    FieldRule("kind", one_of(ItemKind)),
    FieldRule("nag", nag),
    FieldRule("first-step", one_line),
    FieldRule("before", lengths),
    FieldRule("set-by", setter, restricts=True),
    FieldRule("untrusted", one_line, restricts=True),
)


J = TypeVar("J", bound=Job)

# The field's name, or None for the whole document, and what is wrong with it.
Fault = tuple[str | None, str]

# Fields of one kind only: on another kind they are a mistake, as they change when a job runs.
_OF_ONE_KIND = frozenset(
    (
        *("cron", "every", "after-done", "run-at", "max-chain", "chain-depth", "chain-parent"),
        *("fields", "pick", "auth", "secret-env", "deliver"),
    )
)
# Fields by which a job reaches the owner without the agent's judgement and the ping budget.
_COME = ("must", "plain", "kind", "nag", "before")
_COMMON = {rule.name: rule.attribute for rule in COMMON}
_LOOKS_LIKE_A_RESTRICTION = (
    r"disallow|deny|denied|forbid|block|exclu|except|restrict|permission|sandbox|read-?only"
)
_WHAT_RESTRICTS = "; right: allowed-tools, a list of the tools it may use beside the usual ones"


class FieldProblem(NamedTuple):
    """`line` counts in the file; None if the problem has no line of its own."""

    reason: str
    field: str | None = None
    line: int | None = None

    def complaint(self) -> str:
        return self.reason if self.field is None else f"{self.field}: {self.reason}"

    def sentence(self, file: str) -> str:
        where = file if self.line is None else f"{file}:{self.line}"
        return f"{where}: {self.complaint()}"


class JobReading(NamedTuple, Generic[J]):
    """`job` is None exactly if there are problems; warnings do not prevent a run."""

    job: J | None
    job_id: str | None
    problems: tuple[FieldProblem, ...] = ()
    warnings: tuple[FieldProblem, ...] = ()


class _Findings:
    """The findings in one document so far."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.problems: list[FieldProblem] = []
        self.warnings: list[FieldProblem] = []


class JobFormat(Generic[J]):
    """One kind of job: its fields, the required ones, and how they make a value.

    Exactly one of `moments` says when it comes.
    `faults` finds problems between fields that are each valid by themselves, and with the body.
    """

    def __init__(
        self,
        kind: JobKind,
        *,
        own_rules: Iterable[FieldRule],
        required: tuple[str, ...],
        moments: tuple[str, ...] = (),
        background_by_default: bool,
        build: Callable[[JobSpec, Mapping[str, Any]], J],
        own_fields: Callable[[J], Mapping[str, object]],
        faults: Callable[[Mapping[str, Any], str], Iterable[Fault]] = lambda _, __: (),
    ) -> None:
        self.kind = kind
        self.rules = {rule.name: rule for rule in (*COMMON, *own_rules)}
        self.required = required
        self.moments = moments
        self.background_by_default = background_by_default
        self._build = build
        self.own_fields = own_fields
        self._own_faults = faults

    def read(self, document: Document) -> JobReading[J]:
        found = _Findings()
        for name, field in document.fields.items():
            self._read_field(name, field, found)
        for at, reason in self._faults(document, found.values):
            line = document.fields[at].line if at and at in document.fields else None
            found.problems.append(FieldProblem(reason, at, line))
        job = None if found.problems else self._built(found.values, document.body)
        if job is not None and ignores_late(job):
            line = document.fields["late"].line
            found.warnings.append(FieldProblem(READ_AS_RUN, "late", line))
        for pattern in filter(is_open, job.spec.allowed_tools if job else ()):
            reason = open_problem(pattern).removesuffix(".")
            line = document.fields[ALLOWED_TOOLS].line
            found.warnings.append(FieldProblem(reason, ALLOWED_TOOLS, line))
        job_id = found.values.get("id")
        return JobReading(job, job_id, tuple(found.problems), tuple(found.warnings))

    def made(self, values: Mapping[str, object], message: str) -> J:
        """The job with these fields, named as in a file. Raises `BadJob` with all problems."""
        fields = {name: _as_written(value) for name, value in values.items()}
        reading = self.read(Document(fields, message))
        if reading.job is None:
            raise BadJob([f"{problem.complaint()}." for problem in reading.problems])
        return reading.job

    def written(self, job: J) -> dict[str, object]:
        """The fields that differ from their defaults, `id` first."""
        spec = job.spec
        defaults = JobSpec(id="", message="", background=self.background_by_default)
        common = {
            rule.name: written_value(getattr(spec, rule.attribute))
            for rule in COMMON
            if getattr(spec, rule.attribute) != getattr(defaults, rule.attribute)
        }
        own = {name: written_value(value) for name, value in self.own_fields(job).items()}
        return {"id": spec.id, **own, **common}

    def _read_field(self, name: str, field: Field, found: _Findings) -> None:
        rule = self.rules.get(name)
        if rule is None:
            self._read_unknown(name, field, found)
            return
        try:
            found.values[name] = rule.read(field)
        except WrongValue as wrong:
            found.problems.append(FieldProblem(str(wrong), name, field.line))

    def _read_unknown(self, name: str, field: Field, found: _Findings) -> None:
        near = nearest(name, self.rules)
        looks_so = re.search(_LOOKS_LIKE_A_RESTRICTION, name) is not None
        hint = f"; did you mean {near}?" if near else _WHAT_RESTRICTS if looks_so else ""
        problem = FieldProblem(f"is not a field of a {self.kind}{hint}", name, field.line)
        restricts = looks_so or (near is not None and self.rules[near].restricts)
        if restricts or name in _OF_ONE_KIND:
            found.problems.append(problem)
        else:
            found.warnings.append(problem)

    def _faults(self, document: Document, values: Mapping[str, Any]) -> Iterator[Fault]:
        for name in self.required:
            if name not in document.fields:
                yield name, "is missing"
        yield from self._faults_of_moments(document)
        if not document.body:
            yield None, "the text under the fields is empty"
        if not values.get("background", self.background_by_default):
            for name in values:
                if self.rules[name].background_only:
                    yield name, "is for background jobs only; add background: true or remove it"
        yield from _contradictions(values)
        if "set-by" in values:
            yield from self._faults_of_initiative(values)
        yield from self._own_faults(values, document.body)

    def _faults_of_moments(self, document: Document) -> Iterator[Fault]:
        given = [name for name in self.moments if name in document.fields]
        if self.moments and not given:
            yield self.moments[0], "is missing"
        for name in given[1:]:
            yield name, f"cannot be combined with {given[0]}; remove one of the two"

    def _faults_of_initiative(self, values: Mapping[str, Any]) -> Iterator[Fault]:
        for name in filter(values.get, _COME):
            yield name, "is only for what the owner asked for; remove it, or the line set-by"
        if not values.get("background", self.background_by_default):
            yield "set-by", "is for background jobs only; add background: true or remove it"

    def _built(self, values: Mapping[str, Any], message: str) -> J:
        common = {_COMMON[name]: value for name, value in values.items() if name in _COMMON}
        spec = JobSpec(**{"background": self.background_by_default} | common, message=message)
        return self._build(spec, values)


def _contradictions(values: Mapping[str, Any]) -> Iterator[Fault]:
    if values.get("allow-ping") is False:
        for name in filter(values.get, _COME):
            yield name, "cannot be kept with allow-ping: false; remove one of the two"
    if values.get("kind") is ItemKind.DOSE and values.get("must") is False:
        yield "must", "cannot be false for a dose, which always comes; remove it, or kind: dose"


def _as_written(value: object) -> Field:
    return Field(value, 0, None if isinstance(value, list | dict) else str(value))


def written_value(value: object) -> object:
    """A value of a field as a file or a listing shows it."""
    if type(value) is tuple:
        return [written_value(each) for each in value]
    if isinstance(value, timedelta):
        return length_text(value)
    if value is None or isinstance(value, bool | int | dict):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)


def whole(field: Field) -> int:
    if isinstance(field.value, bool) or not isinstance(field.value, int):
        raise wrong(field, "a whole number from 0 to 1000")
    if not 0 <= field.value <= 1000:
        raise wrong(field, "a whole number from 0 to 1000")
    return field.value


def moment(field: Field) -> datetime:
    """A moment to the second: a fraction is cut."""
    right = "a time such as 2026-11-16T09:00 or 2026-11-16T09:00:00+01:00"
    value = text(field)
    if not _MOMENT.fullmatch(value):
        raise wrong(field, right)
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        raise wrong(field, right) from None
    if not 1970 <= parsed.year < 9999:
        raise wrong(field, right)
    return parsed.replace(microsecond=0)


def _reminder(spec: JobSpec, values: Mapping[str, Any]) -> Reminder:
    chain = Chain(
        values.get("max-chain", 0), values.get("chain-depth", 0), values.get("chain-parent")
    )
    return Reminder(spec, values["run-at"], chain, values.get("set-at"))


def _reminder_fields(reminder: Reminder) -> dict[str, object]:
    chain = reminder.chain
    own: dict[str, object] = {
        "max-chain": chain.max,
        "chain-depth": chain.depth,
        "chain-parent": chain.parent,
        "set-at": reminder.set_at,
    }
    return {"run-at": reminder.run_at} | {name: value for name, value in own.items() if value}


def _reminder_faults(values: Mapping[str, Any], _: str) -> Iterator[Fault]:
    if values.get("chain-depth", 0) > values.get("max-chain", 0):
        yield "chain-depth", "is greater than max-chain"
    if values.get("max-chain"):
        for name in ("nag", "plain"):
            if values.get(name):
                yield name, "cannot be combined with max-chain; remove one of the two"


REMINDERS = JobFormat(
    JobKind.REMINDER,
    own_rules=(
        FieldRule("run-at", moment),
        FieldRule("max-chain", whole),
        FieldRule("chain-depth", whole),
        FieldRule("chain-parent", job_id),
        FieldRule("set-at", moment),
    ),
    required=("id",),
    moments=("run-at",),
    background_by_default=True,
    build=_reminder,
    own_fields=_reminder_fields,
    faults=_reminder_faults,
)
