"""One run of the agent: its kind, its limits, and what it has recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from threading import Lock
from typing import TYPE_CHECKING

from ollim_bot.kernel.values.agent_caller import (
    CONVERSATION,
    PROGRAM,
    read_command_line,
    shell_words,
)
from ollim_bot.kernel.values.forks import ForkExit
from ollim_bot.kernel.values.jobs import Job, ReportMode
from ollim_bot.kernel.values.permissions import Pattern, is_allowed
from ollim_bot.kernel.values.taint import OTHERS, Taint, addresses_in, marked_taint

if TYPE_CHECKING:
    from ollim_bot.kernel.base.ids import MessageId, SessionId


class DeliveryRight:
    """The right to deliver: taken before the delivery, given back if it certainly failed.

    While `has_ready_ping`, the run has its message and waits for the owner's turn to end.

    Locked, since runs pay for their pings in threads.
    """

    def __init__(self) -> None:
        self._is_taken = False
        self._ready_pings = 0
        self._lock = Lock()

    @property
    def is_taken(self) -> bool:
        return self._is_taken

    @property
    def has_ready_ping(self) -> bool:
        return self._ready_pings > 0

    @contextmanager
    def ready_ping(self) -> Iterator[None]:
        self._ready_pings += 1
        try:
            yield
        finally:
            self._ready_pings -= 1

    def take(self) -> bool:
        """Take the right; False if it is already taken."""
        with self._lock:
            is_free, self._is_taken = not self._is_taken, True
        return is_free

    def give_back(self) -> None:
        self._is_taken = False


_UNTAINTED = Taint()

_LOOKING: Mapping[str, str] = {
    "Read": "file",
    "Grep": "your files",
    "Glob": "your files",
    "WebFetch": "web page",
    "WebSearch": "the web",
}
_LOOKING_COMMANDS: Mapping[str, str] = {
    "gmail": "your inbox",
    "cal": "the calendar",
    "tasks": "your tasks",
    "history": "past conversations",
    "runs": "earlier runs",
}


def thing_looked_at(tool: str, command: str) -> str:
    """What a call looks at, in words of ours; empty if it looks at nothing worth a word.

    `command` is the command line of a call of the shell.
    """
    words = shell_words(command) if tool == "Bash" else None
    if not words or words[0] != PROGRAM:
        return _LOOKING.get(tool, "")
    noun, verb, _ = read_command_line(words[1:])
    return "mail" if (noun, verb) == ("gmail", "read") else _LOOKING_COMMANDS.get(noun, "")


class RunKind(StrEnum):
    MAIN = "main"
    FORK = "fork"
    BACKGROUND = "background"
    ISOLATED = "isolated"

    @property
    def is_background(self) -> bool:
        return self in (RunKind.BACKGROUND, RunKind.ISOLATED)


@dataclass(frozen=True, slots=True)
class RunPolicy:
    """Fixed before the run begins. `tools` are the patterns of the calls it may make."""

    kind: RunKind
    tools: tuple[str, ...]
    report: ReportMode = ReportMode.FREELY
    allow_ping: bool = True
    must: bool = False

    @classmethod
    def of_job(cls, job: Job, tools: tuple[str, ...]) -> RunPolicy:
        spec = job.spec
        return cls(
            kind=RunKind.ISOLATED if spec.isolated else RunKind.BACKGROUND,
            tools=tools,
            report=spec.update_main_session,
            allow_ping=spec.allow_ping,
            must=job.must,
        )


def taint_of_job(job: Job) -> Taint:
    """The taint with which a background run begins, and the addresses that its job names.

    A job that is called brings values of others. An untrusted message names no address
    for the owner.
    """
    spec = job.spec
    brought = (job.brings,) if job.brings else ()
    if spec.untrusted:
        return Taint((*marked_taint(spec.untrusted).sources, *brought))
    return Taint(brought, addresses_in(spec.message))


@dataclass(frozen=True, slots=True)
class RefusedPing:
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class EnterFork:
    """The agent asks to branch off after this turn."""

    topic: str = ""
    idle_minutes: int | None = None


Intent = EnterFork | ForkExit


@dataclass(slots=True)
class Run:
    """The one mutable value of a run, which its tools share.

    `late_since` is when it was due, if it began or pinged late, and `waited_since`, if it waited
    for the end of the quiet; `taint` is the untrusted text that it has read, `allowed` are the
    sources that the owner has called all right meanwhile. `asked_steps` are the keys of the things
    that the owner's button asked to break down; `steps` counts what a careful run has done of each
    step of `Does`.
    """

    policy: RunPolicy
    began: datetime
    label: str = ""
    job: Job | None = None
    occurrence: str = ""
    delivery_right: DeliveryRight | None = None
    late_since: datetime | None = None
    taint: Taint = _UNTAINTED
    allowed: tuple[str, ...] = ()
    session: SessionId | None = None
    parent: SessionId | None = None
    pings: list[MessageId] = field(default_factory=list)
    refused_pings: list[RefusedPing] = field(default_factory=list)
    critical_used: bool = False
    reports: list[str] = field(default_factory=list)
    tools_used: list[str] = field(default_factory=list)
    looked_at: list[str] = field(default_factory=list)
    subagents: list[str] = field(default_factory=list)
    has_changed_something: bool = False
    times_sent_back: int = 0
    follow_up: str | None = None
    has_answered: bool = False
    waited_since: datetime | None = None
    asked_steps: frozenset[str] = frozenset()
    steps: Counter[str] = field(default_factory=Counter)

    @property
    def read(self) -> Taint:
        """What marks its answer, and its writes as not the owner's words."""
        return self.taint.having_read(*self.allowed)

    @property
    def is_main(self) -> bool:
        return self.policy.kind is RunKind.MAIN

    @property
    def called_by(self) -> str:
        """Where the agent acts, as `CALLED_BY` has it."""
        return self.occurrence if self.policy.kind.is_background else CONVERSATION

    @property
    def has_effects(self) -> bool:
        """Whether a second attempt would repeat something that others have seen."""
        return bool(self.pings or self.reports) or self.has_changed_something

    @property
    def has_pinged(self) -> bool:
        return bool(self.pings)

    @property
    def noted(self) -> str:
        """Which notes the run has made of words of others, as a sentence; empty if none."""
        notes = [step for step in self.steps if step.startswith(OTHERS)]
        return f"Noted, with words of others: {', '.join(notes)}." if notes else ""

    @property
    def owes_report(self) -> bool:
        """Whether the run may not end yet."""
        if self.reports:
            return False
        match self.policy.report:
            case ReportMode.ALWAYS:
                return True
            case ReportMode.ON_PING:
                return self.has_pinged
            case _:
                return False


