"""What the owner does in a simulated year: in the chat, and with the files of jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any

from chaos.years.due_times import ZONES, utc_instant
from chaos.years.scene import (
    FILES_SETTLE_SECONDS,
    NagReminder,
    SnoozeCount,
    YearsScene,
    floor_to_minute,
    uniform_choice,
)
from chaos.years.simulated_chat import FoundButton
from ollim_bot.kernel.values.commands import CommandAnswer

Action = Callable[[YearsScene, Random], Awaitable[None]]

_MOST_ROUTINES = 14
# Begins the text of what need not come in the quiet.
_CONVENIENT = "Water "
_TURNING = ("Show the rest", "Back to the start")
_SNOOZES = ("Snooze 10 min", "1 h", "Tomorrow 9:00")


async def say(scene: YearsScene, rng: Random) -> None:
    for _ in range(rng.choice((1, 1, 2))):
        scene.host.chat.send_as_owner(f"task {scene.new_name('t')}")
        await scene.host.run_for(rng.choice((0, 1, 30)))


async def fork(scene: YearsScene, _: Random) -> None:
    await command(scene, f"/fork topic {scene.new_name('f')}")
    scene.host.chat.send_as_owner(f"task {scene.new_name('t')}")


async def end_fork(scene: YearsScene, rng: Random) -> None:
    found = scene.host.chat.find_button(rng.choice(("Leave it", "Keep a summary")))
    if found is not None:
        await click(scene, found)


async def interrupt_hanging_turn(scene: YearsScene) -> None:
    """Interrupt it as the owner does: the bot itself never ends a hanging turn of the chat."""
    service = scene.host.chat.service
    if scene.engine.hanging_turns and service is not None:
        await service.interrupt()


async def remind(scene: YearsScene, rng: Random) -> None:
    """Write the due time in UTC, as wall time of a named zone, or with the bot's offset."""
    fields = _maybe_foreground(rng)
    if fields:
        name, reminders = scene.new_name("g"), scene.foreground_reminders
    else:
        name, reminders = scene.new_name("r"), scene.background_reminders
    at = _later_minute(scene, rng)
    match rng.randrange(3):
        case 0:
            scene.remind(name, at, f"Drink {name}.", **fields)
        case 1:
            zone = rng.choice(ZONES)
            wall = at.astimezone(zone).replace(tzinfo=None)
            at = utc_instant(wall, zone)
            scene.remind(name, wall, f"Drink {name}.", timezone=zone.key, **fields)
        case _:
            at += timedelta(seconds=rng.randrange(60))
            scene.remind(name, at.astimezone(scene.host.zone), f"Drink {name}.", **fields)
    scene.host.pacer.add_due_times([at])
    reminders[name] = at


async def nag(scene: YearsScene, rng: Random) -> None:
    """Remind with heads-ups and with repeats, all of which come, since the owner never answers."""
    name, at = scene.new_name("n"), _later_minute(scene, rng)
    pause, times = rng.choice((2, 7, 45, 600)), rng.randint(1, 8)
    before = f"[{rng.choice((1, 5))}m, {rng.choice((2, 30))}h]"
    fields = {"nag": f"{pause}m x {times}", "before": before, "plain": "true"}
    scene.remind(name, at, f"Stretch {name}.", **fields)
    due_times = [at + timedelta(minutes=pause * number) for number in range(times + 2)]
    scene.host.pacer.add_due_times(due_times)
    scene.nags[name] = NagReminder(due_times[-1], times)


async def remind_of_the_past(scene: YearsScene, rng: Random) -> None:
    name = scene.new_name("r")
    at = floor_to_minute(scene.now) - timedelta(minutes=rng.randint(3, 3000))
    scene.remind(name, at, f"Drink {name}.")
    scene.background_reminders[name] = at


async def move_reminder(scene: YearsScene, rng: Random) -> None:
    for name in scene.later_reminders()[:1]:
        at = _later_minute(scene, rng)
        scene.remind(name, at, f"Drink {name}.")
        scene.background_reminders[name] = at


async def cancel_reminder(scene: YearsScene, rng: Random) -> None:
    waiting = scene.later_reminders()
    if waiting:
        name = rng.choice(waiting)
        scene.remove(f"reminders/{name}.md")
        del scene.background_reminders[name]
        # The bot waits before it cancels: an editor may remove a file and write it again at once.
        await scene.host.run_for(FILES_SETTLE_SECONDS)
        if not scene.host.has_crashed:
            scene.cancelled.append(name)


async def remind_with_chain(scene: YearsScene, rng: Random) -> None:
    name = scene.new_name("c")
    fields = {"max-chain": rng.randint(1, 3), **_maybe_foreground(rng)}
    scene.remind(name, _later_minute(scene, rng), f"Check {name}.", **fields)


async def remind_to_snooze(scene: YearsScene, rng: Random) -> None:
    name = scene.new_name("s")
    scene.remind(name, _later_minute(scene, rng), f"Put off {name}.")
    scene.snoozed[name] = SnoozeCount()


async def snooze(scene: YearsScene, rng: Random) -> None:
    """Click twice: the first click counts, and the second is refused."""
    found = scene.host.chat.find_button(rng.choice(_SNOOZES), "Put off s")
    if found is None:
        return
    answers = [await click(scene, found) for _ in range(2)]
    count = scene.snoozed[found.title.removeprefix("Put off ").removesuffix(".")]
    if any(each is not None and not each.is_error for each in answers):
        count.certain += 1
    elif None in answers:
        count.possible += 1


