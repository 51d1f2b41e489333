"""The owner travels: changes the time zone while reminders and routines are pending."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from chaos.owner_actions import Action, remind_at, send_command
from chaos.scene import HOME_ZONE, ChaosScene, comes_true, soon, words_of

# Their clocks are hours ahead of that at home.
_AWAY = ("Asia/Tokyo", "Asia/Kolkata")
_DEFAULT = "default"
# In seconds: how soon the bot has read a new file, or plans by a new zone.
_PLANNED_WITHIN = 4.0


async def travel(scene: ChaosScene, rng: random.Random) -> None:
    """Go away or, if the owner is away or their zone is not known, back home."""
    if scene.zone == HOME_ZONE:
        await _go_away(scene, rng)
    else:
        await _go_home(scene, rng)


async def _go_away(scene: ChaosScene, rng: random.Random) -> None:
    """Three jobs are pending: for an exact moment, for a time of the new clock, and one it skips.

    All of them have to come, each once: the new clock jumps over the time of the routine.
    """
    zone = rng.choice(_AWAY)
    remind_at(scene, soon(rng.uniform(1, 3)))
    by_clock, at = f"r{scene.next_number()}", soon(rng.uniform(2, 5))
    scene.write_job(f"reminders/{by_clock}.md", _reminder_file(by_clock, at, zone))
    routine = f"r{scene.next_number()}"
    scene.write_job(f"routines/{routine}.md", _routine_file(routine, _jumped_over(zone)))
    is_armed = await comes_true(lambda: scene.record.is_armed(routine), _PLANNED_WITHIN)
    before = datetime.now(UTC)
    if await _change_zone(scene, rng, zone):
        scene.hits["travelled away"] += 1
        scene.note_reminder(by_clock, at)
        if is_armed:
            scene.note_reminder(routine, before)


async def _go_home(scene: ChaosScene, rng: random.Random) -> None:
    """A reminder for a time that is past by the old clock, and soon by the new one, comes once."""
    away = scene.zone
    if away and not await comes_true(lambda: scene.record.planned_zone() == away, _PLANNED_WITHIN):
        return
    remind_at(scene, soon(rng.uniform(1, 3)))
    name, at = f"r{scene.next_number()}", soon(rng.uniform(1, 3))
    scene.note_reminder(name, at, is_timed=False)
    scene.write_job(f"reminders/{name}.md", _reminder_file(name, at, HOME_ZONE))
    if await _change_zone(scene, rng, HOME_ZONE):
        scene.hits["travelled home"] += 1


async def _change_zone(scene: ChaosScene, rng: random.Random, zone: str) -> bool:
    """Whether the owner gets the answer that the bot uses the zone from now on."""
    word = _DEFAULT if zone == HOME_ZONE else zone
    row = {"key": "timezone", "value": None if word == _DEFAULT else word, "is_certain": False}
    scene.record.note("settings", row)
    scene.zone = ""
    if rng.random() < 0.5:
        is_done = await send_command(scene, f"/config timezone {word}")
    else:
        is_done = await scene.cli("config", "set", "timezone", word) == 0
    if is_done:
        scene.zone = zone
        scene.record.note("settings", row | {"is_certain": True})
    return is_done


def _jumped_over(zone: str) -> datetime:
    """A wall time halfway between that at home and that in the zone."""
    now = datetime.now(UTC)
    walls = [now.astimezone(ZoneInfo(each)).replace(tzinfo=None) for each in (HOME_ZONE, zone)]
    return walls[0] + (walls[1] - walls[0]) / 2 + timedelta(seconds=1)


def _reminder_file(name: str, at: datetime, zone: str) -> str:
    """For a time of day: `run-at` has no offset."""
    wall = at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    return f'---\nid: {name}\nrun-at: "{wall.isoformat()}"\n---\n{words_of(name)}\n'


def _routine_file(name: str, wall: datetime) -> str:
    cron = f"{wall.minute} {wall.hour} * * *"
    fields = f'id: {name}\ncron: "{cron}"\nbackground: true\nplain: true\nmust: true\nlate: run'
    return f"---\n{fields}\n---\n{words_of(name)}\n"


ACTIONS: Mapping[str, Action] = {"travel": travel}
WEIGHTS: Mapping[str, int] = {"travel": 3}
