"""What a check of the doctor is given, what it finds, repairs and reports."""

from __future__ import annotations

import os
import shlex
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Thread
from typing import NamedTuple, TypeVar

from ollim_bot.kernel.base.environment import Location, chosen_zone
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.plain_files import opened_file
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.base.text import counted
from ollim_bot.kernel.store.questions import AskRows, reading
from ollim_bot.kernel.store.standby_loader import shared_address
from ollim_bot.kernel.store.transaction import Step
from ollim_bot.kernel.values.provider import Provider

R = TypeVar("R")


class Level(StrEnum):
    """`OFF` is for what is not set up or does not run, and need not."""

    PASS = "PASS"
    WARN = "WARN"
    FAIL = "FAIL"
    OFF = "OFF"

    @property
    def is_right(self) -> bool:
        return self in (Level.PASS, Level.OFF)


Mend = Callable[[], str]


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """What a check has found; `name` is that of the check.

    `next` is the step to take, with its command; a WARN and a FAIL have one. `mend` repairs the
    finding and returns what it did, empty if nothing was left to do. It is safe beside a running
    bot, and changes nothing that a person wrote.
    """

    level: Level
    name: str
    detail: str
    next: str = ""
    mend: Mend | None = field(default=None, compare=False, repr=False)


Found = Iterator[DoctorFinding]

# What a look returns: the check adds its name, and its own step where a finding brings none.


def passed(detail: str) -> DoctorFinding:
    return DoctorFinding(Level.PASS, "", detail)


def off(detail: str) -> DoctorFinding:
    return DoctorFinding(Level.OFF, "", detail)


def warned(detail: str, step: str = "", mend: Mend | None = None) -> DoctorFinding:
    """The part works, and the owner should know of the finding."""
    return DoctorFinding(Level.WARN, "", detail, step, mend)


def failed(detail: str, step: str = "", mend: Mend | None = None) -> DoctorFinding:
    """The part does not work, or will fail soon."""
    return DoctorFinding(Level.FAIL, "", detail, step, mend)


class NotApplicable(Exception):
    """Raised by a check that needs something this installation does not have."""


@dataclass(frozen=True, slots=True)
class DoctorInput:
    """An installation.

    `settings` is None if it has `problems`; `place` is None if even the data directory is unknown.
    `provider` is the one in use; None if no bot runs in this process. `is_agents`: the agent looks,
    who has neither the keys nor the model of the bot in its environment.
    """

    settings: Settings | None
    place: Location | None
    problems: Sequence[str]
    environ: Mapping[str, str]
    now: datetime
    provider: Provider | None = None
    is_agents: bool = False

    @property
    def data(self) -> Location:
        """The data directory and the owner's zone. Raises `NotApplicable` if they are unknown."""
        if self.place is None:
            raise NotApplicable
        return Location(self.place.paths, chosen_zone(self.place.paths) or self.place.zone)

    @property
    def valid_settings(self) -> Settings:
        """Raises `NotApplicable` if the settings have problems."""
        if self.settings is None:
            raise NotApplicable
        return self.settings

    @property
    def local_now(self) -> datetime:
        return self.now.astimezone(self.data.zone)

    @property
    def is_shared(self) -> bool:
        """Whether the rows are on a server."""
        return shared_address(self.environ, self.data.paths) is not None

    def reading(self) -> AbstractContextManager[AskRows]:
        """AskRows the rows of the installation, wherever they are."""
        return reading(self.environ, self.data.paths, self.local_now)

    def read(self, question: Step[R]) -> R | None:
        """The answer of the rows; None if there are none that can be read."""
        with self.reading() as ask:
            return ask(question)


_MOST_IN_CHAT = 10
_INDENT = " " * 6
_FAULT = "That is a fault in ollim-bot itself: report it with what `ollim-bot doctor` says."
_LATER = "Run `ollim-bot doctor` when the machine is less busy."


@dataclass(frozen=True, slots=True)
class Check:
    """A row of the doctor's table, which is sorted by `place`.

    `look` may be slow and may raise, without an effect on the other checks. `next` is the step
    where a finding brings none. The keys and the model of the owner, which an agent does not have
    in its environment, are needed if `is_owners`; `is_of_machine` is what a backup has nothing of.
    """

    name: str
    look: Callable[[DoctorInput], Iterable[DoctorFinding]]
    next: str = ""
    is_owners: bool = False
    is_of_machine: bool = False
    place: int = 0

    def found(self, given: DoctorInput) -> list[DoctorFinding]:
        """What is found there; an error in a check must not hide the others."""
        try:
            findings = list(self.look(given))
        except NotApplicable:
            findings = []
        except OllimError as error:
            findings = [failed(str(error), "Mend that and run `ollim-bot doctor` again.")]
        except Exception as error:  # noqa: BLE001
            reason = f"{type(error).__name__}: {error}".rstrip(": ")
            findings = [failed(f"could not be checked ({reason})", _FAULT)]
        return [self._of_it(finding) for finding in findings]

    def _of_it(self, finding: DoctorFinding) -> DoctorFinding:
        step = finding.next or ("" if finding.level.is_right else self.next)
        if finding.mend is not None:
            step += " `ollim-bot doctor --fix` does that."
        return replace(finding, name=self.name, next=step)


