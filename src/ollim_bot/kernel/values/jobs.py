"""Jobs: routines run by cron, reminders once, webhooks on a request.

What is particular to a kind is said by its class; everything else knows jobs, not kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, TypeVar
from zlib import crc32
from zoneinfo import ZoneInfo

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.job_kinds import JobKind as JobKind
from ollim_bot.kernel.base.moments import Nag, instant
from ollim_bot.kernel.base.text import FROM_UNTRUSTED, has_words, shortened

if TYPE_CHECKING:
    from ollim_bot.kernel.values.repeats import Rhythm

T = TypeVar("T")
J = TypeVar("J", bound="Job")
_LONGEST_TITLE = 60
_MOST_NAMED = 5


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


class ItemKind(StrEnum):
    """What a due moment is for, where it has its own words and rules."""

    DOSE = "dose"


def short_title(title: str) -> str:
    """The title as part of a line: 60 characters at most, without a full stop."""
    line = " ".join(title.split())
    return shortened(line.rstrip(".,;: ") or line, _LONGEST_TITLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The fields that all jobs share. `message` is the body of the file.

    `plain` has the program deliver the text without any model. `first_step` is the smallest step
    towards it, in words. `before` are the lengths of time at which a heads-up precedes the moment.
    `set_by` is the job whose background run created this one, such as `routine:plan`. Such a job is
    the bot's own initiative, so it never has to be delivered. `untrusted` names what the run that
    created this job had read; its message is then data, and its runs are tainted. `is_template`:
    the message has places for values, so it does not name the job.
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
    plain: bool = False
    kind: ItemKind | None = None
    nag: Nag | None = None
    first_step: str = ""
    before: tuple[timedelta, ...] = ()
    set_by: str | None = None
    untrusted: str | None = None
    is_template: bool = False

    @property
    def words(self) -> str:
        """What the owner is told: the description, else the message on one line."""
        return self.description or " ".join(self.message.split())

    @property
    def said(self) -> tuple[str, str]:
        """What the program tells the owner: a title, empty if there is none, and the text."""
        title, text = (each.casefold().strip(" .") for each in (self.description, self.message))
        is_one = not title or not text or title == " ".join(text.split())
        return ("", self.words) if is_one else (self.description, self.message)

    @property
    def _name(self) -> str:
        return self.id if self.is_template and not self.description else self.words

    @property
    def title(self) -> str:
        """The name of the job for the agent, in notices and in records: no untrusted text."""
        return FROM_UNTRUSTED if self.untrusted else self._name

    @property
    def short_title(self) -> str:
        return short_title(self.title)

    @property
    def owner_title(self) -> str:
        """The name of the job on the owner's own cards and lists; untrusted text is marked."""
        short = short_title(self._name)
        return f"{short} {FROM_UNTRUSTED}" if self.untrusted else short

    def zone(self, default: tzinfo) -> tzinfo:
        return self.timezone or default


class Chain(NamedTuple):
    """How often a reminder may follow up: `max` times, of which this is number `depth`."""

    max: int = 0
    depth: int = 0
    parent: str | None = None

    @property
    def may_follow_up(self) -> bool:
        return self.depth < self.max


_NO_CHAIN = Chain()


@dataclass(frozen=True, slots=True)
class Job:
    """A job of any kind. A kind whose class does not say otherwise is as said here.

    Of the background runs that wait, those with the lowest `rank` get a slot first. `timing_name`
    is the name of `timing` in the ledger.
    """

    kind: ClassVar[JobKind]
    rank: ClassVar[int] = 2
    timing_name: ClassVar[str] = ""

    spec: JobSpec

    @property
    def must(self) -> bool:
        """Whether it must be delivered."""
        return False

    @property
    def asks(self) -> bool:
        """Whether its card stays open until the owner answers it."""
        return False

    @property
    def keeps_quiet(self) -> bool:
        """Whether its turn waits for the end of the quiet."""
        return False

    @property
    def is_plain(self) -> bool:
        """Whether the program delivers the text of the job without any model."""
        return self.spec.plain

    @property
    def follows_answers(self) -> bool:
        """Whether its next moment is set by the answer to the last."""
        return False

    @property
    def chain(self) -> Chain:
        return _NO_CHAIN

    @property
    def timing(self) -> str:
        """When it comes due, as text; empty if it is called."""
        return ""

    @property
    def brings(self) -> str:
        """The source of the untrusted text that each of its runs begins with; empty if none."""
        return ""

    @property
    def brings_free_text(self) -> bool:
        """Whether a run needs a model to judge words that a stranger has chosen."""
        return False

    @property
    def why_not_by_hand(self) -> str:
        """Why no click can run it; empty if one can."""
        return ""

    def task(self, data: Mapping[str, object]) -> str:  # noqa: ARG002
        """What a run is told to do; `data` is what its caller has sent."""
        return self.spec.message


