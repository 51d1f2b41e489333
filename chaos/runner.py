"""Runs steps on a scene, and checks every invariant each time that the bot has settled."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from chaos import (
    calendar_actions,
    faults,
    owner_actions,
    phone_actions,
    phone_faults,
    travel_actions,
    webhook_caller,
)
from chaos.checker import check, in_doubt
from chaos.findings import Finding
from chaos.owner_actions import Action
from chaos.scene import ChaosScene, chaos_scene, comes_true
from chaos.settling import Outcome, findings_once_settled, folder_of_run
from chaos.steps import SETTLE, Step, planned_steps
from chaos.write_faults import CRASHES

WEIGHTS: Mapping[str, int] = {
    **owner_actions.WEIGHTS,
    **webhook_caller.WEIGHTS,
    **calendar_actions.WEIGHTS,
    **travel_actions.WEIGHTS,
    **phone_actions.WEIGHTS,
    **faults.WEIGHTS,
    **phone_faults.WEIGHTS,
}

# In seconds.
_FAULTS_WITHIN = 3.0
_CONNECTED_WITHIN = 60.0
# The fewest messages for each one in doubt.
_MESSAGES_PER_DOUBT = 50
_SHARE_OF_CRASHES = 0.45

_STEPS: Mapping[str, Action] = {
    **owner_actions.ACTIONS,
    **webhook_caller.ACTIONS,
    **calendar_actions.ACTIONS,
    **travel_actions.ACTIONS,
    **phone_actions.ACTIONS,
    **faults.FAULTS,
    **phone_faults.FAULTS,
    **CRASHES,
}


@dataclass
class ChaosOutcome(Outcome):
    """`passed_crash_points` are those that the bot reached, whether it crashed there or not."""

    passed_crash_points: set[str] = field(default_factory=set)
    in_doubt: int = 0
    messages: int = 0


def plan(seed: int, focus: Collection[str] = ()) -> Iterator[Step]:
    """The usual steps: all actions, all faults and all crash points, those of `focus` first."""
    return planned_steps(seed, WEIGHTS, tuple(CRASHES), _SHARE_OF_CRASHES, focus)


async def run_steps(
    steps: Iterable[Step],
    *,
    seconds: float,
    settings: Mapping[str, str] | None = None,
    keep: Path | None = None,
) -> ChaosOutcome:
    """Run until the steps or the seconds are used up, or something is broken.

    `keep` is the folder for a copy of all files if something is broken.
    """
    outcome = ChaosOutcome()
    with folder_of_run(outcome, keep) as home:
        async with chaos_scene(home, settings or {}) as scene:
            try:
                await _run(scene, steps, time.monotonic() + seconds, outcome)
            finally:
                outcome.hits = scene.hits
                outcome.passed_crash_points = scene.fault_control.passed_crash_points
    return outcome


async def _run(
    scene: ChaosScene, steps: Iterable[Step], ends: float, outcome: ChaosOutcome
) -> None:
    for step in steps:
        if time.monotonic() > ends and step.name == SETTLE:
            break
        outcome.note(step)
        await asyncio.sleep(step.wait)
        if step.name != SETTLE:
            await _STEPS[step.name](scene, random.Random(step.seed))
        elif await _is_broken(scene, outcome):
            return
    if not await _is_broken(scene, outcome):
        await _check_after_restart(scene, outcome)


async def _check_after_restart(scene: ChaosScene, outcome: ChaosOutcome) -> None:
    """Check once more after a last kill and start, and check the totals of the run."""
    await scene.kill()
    await scene.start()
    if await _is_broken(scene, outcome):
        return
    if await scene.cli("runs", "check") != 0:
        outcome.broken.append("`ollim-bot runs check` finds something")
    if scene.discord.rate_limited > scene.starts:
        # A bot that has just started may not know the rate limit yet: one refusal for each start.
        outcome.broken.append(
            f"Discord refused {scene.discord.rate_limited} times to go on so fast"
        )
    outcome.broken += _leaked_topics(scene)
    outcome.messages = len(scene.discord.messages)
    outcome.in_doubt = len(in_doubt(scene.bot.data, scene.record.folder))
    if outcome.in_doubt * _MESSAGES_PER_DOUBT > outcome.messages:
        outcome.broken.append(f"{outcome.in_doubt} of {outcome.messages} messages are in doubt")


def _leaked_topics(scene: ChaosScene) -> list[str]:
    """The names of the phone's topics are keys, for one file alone."""
    names = [scene.phones.topic.encode(), scene.phones.reply_topic.encode()]
    state = scene.bot.data / "state"
    places = [scene.bot.output, *state.glob("ollim.db*"), *state.glob("*.json*")]
    return [
        f"{path.name} has the name of a topic of the phone"
        for path in places
        if path.name != "push.json" and any(name in path.read_bytes() for name in names)
    ]


async def _is_broken(scene: ChaosScene, outcome: ChaosOutcome) -> bool:
    await _end_faults(scene)
    outcome.times_settled += 1
    outcome.broken += map(str, await findings_once_settled(partial(_findings, scene)))
    return bool(outcome.broken)


async def _end_faults(scene: ChaosScene) -> None:
    """End all faults, restart a bot that would hang for good, and send again what is unsent."""
    # Not all of the pending faults happen.
    await comes_true(lambda: not _has_pending_faults(scene), _FAULTS_WITHIN)
    faults.count_hits(scene)
    await scene.undo.aclose()
    scene.discord.mend()
    scene.phones.server.mend()
    scene.model.clear_failures()
    if scene.model.is_hung or scene.needs_restart:
        scene.model.is_hung = scene.needs_restart = False
        await scene.kill()
        await scene.start()
    await scene.discord.connected(_CONNECTED_WITHIN)
    for name in list(scene.unsent):
        await owner_actions.send_to_page(scene, name)
    for number in list(scene.unaccepted):
        await webhook_caller.call_again(scene, number)
    await calendar_actions.read_all_again(scene)
    await owner_actions.end_quiet(scene)


def _has_pending_faults(scene: ChaosScene) -> bool:
    left = (*scene.discord.faults_left, *scene.phones.server.faults_left)
    return scene.model.has_pending_failures or bool(left)


async def _findings(scene: ChaosScene) -> tuple[list[Finding], object]:
    """What the checker finds, and how much was noted until now."""
    scene.record.note_state(scene.discord)
    scene.phones.note_state()
    shown = await scene.bot.messages()
    scene.record.replace("page", [{"id": each["id"], "text": each["text"]} for each in shown])
    found = await asyncio.to_thread(check, scene.bot.data, scene.record.folder)
    return found, [path.stat().st_size for path in sorted(scene.record.folder.iterdir())]
