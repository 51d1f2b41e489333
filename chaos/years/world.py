"""The machine with its bot and owner, and what they know of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

from chaos.years.companion import Companion
from chaos.years.diary import Version
from chaos.years.hurry import HurryingLoop
from chaos.years.machine import Machine
from chaos.years.mind import Mind
from chaos.years.moments import NEW_YORK, Calendar, nights

# So long is watched after a change of a file, so that it is known which one holds.
SETTLING = 125.0
_AROUND_A_NIGHT = timedelta(hours=2), timedelta(hours=4)
_A_NOD = 100.0
_SOON = timedelta(minutes=30)
_BEFORE, _AFTER = timedelta(days=3), timedelta(days=20)


@dataclass
class Snoozed:
    """How often a reminder was put off, and how often that is not known."""

    surely: int = 0
    perhaps: int = 0


@dataclass(frozen=True)
class Nagging:
    """A reminder that nobody answers: when its last time is over, and how often it comes again."""

    over: datetime
    times: int


@dataclass
class World:
    """`orders` and `turns` are the reminders that have to come once, in the background or not;
    `nags`, those that come again; `cancelled`, those that must not. From `quiet_since` on the
    nights are quiet."""

    machine: Machine
    mind: Mind
    model: Companion
    calendar: Calendar
    nights: list[datetime]
    number: int = 0
    orders: dict[str, datetime] = field(default_factory=dict)
    turns: dict[str, datetime] = field(default_factory=dict)
    nags: dict[str, Nagging] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    snoozed: dict[str, Snoozed] = field(default_factory=dict)
    routines: dict[str, Version] = field(default_factory=dict)
    unsure: list[Version] = field(default_factory=list)
    back_up_at: float = 0.0
    quiet_since: datetime | None = None

    @classmethod
    def made(
        cls, home: Path, loop: HurryingLoop, start: datetime, end: datetime, luck: Random
    ) -> World:
        machine = Machine(home, loop, start, NEW_YORK, luck)
        model = Companion(machine.record, machine.clock, luck)
        mind = Mind(model, machine.pace)
        calendar = Calendar(luck, start - _BEFORE, end + _AFTER)
        return cls(machine, mind, model, calendar, nights(start, end))

    @property
    def now(self) -> datetime:
        return self.machine.clock.utc()

    def name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number}"

    def happened(self, what: str) -> None:
        self.machine.diary.happened[what] += 1

    def write(self, path: str, head: Mapping[str, object], body: str) -> None:
        """As an editor does that writes a new file and puts it in place of the old one."""
        place = self.machine.data / path
        place.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"{key}: {value}" for key, value in head.items()]
        draft = place.with_name(f".{place.name}.new")
        draft.write_text("\n".join(["---", *lines, "---", body, ""]))
        draft.replace(place)
        self.machine.pace.stir()

    def remove(self, path: str) -> None:
        (self.machine.data / path).unlink(missing_ok=True)
        self.machine.pace.stir()

    def remind(self, name: str, at: datetime, text: str, **more: object) -> None:
        head = {"id": name, "run-at": f'"{at.isoformat()}"', **more}
        self.write(f"reminders/{name}.md", head, text)
        if at.tzinfo is not None:
            self.machine.pace.add([at])

    def waiting_orders(self) -> list[str]:
        """Reminders that are not due soon."""
        return [name for name, at in self.orders.items() if at > self.now + _SOON]

    def put_routine(
        self, name: str, line: int, zone: ZoneInfo | None, more: Mapping[str, str]
    ) -> None:
        """A new one, or another in its place; what it was holds until now."""
        self.drop_version(name)
        head = {"id": name, "cron": f'"{self.calendar.lines[line].text}"', **more}
        if zone is not None:
            head["timezone"] = zone.key
        title = f"Look {name}."
        self.write(f"routines/{name}.md", head, title)
        moments = self.calendar.moments(line, zone or self.machine.zone)
        version = Version(name, moments, title, more.get("late", ""), line, zone is None)
        self.keep_version(version)

    def keep_version(self, version: Version) -> None:
        self.routines[version.job] = version
        self.unsure.append(version)
        self.machine.diary.versions.append(version)
        after = version.moments
        self.machine.pace.add(at for at in after if at > self.now - timedelta(hours=3))

    def drop_version(self, name: str) -> None:
        version = self.routines.pop(name, None)
        if version is None:
            return
        self.machine.diary.cut()
        version.until = self.machine.diary.noticed
        if version in self.unsure:
            self.unsure.remove(version)

    async def settled(self) -> None:
        """Watch for as long as it takes until the files are known."""
        if not self.unsure or not self.machine.is_on:
            return
        await self.machine.runs(SETTLING)
        if not self.machine.has_died:
            self.machine.diary.cut()
            for version in self.unsure:
                version.since = self.machine.diary.place
            self.unsure.clear()

    def longest_gap(self, seconds: float) -> float:
        """Nobody is away while the clocks change somewhere, but for a nod."""
        now = self.now
        for night in self.nights:
            start, end = night - _AROUND_A_NIGHT[0], night + _AROUND_A_NIGHT[1]
            if start <= now < end:
                return min(seconds, _A_NOD)
            if now < start:
                return min(seconds, (start - now).total_seconds())
        return seconds


def whole_minutes(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(second=0, microsecond=0)


def choice(luck: Random, *spans: tuple[float, float]) -> float:
    """A number out of one of the spans."""
    return luck.uniform(*luck.choice(spans))
