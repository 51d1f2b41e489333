"""What the owner does, on Discord, on the page, in a terminal and in an editor."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from uuid import uuid4

import aiohttp
from devtools.localdiscord.state import Message

from chaos.stage import Stage, soon

# Whoever waits longer for the page thinks that it is gone, and goes on.
PATIENCE = 4.0
# Longer than any run, so that what was put off is still there at its end.
_SNOOZE = "1 h"
UNANSWERED = (aiohttp.ClientError, TimeoutError, AssertionError)

Act = Callable[[Stage, random.Random], Awaitable[None]]


async def say_on_discord(stage: Stage, _: random.Random) -> None:
    said(stage)


async def say_on_page(stage: Stage, _: random.Random) -> None:
    name, text = str(uuid4()), f"task t{stage.next_number()}"
    stage.record.note("owner", {"event": "perhaps", "id": name, "text": text})
    stage.unsent[name] = text
    await send(stage, name)


async def send(stage: Stage, name: str) -> None:
    """Until it is confirmed, the page keeps a message and sends it again."""
    try:
        async with asyncio.timeout(PATIENCE):
            await stage.bot.say(stage.unsent[name], message_id=name)
    except UNANSWERED:
        return
    text = stage.unsent.pop(name)
    stage.record.note("owner", {"event": "said", "id": name, "text": text})


async def say_and_edit(stage: Stage, luck: random.Random) -> None:
    name = said(stage)
    await asyncio.sleep(luck.uniform(0, 0.4))
    stage.discord.edit(name, f"{stage.discord.message(name).text} now")


async def say_and_delete(stage: Stage, luck: random.Random) -> None:
    name = said(stage)
    await asyncio.sleep(luck.uniform(0, 0.4))
    stage.discord.delete(name)
    stage.record.note("owner", {"event": "deleted", "id": f"discord-{name}"})


async def begin_fork(stage: Stage, _: random.Random) -> None:
    await _command(stage, f"/fork topic {stage.next_number()}")


async def end_fork(stage: Stage, luck: random.Random) -> None:
    label = luck.choice(("Leave it", "Keep a summary"))
    cards = [each for each in stage.discord.said if _button(each, label)]
    if cards and luck.random() < 0.5:
        stage.discord.click(cards[-1].id, _button(cards[-1], label))
        return
    try:
        async with asyncio.timeout(PATIENCE):
            await stage.bot.press(label)
    except UNANSWERED:
        return


async def reply_to_ping(stage: Stage, luck: random.Random) -> None:
    """It is answered by who has sent the ping, in a fork of its own."""
    pings = [each for each in stage.discord.said if "Ping p" in each.text]
    said(stage, luck.choice(pings).id if pings else None)


async def clear(stage: Stage, _: random.Random) -> None:
    """Only a conversation that the judge knows of."""
    if stage.record.note_session():
        await _command(stage, "/clear")


async def configure(stage: Stage, _: random.Random) -> None:
    value = 300 + stage.next_number()
    row = {"value": value, "is_certain": False}
    stage.record.note("settings", row)
    if await _command(stage, f"/config approval_timeout {value}"):
        stage.record.note("settings", row | {"is_certain": True})


async def be_quiet(stage: Stage, _: random.Random) -> None:
    await _command(stage, "/quiet 1m")


async def end_quiet(stage: Stage) -> None:
    """What has waited is to come."""
    await _command(stage, "/quiet off")


async def remind(stage: Stage, luck: random.Random) -> None:
    _remind(stage, luck.uniform(-0.9, 2))


async def remind_late(stage: Stage, luck: random.Random) -> None:
    """A moment that has passed: it comes at once, and says that it is late."""
    _remind(stage, -luck.uniform(200, 4000))


async def remind_by_command(stage: Stage, luck: random.Random) -> None:
    name = f"r{stage.next_number()}"
    # The command itself takes its time, too.
    at = soon(luck.uniform(1.5, 3))
    text = f"Drink {name}."
    when = at.isoformat()
    if await stage.cli("reminder", "add", "-m", text, "--at", when, "--id", name) == 0:
        stage.order(name, at, text)


async def remind_and_move(stage: Stage, luck: random.Random) -> None:
    """Written for later, and changed in an editor to a moment that is near."""
    name = f"r{stage.next_number()}"
    text = f"Drink {name}."
    stage.write_job(f"reminders/{name}.md", _reminder(name, soon(900), text))
    await asyncio.sleep(luck.uniform(0, 0.8))
    at = soon(1)
    stage.order(name, at, text)
    stage.write_job(f"reminders/{name}.md", _reminder(name, at, text))


async def remind_by_halves(stage: Stage, luck: random.Random) -> None:
    """As an editor does that writes into the file itself, and is slow."""
    name = f"r{stage.next_number()}"
    text, pause = f"Drink {name}.", luck.uniform(0.1, 1)
    at = soon(pause + 1.5)
    stage.order(name, at, text)
    whole = _reminder(name, at, text)
    half = luck.randrange(len(whole))
    path = stage.bot.data / "reminders" / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(whole[:half])
    await asyncio.sleep(pause)
    with path.open("a") as file:
        file.write(whole[half:])


async def cancel(stage: Stage, luck: random.Random) -> None:
    name = f"r{stage.next_number()}"
    stage.write_job(f"reminders/{name}.md", _reminder(name, soon(900), f"Drink {name}."))
    await asyncio.sleep(luck.uniform(0, 0.4))
    if await stage.cli("reminder", "cancel", name) == 0:
        stage.record.note("cancelled", {"id": name})


async def run_routine(stage: Stage, _: random.Random) -> None:
    await stage.cli("routine", "run", "byhand")


async def snooze(stage: Stage, luck: random.Random) -> None:
    """Press a button of a reminder, and again in the same moment."""
    if not _cards(stage):
        await remind(stage, luck)
        try:
            await stage.discord.until(lambda: _cards(stage), PATIENCE)
        except TimeoutError:
            return
    message = luck.choice(_cards(stage))
    custom_id = _button(message, _SNOOZE)
    text = str(message.embeds[0].get("title", ""))
    for _ in range(2):
        stage.discord.click(message.id, custom_id)
    await asyncio.sleep(0.6)
    is_done = str(message.embeds[0].get("title", "")).startswith("⏱")
    stage.record.note("clicks", {"text": text, "is_certain": is_done})


def _cards(stage: Stage) -> list[Message]:
    return [each for each in stage.discord.said if _button(each, _SNOOZE)]


def said(stage: Stage, reply_to: str | None = None) -> str:
    """A task, on Discord, which keeps it whether the bot runs or not."""
    text = f"task t{stage.next_number()}"
    name = stage.discord.say(text, reply_to=reply_to)
    stage.record.note("owner", {"event": "said", "id": f"discord-{name}", "text": text})
    return name


def _button(message: Message, label: str) -> str:
    """What to press; empty if there is no such button any more."""
    for each in message.buttons:
        if each.get("label") == label and not each.get("disabled"):
            return str(each["custom_id"])
    return ""


async def _command(stage: Stage, line: str) -> bool:
    """Whether it was done, as far as the owner can see."""
    try:
        async with asyncio.timeout(PATIENCE):
            answer = await stage.bot.command(line)
    except UNANSWERED:
        return False
    return not answer.get("is_error")


def _remind(stage: Stage, seconds: float) -> None:
    name = f"r{stage.next_number()}"
    text, at = f"Drink {name}.", soon(seconds)
    stage.order(name, at, text)
    stage.write_job(f"reminders/{name}.md", _reminder(name, at, text))


def _reminder(name: str, at: datetime, text: str) -> str:
    return f'---\nid: {name}\nrun-at: "{at.isoformat()}"\n---\n{text}\n'


ACTS: Mapping[str, Act] = {
    "say on Discord": say_on_discord,
    "say on the page": say_on_page,
    "say and edit": say_and_edit,
    "say and delete": say_and_delete,
    "begin a fork": begin_fork,
    "end the fork": end_fork,
    "reply to a ping": reply_to_ping,
    "clear": clear,
    "configure": configure,
    "be quiet": be_quiet,
    "remind": remind,
    "remind of the past": remind_late,
    "remind by command": remind_by_command,
    "remind and move": remind_and_move,
    "remind by halves": remind_by_halves,
    "cancel a reminder": cancel,
    "run a routine": run_routine,
    "snooze twice": snooze,
}
WEIGHTS: Mapping[str, int] = dict.fromkeys(ACTS, 2) | {
    "say on Discord": 6,
    "say on the page": 4,
    "remind": 5,
    "begin a fork": 1,
    "clear": 1,
    "configure": 1,
}
