"""Sixty rhythms lived with the real schedule: what comes is what a walk through the days says.

The owner travels, also across the date line, edits the files while the bot runs and while it is
off, and the machine sleeps and stops. At each look ahead, the rehearsal says what comes then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from random import Random
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from tests.kernel.schedule.rhythm_lives import DAY, LAST, End, Life, Version
from tests.kernel.schedule.simulated_machine import SimulatedMachine
from tests.kernel.schedule.virtual_time import IdleAwareLoop
from tests.kernel.values.test_repeats import RHYTHMS

from ollim_bot.kernel.schedule.job_index import scheduled_jobs
from ollim_bot.kernel.store.routine_format import ROUTINES
from ollim_bot.kernel.values.ledger_check import check
from ollim_bot.kernel.values.occurrences import LedgerRow, OccurrenceState
from ollim_bot.kernel.values.run_history import History
from ollim_bot.kernel.values.schedule import occurrence_at
from ollim_bot.kernel.values.simulation import Assumptions, rehearse

ZONES = tuple(
    map(
        ZoneInfo,
        (
            *("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo"),
            # Across the date line, up to 25 hours apart.
            *("Pacific/Auckland", "America/Los_Angeles", "Pacific/Pago_Pago", "Pacific/Kiritimati"),
        ),
    )
)
BEGIN = datetime(2026, 1, 5, 10, 10, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
# No rhythm is due within minutes of them in any zone.
CALM_MINUTES = (10, 22, 40, 52)
SETTLED = 20 * MINUTE


def versions(chance: Random) -> list[Version]:
    """Each rhythm once, some with an end."""
    found = []
    for rule, clocks, start in RHYTHMS:
        version = Version(rule, clocks, start, is_run_late=chance.random() < 0.5)
        ending = chance.random()
        if ending < 0.15:
            version = replace(version, until=start + chance.randint(30, 700) * DAY)
        elif ending < 0.3:
            version = replace(version, times=chance.randint(2, 60), clocks=(time(9),))
        found.append(version)
    return found


class LivedRhythms:
    """The machine, and beside it the lives of its routines as they must be."""

    def __init__(self, machine: SimulatedMachine, chance: Random, lives: Sequence[Life]) -> None:
        self.machine = machine
        self.chance = chance
        self.lives = lives
        self.rehearsed = 0
        self.moves = 0
        self._zone = ZONES[0]
        self._place = 0
        self._put(*lives)

    @property
    def now(self) -> datetime:
        return self.machine.clock.now().astimezone(UTC)

    async def live(self, until: datetime) -> None:
        await self._set_zone(self._zone)
        while self.now < until:
            await self._watch(SETTLED)
            if self.chance.random() < 0.3:
                await self._travel()
                await self._watch(SETTLED)
            if self.chance.random() < 0.3:
                self._edit()
            await self._watch(SETTLED)
            await self._rehearse(self.chance.choice((HOUR, 3 * HOUR, 5 * HOUR)))
            await self._pause(self.chance.choice(("sleep", "off", "off")))
        await self._watch(SETTLED)

    async def _watch(self, length: timedelta) -> None:
        start, end = self.now, self._calm(self.now + length)
        await self.machine.run(end)
        for life in self.lives:
            life.watch(self._zone, start, end)

    async def _travel(self) -> None:
        """The bot runs meanwhile."""
        before, at = self._zone, self.now
        await self._set_zone(self.chance.choice(ZONES))
        for life in self.lives:
            life.move(before, self._zone, at, at)

    async def _pause(self, how: str) -> None:
        """Until shortly before something is due, mostly; the owner may travel and edit."""
        start, before = self.now, self._zone
        end = self._calm(self._end_of_pause())
        if how == "sleep":
            self.machine.sleep(end)
        else:
            await self.machine.switch_off(end)
            if self.chance.random() < 0.3:
                self._edit()
            if self.chance.random() < 0.4:
                await self._set_zone(self.chance.choice(ZONES))
        for life in self.lives:
            if before is self._zone:
                life.be_away(before, start, end)
            else:
                life.move(before, self._zone, start, end)

    def _end_of_pause(self) -> datetime:
        soonest = self.now + self.chance.choice((HOUR, 5 * HOUR, DAY, 4 * DAY))
        found = [
            due
            for life in self.lives
            for due, _ in life.version.between(self._zone, soonest + HOUR, soonest + 5 * DAY)
        ]
        return min(found, default=soonest) - self.chance.randint(50, 150) * MINUTE

    def _calm(self, moment: datetime) -> datetime:
        """A moment near that one at which nothing is due."""
        hour = moment.replace(minute=0, second=self.chance.randrange(60), microsecond=0)
        later = (each for each in CALM_MINUTES if each >= moment.minute)
        return hour + next(later, 60 + CALM_MINUTES[0]) * MINUTE

    async def _set_zone(self, zone: ZoneInfo) -> None:
        self.moves += zone is not self._zone
        self._zone = zone
        await self.machine.stores.state.transact(
            lambda tx: tx.config.change(lambda config: config.with_value("timezone", str(zone)))
        )

    def _edit(self) -> None:
        """A file gets another rhythm, or another end."""
        life = self.chance.choice(self.lives)
        rule, clocks, start = self.chance.choice(RHYTHMS)
        life.version = Version(rule, clocks, start, is_run_late=self.chance.random() < 0.5)
        self._put(life)

    def _put(self, *lives: Life) -> None:
        made = [ROUTINES.made({"id": one.name, **one.version.fields}, "Do it.") for one in lives]
        self.machine.index.put(*made)

    async def _rehearse(self, length: timedelta) -> None:
        """What the rehearsal of a stretch says is what comes in it."""
        start, rehearsed = self.now, self._said()
        self._new_rows()
        await self._watch(length)
        came = {
            name: "skipped" if end[0] == "skipped" else "comes"
            for name, end in ends_in(self._new_rows())
        }
        said = {name: how for name, (due, how) in rehearsed.items() if due <= self.now}
        assert came == said, (start, self._zone)
        self.rehearsed += len(came)

    def _said(self) -> dict[str, tuple[datetime, str]]:
        budget, config, skips = self.machine.stores.state.query(
            lambda tx: (tx.budget.get(), tx.config.get(), tx.skips.get())
        )
        given = Assumptions(self.now, self._zone, budget, config, is_skipped=skips.has)
        jobs = [*scheduled_jobs(cast("Any", self.machine.index))]
        return {
            occurrence_at(fire.job, fire.due).id: (
                fire.due,
                "skipped" if fire.state is OccurrenceState.SKIPPED else "comes",
            )
            for fire in rehearse(jobs, given, 1).fires
        }

    def _new_rows(self) -> Sequence[LedgerRow]:
        """The rows since the last call."""
        state = self.machine.stores.state
        rows, self._place = state.query(lambda tx: tx.ledger.page(self._place, 10**6))
        return rows


def ends_in(rows: Iterable[LedgerRow]) -> Iterator[tuple[str, End]]:
    for one, story in History.of(rows).stories.items():
        (end,) = story.ends
        reason = end.facts.get("reason")
        yield one.id, (end.state, None if reason is None else str(reason))


def lived(seed: int, days: int, every: int) -> LivedRhythms:
    """Live one of `every` rhythms for so many days."""
    chance = Random(seed)
    lives = [
        Life(f"rhythm-{number}", version)
        for number, version in enumerate(versions(chance)[seed % every :: every])
    ]
    moments = sorted(
        {
            due
            for rule, clocks, start in RHYTHMS
            for zone in ZONES
            for due, _ in Version(rule, clocks, start).between(
                zone, BEGIN, BEGIN + (days + 10) * DAY
            )
        }
    )
    with asyncio.Runner(loop_factory=IdleAwareLoop) as runner:
        machine = SimulatedMachine(runner.get_loop(), BEGIN, moments, ZONES[0])
        scene = LivedRhythms(machine, chance, lives)
        runner.run(scene.live(BEGIN + days * DAY))
    expected = {name: end for life in lives for name, end in life.ends.items()}
    rows = machine.stores.ledger.read().entries
    found = dict(ends_in(rows))
    names = sorted(expected.keys() | found.keys(), key=lambda name: name.rpartition(":")[0])
    wrong = [
        (name, expected.get(name), found.get(name))
        for name in names
        if expected.get(name) != found.get(name)
    ]
    assert wrong == []
    assert check(rows, scene.now, scene.now) == []
    return scene


def test_what_comes_of_a_few_rhythms_is_what_a_walk_through_the_days_says() -> None:
    scene = lived(seed=7, days=60, every=5)
    assert scene.moves > 5
    assert scene.rehearsed > 10


@pytest.mark.minutes
@pytest.mark.parametrize("seed", range(5))
def test_in_two_years_sixty_rhythms_come_as_a_walk_through_the_days_says(seed: int) -> None:
    scene = lived(seed, days=(LAST - BEGIN.date()).days - 10, every=5)
    assert scene.moves > 100
    assert scene.rehearsed > 100
