"""Lives through months and years by a plan, and has all looked at now and then."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from chaos.steps import SETTLE, Step
from chaos.years import acts, faults
from chaos.years.bounds import Size, outgrown, sized
from chaos.years.disk import Killed
from chaos.years.hurry import HurryingLoop
from chaos.years.judge import findings, runs_check, table
from chaos.years.world import World

WEIGHTS: Mapping[str, int] = {**acts.WEIGHTS, **faults.WEIGHTS}
_DEEDS: Mapping[str, acts.Act] = {**acts.ACTS, **faults.FAULTS}

_FIRST_ROUTINES = 8
_STEPS_BETWEEN_RESTS = 120
_REST = 1500.0
_RESTS = 12
_IN_MEMORY = "/dev/shm"

_logger = logging.getLogger(__name__)


@dataclass
class Outcome:
    """`steps` are those that were played; `broken`, what was found, and `story`, what led to it."""

    steps: list[Step] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    rests: int = 0
    seconds: float = 0.0
    cpu: float = 0.0


def planned(seed: int, *, nights: int = 7, longest_wait: float = 10_000) -> Iterator[Step]:
    """Without end; the waits are seconds of the bot's time. With more nights less happens."""
    luck = random.Random(seed)
    weights = {**WEIGHTS, "sleep through the night": nights}
    names, shares = list(weights), list(weights.values())
    yield from (Step("make a routine", 5.0, luck.randrange(10**6)) for _ in range(_FIRST_ROUTINES))
    while True:
        for name in luck.choices(names, shares, k=_STEPS_BETWEEN_RESTS):
            wait = luck.choice((0.0, luck.uniform(0, 60), luck.uniform(60, longest_wait)))
            yield Step(name, round(wait, 3), luck.randrange(10**6))
        yield Step(SETTLE)


def play(
    steps: Iterable[Step],
    *,
    seed: int,
    start: datetime,
    days: float,
    keep: Path | None = None,
) -> Outcome:
    """Until the days are over, or something is broken."""
    outcome, began, busy = Outcome(), time.monotonic(), time.process_time()
    folder = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(prefix="years-", dir=folder) as home,
        _names_by(random.Random(seed)),
        asyncio.Runner(loop_factory=HurryingLoop) as runner,
    ):
        loop = runner.get_loop()
        assert isinstance(loop, HurryingLoop)
        # What dies leaves much unfinished, as it must.
        loop.set_exception_handler(lambda *_: None)
        begin = start.astimezone(UTC)
        luck = random.Random(seed)
        made = World.made(Path(home), loop, begin, begin + timedelta(days=days), luck)
        try:
            runner.run(_Life(made, begin + timedelta(days=days), outcome).lived(steps))
        except Exception as wrong:  # whatever it is, the steps that led to it have to be known
            _logger.exception("It could not go on")
            outcome.broken.append(f"{type(wrong).__name__}: {wrong}")
        outcome.happened.update(made.machine.diary.happened)
        outcome.happened.update(table(made))
        if outcome.broken and keep is not None:
            shutil.copytree(home, keep, symlinks=True, dirs_exist_ok=True)
    outcome.seconds = time.monotonic() - began
    outcome.cpu = time.process_time() - busy
    return outcome


@contextmanager
def _names_by(luck: random.Random) -> Iterator[None]:
    """What the system makes up, such as names of reminders, is the same each time."""
    before, os.urandom = os.urandom, luck.randbytes
    try:
        yield
    finally:
        os.urandom = before


class _Life:
    def __init__(self, world: World, end: datetime, outcome: Outcome) -> None:
        self._world = world
        self._machine = world.machine
        self._end = end
        self._outcome = outcome
        self._sizes: dict[str, Size] = {}

    async def lived(self, steps: Iterable[Step]) -> None:
        await self._machine.start(self._world.mind)
        for step in steps:
            if self._world.now >= self._end or self._outcome.broken:
                break
            self._outcome.steps.append(step)
            await self._step(step)
        if not self._outcome.broken:
            await self._rest()
        await self._machine.stop()
        if not self._outcome.broken:
            self._outcome.broken += runs_check(self._machine.data)
            self._outcome.broken += outgrown(list(self._sizes.values()))

    async def _step(self, step: Step) -> None:
        await self._machine.runs(step.wait)
        await self._revived()
        _logger.info("%s  %s", self._machine.clock.now().isoformat(" ", "seconds"), step.name)
        if step.name == SETTLE:
            await self._rest()
            return
        self._world.happened(step.name)
        with suppress(Killed):
            await _DEEDS[step.name](self._world, random.Random(step.seed))
        await self._revived()
        await self._world.settled()
        await self._revived()

    async def _revived(self) -> None:
        """Who died at a step that was chosen for it is switched on again."""
        while self._machine.has_died:
            await self._machine.kill()
            await self._machine.start(self._world.mind)

    async def _rest(self) -> None:
        """Nothing goes wrong any more; then nothing may be wrong."""
        world = self._world
        self._outcome.rests += 1
        self._machine.letters.is_down, self._machine.letters.lost_answers = False, 0
        world.model.faults.clear()
        await acts.stop_waiting(world)
        await acts.end_fork(world, random.Random(0))
        found: list[str] = []
        for _ in range(_RESTS):
            await self._machine.runs(_REST)
            # Who was slow before may hang by now.
            await acts.stop_waiting(world)
            await self._machine.is_calm(_REST / 5)
            await world.settled()
            found = findings(world)
            if not found:
                break
        self._outcome.broken += found
        self._sizes.setdefault(f"{world.now:%Y-%m}", sized(self._machine.data))
