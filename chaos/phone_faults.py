"""The faults of the server that reaches the owner's phones."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from functools import partial

from devtools.localdiscord.faults import AnswerHanging, AnswerLost, Delayed, Dropped
from devtools.localntfy.protocol import Refusal
from devtools.localntfy.server import Fault

from chaos.owner_actions import Action, remind, remind_at
from chaos.phone_actions import DONE, a_card, press
from chaos.scene import ChaosScene, comes_true, soon
from chaos.write_faults import restart_after_crash

# In seconds.
_PUSHED_WITHIN = 8.0
_PUBLISH, _CLEAR, _READ = "POST /", "PUT /*/clear", "GET /*/json"

SERVER_FAULTS: Mapping[str, tuple[str, Fault]] = {
    "phone: answer to a push lost": (_PUBLISH, AnswerLost()),
    "phone: push dropped": (_PUBLISH, Dropped()),
    "phone: push hangs, done": (_PUBLISH, AnswerHanging()),
    "phone: push fails with 500": (_PUBLISH, Refusal(500)),
    "phone: push is slow": (_PUBLISH, Delayed(0.8)),
    "phone: 429": (_PUBLISH, Refusal(429, 42901, 1.0)),
    "phone: answer to a clear lost": (_CLEAR, AnswerLost()),
    "phone: reading fails with 503": (_READ, Refusal(503)),
}


async def _fail(name: str, scene: ChaosScene, rng: random.Random) -> None:
    """Let the server fail, and do something that makes the bot use it."""
    pattern, fault = SERVER_FAULTS[name]
    scene.phones.server.next_fail(pattern, fault)
    scene.phones.planned[name, pattern] += 1
    if pattern == _CLEAR:
        if card := await a_card(scene, rng):
            await scene.phones.press(scene.phones.first, card, DONE)
        return
    remind_at(scene, soon(-1))


async def kill_before_confirming(scene: ChaosScene, rng: random.Random) -> None:
    """Kill after the server has taken a push, and before the bot knows."""
    name = "phone: push hangs, done"
    pattern, fault = SERVER_FAULTS[name]
    server, before = scene.phones.server, len(scene.phones.pushes)
    server.next_fail(pattern, fault)
    scene.phones.planned[name, pattern] += 1
    await remind(scene, rng)
    try:
        await server.until(lambda: len(scene.phones.pushes) > before, 6.0)
    except TimeoutError:
        return
    await scene.kill()
    scene.hits["kill -9"] += 1
    scene.hits["kill between push and confirmation"] += 1
    await restart_after_crash(scene, rng)


async def kill_after_press(scene: ChaosScene, rng: random.Random) -> None:
    """Kill while the bot may be taking a press, or has just taken it."""
    await press(scene, rng)
    await asyncio.sleep(rng.uniform(0, 0.4))
    await scene.kill()
    scene.hits["kill -9"] += 1
    scene.hits["kill after a press"] += 1
    await restart_after_crash(scene, rng)


async def outage(scene: ChaosScene, rng: random.Random) -> None:
    await scene.phones.server.refuse_connections()
    try:
        await remind(scene, rng)
        await asyncio.sleep(rng.uniform(0.5, 4))
    finally:
        await scene.phones.server.accept_again()
    scene.hits["the phone's server away"] += 1


async def restart(scene: ChaosScene, rng: random.Random) -> None:
    """The server restarts with what it kept."""
    await remind(scene, rng)
    await scene.phones.server.restart(is_cache_kept=True)
    scene.hits["the phone's server restarted"] += 1


async def forget(scene: ChaosScene, rng: random.Random) -> None:
    """The server restarts with an empty cache, and the next reminder rings there nevertheless.

    What it gets before and loses cannot be looked up: the bot gives that up only after minutes, so
    the answer to a push is not lost here.
    """
    scene.phones.server.mend()
    await comes_true(lambda: not scene.record.has_open("ntfy"), _PUSHED_WITHIN)
    await scene.phones.forget()
    scene.hits["the phone's server forgot all"] += 1
    before = len(scene.phones.pushes)
    await remind(scene, rng)
    await comes_true(lambda: len(scene.phones.pushes) > before, _PUSHED_WITHIN)


async def drop_streams(scene: ChaosScene, _: random.Random) -> None:
    scene.phones.server.drop_streams()
    scene.hits["the phone's stream dropped"] += 1


async def mute_streams(scene: ChaosScene, rng: random.Random) -> None:
    """The streams stay open without a word, until the bot has to settle."""
    scene.phones.server.mute_streams()
    scene.undo.callback(scene.phones.server.drop_streams)
    scene.hits["the phone's stream mute"] += 1
    await remind(scene, rng)


FAULTS: Mapping[str, Action] = {
    "kill before the phone confirms": kill_before_confirming,
    "kill after a press": kill_after_press,
    "the phone's server away": outage,
    "the phone's server restarts": restart,
    "the phone's server forgets": forget,
    "drop the phone's stream": drop_streams,
    "mute the phone's stream": mute_streams,
    **{name: partial(_fail, name) for name in SERVER_FAULTS},
}
WEIGHTS: Mapping[str, int] = dict.fromkeys(FAULTS, 1) | {
    "phone: answer to a push lost": 2,
    "kill after a press": 2,
    "kill before the phone confirms": 2,
}
COUNTED_FAULTS: tuple[str, ...] = (
    "kill between push and confirmation",
    "kill after a press",
    "pressed while the bot was dead",
    "pressed after an answer on the page",
    "strangers wrote to the phone's topics",
    "the phone's server away",
    "the phone's server restarted",
    "the phone's server forgot all",
    "the phone's stream dropped",
    "the phone's stream mute",
    *SERVER_FAULTS,
)
