"""The fields of a job. Each is declared once: file, flags, tool and form are made from this."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Flag, StrEnum, auto
from typing import NamedTuple
from zoneinfo import ZoneInfo

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import Nag, length_text, parse_length, zone_named
from ollim_bot.kernel.values.jobs import ItemKind, JobSpec, Late, Model, ReportMode
from ollim_bot.kernel.values.tool_patterns import problems

JOB_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
YES, NO, USUAL = "yes", "no", ""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
_SHORTEST, _LONGEST = timedelta(minutes=1), timedelta(days=7)


class Field(NamedTuple):
    """`value` consists of plain Python values; `text` is a scalar as it was written."""

    value: object
    line: int
    text: str | None


class WrongValue(Exception):
    """`str()` says what is wrong and what would be valid."""


def wrong(field: Field, right: str) -> WrongValue:
    shown = repr(field.text if field.text is not None else field.value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return WrongValue(f"{shown} is not right; it takes {right}")


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


def whole(field: Field, low: int = 0, high: int = 1000) -> int:
    value = field.value
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise wrong(field, f"a whole number from {low} to {high}")
    return value


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


def written_value(value: object) -> object:
    """A value of a field as a file or a listing shows it."""
    if type(value) is tuple:
        return [written_value(each) for each in value]
    if isinstance(value, timedelta):
        return length_text(value)
    if value is None or isinstance(value, bool | int | dict):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


class FormWords(NamedTuple):
    """A field on the form. The first of its `choices` stands for no line in the file.

    A choice is its name, its words, and its value in the file. Those with a lower place come first.
    """

    label: str
    hint: str = ""
    choices: tuple[tuple[str, str, object], ...] = ()
    place: int = 0


class FlagWords(NamedTuple):
    """The flag of a field on the command line: its names, and what it is.

    `value` stands for what follows it; `sets` is the value of a flag that takes nothing.
    """

    names: str
    about: str
    value: str = ""
    sets: str | None = None


class Trait(Flag):
    BACKGROUND = auto()
    # A misspelt field of this kind would leave a job with more power than its author intended.
    RESTRICTS = auto()
    # It is about the moment of a job, so a job that is called has none.
    BY_CLOCK = auto()
    # By it a job reaches the owner without the agent's judgement and the ping budget.
    ORDER = auto()


BACKGROUND, RESTRICTS, BY_CLOCK, ORDER = Trait


class JobField(NamedTuple):
    """A field by its name in the file, and how it is read there.

    `asks` is its schema in the tool that sets a reminder.
    """

    name: str
    read: Callable[[Field], object]
    flag: FlagWords | None = None
    traits: Trait = Trait(0)
    asks: dict[str, object] | None = None
    form: FormWords | None = None

    @property
    def attribute(self) -> str:
        """Its name in `JobSpec`, or in the class of its kind of job."""
        return self.name.replace("-", "_")

    def has(self, trait: Trait) -> bool:
        return trait in self.traits


# In the order of the help, and of the arguments of the tool.
FIELDS = (
    JobField("id", job_id),
    JobField(
        "description",
        one_line,
        FlagWords("--description", "for lists, and the title above the text", "TEXT"),
        asks={"type": "string", "description": "one line for lists, the title of its card"},
        form=FormWords("Short name", "for lists; may be empty"),
    ),
    JobField(
        "background",
        flag,
        FlagWords("--background --foreground", "apart from, or in, the conversation"),
        BY_CLOCK,
    ),
    JobField(
        "model",
        one_of(Model),
        FlagWords("--model", "of a background job", "opus|sonnet|haiku"),
        BACKGROUND,
    ),
    JobField(
        "thinking",
        flag,
        FlagWords("--thinking --no-thinking", "whether a background job thinks first"),
        BACKGROUND,
    ),
    JobField(
        "isolated",
        flag,
        FlagWords("--isolated --no-isolated", "a background job apart from all that was said"),
        BACKGROUND | RESTRICTS,
    ),
    JobField(
        "update-main-session",
        one_of(ReportMode),
        FlagWords(
            "--update-main-session",
            "whether the conversation hears of a background run",
            "always|on_ping|freely|blocked",
        ),
        BACKGROUND | RESTRICTS,
    ),
    JobField(
        "allow-ping",
        flag,
        FlagWords("--ping --no-ping", "whether a background run may write to you"),
        BACKGROUND | RESTRICTS,
    ),
    JobField(
        "allowed-tools",
        patterns,
        FlagWords("--allowed-tool", "a tool beyond the usual ones; repeat it for more", "TOOL"),
        BACKGROUND | RESTRICTS,
    ),
    JobField("skills", words, FlagWords("--skill", "a skill to use; repeat it for more", "NAME")),
    JobField(
        "timezone", zone, FlagWords("--timezone", "of the job, if not yours", "ZONE"), BY_CLOCK
    ),
    JobField(
        "late",
        one_of(Late),
        FlagWords("--late", "what to do when it was missed", "run|skip|tell"),
        BY_CLOCK,
    ),
    JobField(
        "must",
        flag,
        FlagWords("--must --no-must", "whether it comes whatever happens"),
        BY_CLOCK | ORDER,
        asks={"type": "boolean", "description": "whether it comes whatever happens"},
        form=FormWords(
            "Must come",
            "also in quiet hours, and without taking a ping",
            choices=((USUAL, "As usual ({usual})", None), (YES, "Yes", True), (NO, "No", False)),
            place=1,
        ),
    ),
    JobField(
        "plain",
        flag,
        FlagWords("--plain --no-plain", "as you wrote it, without a model"),
        BY_CLOCK | ORDER,
        asks={
            "type": "boolean",
            "description": "true: `prompt` comes as it is, without you. false: a run",
        },
    ),
    JobField(
        "nag",
        nag,
        FlagWords("--nag", "it comes again until you answer it", '"10m x 4"'),
        BY_CLOCK | ORDER,
        asks={
            "type": "string",
            "description": "how it comes again until answered: `10m x 4`; not with `max_chain`",
        },
        form=FormWords(
            "Again until done", "pause and how often, such as `10m x 4`; empty: once is enough"
        ),
    ),
    JobField(
        "first-step",
        one_line,
        FlagWords("--first-step", "what to do first, said the second time", "TEXT"),
        BY_CLOCK,
        asks={"type": "string", "description": "with `nag`: the smallest first step"},
        form=FormWords("First step", "the smallest first step, said the second time"),
    ),
    JobField(
        "before",
        lengths,
        FlagWords("--before", "a heads-up so long before; repeat it for more", "30m"),
        BY_CLOCK | ORDER,
        asks={
            "type": "array",
            "description": "heads-ups so long before",
            "items": {"type": "string", "description": "30m, 2h or 1d"},
        },
        form=FormWords("Heads-ups", "so long before, such as `1h, 10m`"),
    ),
    JobField(
        "kind",
        one_of(ItemKind),
        FlagWords("--dose", "a medicine: answered with Taken or Skipped", sets=ItemKind.DOSE.value),
        BY_CLOCK | ORDER,
        asks={
            "type": "string",
            "description": "a `dose` is answered with Taken or Skipped",
            "enum": [each.value for each in ItemKind],
        },
        form=FormWords(
            "Medicine", choices=((NO, "No", None), ("dose", "Yes: Taken or Skipped", "dose"))
        ),
    ),
    JobField(
        "enabled",
        flag,
        FlagWords("--enabled --disabled", "disabled: kept, but paused"),
        RESTRICTS,
        form=FormWords("State", choices=((YES, "On", None), (NO, "Paused", False)), place=3),
    ),
    JobField("set-by", setter, None, RESTRICTS),
    JobField("untrusted", one_line, None, RESTRICTS),
)

_ORDER_IN_FILE = [*JobSpec.__dataclass_fields__]
# In the order of a file.
COMMON = tuple(sorted(FIELDS, key=lambda each: _ORDER_IN_FILE.index(each.attribute)))
ORDERS = tuple(each for each in COMMON if each.has(ORDER))
