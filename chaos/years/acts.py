"""What the owner does in these years: in the chat, and with the files of jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any

from chaos.years.letters import Found
from chaos.years.moments import ZONES, instant
from chaos.years.world import SETTLING, Nagging, Snoozed, World, choice, whole_minutes
from ollim_bot.domain.commands import CommandAnswer

Act = Callable[[World, Random], Awaitable[None]]

_MOST_ROUTINES = 14
_SNOOZES = ("Snooze 10 min", "1 h", "Tomorrow 9:00")


async def say(world: World, luck: Random) -> None:
    for _ in range(luck.choice((1, 1, 2))):
        world.machine.letters.say(f"task {world.name('t')}")
        await world.machine.runs(luck.choice((0, 1, 30)))


async def fork(world: World, _: Random) -> None:
    await _command(world, f"/fork topic {world.name('f')}")
    world.machine.letters.say(f"task {world.name('t')}")


async def end_fork(world: World, luck: Random) -> None:
    found = world.machine.letters.button(luck.choice(("Leave it", "Keep a summary")))
    if found is not None:
        await _click(world, found)


async def stop_waiting(world: World) -> None:
    """Nobody but the owner ends an answer that does not come."""
    reception = world.machine.letters.reception
    if world.mind.hanging and reception is not None:
        await reception.interrupt()


async def remind(world: World, luck: Random) -> None:
    """Written in one of three ways: with an offset, or by the clock of one zone or of the bot."""
    more = _details(luck)
    name, orders = (world.name("g"), world.turns) if more else (world.name("r"), world.orders)
    at = _later(world, luck)
    match luck.randrange(3):
        case 0:
            world.remind(name, at, f"Drink {name}.", **more)
        case 1:
            zone = luck.choice(ZONES)
            wall = at.astimezone(zone).replace(tzinfo=None)
            at = instant(wall, zone)
            world.remind(name, wall, f"Drink {name}.", timezone=zone.key, **more)
        case _:
            at += timedelta(seconds=luck.randrange(60))
            world.remind(name, at.astimezone(world.machine.zone), f"Drink {name}.", **more)
    world.machine.pace.add([at])
    orders[name] = at


async def nag(world: World, luck: Random) -> None:
    """Announced, and repeated until its times are used up: nobody answers it."""
    name, at = world.name("n"), _later(world, luck)
    pause, times = luck.choice((2, 7, 45, 600)), luck.randint(1, 8)
    before = f"[{luck.choice((1, 5))}m, {luck.choice((2, 30))}h]"
    more = {"nag": f"{pause}m x {times}", "before": before, "plain": "true"}
    world.remind(name, at, f"Stretch {name}.", **more)
    moments = [at + timedelta(minutes=pause * number) for number in range(times + 2)]
    world.machine.pace.add(moments)
    world.nags[name] = Nagging(moments[-1], times)


async def remind_of_the_past(world: World, luck: Random) -> None:
    name = world.name("r")
    at = whole_minutes(world.now) - timedelta(minutes=luck.randint(3, 3000))
    world.remind(name, at, f"Drink {name}.")
    world.orders[name] = at


async def move_reminder(world: World, luck: Random) -> None:
    for name in world.waiting_orders()[:1]:
        at = _later(world, luck)
        world.remind(name, at, f"Drink {name}.")
        world.orders[name] = at


async def cancel_reminder(world: World, luck: Random) -> None:
    waiting = world.waiting_orders()
    if waiting:
        name = luck.choice(waiting)
        world.remove(f"reminders/{name}.md")
        del world.orders[name]
        # A file that is gone may come back at once, as editors do it: that is waited for.
        await world.machine.runs(SETTLING)
        if not world.machine.has_died:
            world.cancelled.append(name)


async def chain(world: World, luck: Random) -> None:
    name = world.name("c")
    more = {"max-chain": luck.randint(1, 3), **_details(luck)}
    world.remind(name, _later(world, luck), f"Check {name}.", **more)


async def remind_to_put_off(world: World, luck: Random) -> None:
    name = world.name("s")
    world.remind(name, _later(world, luck), f"Put off {name}.")
    world.snoozed[name] = Snoozed()


async def snooze(world: World, luck: Random) -> None:
    """The first click counts; who clicks again is told so."""
    found = world.machine.letters.button(luck.choice(_SNOOZES), "Put off s")
    if found is None:
        return
    answers = [await _click(world, found) for _ in range(2)]
    known = world.snoozed[found.title.removeprefix("Put off ").removesuffix(".")]
    if any(each is not None and not each.is_error for each in answers):
        known.surely += 1
    elif None in answers:
        known.perhaps += 1


async def keep_nights_quiet(world: World, _: Random) -> None:
    answer = await _command(world, "/config quiet_hours 22:00-07:00")
    if answer is not None and not answer.is_error:
        world.quiet_since = world.quiet_since or world.now


async def be_quiet(world: World, luck: Random) -> None:
    """For a while, also into the night or out of it."""
    await _command(world, f"/quiet {luck.randint(10, 300)}m")


async def make_routine(world: World, luck: Random) -> None:
    if len(world.routines) < _MOST_ROUTINES:
        _put(world, world.name("j"), luck)


async def change_routine(world: World, luck: Random) -> None:
    if world.routines:
        _put(world, luck.choice(sorted(world.routines)), luck)


async def remove_routine(world: World, luck: Random) -> None:
    if len(world.routines) > _MOST_ROUTINES // 2:
        name = luck.choice(sorted(world.routines))
        world.remove(f"routines/{name}.md")
        world.drop_version(name)


def _put(world: World, name: str, luck: Random) -> None:
    more = {"background": luck.choice(("true", "true", "false"))}
    if luck.random() < 0.3:
        more["late"] = luck.choice(("run", "tell", "skip"))
    zone = luck.choice((None, None, *ZONES))
    world.put_routine(name, luck.randrange(len(world.calendar.lines)), zone, more)


def _later(world: World, luck: Random) -> datetime:
    """A whole minute; soon, or in the next weeks."""
    minutes = choice(luck, (2, 30), (30, 1500), (1500, 25000))
    return whole_minutes(world.now) + timedelta(minutes=int(minutes))


def _details(luck: Random) -> dict[str, object]:
    return {"background": "false"} if luck.random() < 0.15 else {}


async def _command(world: World, line: str) -> CommandAnswer | None:
    """None if there was nobody who answered."""
    reception = world.machine.letters.reception
    if reception is None:
        return None
    return await _asked(world, reception.command("discord", line))


async def _click(world: World, found: Found) -> CommandAnswer | None:
    """None if there was nobody who answered."""
    reception = world.machine.letters.reception
    if reception is None:
        return None
    return await _asked(world, reception.click("discord", found.message, found.button.custom_id))


async def _asked(
    world: World, question: Coroutine[Any, Any, CommandAnswer]
) -> CommandAnswer | None:
    task = asyncio.ensure_future(question)
    await world.machine.waits_for(task)
    is_answered = task.done() and not task.cancelled() and task.exception() is None
    return task.result() if is_answered else None


ACTS: Mapping[str, Act] = {
    "say": say,
    "fork": fork,
    "end the fork": end_fork,
    "remind": remind,
    "nag": nag,
    "remind of the past": remind_of_the_past,
    "move a reminder": move_reminder,
    "cancel a reminder": cancel_reminder,
    "chain": chain,
    "remind to put off": remind_to_put_off,
    "snooze": snooze,
    "keep the nights quiet": keep_nights_quiet,
    "be quiet": be_quiet,
    "make a routine": make_routine,
    "change a routine": change_routine,
    "remove a routine": remove_routine,
}
WEIGHTS: Mapping[str, int] = {
    "say": 8,
    "fork": 1,
    "end the fork": 2,
    "remind": 7,
    "nag": 3,
    "remind of the past": 1,
    "move a reminder": 2,
    "cancel a reminder": 1,
    "chain": 2,
    "remind to put off": 2,
    "snooze": 3,
    "keep the nights quiet": 1,
    "be quiet": 1,
    "make a routine": 2,
    "change a routine": 2,
    "remove a routine": 1,
}
