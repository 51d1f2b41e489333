"""Whether the bot was stopped, restarted or cut off before this start."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Presence:
    """`running_since` is None after a regular stop.

    `cut_off_at` is when the bot last ran before a crash that the owner was not told of yet.
    `version` is that of the last start. `failure` is why the bot last ended by itself, at
    `failed_at`; a start keeps it, a regular stop does not.
    """

    running_since: datetime | None = None
    stopped_for_restart: bool = False
    cut_off_at: datetime | None = None
    version: str = ""
    failure: str = ""
    failed_at: datetime | None = None

    def begun(self, now: datetime, heartbeat: datetime | None, version: str = "") -> Presence:
        """Record a start. Without a stop since the start before, there was a crash."""
        started, cut_off = self.running_since, self.cut_off_at
        if started is not None:
            cut_off = max(started, heartbeat or started)
        return replace(self, running_since=now, cut_off_at=cut_off, version=version)

    def ended(self, *, for_restart: bool) -> Presence:
        return Presence(None, for_restart, self.cut_off_at, self.version)

    def failed(self, reason: str, now: datetime) -> Presence:
        """Record why the bot has ended by itself."""
        return replace(self, failure=reason, failed_at=now)

    def greeted(self) -> Presence:
        """Record that the owner was told of the crash, if there was one."""
        return replace(self, cut_off_at=None)


@dataclass(frozen=True, slots=True)
class PassedOver:
    """What was due after `since` and not after `until` is told, and does not run.

    It may have been done already: the state is that of a backup of `since`, restored at `until`, or
    of another copy, after which the bot ran until `until` at most. Both are None if nothing is to
    be passed over.
    """

    since: datetime | None = None
    until: datetime | None = None
    is_backup: bool = True


@dataclass(frozen=True, slots=True)
class DailyRecord:
    """`begun` has the last day on which each task was begun, in the owner's zone."""

    begun: Mapping[str, date] = field(default_factory=dict)

    def with_task(self, name: str, day: date) -> DailyRecord:
        return replace(self, begun={**self.begun, name: day})


def is_due(now: datetime, hour: int, begun: date | None, *, only_in_hour: bool) -> bool:
    """Whether a task of the day is due at `now`, which is in the owner's zone.

    It is due once a day, from the hour on: until midnight, or with `only_in_hour` for an hour. An
    hour that the clock leaves out begins when the clock goes on; one that comes twice counts once.
    """
    if begun == now.date():
        return False
    start = now.replace(hour=hour, minute=0, second=0, microsecond=0, fold=0).astimezone(UTC)
    since = now.astimezone(UTC) - start
    return timedelta() <= since and (since < timedelta(hours=1) or not only_in_hour)


_VERSION = re.compile(r"v?(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})", re.ASCII)
_SECTION = re.compile(r"^## +(\S+).*$", re.MULTILINE)


class Version(NamedTuple):
    """A released version; what is not a plain `1.2.3`, such as `1.2.3rc1`, is not one."""

    major: int
    minor: int
    patch: int

    @classmethod
    def of(cls, text: str) -> Version | None:
        match = _VERSION.fullmatch(text)
        return None if match is None else cls(int(match[1]), int(match[2]), int(match[3]))

    @property
    def tag(self) -> str:
        return f"v{self}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def newest_tag(tags: Iterable[str]) -> Version | None:
    """The newest version among tags such as `v1.2.3`; other tags do not count."""
    found = (Version.of(tag) for tag in tags if tag.startswith("v"))
    return max((version for version in found if version is not None), default=None)


def changes_between(changelog: str, old: Version, new: Version) -> str:
    """The sections of a changelog later than `old` and not later than `new`."""
    sections = [*_SECTION.finditer(changelog)]
    ends = [section.start() for section in sections[1:]] + [len(changelog)]
    found = []
    for section, end in zip(sections, ends, strict=False):
        version = Version.of(section[1])
        if version is not None and old < version <= new:
            found.append(changelog[section.start() : end].strip())
    return "\n\n".join(found)
