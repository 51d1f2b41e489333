"""What each field of a job file may hold, and what is said when it holds something else."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple
from zoneinfo import ZoneInfo

from ollim_bot.domain.jobs import JobKind, Late, Model, ReportMode
from ollim_bot.environment.time_zones import zone_named
from ollim_bot.storage.documents.document import Field

JOB_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


class WrongValue(Exception):
    """`str()` says what is wrong and what would be right."""


def wrong(field: Field, right: str) -> WrongValue:
    shown = field.text if field.text is not None else field.value
    return WrongValue(f"{_shortened(repr(shown))} is not right; it takes {right}")


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def text(field: Field) -> str:
    # A number or a word such as `true` is text where text is wanted: quotes are YAML's concern.
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


class FieldRule(NamedTuple):
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
    FieldRule("set-by", setter, restricts=True),
)
