"""Faults where the bot writes: a crash at a crash point, or errors of the system for a while."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping
from functools import partial

from chaos.calendar_actions import offer_new_events, paste_address
from chaos.crash_points import CALENDAR_FILES, CRASH_POINTS, DATABASE, WritePhase
from chaos.fault_control import CRASH, POWER_CUT, InjectedFault
from chaos.owner_actions import (
    Action,
    begin_fork,
    clear,
    configure,
    end_fork,
    remind,
    run_routine,
    say_on_discord,
    say_on_page,
    tick_errand,
)
from chaos.scene import ChaosScene, comes_true
from chaos.travel_actions import travel
from chaos.webhook_caller import call_webhook

# In seconds.
_CRASHES_WITHIN = 2.5


async def _begin_new_conversation(scene: ChaosScene, rng: random.Random) -> None:
    await clear(scene, rng)
    await say_on_discord(scene, rng)


async def _use_up_updates(scene: ChaosScene, rng: random.Random) -> None:
    """Wait for an update, and start a turn that shows it to the agent and removes the file.

    The checker misses only updates of which the model was told that they are reported.
    """
    await run_routine(scene, rng)
    updates = scene.bot.data / "state" / "pending_updates.json"

    def has_come() -> bool:
        text = updates.read_text() if updates.exists() else ""
        return not scene.model.done.isdisjoint(re.findall(r"\bReport (u\d+)\b", text))

    await comes_true(has_come, 2 * _CRASHES_WITHIN)
    await say_on_discord(scene, rng)


async def _read_changed_calendar(scene: ChaosScene, rng: random.Random) -> None:
    """Start the bot again, which reads the calendars then."""
    await offer_new_events(scene, rng)
    await scene.kill()
    await scene.start_with_fault()


_TALK: tuple[Action, ...] = (say_on_discord, say_on_discord, say_on_page)
_WORK: tuple[Action, ...] = (remind, run_routine)
# The actions that make the bot write a file, by the label of the file.
_ACTIONS_THAT_WRITE: Mapping[str, tuple[Action, ...]] = {
    DATABASE: (*_TALK, *_WORK, call_webhook, travel),
    "fork.json": (begin_fork, end_fork),
    "config.json": (configure, travel),
    "sessions.json": (_begin_new_conversation,),
    "session_history.jsonl": (begin_fork, run_routine),
    "ping_budget.json": (run_routine,),
    "run_requests": (run_routine,),
    "reminders": (remind,),
    "tasks.md": (tick_errand,),
    "task_ids.json": (tick_errand,),
    **dict.fromkeys(CALENDAR_FILES, (paste_address, _read_changed_calendar)),
    "fork_messages.json": _WORK,
    "pending_updates.json": (*_WORK, *_TALK, _use_up_updates),
}
UPDATES_TAKEN = f"{WritePhase.BEFORE_REMOVAL}: pending_updates.json"
# A crash point that only one of those actions reaches.
_ONLY_ACTION: Mapping[str, Action] = {UPDATES_TAKEN: _use_up_updates}
# Files that the bot makes again at its start if they are missing.
_MADE_AT_START = {
    ".gitignore": ".gitignore",
    "IDENTITY.md": "IDENTITY.md",
    "web_token": "state/web_token",
    "web_browsers.json": "state/web_browsers.json",
}
ERRORS: Mapping[str, str] = {
    "the sync fails": "EIO",
    "read-only for a while": "EROFS",
    "no room for a while": "ENOSPC",
}
# An empty label stands for all files.
_LABELS = ("", "", "", "", DATABASE, DATABASE, *_ACTIONS_THAT_WRITE)


async def crash_at(crash_point: str, scene: ChaosScene, rng: random.Random) -> None:
    """Do what makes the bot write there, and restart it after the crash.

    If the bot does not reach the crash point, the start may reach it.
    """
    kind = rng.choice((CRASH, POWER_CUT))
    scene.fault_control.inject(InjectedFault(kind, crash_point, seed=rng.randrange(1_000_000)))
    if crash_point in _ONLY_ACTION:
        await _ONLY_ACTION[crash_point](scene, rng)
    else:
        await _cause_write(crash_point.rpartition(": ")[2], scene, rng)
    await wait_for_crash(scene)
    await scene.kill()
    await restart_after_crash(scene, rng)
    scene.count_injected_faults()


async def restart_after_crash(scene: ChaosScene, rng: random.Random) -> None:
    """Perhaps the owner has written meanwhile, and perhaps Discord has forgotten all nonces."""
    if rng.random() < 0.6:
        await say_on_discord(scene, rng)
    if rng.random() < 0.2:
        scene.discord.forget_nonces()
    await scene.start()


async def wait_for_crash(scene: ChaosScene) -> None:
    """Gives up after a while, since the bot may not reach the crash point."""
    await comes_true(lambda: not scene.fault_control.is_pending, _CRASHES_WITHIN)


async def _cause_write(label: str, scene: ChaosScene, rng: random.Random) -> None:
    if label in _MADE_AT_START:
        await scene.kill()
        (scene.bot.data / _MADE_AT_START[label]).unlink(missing_ok=True)
        await scene.start()
    else:
        await rng.choice(_ACTIONS_THAT_WRITE.get(label, (*_TALK, *_WORK)))(scene, rng)


async def fail_writes(error: str, scene: ChaosScene, rng: random.Random) -> None:
    label = rng.choice(_LABELS)
    scene.fault_control.inject(InjectedFault(error, label=label))
    try:
        await _cause_write(label, scene, rng)
        await asyncio.sleep(rng.uniform(0.3, 2))
    finally:
        scene.fault_control.withdraw()
    scene.count_injected_faults()
    scene.needs_restart = True


CRASHES: Mapping[str, Action] = {each: partial(crash_at, each) for each in CRASH_POINTS}
WRITE_ERRORS: Mapping[str, Action] = {
    name: partial(fail_writes, error) for name, error in ERRORS.items()
}