async def keep_nights_quiet(scene: YearsScene, _: Random) -> None:
    answer = await command(scene, "/config quiet_hours 22:00-07:00")
    if answer is not None and not answer.is_error:
        scene.quiet_since = scene.quiet_since or scene.now


async def be_quiet(scene: YearsScene, rng: Random) -> None:
    """Ask for quiet for some minutes, which may overlap the quiet hours of the night."""
    await command(scene, f"/quiet {rng.randint(10, 300)}m")


async def remind_if_convenient(scene: YearsScene, rng: Random) -> None:
    """Remind of what need not come in the quiet, maybe again and again."""
    name = scene.new_name("o")
    at = floor_to_minute(scene.now) + timedelta(minutes=rng.randint(2, 700))
    fields = {"plain": "true", "must": "false"}
    if rng.random() < 0.3:
        fields["nag"] = f"{rng.choice((2, 10, 45, 300))}m x {rng.randint(1, 4)}"
    scene.remind(name, at, f"{_CONVENIENT}{name}.", **fields)
    scene.host.pacer.add_due_times([at])


async def answer_from_overview(scene: YearsScene, rng: Random) -> None:
    """Answer what need not come, also while it still waits for the end of the quiet."""
    if await command(scene, "/today") is None:
        return
    await scene.host.run_for(5)
    await _press_line(scene, rng, "Today")


async def press_in_digest(scene: YearsScene, rng: Random) -> None:
    for _ in range(rng.randint(1, 3)):
        await _press_line(scene, rng, "While it was quiet")
        await scene.host.run_for(rng.choice((0, 1, 30)))


async def _press_line(scene: YearsScene, rng: Random, title: str) -> None:
    """Press a button of the newest card with lines and this title; not on what must come."""
    cards = scene.host.chat.cards
    name = next((each for each in reversed(cards) if cards[each].title.startswith(title)), None)
    if name is None:
        return
    lines = ["", *(each.text for each in cards[name].lines)]
    found = [
        each
        for each in cards[name].buttons
        if each.label in _TURNING or each.label == "Show" or _CONVENIENT in lines[each.line]
    ]
    if found:
        button = rng.choice(found)
        if button.label == "Show":
            scene.host.record.note("shown", {"message": button.data})
        await click(scene, FoundButton(name, button, title))


async def make_routine(scene: YearsScene, rng: Random) -> None:
    if len(scene.routines) < _MOST_ROUTINES:
        _write_random_routine(scene, scene.new_name("j"), rng)


async def change_routine(scene: YearsScene, rng: Random) -> None:
    if scene.routines:
        _write_random_routine(scene, rng.choice(sorted(scene.routines)), rng)


async def remove_routine(scene: YearsScene, rng: Random) -> None:
    if len(scene.routines) > _MOST_ROUTINES // 2:
        name = rng.choice(sorted(scene.routines))
        scene.remove(f"routines/{name}.md")
        scene.end_version(name)


def _write_random_routine(scene: YearsScene, name: str, rng: Random) -> None:
    fields = {"background": rng.choice(("true", "true", "false"))}
    if rng.random() < 0.3:
        fields["late"] = rng.choice(("run", "tell", "skip"))
    zone = rng.choice((None, None, *ZONES))
    scene.put_routine(name, rng.randrange(len(scene.timetable.fields)), zone, fields)


def _later_minute(scene: YearsScene, rng: Random) -> datetime:
    """A whole minute, soon or within the next weeks."""
    minutes = uniform_choice(rng, (2, 30), (30, 1500), (1500, 25000))
    return floor_to_minute(scene.now) + timedelta(minutes=int(minutes))


def _maybe_foreground(rng: Random) -> dict[str, object]:
    return {"background": "false"} if rng.random() < 0.15 else {}


async def command(scene: YearsScene, line: str) -> CommandAnswer | None:
    """None if the bot is off or does not answer."""
    service = scene.host.chat.service
    if service is None:
        return None
    return await _answer_of(scene, service.command("discord", line))


async def click(scene: YearsScene, found: FoundButton) -> CommandAnswer | None:
    """None if the bot is off or does not answer."""
    service = scene.host.chat.service
    if service is None:
        return None
    return await _answer_of(scene, service.click("discord", found.message, found.button.custom_id))


async def _answer_of(
    scene: YearsScene, question: Coroutine[Any, Any, CommandAnswer]
) -> CommandAnswer | None:
    task = asyncio.ensure_future(question)
    await scene.host.wait_for(task)
    is_answered = task.done() and not task.cancelled() and task.exception() is None
    return task.result() if is_answered else None


ACTIONS: Mapping[str, Action] = {
    "say": say,
    "fork": fork,
    "end the fork": end_fork,
    "remind": remind,
    "nag": nag,
    "remind of the past": remind_of_the_past,
    "move a reminder": move_reminder,
    "cancel a reminder": cancel_reminder,
    "chain": remind_with_chain,
    "remind to put off": remind_to_snooze,
    "snooze": snooze,
    "keep the nights quiet": keep_nights_quiet,
    "be quiet": be_quiet,
    "remind if convenient": remind_if_convenient,
    "answer from an overview": answer_from_overview,
    "press in a digest": press_in_digest,
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
    "remind if convenient": 2,
    "answer from an overview": 1,
    "press in a digest": 2,
    "make a routine": 2,
    "change a routine": 2,
    "remove a routine": 1,
}