def examined(
    checks: Sequence[Check], given: DoctorInput, patience: float, hide: Callable[[str], str] = str
) -> list[DoctorFinding]:
    """What the checks found, in their order, within `patience` seconds.

    A check that raises, or takes longer, is itself a finding. `hide` takes the secrets out of every
    text.
    """
    found = [
        [DoctorFinding(Level.WARN, check.name, f"was not done within {patience:g} s", _LATER)]
        for check in checks
    ]

    def look(number: int) -> None:
        found[number] = checks[number].found(given)

    # Daemon threads: a check that hangs delays neither the others nor the exit.
    threads = [Thread(target=look, args=(number,), daemon=True) for number in range(len(checks))]
    deadline = time.monotonic() + patience
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [
        replace(finding, detail=_line(hide(finding.detail)), next=_line(hide(finding.next)))
        for findings in tuple(found)
        for finding in findings
    ]


class Repair(NamedTuple):
    """`what` was repaired of the part `name`."""

    name: str
    what: str


def repaired(findings: Iterable[DoctorFinding], hide: Callable[[str], str] = str) -> list[Repair]:
    """Repair the findings that can be; one that resists is found again by the next examination."""
    repairs = []
    for finding in findings:
        try:
            what = finding.mend() if finding.mend else ""
        except (OSError, OllimError):
            continue
        if what:
            repairs.append(Repair(finding.name, _line(hide(what))))
    return repairs


def report(findings: Sequence[DoctorFinding]) -> str:
    """A line for each finding, the step to take below it, and the summary."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:<4}  {finding.name}: {finding.detail}")
        if finding.next:
            lines.append(f"{_INDENT}{finding.next}")
    return "\n".join([*lines, summary(findings)])


def shortened(findings: Sequence[DoctorFinding]) -> str:
    """For the chat: what is not right, failures first, and the summary."""
    wrong = sorted(
        (finding for finding in findings if not finding.level.is_right),
        key=lambda finding: finding.level is Level.WARN,
    )
    if not wrong:
        passes = sum(finding.level is Level.PASS for finding in findings)
        return f"All is well: {counted(passes, 'check')} passed."
    lines = [
        f"- **{each.level}** {each.name}: {each.detail.removesuffix('.')}"
        f"{'' if each.detail.endswith('?') else '.'} {each.next}"
        for each in wrong[:_MOST_IN_CHAT]
    ]
    if len(wrong) > _MOST_IN_CHAT:
        lines.append(f"- {len(wrong) - _MOST_IN_CHAT} more: `ollim-bot doctor` shows them all.")
    return "\n".join([*lines, "", summary(findings)])


def summary(findings: Iterable[DoctorFinding]) -> str:
    levels = [finding.level for finding in findings]
    passes, warnings, failures, unused = (levels.count(level) for level in Level)
    words = f"{passes} passed, {counted(warnings, 'warning')}, {counted(failures, 'failure')}"
    return f"SUMMARY: {words}{f', {unused} off' if unused else ''}"


def has_failures(findings: Iterable[DoctorFinding]) -> bool:
    return any(finding.level is Level.FAIL for finding in findings)


def _line(text: str) -> str:
    return " ".join(text.split())


_OTHERS = 0o077


def is_open_to_others(path: Path) -> bool:
    try:
        return bool(stat.S_IMODE(path.stat().st_mode) & _OTHERS)
    except OSError:
        return False


def open_to_others(path: Path, others: str = "") -> Found:
    """Whether others may read a file, of `state/` unless `others` says so in other words."""
    if is_open_to_others(path):
        others = others or f"others on this machine can read state/{path.name}"
        yield warned(others, f"Run `chmod 600 {shown(path)}`.", partial(close_file, path))


def close_file(path: Path) -> str:
    """Let only the owner read a file; a link is left alone. Raises `OSError`."""
    with opened_file(path, os.O_RDONLY | os.O_NOFOLLOW) as descriptor:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if not mode & _OTHERS:
            return ""
        os.fchmod(descriptor, mode & ~_OTHERS)
    return f"only you can read {path} now"


def shown(path: Path) -> str:
    """The path as a shell takes it."""
    return shlex.quote(str(path))
