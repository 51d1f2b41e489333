"""All parts of a simulated year, and what the owner knows about the jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

from chaos.years.bot_host import BotHost
from chaos.years.due_times import NEW_YORK, Timetable, clock_changes
from chaos.years.simulated_engine import SimulatedEngine
from chaos.years.simulated_model import SimulatedModel
from chaos.years.timeline import JobVersion
from chaos.years.virtual_time import VirtualTimeLoop

# After so many seconds of watching, the bot has certainly read a changed file.
FILES_SETTLE_SECONDS = 125.0
_BEFORE_CLOCK_CHANGE, _AFTER_CLOCK_CHANGE = timedelta(hours=2), timedelta(hours=4)
_SHORT_GAP = 100.0
_SOON = timedelta(minutes=30)
_TIMETABLE_BEFORE, _TIMETABLE_AFTER = timedelta(days=3), timedelta(days=20)


@dataclass
class SnoozeCount:
    """How often a reminder was snoozed with an answer of the bot, and how often without one."""

    certain: int = 0
    possible: int = 0


@dataclass
class AfterDoneRoutine:
    """A routine that comes `days` after each answer.

    `answers` are the answers of the owner that stand for certain, `possible` counts the others.
    """

    days: int
    at: time
    answers: list[datetime] = field(default_factory=list)
    possible: int = 0


@dataclass(frozen=True)
class NagReminder:
    """A reminder that repeats `repeats` times, since the owner never answers; over at `ends_at`."""

    ends_at: datetime
    repeats: int


@dataclass
class YearsScene:
    """The parts of a simulated year, and the jobs as the owner knows them.

    `background_reminders` and `foreground_reminders` map the id of each reminder that has to come
    once to its due time; the ids in `cancelled` must not come at all. From `quiet_since` on, each
    night has quiet hours. `unconfirmed` are the routines that the bot may not have read yet.
    """

    host: BotHost
    engine: SimulatedEngine
    model: SimulatedModel
    timetable: Timetable
    clock_changes: list[datetime]
    last_number: int = 0
    background_reminders: dict[str, datetime] = field(default_factory=dict)
    foreground_reminders: dict[str, datetime] = field(default_factory=dict)
    nags: dict[str, NagReminder] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    snoozed: dict[str, SnoozeCount] = field(default_factory=dict)
    routines: dict[str, JobVersion] = field(default_factory=dict)
    unconfirmed: list[JobVersion] = field(default_factory=list)
    after_done: dict[str, AfterDoneRoutine] = field(default_factory=dict)
    quiet_since: datetime | None = None

    @classmethod
    def create(
        cls, home: Path, loop: VirtualTimeLoop, start: datetime, end: datetime, rng: Random
    ) -> YearsScene:
        host = BotHost(home, loop, start, NEW_YORK, rng)
        model = SimulatedModel(host.record, host.clock, rng)
        engine = SimulatedEngine(model, host.pacer)
        timetable = Timetable(rng, start - _TIMETABLE_BEFORE, end + _TIMETABLE_AFTER)
        return cls(host, engine, model, timetable, clock_changes(start, end))

    @property
    def now(self) -> datetime:
        return self.host.clock.utc()

    def new_name(self, kind: str) -> str:
        self.last_number += 1
        return f"{kind}{self.last_number}"

    def count_step(self, name: str) -> None:
        self.host.timeline.step_counts[name] += 1

    def write(self, path: str, front_matter: Mapping[str, object], body: str) -> None:
        """Write a new file and rename it to `path`, as an editor does."""
        target = self.host.data / path
        target.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{key}: {value}" for key, value in front_matter.items()]
        draft = target.with_name(f".{target.name}.new")
        draft.write_text("\n".join(["---", *lines, "---", body, ""]))
        draft.replace(target)
        self.host.pacer.note_activity()

    def remove(self, path: str) -> None:
        (self.host.data / path).unlink(missing_ok=True)
        self.host.pacer.note_activity()

    def remind(self, name: str, at: datetime, text: str, **fields: object) -> None:
        front_matter = {"id": name, "run-at": f'"{at.isoformat()}"', **fields}
        self.write(f"reminders/{name}.md", front_matter, text)
        if at.tzinfo is not None:
            self.host.pacer.add_due_times([at])

    def later_reminders(self) -> list[str]:
        """The background reminders that are not due soon."""
        return [name for name, at in self.background_reminders.items() if at > self.now + _SOON]

    def put_routine(
        self, name: str, line: int, zone: ZoneInfo | None, fields: Mapping[str, str]
    ) -> None:
        """Write the file of a new or changed routine; its earlier version ends now."""
        self.end_version(name)
        front_matter = {"id": name, **self.timetable.fields[line], **fields}
        if zone is not None:
            front_matter["timezone"] = zone.key
        title = f"Look {name}."
        self.write(f"routines/{name}.md", front_matter, title)
        due_times = self.timetable.due_times(line, zone or self.host.zone)
        version = JobVersion(name, due_times, title, fields.get("late", ""), line, zone is None)
        self.add_version(version)

    def add_version(self, version: JobVersion) -> None:
        self.routines[version.job] = version
        self.unconfirmed.append(version)
        self.host.timeline.versions.append(version)
        earliest = self.now - timedelta(hours=3)
        self.host.pacer.add_due_times(at for at in version.due_times if at > earliest)

    def end_version(self, name: str) -> None:
        version = self.routines.pop(name, None)
        if version is None:
            return
        self.host.timeline.begin_interval()
        version.until = self.host.timeline.processed_until
        if version in self.unconfirmed:
            self.unconfirmed.remove(version)

    async def confirm_versions(self) -> None:
        """Run the bot until it has certainly read all files."""
        if not self.unconfirmed or not self.host.is_on:
            return
        await self.host.run_for(FILES_SETTLE_SECONDS)
        if not self.host.has_crashed:
            self.host.timeline.begin_interval()
            for version in self.unconfirmed:
                version.since = self.host.timeline.next_index
            self.unconfirmed.clear()

    def limited_gap(self, seconds: float) -> float:
        """Shorten an absence, so that the bot runs around each clock change.

        Only short gaps are allowed there.
        """
        now = self.now
        for change in self.clock_changes:
            start, end = change - _BEFORE_CLOCK_CHANGE, change + _AFTER_CLOCK_CHANGE
            if start <= now < end:
                return min(seconds, _SHORT_GAP)
            if now < start:
                return min(seconds, (start - now).total_seconds())
        return seconds


def floor_to_minute(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(second=0, microsecond=0)


def uniform_choice(rng: Random, *ranges: tuple[float, float]) -> float:
    """A random number from one of the ranges."""
    return rng.uniform(*rng.choice(ranges))
