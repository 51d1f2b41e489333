"""Runs the bot through months and years of planned steps, and checks it regularly."""

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
from chaos.years import after_done, faults, owner_actions
from chaos.years.checker import check_scene, event_counts, ledger_check
from chaos.years.crashing_disk import ProcessKilled
from chaos.years.resource_growth import ResourceUsage, growth_problems, measure_resources
from chaos.years.scene import YearsScene
from chaos.years.virtual_time import VirtualTimeLoop

WEIGHTS: Mapping[str, int] = {**owner_actions.WEIGHTS, **after_done.WEIGHTS, **faults.WEIGHTS}
_STEP_ACTIONS: Mapping[str, owner_actions.Action] = {
    **owner_actions.ACTIONS,
    **after_done.ACTIONS,
    **faults.FAULTS,
}

# What happens more often in weeks of quiet nights, and how long it is between two steps.
_NIGHT_WEIGHTS: Mapping[str, int] = {
    "remind if convenient": 40,
    "answer from an overview": 12,
    "press in a digest": 30,
    "be quiet": 8,
    "make a routine": 8,
    "sleep through the night": 1,
    "set the clock back": 0,
    "set the clock forward": 0,
}
_LONGEST_NIGHT_WAIT = 6000.0
_FIRST_ROUTINES = 8
_STEPS_BETWEEN_CHECKS = 120
_SETTLE_SECONDS = 1500.0
# A quiet night has to end before all is told.
_MOST_SETTLE_ROUNDS = 26
_MEMORY_FOLDER = "/dev/shm"

_logger = logging.getLogger(__name__)


@dataclass
class Outcome:
    """`steps` are those that were played; `broken` has one sentence for each violation.

    `counts` says how often each step and each event happened.
    """

    steps: list[Step] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    checks: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


def plan(seed: int, *, night_weight: int = 7, longest_wait: float = 10_000) -> Iterator[Step]:
    """Endless random steps, with waits in virtual seconds.

    `night_weight` is the weight of the step that sleeps through the night.
    """
    rng = random.Random(seed)
    return _planned(rng, {**WEIGHTS, "sleep through the night": night_weight}, longest_wait)


def plan_nights(seed: int) -> Iterator[Step]:
    """Endless random steps with quiet hours from the first night on."""
    rng = random.Random(seed)
    yield Step("keep the nights quiet", 5.0, rng.randrange(10**6))
    yield from _planned(rng, {**WEIGHTS, **_NIGHT_WEIGHTS}, _LONGEST_NIGHT_WAIT)


def _planned(rng: random.Random, weights: Mapping[str, int], longest_wait: float) -> Iterator[Step]:
    names, shares = list(weights), list(weights.values())
    yield from (Step("make a routine", 5.0, rng.randrange(10**6)) for _ in range(_FIRST_ROUTINES))
    while True:
        for name in rng.choices(names, shares, k=_STEPS_BETWEEN_CHECKS):
            wait = rng.choice((0.0, rng.uniform(0, 60), rng.uniform(60, longest_wait)))
            yield Step(name, round(wait, 3), rng.randrange(10**6))
        yield Step(SETTLE)


def play(
    steps: Iterable[Step], *, seed: int, start: datetime, days: float, keep: Path | None = None
) -> Outcome:
    """Play the steps until the days are over or a check fails."""
    outcome, began, cpu_began = Outcome(), time.monotonic(), time.process_time()
    folder = _MEMORY_FOLDER if os.access(_MEMORY_FOLDER, os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(prefix="years-", dir=folder) as home,
        _seeded_urandom(random.Random(seed)),
        asyncio.Runner(loop_factory=VirtualTimeLoop) as runner,
    ):
        loop = runner.get_loop()
        assert isinstance(loop, VirtualTimeLoop)
        # A crash leaves failed and unfinished tasks, which are no errors here.
        loop.set_exception_handler(lambda *_: None)
        begin = start.astimezone(UTC)
        rng = random.Random(seed)
        scene = YearsScene.create(Path(home), loop, begin, begin + timedelta(days=days), rng)
        try:
            runner.run(_StepPlayer(scene, begin + timedelta(days=days), outcome).play(steps))
        except Exception as wrong:  # the outcome has to keep the steps that led to it
            _logger.exception("It could not go on")
            outcome.broken.append(f"{type(wrong).__name__}: {wrong}")
        outcome.counts.update(scene.host.timeline.step_counts)
        outcome.counts.update(event_counts(scene))
        if outcome.broken and keep is not None:
            shutil.copytree(home, keep, symlinks=True, dirs_exist_ok=True)
    outcome.seconds = time.monotonic() - began
    outcome.cpu_seconds = time.process_time() - cpu_began
    return outcome


@contextmanager
def _seeded_urandom(rng: random.Random) -> Iterator[None]:
    """Make random ids, such as those of reminders, the same in each run with the same seed."""
    before, os.urandom = os.urandom, rng.randbytes
    try:
        yield
    finally:
        os.urandom = before


class _StepPlayer:
    def __init__(self, scene: YearsScene, end: datetime, outcome: Outcome) -> None:
        self._scene = scene
        self._host = scene.host
        self._end = end
        self._outcome = outcome
        self._usage_by_month: dict[str, ResourceUsage] = {}

    async def play(self, steps: Iterable[Step]) -> None:
        await self._host.start(self._scene.engine)
        for step in steps:
            if self._scene.now >= self._end or self._outcome.broken:
                break
            self._outcome.steps.append(step)
            await self._step(step)
        if not self._outcome.broken:
            await self._settle_and_check()
        await self._host.stop()
        if not self._outcome.broken:
            self._outcome.broken += ledger_check(self._host.data)
            self._outcome.broken += growth_problems(list(self._usage_by_month.values()))

    async def _step(self, step: Step) -> None:
        await self._host.run_for(step.wait)
        await self._restart_after_crash()
        _logger.info("%s  %s", self._host.clock.now().isoformat(" ", "seconds"), step.name)
        if step.name == SETTLE:
            await self._settle_and_check()
            return
        self._scene.count_step(step.name)
        with suppress(ProcessKilled):
            await _STEP_ACTIONS[step.name](self._scene, random.Random(step.seed))
        await self._restart_after_crash()
        await self._scene.confirm_versions()
        await self._restart_after_crash()

    async def _restart_after_crash(self) -> None:
        while self._host.has_crashed:
            await self._host.kill()
            await self._host.start(self._scene.engine)

    async def _settle_and_check(self) -> None:
        """End all faults, wait until the bot is idle, and check everything."""
        scene = self._scene
        self._outcome.checks += 1
        self._host.chat.is_down, self._host.chat.lost_responses = False, 0
        scene.model.faults.clear()
        await owner_actions.interrupt_hanging_turn(scene)
        await owner_actions.end_fork(scene, random.Random(0))
        found: list[str] = []
        for _ in range(_MOST_SETTLE_ROUNDS):
            await self._host.run_for(_SETTLE_SECONDS)
            # A turn that was slow before may hang now.
            await owner_actions.interrupt_hanging_turn(scene)
            await self._host.wait_until_idle(_SETTLE_SECONDS / 5)
            await scene.confirm_versions()
            found = check_scene(scene)
            if not found:
                break
        self._outcome.broken += found
        self._usage_by_month.setdefault(f"{scene.now:%Y-%m}", measure_resources(self._host.data))
