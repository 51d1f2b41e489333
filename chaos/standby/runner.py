"""Runs faults on two machines, and checks every invariant each time that they have settled."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from chaos.checker import check
from chaos.findings import Finding
from chaos.settling import Outcome, findings_once_settled, folder_of_run
from chaos.standby.faults import FAULTS, WEIGHTS
from chaos.standby.invariants import TakeOver, check_lease, take_overs
from chaos.standby.machines import StandbyScene, standby_scene
from chaos.steps import SETTLE, Step, planned_steps

_FAULTS_IN_A_ROW = 2


@dataclass
class StandbyOutcome(Outcome):
    taken: list[TakeOver] = field(default_factory=list)
    reminders: int = 0


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
) -> StandbyOutcome:
    """Run until the steps or the seconds are used up, or something is broken.

    `pace` is the length of a second of the lease; the clock of one machine is `ahead` by seconds.
    """
    outcome = StandbyOutcome()
    with folder_of_run(outcome, keep) as home:
        async with standby_scene(home, settings or {}, pace, ahead) as scene:
            try:
                await _run(scene, steps, time.monotonic() + seconds, outcome)
            finally:
                outcome.hits, outcome.reminders = scene.hits, scene.number
                outcome.taken = take_overs(scene.both[0].data, scene.record.folder)
    return outcome


async def _run(
    scene: StandbyScene, steps: Iterable[Step], ends: float, outcome: StandbyOutcome
) -> None:
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


async def _is_broken(scene: StandbyScene, outcome: StandbyOutcome) -> bool:
    scene.mend()
    await scene.until_led()
    scene.is_settling = True
    outcome.times_settled += 1
    outcome.broken += map(str, await findings_once_settled(partial(_findings, scene)))
    scene.is_settling = False
    return bool(outcome.broken)


async def _findings(scene: StandbyScene) -> tuple[list[Finding], object | None]:
    """Nothing can repair it if two machines have led at once."""
    leader = await scene.until_led()
    await asyncio.to_thread(scene.note_state)
    found = await asyncio.to_thread(check_lease, leader.data, scene.record.folder)
    if found:
        return found, None
    found = await asyncio.to_thread(check, leader.data, scene.record.folder)
    return found, len(scene.discord.messages)
