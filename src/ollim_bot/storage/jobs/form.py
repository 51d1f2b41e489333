"""Jobs as markdown documents: from file to value with every problem named, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from ollim_bot.domain.jobs import Job, JobKind, JobSpec
from ollim_bot.domain.near_words import nearest
from ollim_bot.errors import BadJob
from ollim_bot.storage.documents.document import Document, Field
from ollim_bot.storage.jobs.fields import COMMON, FieldRule, WrongValue

J = TypeVar("J", bound=Job)

# A field's name, or None for the whole document, and what is wrong with it.
Fault = tuple[str | None, str]

# Of one kind only: on another kind they are a mistake, since they change when or whether it runs.
_OF_ONE_KIND = frozenset(
    ("cron", "run-at", "max-chain", "chain-depth", "chain-parent", "fields", "secret-env")
)
_COMMON = {rule.name: rule.attribute for rule in COMMON}
_LOOKS_LIKE_A_RESTRICTION = re.compile(
    r"disallow|deny|denied|forbid|block|exclu|except|restrict|permission|sandbox|read-?only"
)


class FieldProblem(NamedTuple):
    """`line` counts in the file; None where the problem has no line of its own."""

    reason: str
    field: str | None = None
    line: int | None = None

    def complaint(self) -> str:
        return self.reason if self.field is None else f"{self.field}: {self.reason}"

    def sentence(self, file: str) -> str:
        where = file if self.line is None else f"{file}:{self.line}"
        return f"{where}: {self.complaint()}"


class JobReading(NamedTuple, Generic[J]):
    """`job` is None exactly when there are problems; warnings do not keep it from running."""

    job: J | None
    job_id: str | None
    problems: tuple[FieldProblem, ...] = ()
    warnings: tuple[FieldProblem, ...] = ()


class _Findings:
    """What has been found in one document so far."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.problems: list[FieldProblem] = []
        self.warnings: list[FieldProblem] = []


class JobFormat(Generic[J]):
    """One kind of job: its fields, those that must be there, and how they make a value.

    `faults` finds what is wrong with fields that are right each by itself.
    """

    def __init__(
        self,
        kind: JobKind,
        *,
        own_rules: Iterable[FieldRule],
        required: tuple[str, ...],
        background_by_default: bool,
        build: Callable[[JobSpec, Mapping[str, Any]], J],
        own_fields: Callable[[J], Mapping[str, object]],
        faults: Callable[[Mapping[str, Any]], Iterable[Fault]] = lambda _: (),
    ) -> None:
        self.kind = kind
        self.rules = {rule.name: rule for rule in (*COMMON, *own_rules)}
        self.required = required
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
        job_id = found.values.get("id")
        return JobReading(job, job_id, tuple(found.problems), tuple(found.warnings))

    def made(self, values: Mapping[str, object], message: str) -> J:
        """The job with these fields, in the words of a file. Raises `BadJob` with all problems."""
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
            rule.name: _written(getattr(spec, rule.attribute))
            for rule in COMMON
            if getattr(spec, rule.attribute) != getattr(defaults, rule.attribute)
        }
        own = {name: _written(value) for name, value in self.own_fields(job).items()}
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
        hint = f"; did you mean {near}?" if near else ""
        problem = FieldProblem(f"is not a field of a {self.kind}{hint}", name, field.line)
        restricts = _LOOKS_LIKE_A_RESTRICTION.search(name) or (near and self.rules[near].restricts)
        if restricts or name in _OF_ONE_KIND:
            found.problems.append(problem)
        else:
            found.warnings.append(problem)

    def _faults(self, document: Document, values: Mapping[str, Any]) -> Iterator[Fault]:
        for name in self.required:
            if name not in document.fields:
                yield name, "is missing"
        if not document.body:
            yield None, "the text under the fields is empty"
        if not values.get("background", self.background_by_default):
            for name in values:
                if self.rules[name].background_only:
                    yield name, "is for background jobs only; add background: true or remove it"
        if values.get("must") and values.get("allow-ping") is False:
            yield "must", "cannot be kept with allow-ping: false; remove one of the two"
        if "set-by" in values:
            yield from self._faults_of_initiative(values)
        yield from self._own_faults(values)

    def _faults_of_initiative(self, values: Mapping[str, Any]) -> Iterator[Fault]:
        if values.get("must"):
            yield "must", "is only for what the owner asked for; remove it, or the line set-by"
        if not values.get("background", self.background_by_default):
            yield "set-by", "is for background jobs only; add background: true or remove it"

    def _built(self, values: Mapping[str, Any], message: str) -> J:
        common = {_COMMON[name]: value for name, value in values.items() if name in _COMMON}
        spec = JobSpec(**{"background": self.background_by_default} | common, message=message)
        return self._build(spec, values)


def _as_written(value: object) -> Field:
    return Field(value, 0, None if isinstance(value, list | dict) else str(value))


def _written(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    if value is None or isinstance(value, bool | int | dict):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
