"""Jobs: routines run by cron, reminders once, webhooks on a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from ollim_bot.domain.moments import instant
from ollim_bot.domain.text import shortened

if TYPE_CHECKING:
    from ollim_bot.domain.cron import Cron

T = TypeVar("T")
_LONGEST_TITLE = 60


class JobKind(StrEnum):
    ROUTINE = "routine"
    REMINDER = "reminder"
    WEBHOOK = "webhook"


class Model(StrEnum):
    OPUS = "opus"
    SONNET = "sonnet"
    HAIKU = "haiku"


class ReportMode(StrEnum):
    """When a background run owes the main session a report (`update-main-session`)."""

    ALWAYS = "always"
    ON_PING = "on_ping"
    FREELY = "freely"
    BLOCKED = "blocked"


class Late(StrEnum):
    """What to do about a missed occurrence."""

    RUN = "run"
    SKIP = "skip"
    TELL = "tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The fields that all jobs share. `message` is the body of the file.

    `set_by` is the job whose background run created this one, such as `routine:plan`. Such a job is
    the bot's own initiative, so it never has to be delivered.
    """

    id: str
    message: str
    description: str = ""
    background: bool = False
    model: Model | None = None
    thinking: bool = True
    isolated: bool = False
    update_main_session: ReportMode = ReportMode.ON_PING
    allow_ping: bool = True
    allowed_tools: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    timezone: ZoneInfo | None = None
    late: Late | None = None
    enabled: bool = True
    must: bool | None = None
    set_by: str | None = None

    @property
    def title(self) -> str:
        """The description, else the message on one line."""
        return self.description or " ".join(self.message.split())

    @property
    def short_title(self) -> str:
        """The title as part of a line: 60 characters at most, without a full stop."""
        line = " ".join(self.title.split())
        return shortened(line.rstrip(".,;: ") or line, _LONGEST_TITLE)

    def zone(self, default: tzinfo) -> tzinfo:
        return self.timezone or default


@dataclass(frozen=True, slots=True)
class Routine:
    spec: JobSpec
    cron: Cron

    @property
    def must(self) -> bool:
        return bool(self.spec.must) and self.spec.set_by is None

    def next_after(self, moment: datetime, default_zone: tzinfo) -> datetime:
        return self.cron.next(moment, self.spec.zone(default_zone))


@dataclass(frozen=True, slots=True)
class Chain:
    """How often a reminder may follow up: `max` times, of which this is number `depth`."""

    max: int = 0
    depth: int = 0
    parent: str | None = None

    @property
    def may_follow_up(self) -> bool:
        return self.depth < self.max


@dataclass(frozen=True, slots=True)
class Reminder:
    """`run_at` as in the file: an instant, or a wall-clock time in the job's zone."""

    spec: JobSpec
    run_at: datetime
    chain: Chain = Chain()

    @property
    def must(self) -> bool:
        """Whether it must be delivered: by default, unless it is a chain."""
        if self.spec.set_by is not None:
            return False
        if self.spec.must is None:
            return self.chain.max == 0 and self.spec.allow_ping
        return self.spec.must

    def due(self, default_zone: tzinfo) -> datetime:
        return instant(self.run_at, self.spec.zone(default_zone))


@dataclass(frozen=True, slots=True)
class WebhookSpec:
    """`fields` is the JSON Schema of the accepted data; `spec.id` is the segment of its URL."""

    spec: JobSpec
    fields: Mapping[str, object]
    secret_env: str | None = None


Job = Routine | Reminder | WebhookSpec


def is_ordered(job: Job) -> bool:
    """Whether the program itself delivers it if no run does: a reminder that must be delivered."""
    return isinstance(job, Reminder) and job.must


def kind_of(job: Job) -> JobKind:
    match job:
        case Routine():
            return JobKind.ROUTINE
        case Reminder():
            return JobKind.REMINDER
        case WebhookSpec():
            return JobKind.WEBHOOK


class Shelved(NamedTuple, Generic[T]):
    """A document that was understood, and its file."""

    item: T
    path: Path


class ShelfReport(NamedTuple, Generic[T]):
    """All correct documents of a shelf, and a sentence for each problem."""

    jobs: Sequence[Shelved[T]]
    problems: Sequence[str] = ()
    warnings: Sequence[str] = ()
