"""Runs faults on two machines, and checks every invariant each time that they have settled."""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from chaos.checker import check
from chaos.findings import Finding
from chaos.standby.faults import FAULTS, WEIGHTS
from chaos.standby.invariants import TakeOver, check_lease, take_overs
from chaos.standby.machines import StandbyScene, standby_scene
from chaos.steps import SETTLE, Step, planned_steps

# In seconds: how long the bots may take to settle, and a finding may stay without any change.
_SETTLES_WITHIN, _STAYS_WRONG, _STAYS_MISSING = 120.0, 8.0, 45.0
_POLL_INTERVAL = 0.25
_FAULTS_IN_A_ROW = 2

_logger = logging.getLogger(__name__)


@dataclass
class Outcome:
    """`is_harness_error` says that the harness itself failed: nothing is known of the bot."""

    steps: list[Step] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    hits: Counter[str] = field(default_factory=Counter)
    taken: list[TakeOver] = field(default_factory=list)
    times_settled: int = 0
    reminders: int = 0
    is_harness_error: bool = False
    began: float = field(default_factory=time.monotonic)

    def note(self, step: Step) -> None:
        self.steps.append(step)
        _logger.info("%6.1f s  %s", time.monotonic() - self.began, step.name)


def plan(seed: int, focus: Collection[str] = ()) -> Iterator[Step]:
    """All faults in an order that the seed decides, those of `focus` first, some in a row."""
    found = planned_steps(seed, WEIGHTS, (), 0.0, focus)
    faults = (step for step in found if step.name != SETTLE)
    while True:
        yield from islice(faults, _FAULTS_IN_A_ROW)
        yield Step(SETTLE)


async def run_faults(
    steps: Iterable[Step],
    *,
    seconds: float,
    pace: float = 1.0,
    ahead: float = 0.0,
    settings: Mapping[str, str] | None = None,
    keep: Path | None = None,
) -> Outcome:
    """Run until the steps or the seconds are used up, or something is broken.

    `pace` is the length of a second of the lease; the clock of one machine is `ahead` by seconds.
    """
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="chaos-standby-") as home:
        try:
            async with standby_scene(Path(home), settings or {}, pace, ahead) as scene:
                try:
                    await _run(scene, steps, time.monotonic() + seconds, outcome)
                finally:
                    outcome.hits, outcome.reminders = scene.hits, scene.number
                    data = scene.both[0].data
                    outcome.taken = take_overs(data, scene.record.folder)
        except Exception as wrong:  # the report has to show the steps after any error
            _logger.exception("The harness itself failed")
            outcome.is_harness_error = True
            outcome.broken.append(f"{type(wrong).__name__}: {str(wrong)[-2000:]}")
        if outcome.broken and keep is not None:
            shutil.copytree(home, keep, symlinks=True, dirs_exist_ok=True)
    return outcome


async def _run(scene: StandbyScene, steps: Iterable[Step], ends: float, outcome: Outcome) -> None:
    for step in steps:
        if time.monotonic() > ends:
            break
        outcome.note(step)
        if step.name != SETTLE:
            await asyncio.sleep(step.wait)
            await FAULTS[step.name](scene, random.Random(step.seed))
        elif await _is_broken(scene, outcome):
            return
    await _is_broken(scene, outcome)


async def _is_broken(scene: StandbyScene, outcome: Outcome) -> bool:
    scene.mend()
    await scene.until_led()
    scene.is_settling = True
    outcome.times_settled += 1
    outcome.broken += map(str, await _findings_once_settled(scene))
    scene.is_settling = False
    return bool(outcome.broken)


async def _findings_once_settled(scene: StandbyScene) -> list[Finding]:
    """Poll the checker until it finds nothing, or what it finds stays."""
    latest = time.monotonic() + _SETTLES_WITHIN
    seen: tuple[object, ...] = ()
    since = 0.0
    while True:
        found, is_over = await _findings(scene)
        if not found or is_over:
            return found
        now = time.monotonic()
        if (state := (*found, len(scene.discord.messages))) != seen:
            seen, since = state, now
        is_final = all(each.is_final for each in found)
        if now > latest or now - since > (_STAYS_WRONG if is_final else _STAYS_MISSING):
            return found
        _logger.debug("not yet: %s", "; ".join(map(str, found)))
        await asyncio.sleep(_POLL_INTERVAL)


async def _findings(scene: StandbyScene) -> tuple[list[Finding], bool]:
    """What the checker finds, and whether nothing can repair it: two machines have led at once."""
    leader = await scene.until_led()
    await asyncio.to_thread(scene.note_state)
    found = await asyncio.to_thread(check_lease, leader.data, scene.record.folder)
    if found:
        return found, True
    return await asyncio.to_thread(check, leader.data, scene.record.folder), False