@dataclass(frozen=True, slots=True)
class Routine(Job):
    """With `quiet`, one that runs in the conversation waits for the end of the quiet."""

    kind: ClassVar[JobKind] = JobKind.ROUTINE
    rank: ClassVar[int] = 1
    timing_name: ClassVar[str] = "cron"

    rhythm: Rhythm
    quiet: bool = True

    @property
    def must(self) -> bool:
        """Whether it must be delivered: by default, if it asks the owner for an answer."""
        spec = self.spec
        if spec.set_by is not None:
            return False
        if spec.must is None:
            return spec.nag is not None or spec.kind is not None
        return spec.must

    @property
    def asks(self) -> bool:
        return self.must or self.spec.plain

    @property
    def keeps_quiet(self) -> bool:
        in_conversation = not self.spec.background and not self.spec.plain
        return self.quiet and in_conversation and not self.must

    @property
    def timing(self) -> str:
        return self.rhythm.text

    @property
    def follows_answers(self) -> bool:
        return self.timing.startswith("after-done ")

    @property
    def standstill(self) -> str:
        """Why it has no further moment."""
        return "waits for your answer" if self.follows_answers else "has ended"

    def next_after(self, moment: datetime, default_zone: tzinfo) -> datetime | None:
        """The first moment later than `moment`; None if its rhythm has ended."""
        return self.rhythm.next(moment, self.spec.zone(default_zone))


@dataclass(frozen=True, slots=True)
class Reminder(Job):
    """`run_at` as in the file: an instant, or a wall-clock time in the job's zone.

    A timer has the moment `set_at` from which its time runs.
    """

    kind: ClassVar[JobKind] = JobKind.REMINDER
    rank: ClassVar[int] = 0
    timing_name: ClassVar[str] = "run_at"

    run_at: datetime
    chain: Chain = _NO_CHAIN
    set_at: datetime | None = None

    @property
    def must(self) -> bool:
        """Whether it must be delivered: by default, unless it is a chain or has untrusted words."""
        spec = self.spec
        if spec.set_by is not None:
            return False
        if spec.must is None:
            return self.chain.max == 0 and spec.allow_ping and spec.untrusted is None
        return spec.must

    @property
    def asks(self) -> bool:
        return self.must or self.spec.plain or self.chain.max > 0

    @property
    def timing(self) -> str:
        return self.run_at.isoformat()

    def due(self, default_zone: tzinfo) -> datetime:
        return instant(self.run_at, self.spec.zone(default_zone))


def list_names(names: Sequence[str], show: Callable[[str], str], last: str, most: int = 10) -> str:
    """`a, b and c`, with the word `last` before the last; of many, the first and how many more."""
    shown = [show(name) for name in names[:most]]
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return f" {last} ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def is_ordered(job: Job) -> bool:
    """Whether the program itself delivers it if no run does."""
    return job.must or (job.kind.has_moments and job.spec.plain)


def ignores_late(job: Job) -> bool:
    """Whether its `late` is read as `run`, because it must come."""
    return job.must and job.spec.late not in (None, Late.RUN)


def job_key(job: Job) -> str:
    """The job, such as `routine:plan`; all checks of a chain have the key of its first."""
    return f"{job.kind}:{job.chain.parent or job.spec.id}"


def list_order(job: Job, moment: datetime | None) -> tuple[bool, bool, float, str]:
    """The place in a list: the soonest first, then what is called, and the paused ones last."""
    spec = job.spec
    at = moment.timestamp() if moment else 0.0
    return not spec.enabled, not job.kind.has_moments, at, spec.id


def named_by_words(words: str, jobs: Sequence[J], when: Callable[[J], str]) -> J | None:
    """The only job whose title has all the words; of a long word, its beginning is enough.

    None if no job fits; raises `WrongInput` with their ids and moments if several do. `when` tells
    the moment of a job.
    """
    found = [job for job in jobs if has_words(job.spec.words, words)]
    if len(found) > 1:
        named = [f"{job.spec.id} ({job.spec.short_title}, {when(job)})" for job in found]
        listed = "; ".join(named[:_MOST_NAMED])
        more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        raise WrongInput(f"Several fit “{words}”: {listed}{more}. Say which one by its id.")
    return found[0] if found else None


def told_of_nag(job: Job, given: Container[str]) -> str:
    """What to say of a nag that was not asked for in `given`, the names of the fields."""
    nag = job.spec.nag
    return f"It comes again {nag.in_words}." if nag and "nag" not in given else ""


class StoredJob(NamedTuple, Generic[T]):
    """A document that was understood, and its file."""

    item: T
    path: Path


class JobText(NamedTuple):
    """The whole text of a job's file, and the name of the file."""

    name: str
    text: str

    @property
    def version(self) -> str:
        """Another one for every other text, but for a chance of one in billions."""
        raw = self.text.encode("utf-8", "surrogatepass")
        return f"{len(raw):x}-{crc32(raw):08x}"


class RepositoryReport(NamedTuple, Generic[T]):
    """All correct documents of a repository, and a sentence for each problem."""

    jobs: Sequence[StoredJob[T]]
    problems: Sequence[str] = ()
    warnings: Sequence[str] = ()


def is_initiative(job: Job) -> bool:
    """Whether the job needs a ping of the budget when it is due."""
    return job.spec.set_by is not None and job.spec.allow_ping


def is_silent_initiative(job: Job | None) -> bool:
    """Whether a run set the job that may not ping, and so shows nothing by a card either."""
    return job is not None and job.spec.set_by is not None and not job.spec.allow_ping
