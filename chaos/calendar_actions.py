"""What the owner does with calendars, and the calendars that fail meanwhile."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from chaos.calendar_server import FeedFault
from chaos.owner_actions import NO_ANSWER, Action
from chaos.scene import ChaosScene

# Seconds for a pasted address, whose calendar is read before the answer.
_PASTE_TIMEOUT = 10.0
_MOST_EVENTS = 3
# Each subscribed calendar makes every reading of all of them slower.
_MOST_FEEDS = 3


async def subscribe(scene: ChaosScene, rng: random.Random) -> None:
    feed = await _new_feed(scene, rng)
    address = f"{scene.calendars.address(feed)}\n"
    _note(scene, feed, "subscribing")
    if await scene.cli("cal", "subscribe", "-", "--name", feed, typed=address) == 0:
        _note_subscribed(scene, feed)


async def paste_address(scene: ChaosScene, rng: random.Random) -> None:
    """Paste the address into the page, where the bot subscribes to it and hides it."""
    feed = await _new_feed(scene, rng)
    _note(scene, feed, "subscribing")
    name = str(uuid4())
    scene.unsent_addresses[name] = feed
    await send_address(scene, name)


async def send_address(scene: ChaosScene, name: str) -> None:
    """Send a pasted address. It stays in `unsent_addresses` until the bot confirms it."""
    feed = scene.unsent_addresses[name]
    try:
        async with asyncio.timeout(_PASTE_TIMEOUT):
            await scene.bot.say(scene.calendars.address(feed), message_id=name)
            shown = await scene.bot.messages()
    except NO_ANSWER:
        return
    del scene.unsent_addresses[name]
    answers = [str(each["text"]) for each in shown if each["id"] == f"answer-{name}"]
    # After a crash, the same address comes again.
    if any(" is added, " in text or " is there already" in text for text in answers):
        scene.hits["address of a calendar pasted"] += 1
        _note_subscribed(scene, feed)


async def change_calendar(scene: ChaosScene, rng: random.Random) -> None:
    """Other events, which the owner wants to see now, or which the bot finds at its start."""
    await offer_new_events(scene, rng)
    if rng.random() < 0.5:
        await read_calendars(scene)
    else:
        await _restart(scene)


async def offer_new_events(scene: ChaosScene, rng: random.Random) -> str:
    """Change a subscribed calendar, and return its name."""
    if not scene.subscribed:
        await subscribe(scene, rng)
    if not scene.subscribed:
        return await _new_feed(scene, rng)
    feed = rng.choice(scene.subscribed)
    _offer(scene, feed, rng)
    return feed


async def unsubscribe(scene: ChaosScene, rng: random.Random) -> None:
    if not scene.subscribed:
        await subscribe(scene, rng)
    if scene.subscribed:
        await _remove(scene, rng.choice(scene.subscribed))


async def read_calendars(scene: ChaosScene) -> None:
    """Let the command read all calendars, and note which of them it has read."""
    unreadable = [each for each in scene.subscribed if not scene.calendars.is_readable(each)]
    code = await scene.cli("cal", "refresh")
    scene.record.note("refreshes", {"code": code, "unreadable": unreadable})
    for feed in scene.subscribed:
        if feed not in unreadable:
            _note(scene, feed, "read", titles=scene.calendars.newest(feed).titles)


async def read_all_again(scene: ChaosScene) -> None:
    """Subscribe to what is still unsent, and read the calendars if one of them was used."""
    for name in list(scene.unsent_addresses):
        await send_address(scene, name)
    if scene.has_used_calendars:
        scene.has_used_calendars = False
        _note_copies(scene)
        await read_calendars(scene)


def _note_copies(scene: ChaosScene) -> None:
    """Note what the faults have left of each calendar, before it is read again."""
    for feed in scene.subscribed:
        name = _name_of(scene, feed)
        for copy in _stored(scene, "[!.]*.json"):
            if copy["name"] == name and "events" in copy:
                titles = [event["summary"] for event in copy["events"]]
                _note(scene, feed, "seen", titles=titles)


async def _fail_calendar(fault: FeedFault, scene: ChaosScene, rng: random.Random) -> None:
    """Let a calendar fail while the bot or the command reads it; it must keep what it had."""
    feed = await offer_new_events(scene, rng)
    scene.calendars.fail(feed, fault)
    scene.undo.callback(scene.calendars.mend)
    if fault is FeedFault.HANGS:
        await _restart(scene)
        await asyncio.sleep(rng.uniform(0.5, 2))
        # A command would wait longer for this calendar than a step may take.
        scene.calendars.mend()
    elif rng.random() < 0.3:
        await _restart(scene)
    else:
        await read_calendars(scene)


async def _restart(scene: ChaosScene) -> None:
    """The bot reads all calendars when it starts."""
    await scene.kill()
    await scene.start()


async def _new_feed(scene: ChaosScene, rng: random.Random) -> str:
    if len(scene.subscribed) >= _MOST_FEEDS:
        await _remove(scene, scene.subscribed[0])
    feed = f"c{scene.next_number()}"
    _offer(scene, feed, rng)
    return feed


def _offer(scene: ChaosScene, feed: str, rng: random.Random) -> None:
    version = scene.calendars.offer(feed, rng.randint(1, _MOST_EVENTS))
    scene.has_used_calendars = True
    _note(scene, feed, "offered", titles=version.titles)


async def _remove(scene: ChaosScene, feed: str) -> None:
    _note(scene, feed, "removing")
    scene.subscribed.remove(feed)
    scene.has_used_calendars = True
    if await scene.cli("cal", "unsubscribe", _name_of(scene, feed)) == 0:
        _note(scene, feed, "removed")


def _name_of(scene: ChaosScene, feed: str) -> str:
    """The name that the program or the owner gave to the calendar."""
    address = scene.calendars.address(feed)
    sources = _stored(scene, "[!.]*.source.json")
    return next((each["name"] for each in sources if each["address"] == address), feed)


def _stored(scene: ChaosScene, pattern: str) -> Iterator[Mapping[str, Any]]:
    """The JSON files of the calendars whose names match; the bot may remove one meanwhile."""
    for path in (scene.bot.data / "state" / "calendars").glob(pattern):
        with suppress(OSError, ValueError):
            yield json.loads(path.read_bytes())


def _note_subscribed(scene: ChaosScene, feed: str) -> None:
    scene.subscribed.append(feed)
    _note(scene, feed, "subscribed")


def _note(scene: ChaosScene, feed: str, event: str, **facts: object) -> None:
    scene.record.note("feeds", {"feed": feed, "event": event, **facts})


ACTIONS: Mapping[str, Action] = {
    "subscribe to a calendar": subscribe,
    "paste a calendar address": paste_address,
    "change a calendar": change_calendar,
    "unsubscribe from a calendar": unsubscribe,
    **{f"calendar {fault}": partial(_fail_calendar, fault) for fault in FeedFault},
}
WEIGHTS: Mapping[str, int] = dict.fromkeys(ACTIONS, 1) | {
    "paste a calendar address": 2,
    "change a calendar": 2,
}
