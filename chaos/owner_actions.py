"""The actions of the owner: on Discord, on the page, in a terminal and in an editor."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from uuid import uuid4

import aiohttp
from devtools.localdiscord.state import Message

from chaos.scene import ChaosScene, soon, words_of

# Seconds after which the owner stops waiting for the page and goes on.
TIMEOUT = 4.0
# Longer than any run, so that a snoozed reminder is still there at the end of the run.
SNOOZE = "1 h"
NO_ANSWER = (aiohttp.ClientError, TimeoutError, AssertionError)

Action = Callable[[ChaosScene, random.Random], Awaitable[None]]


async def say_on_discord(scene: ChaosScene, _: random.Random) -> None:
    send_task(scene)


async def say_on_page(scene: ChaosScene, _: random.Random) -> None:
    name, text = str(uuid4()), f"task t{scene.next_number()}"
    scene.record.note("owner", {"event": "perhaps", "id": name, "text": text})
    scene.unsent[name] = text
    await send_to_page(scene, name)


async def send_to_page(scene: ChaosScene, name: str) -> None:
    """Send a message to the page. It stays in `unsent` until the bot confirms it."""
    try:
        async with asyncio.timeout(TIMEOUT):
            await scene.bot.say(scene.unsent[name], message_id=name)
    except NO_ANSWER:
        return
    text = scene.unsent.pop(name)
    scene.record.note("owner", {"event": "said", "id": name, "text": text})


async def say_and_edit(scene: ChaosScene, rng: random.Random) -> None:
    name = send_task(scene)
    await asyncio.sleep(rng.uniform(0, 0.4))
    scene.discord.edit(name, f"{scene.discord.message(name).text} now")


async def say_and_delete(scene: ChaosScene, rng: random.Random) -> None:
    name = send_task(scene)
    await asyncio.sleep(rng.uniform(0, 0.4))
    scene.discord.delete(name)
    scene.record.note("owner", {"event": "deleted", "id": f"discord-{name}"})


async def begin_fork(scene: ChaosScene, _: random.Random) -> None:
    await send_command(scene, f"/fork topic {scene.next_number()}")


async def end_fork(scene: ChaosScene, rng: random.Random) -> None:
    label = rng.choice(("Leave it", "Keep a summary"))
    cards = [each for each in scene.discord.said if _button_id(each, label)]
    if cards and rng.random() < 0.5:
        scene.discord.click(cards[-1].id, _button_id(cards[-1], label))
        return
    try:
        async with asyncio.timeout(TIMEOUT):
            await scene.bot.press(label)
    except NO_ANSWER:
        return


async def reply_to_ping(scene: ChaosScene, rng: random.Random) -> None:
    """The session that sent the ping answers, in a fork."""
    pings = [each for each in scene.discord.said if "Ping p" in each.text]
    send_task(scene, rng.choice(pings).id if pings else None)


async def clear(scene: ChaosScene, _: random.Random) -> None:
    """Only if the session of the conversation is known, and so noted for the checker."""
    if scene.record.note_session():
        await send_command(scene, "/clear")


async def configure(scene: ChaosScene, _: random.Random) -> None:
    value = 300 + scene.next_number()
    row = {"key": "approval_timeout", "value": value, "is_certain": False}
    scene.record.note("settings", row)
    if await send_command(scene, f"/config approval_timeout {value}"):
        scene.record.note("settings", row | {"is_certain": True})


async def be_quiet(scene: ChaosScene, _: random.Random) -> None:
    await send_command(scene, "/quiet 1m")


async def end_quiet(scene: ChaosScene) -> None:
    """Let the bot send what it holds back."""
    await send_command(scene, "/quiet off")


async def remind(scene: ChaosScene, rng: random.Random) -> None:
    remind_at(scene, soon(rng.uniform(-0.9, 2)))


async def remind_late(scene: ChaosScene, rng: random.Random) -> None:
    """A reminder of a time in the past: it has to come at once, and say that it is late."""
    remind_at(scene, soon(-rng.uniform(200, 4000)))


async def remind_by_command(scene: ChaosScene, rng: random.Random) -> None:
    name = f"r{scene.next_number()}"
    # The command itself takes time, too.
    at = soon(rng.uniform(1.5, 3))
    words = ("-m", words_of(name), "--at", at.isoformat(), "--id", name)
    if await scene.cli("reminder", "add", *words) == 0:
        scene.note_reminder(name, at)


async def remind_and_move(scene: ChaosScene, rng: random.Random) -> None:
    """Write a reminder for later, and then change its time to one second from now."""
    name = f"r{scene.next_number()}"
    scene.write_job(f"reminders/{name}.md", _reminder_file(name, soon(900)))
    await asyncio.sleep(rng.uniform(0, 0.8))
    at = soon(1)
    scene.note_reminder(name, at)
    scene.write_job(f"reminders/{name}.md", _reminder_file(name, at))


async def remind_by_halves(scene: ChaosScene, rng: random.Random) -> None:
    """Write a reminder as a slow editor does that writes into the file itself."""
    name = f"r{scene.next_number()}"
    pause = rng.uniform(0.1, 1)
    at = soon(pause + 1.5)
    scene.note_reminder(name, at)
    whole = _reminder_file(name, at)
    half = rng.randrange(len(whole))
    path = scene.bot.data / "reminders" / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(whole[:half])
    await asyncio.sleep(pause)
    with path.open("a") as file:
        file.write(whole[half:])


async def cancel(scene: ChaosScene, rng: random.Random) -> None:
    name = f"r{scene.next_number()}"
    scene.write_job(f"reminders/{name}.md", _reminder_file(name, soon(900)))
    await asyncio.sleep(rng.uniform(0, 0.4))
    if await scene.cli("reminder", "cancel", name) == 0:
        scene.record.note("cancelled", {"id": name})


async def add_errand(scene: ChaosScene, _: random.Random) -> None:
    """Add a task to `tasks.md`; what the owner says to the bot is called a task already."""
    title = f"Errand e{scene.next_number()}"
    if await scene.cli("tasks", "add", title) == 0:
        scene.record.note("errands", {"title": title})


async def tick_errand(scene: ChaosScene, rng: random.Random) -> None:
    """Show the open tasks, and press the button of one twice at the same time."""
    await add_errand(scene, rng)
    if not await send_command(scene, "/tasks"):
        return
    try:
        async with asyncio.timeout(TIMEOUT):
            cards = [each for each in await scene.bot.messages() if each["card"]]
            shown = [each for each in cards if each["card"]["title"] == "Tasks"][-1]
            buttons = [each for each in shown["card"]["buttons"] if each["label"] == "Done"]
            chosen = rng.choice(buttons)
            clicks = (scene.bot.click(shown["id"], chosen["custom_id"]) for _ in range(2))
            answers = await asyncio.gather(*clicks)
    except (*NO_ANSWER, IndexError):
        return
    if not all(each.get("is_error") for each in answers):
        title = shown["card"]["lines"][chosen["line"] - 1]["text"]
        scene.record.note("ticks", {"title": title})


async def run_routine(scene: ChaosScene, _: random.Random) -> None:
    await scene.cli("routine", "run", "byhand")


async def snooze(scene: ChaosScene, rng: random.Random) -> None:
    """Press the snooze button of a reminder twice at the same time."""
    if not _reminders_with_snooze(scene):
        await remind(scene, rng)
        try:
            await scene.discord.until(lambda: _reminders_with_snooze(scene), TIMEOUT)
        except TimeoutError:
            return
    message = rng.choice(_reminders_with_snooze(scene))
    custom_id = _button_id(message, SNOOZE)
    text = str(message.embeds[0].get("title", ""))
    for _ in range(2):
        scene.discord.click(message.id, custom_id)
    await asyncio.sleep(0.6)
    is_done = str(message.embeds[0].get("title", "")).startswith("⏱")
    scene.record.note("clicks", {"text": text, "is_certain": is_done})


def _reminders_with_snooze(scene: ChaosScene) -> list[Message]:
    return [each for each in scene.discord.said if _button_id(each, SNOOZE)]


def send_task(scene: ChaosScene, reply_to: str | None = None) -> str:
    """Say a task on Discord, which keeps it even if the bot does not run; return its id."""
    text = f"task t{scene.next_number()}"
    name = scene.discord.say(text, reply_to=reply_to)
    scene.record.note("owner", {"event": "said", "id": f"discord-{name}", "text": text})
    return name


def _button_id(message: Message, label: str) -> str:
    """The id of the button with this label; empty if there is none that can be pressed."""
    for each in message.buttons:
        if each.get("label") == label and not each.get("disabled"):
            return str(each["custom_id"])
    return ""


async def send_command(scene: ChaosScene, line: str) -> bool:
    """Whether the owner gets the answer that the command was carried out."""
    try:
        async with asyncio.timeout(TIMEOUT):
            answer = await scene.bot.command(line)
    except NO_ANSWER:
        return False
    return not answer.get("is_error")


def remind_at(scene: ChaosScene, at: datetime) -> None:
    """Write a reminder for an exact moment, which has to come."""
    name = f"r{scene.next_number()}"
    scene.note_reminder(name, at)
    scene.write_job(f"reminders/{name}.md", _reminder_file(name, at))


def _reminder_file(name: str, at: datetime) -> str:
    return f'---\nid: {name}\nrun-at: "{at.isoformat()}"\n---\n{words_of(name)}\n'


ACTIONS: Mapping[str, Action] = {
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
    "add an errand": add_errand,
    "tick an errand twice": tick_errand,
    "run a routine": run_routine,
    "snooze twice": snooze,
}
WEIGHTS: Mapping[str, int] = dict.fromkeys(ACTIONS, 2) | {
    "say on Discord": 4,
    "say on the page": 3,
    "remind": 4,
    "say and edit": 1,
    "say and delete": 1,
    "reply to a ping": 1,
    "begin a fork": 1,
    "clear": 1,
    "configure": 1,
    "be quiet": 1,
    "remind of the past": 1,
    "remind by halves": 1,
    "cancel a reminder": 1,
}
