"""What each field of a job file may hold, and what is said when it holds something else."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ollim_bot.domain.cron import Cron
from ollim_bot.domain.jobs import Late, Model, ReportMode
from ollim_bot.errors import BadCron
from ollim_bot.storage.document import Field

JOB_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)


class WrongValue(Exception):
    """`str()` says what is wrong and what would be right."""


def _wrong(field: Field, right: str) -> WrongValue:
    shown = field.text if field.text is not None else field.value
    return WrongValue(f"{_shortened(repr(shown))} is not right; it takes {right}")


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def text(field: Field) -> str:
    # A number or a word such as `true` is text where text is wanted: quotes are YAML's concern.
    if field.text is None or field.value is None:
        raise _wrong(field, "text")
    return field.text


def one_line(field: Field) -> str:
    return " ".join(text(field).split())


def flag(field: Field) -> bool:
    if not isinstance(field.value, bool):
        raise _wrong(field, "true or false")
    return field.value


def whole(field: Field) -> int:
    if isinstance(field.value, bool) or not isinstance(field.value, int):
        raise _wrong(field, "a whole number from 0 to 1000")
    if not 0 <= field.value <= 1000:
        raise _wrong(field, "a whole number from 0 to 1000")
    return field.value


def words(field: Field) -> tuple[str, ...]:
    right = "a list such as [one, two]"
    if not isinstance(field.value, list):
        raise _wrong(field, right)
    if not all(isinstance(word, str) and word.strip() for word in field.value):
        raise _wrong(field, right)
    return tuple(word.strip() for word in field.value)


def job_id(field: Field) -> str:
    value = text(field)
    if not JOB_ID.fullmatch(value):
        raise _wrong(field, "lower-case letters, digits and hyphens, at most 40")
    return value


def cron(field: Field) -> Cron:
    try:
        return Cron.parse(text(field))
    except BadCron as bad:
        raise WrongValue(str(bad)) from None


def moment(field: Field) -> datetime:
    right = "a time such as 2026-11-16T09:00 or 2026-11-16T09:00:00+01:00"
    value = text(field)
    if not _MOMENT.fullmatch(value):
        raise _wrong(field, right)
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        raise _wrong(field, right) from None
    if not 1970 <= parsed.year < 9999:
        raise _wrong(field, right)
    return parsed


def zone(field: Field) -> ZoneInfo:
    value = text(field)
    try:
        return ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise _wrong(field, "the name of a time zone such as Europe/Berlin") from None


def schema(field: Field) -> dict[str, object]:
    if not isinstance(field.value, dict) or not field.value:
        raise _wrong(field, "a JSON Schema such as {type: object, properties: {...}}")
    return field.value


def variable(field: Field) -> str:
    value = text(field)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise _wrong(field, "the name of an environment variable such as GITHUB_SECRET")
    return value


def one_of(kind: type[StrEnum]) -> Callable[[Field], StrEnum]:
    def choice(field: Field) -> StrEnum:
        try:
            return kind(text(field))
        except ValueError:
            raise _wrong(field, f"one of {', '.join(kind)}") from None

    return choice


@dataclass(frozen=True, slots=True)
class FieldRule:
    """A field's name in the file and in `JobSpec` or its kind, and how it is read."""

    name: str
    read: Callable[[Field], object]
    background_only: bool = False
    # A misspelt one of these would leave a job with more power than its author thought.
    restricts: bool = False

    @property
    def attribute(self) -> str:
        return self.name.replace("-", "_")


COMMON = (
    FieldRule("id", job_id),
    FieldRule("description", one_line),
    FieldRule("background", flag),
    FieldRule("model", one_of(Model), background_only=True),
    FieldRule("thinking", flag, background_only=True),
    FieldRule("isolated", flag, background_only=True, restricts=True),
    FieldRule("update-main-session", one_of(ReportMode), background_only=True, restricts=True),
    FieldRule("allow-ping", flag, background_only=True, restricts=True),
    FieldRule("allowed-tools", words, restricts=True),
    FieldRule("skills", words),
    FieldRule("timezone", zone),
    FieldRule("late", one_of(Late)),
    FieldRule("enabled", flag, restricts=True),
    FieldRule("must", flag),
)
ROUTINE = (FieldRule("cron", cron),)
REMINDER = (
    FieldRule("run-at", moment),
    FieldRule("max-chain", whole),
    FieldRule("chain-depth", whole),
    FieldRule("chain-parent", job_id),
)
WEBHOOK = (FieldRule("fields", schema), FieldRule("secret-env", variable))
