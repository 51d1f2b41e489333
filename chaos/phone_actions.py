"""What the owner does on the phones, and what strangers write to their topics."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Mapping

from devtools.localntfy.phone import Notification, Phone

from chaos.owner_actions import NO_ANSWER, SNOOZE, TIMEOUT, Action, remind_at
from chaos.phones import reminder_on
from chaos.scene import ChaosScene, soon, words_of

DONE = "Done"
_LABELS = (DONE, SNOOZE)
# A reminder comes within three seconds, and then has to come by the server.
_CARD_WITHIN = 8.0


async def press(scene: ChaosScene, rng: random.Random) -> None:
    if card := await a_card(scene, rng):
        await scene.phones.press(scene.phones.first, card, rng.choice(_LABELS))


async def press_twice(scene: ChaosScene, rng: random.Random) -> None:
    """Press one button twice at the same time."""
    if card := await a_card(scene, rng):
        label, phones = rng.choice(_LABELS), scene.phones
        presses = (phones.press(phones.first, card, label) for _ in range(2))
        await asyncio.gather(*presses)


async def press_on_both(scene: ChaosScene, rng: random.Random) -> None:
    """Press on both phones, perhaps different buttons."""
    if card := await a_card(scene, rng):
        pressed = (scene.phones.press(each, card, rng.choice(_LABELS)) for each in _both(scene))
        await asyncio.gather(*pressed)


async def press_while_dead(scene: ChaosScene, rng: random.Random) -> None:
    """The server keeps the press for a bot that does not run."""
    card = await a_card(scene, rng)
    await scene.kill()
    scene.hits["kill -9"] += 1
    if card is not None:
        for each in _both(scene)[: rng.randint(1, 2)]:
            await scene.phones.press(each, card, rng.choice(_LABELS))
        scene.hits["pressed while the bot was dead"] += 1
    await scene.start()


async def answer_and_press(scene: ChaosScene, rng: random.Random) -> None:
    """Answer on the page, and press the button of the same card on the phone a moment later."""
    card = await a_card(scene, rng)
    if card is None:
        return
    try:
        async with asyncio.timeout(TIMEOUT):
            await _click_on_page(scene, reminder_on(card))
    except (*NO_ANSWER, LookupError):
        return
    await asyncio.sleep(rng.uniform(0, 0.5))
    await scene.phones.press(scene.phones.first, card, rng.choice(_LABELS))
    scene.hits["pressed after an answer on the page"] += 1


async def _click_on_page(scene: ChaosScene, name: str) -> None:
    for message in await scene.bot.messages():
        if message["card"] and message["text"] == words_of(name):
            (done,) = [one for one in message["card"]["buttons"] if one["label"] == DONE]
            await scene.bot.click(message["id"], done["custom_id"])
            return
    raise LookupError(name)


async def write_as_stranger(scene: ChaosScene, rng: random.Random) -> None:
    """A stranger knows the names of both topics, and writes commands, garbage and forgeries."""
    mark = f"stranger s{scene.next_number()}"
    forged = secrets.token_hex(12)
    for topic in (scene.phones.topic, scene.phones.reply_topic):
        for text in (f"/clear {mark}", f"task {mark}", forged, f"{mark} " * 500, f"{mark}\0\n{{"):
            if rng.random() < 0.5:
                scene.phones.server.write(topic, text, title=mark)
    scene.hits["strangers wrote to the phone's topics"] += 1


def _both(scene: ChaosScene) -> list[Phone]:
    return [*scene.phones.both]


async def a_card(scene: ChaosScene, rng: random.Random) -> Notification | None:
    """A reminder on the phone that can be answered; if there is none, the owner sets one."""
    if not _cards(scene):
        remind_at(scene, soon(rng.uniform(-0.9, 1)))
        try:
            await scene.phones.first.until(lambda: _cards(scene), _CARD_WITHIN)
        except TimeoutError:
            return None
    return rng.choice(_cards(scene))


def _cards(scene: ChaosScene) -> list[Notification]:
    shown = scene.phones.first.shown
    return [each for each in shown if reminder_on(each) and {*_LABELS} <= {*each.labels}]


ACTIONS: Mapping[str, Action] = {
    "press on the phone": press,
    "press on the phone twice": press_twice,
    "press on both phones": press_on_both,
    "press while the bot is dead": press_while_dead,
    "answer, then press on the phone": answer_and_press,
    "a stranger writes to the phone": write_as_stranger,
}
WEIGHTS: Mapping[str, int] = dict.fromkeys(ACTIONS, 1) | {
    "press on the phone": 3,
    "press while the bot is dead": 2,
}
