"""The format of a job's file; that of reminders."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from ollim_bot.kernel.base.errors import BadJob
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.text import nearest
from ollim_bot.kernel.store.document import Document
from ollim_bot.kernel.values.job_fields import (
    BACKGROUND,
    COMMON,
    ORDERS,
    RESTRICTS,
    Field,
    JobField,
    WrongValue,
    job_id,
    moment,
    whole,
    written_value,
)
from ollim_bot.kernel.values.jobs import Chain, ItemKind, Job, JobSpec, Reminder, ignores_late
from ollim_bot.kernel.values.tool_patterns import is_open, open_problem

READ_AS_RUN = "is read as run, because it must come, however late; remove it"
ALLOWED_TOOLS = "allowed-tools"

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
_COMMON = {rule.name: rule.attribute for rule in COMMON}
_FOR_BACKGROUND = "is for background jobs only; add background: true or remove it"
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


@dataclass(frozen=True)
class JobFormat(Generic[J]):
    """One kind of job: its fields, the required ones, and how they make a value.

    Exactly one of `moments` says when it comes.
    `faults` finds problems between fields that are each valid by themselves, and with the body.
    """

    kind: JobKind
    own_rules: tuple[JobField, ...]
    required: tuple[str, ...]
    background_by_default: bool
    build: Callable[[JobSpec, Mapping[str, Any]], J]
    own_fields: Callable[[J], Mapping[str, object]]
    faults: Callable[[Mapping[str, Any], str], Iterable[Fault]]
    moments: tuple[str, ...] = ()

    @cached_property
    def rules(self) -> Mapping[str, JobField]:
        return {rule.name: rule for rule in (*COMMON, *self.own_rules)}

    def read(self, document: Document) -> JobReading[J]:
        values: dict[str, Any] = {}
        problems, warnings = list[FieldProblem](), list[FieldProblem]()
        for name, field in document.fields.items():
            if name not in self.rules:
                unknown, is_problem = self._unknown(name, field)
                (problems if is_problem else warnings).append(unknown)
                continue
            try:
                values[name] = self.rules[name].read(field)
            except WrongValue as wrong:
                problems.append(FieldProblem(str(wrong), name, field.line))
        for at, reason in self._faults(document, values):
            line = document.fields[at].line if at and at in document.fields else None
            problems.append(FieldProblem(reason, at, line))
        if problems:
            return JobReading(None, values.get("id"), tuple(problems), tuple(warnings))
        common = {_COMMON[name]: value for name, value in values.items() if name in _COMMON}
        fields = {"background": self.background_by_default, **common}
        job = self.build(JobSpec(**fields, message=document.body), values)
        if ignores_late(job):
            warnings.append(FieldProblem(READ_AS_RUN, "late", document.fields["late"].line))
        for pattern in filter(is_open, job.spec.allowed_tools):
            reason = open_problem(pattern).removesuffix(".")
            line = document.fields[ALLOWED_TOOLS].line
            warnings.append(FieldProblem(reason, ALLOWED_TOOLS, line))
        return JobReading(job, job.spec.id, (), tuple(warnings))

    def made(self, values: Mapping[str, object], message: str) -> J:
        """The job with these fields, named as in a file. Raises `BadJob` with all problems."""
        fields = {
            name: Field(value, 0, None if isinstance(value, list | dict) else str(value))
            for name, value in values.items()
        }
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

    def _unknown(self, name: str, field: Field) -> tuple[FieldProblem, bool]:
        """What to say of a field that there is not; whether it keeps the job from running."""
        near = nearest(name, self.rules)
        looks_so = re.search(_LOOKS_LIKE_A_RESTRICTION, name) is not None
        hint = f"; did you mean {near}?" if near else _WHAT_RESTRICTS if looks_so else ""
        problem = FieldProblem(f"is not a field of a {self.kind}{hint}", name, field.line)
        restricts = looks_so or (near is not None and self.rules[near].has(RESTRICTS))
        return problem, restricts or name in _OF_ONE_KIND

    def _faults(self, document: Document, values: Mapping[str, Any]) -> Iterator[Fault]:
        for name in self.required:
            if name not in document.fields:
                yield name, "is missing"
        given = [name for name in self.moments if name in document.fields]
        if self.moments and not given:
            yield self.moments[0], "is missing"
        for name in given[1:]:
            yield name, f"cannot be combined with {given[0]}; remove one of the two"
        if not document.body:
            yield None, "the text under the fields is empty"
        is_foreground = not values.get("background", self.background_by_default)
        yield from self._contradictions(values, is_foreground=is_foreground)
        yield from self.faults(values, document.body)

    def _contradictions(self, values: Mapping[str, Any], *, is_foreground: bool) -> Iterator[Fault]:
        for name in values if is_foreground else ():
            if self.rules[name].has(BACKGROUND):
                yield name, _FOR_BACKGROUND
        orders = [each.name for each in ORDERS if values.get(each.name)]
        if values.get("allow-ping") is False:
            for name in orders:
                yield name, "cannot be kept with allow-ping: false; remove one of the two"
        if values.get("kind") is ItemKind.DOSE and values.get("must") is False:
            yield "must", "cannot be false for a dose, which always comes; remove it, or kind: dose"
        if "set-by" in values:
            for name in orders:
                yield name, "is only for what the owner asked for; remove it, or the line set-by"
            if is_foreground:
                yield "set-by", _FOR_BACKGROUND


def _reminder(spec: JobSpec, values: Mapping[str, Any]) -> Reminder:
    depth, parent = values.get("chain-depth", 0), values.get("chain-parent")
    chain = Chain(values.get("max-chain", 0), depth, parent)
    return Reminder(spec, values["run-at"], chain, values.get("set-at"))


def _reminder_fields(reminder: Reminder) -> dict[str, object]:
    chain = reminder.chain
    own = {"max-chain": chain.max, "chain-depth": chain.depth, "chain-parent": chain.parent}
    said = {name: value for name, value in own.items() if value}
    timer = {"set-at": reminder.set_at} if reminder.set_at else {}
    return {"run-at": reminder.run_at, **said, **timer}


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
        JobField("run-at", moment),
        JobField("max-chain", whole),
        JobField("chain-depth", whole),
        JobField("chain-parent", job_id),
        JobField("set-at", moment),
    ),
    required=("id",),
    moments=("run-at",),
    background_by_default=True,
    build=_reminder,
    own_fields=_reminder_fields,
    faults=_reminder_faults,
)
