"""Jobs as markdown documents: from file to value with every problem named, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ollim_bot.domain.jobs import Chain, Job, JobKind, JobSpec, Reminder, Routine, WebhookSpec
from ollim_bot.storage.document import Document, Field
from ollim_bot.storage.job_fields import COMMON, REMINDER, ROUTINE, WEBHOOK, FieldRule, WrongValue

_Fault = tuple[str | None, str]
J = TypeVar("J", bound=Job)

_KIND_FIELDS = {JobKind.ROUTINE: ROUTINE, JobKind.REMINDER: REMINDER, JobKind.WEBHOOK: WEBHOOK}
_RULES = {kind: {rule.name: rule for rule in (*COMMON, *own)} for kind, own in _KIND_FIELDS.items()}
_LOOKS_LIKE_A_RESTRICTION = re.compile(
    r"disallow|deny|denied|forbid|block|exclu|except|restrict|permission|sandbox|read-?only"
)


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """`line` counts in the file; None where the problem has no line of its own."""

    reason: str
    field: str | None = None
    line: int | None = None

    def sentence(self, file: str) -> str:
        where = file if self.line is None else f"{file}:{self.line}"
        return f"{where}: {self.reason if self.field is None else f'{self.field}: {self.reason}'}"


@dataclass(slots=True)
class _Reading:
    """What has been found in one document so far."""

    values: dict[str, Any] = field(default_factory=dict)
    problems: list[FieldProblem] = field(default_factory=list)
    warnings: list[FieldProblem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class JobReading(Generic[J]):
    """`job` is None exactly when there are problems; warnings do not keep it from running."""

    job: J | None
    job_id: str | None
    problems: tuple[FieldProblem, ...] = ()
    warnings: tuple[FieldProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class JobFormat(Generic[J]):
    """One kind of job: its fields, those that must be there, and how they make a value."""

    kind: JobKind
    required: tuple[str, ...]
    background_by_default: bool
    build: Callable[[JobSpec, Mapping[str, Any]], J]
    own_fields: Callable[[J], Mapping[str, object]]

    @property
    def rules(self) -> dict[str, FieldRule]:
        return _RULES[self.kind]

    def read(self, document: Document) -> JobReading[J]:
        reading = _Reading()
        for name, found in document.fields.items():
            self._read_field(name, found, reading)
        for at, reason in self._faults(document, reading.values):
            line = document.fields[at].line if at and at in document.fields else None
            reading.problems.append(FieldProblem(reason, at, line))
        job_id = reading.values.get("id")
        problems = tuple(reading.problems)
        job = None if problems else self._built(reading.values, document.body)
        return JobReading(job, job_id, problems, tuple(reading.warnings))

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

    def _read_field(self, name: str, found: Field, reading: _Reading) -> None:
        rule = self.rules.get(name)
        if rule is None:
            self._read_unknown(name, found, reading)
            return
        try:
            reading.values[name] = rule.read(found)
        except WrongValue as wrong:
            reading.problems.append(FieldProblem(str(wrong), name, found.line))

    def _read_unknown(self, name: str, found: Field, reading: _Reading) -> None:
        near = next((rule for known, rule in self.rules.items() if _is_near(name, known)), None)
        hint = "" if near is None else f"; did you mean {near.name}?"
        problem = FieldProblem(f"is not a field of a {self.kind}{hint}", name, found.line)
        of_other_kind = any(name == rule.name for rules in _KIND_FIELDS.values() for rule in rules)
        restricts = _LOOKS_LIKE_A_RESTRICTION.search(name) or (near and near.restricts)
        target = reading.problems if restricts or of_other_kind else reading.warnings
        target.append(problem)

    def _faults(self, document: Document, values: Mapping[str, Any]) -> Iterator[_Fault]:
        """What is wrong with the document as a whole, as field and reason."""
        for name in self.required:
            if name not in document.fields:
                yield name, "is missing"
        if not document.body:
            yield None, "the text under the fields is empty"
        if not values.get("background", self.background_by_default):
            for name in values:
                if self.rules[name].background_only:
                    yield name, "is for background jobs only; add background: true or remove it"
        yield from self._contradictions(values)

    def _contradictions(self, values: Mapping[str, Any]) -> Iterator[_Fault]:
        if values.get("must") and values.get("allow-ping") is False:
            yield "must", "cannot be kept with allow-ping: false; remove one of the two"
        if values.get("chain-depth", 0) > values.get("max-chain", 0):
            yield "chain-depth", "is greater than max-chain"
        if self.kind is JobKind.WEBHOOK and values.get("background") is False:
            yield "background", "is always true for a webhook; remove the line"

    def _built(self, values: Mapping[str, Any], message: str) -> J:
        common = {rule.attribute: values[rule.name] for rule in COMMON if rule.name in values}
        spec = JobSpec(**{"background": self.background_by_default} | common, message=message)
        return self.build(spec, values)


def _written(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    if value is None or isinstance(value, bool | int | dict):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _is_near(name: str, known: str) -> bool:
    """Whether one slip of the hand separates the two: a letter more, less, other or swapped."""
    if abs(len(name) - len(known)) > 1:
        return False
    start = next(i for i in range(len(name) + 1) if name[: i + 1] != known[: i + 1])
    a, b = name[start:], known[start:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])


def _reminder(spec: JobSpec, values: Mapping[str, Any]) -> Reminder:
    chain = Chain(
        values.get("max-chain", 0), values.get("chain-depth", 0), values.get("chain-parent")
    )
    return Reminder(spec, values["run-at"], chain)


def _reminder_fields(reminder: Reminder) -> dict[str, object]:
    chain = reminder.chain
    own = {"max-chain": chain.max, "chain-depth": chain.depth, "chain-parent": chain.parent}
    return {"run-at": reminder.run_at} | {name: value for name, value in own.items() if value}


def _webhook_fields(webhook: WebhookSpec) -> dict[str, object]:
    own: dict[str, object] = {"fields": dict(webhook.fields)}
    return own if webhook.secret_env is None else own | {"secret-env": webhook.secret_env}


ROUTINES = JobFormat(
    JobKind.ROUTINE,
    required=("id", "cron"),
    background_by_default=False,
    build=lambda spec, values: Routine(spec, values["cron"]),
    own_fields=lambda routine: {"cron": routine.cron},
)
REMINDERS = JobFormat(
    JobKind.REMINDER,
    required=("id", "run-at"),
    background_by_default=True,
    build=_reminder,
    own_fields=_reminder_fields,
)
WEBHOOKS = JobFormat(
    JobKind.WEBHOOK,
    required=("id", "fields"),
    background_by_default=True,
    build=lambda spec, values: WebhookSpec(spec, values["fields"], values.get("secret-env")),
    own_fields=_webhook_fields,
)