# The tools of the engine that start a subagent, and the argument that names it.
STARTING = frozenset({"Agent", "Task"})
NAME_ARGUMENT = "subagent_type"
# These guess what the owner wants. In the conversation, the owner can be asked.
_BACKGROUND_ONLY = frozenset({"user-proxy"})


@dataclass(frozen=True, slots=True)
class Subagent:
    """`tools` limits its calls; None leaves all that its caller may do.

    `model` is a name that the engine knows; empty for the model of the caller.
    """

    name: str
    description: str
    instructions: str
    model: str = ""
    tools: tuple[Pattern, ...] | None = None

    @property
    def is_for_background_only(self) -> bool:
        return self.name in _BACKGROUND_ONLY

    def pattern_for(
        self, tool: str, arguments: Mapping[str, object], *roots: str
    ) -> Pattern | None:
        """The pattern of its own that allows the call, if it has one."""
        allowing = (
            each for each in self.tools or () if is_allowed([each], tool, arguments, *roots)
        )
        return next(allowing, None)


@dataclass(frozen=True, slots=True)
class Subagents:
    """All subagents of a data directory, by name.

    `problems` are sentences about files that define none, `warnings` about fields without an
    effect. `hidden` are names that the engine would find in such files.
    """

    known: Mapping[str, Subagent] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    def names(self, *, in_background: bool) -> Iterator[str]:
        """The names of those that can be started."""
        every = self.known.values()
        return (one.name for one in every if in_background or not one.is_for_background_only)
