"""Reminders as documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from ollim_bot.domain.jobs import Chain, JobKind, JobSpec, Reminder
from ollim_bot.storage.documents.document import Field
from ollim_bot.storage.jobs.fields import FieldRule, job_id, text, wrong
from ollim_bot.storage.jobs.form import Fault, JobFormat

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)


def whole(field: Field) -> int:
    if isinstance(field.value, bool) or not isinstance(field.value, int):
        raise wrong(field, "a whole number from 0 to 1000")
    if not 0 <= field.value <= 1000:
        raise wrong(field, "a whole number from 0 to 1000")
    return field.value


def moment(field: Field) -> datetime:
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
    return parsed


def _reminder(spec: JobSpec, values: Mapping[str, Any]) -> Reminder:
    chain = Chain(
        values.get("max-chain", 0), values.get("chain-depth", 0), values.get("chain-parent")
    )
    return Reminder(spec, values["run-at"], chain)


def _own_fields(reminder: Reminder) -> dict[str, object]:
    chain = reminder.chain
    own = {"max-chain": chain.max, "chain-depth": chain.depth, "chain-parent": chain.parent}
    return {"run-at": reminder.run_at} | {name: value for name, value in own.items() if value}


def _faults(values: Mapping[str, Any]) -> Iterator[Fault]:
    if values.get("chain-depth", 0) > values.get("max-chain", 0):
        yield "chain-depth", "is greater than max-chain"


REMINDERS = JobFormat(
    JobKind.REMINDER,
    own_rules=(
        FieldRule("run-at", moment),
        FieldRule("max-chain", whole),
        FieldRule("chain-depth", whole),
        FieldRule("chain-parent", job_id),
    ),
    required=("id", "run-at"),
    background_by_default=True,
    build=_reminder,
    own_fields=_own_fields,
    faults=_faults,
)
