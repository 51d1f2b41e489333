"""Another program that calls the webhooks, and repeats each call until it is accepted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

import aiohttp

from chaos.owner_actions import Action
from chaos.scene import SECRET, WEBHOOKS, ChaosScene

# Seconds after which the program stops waiting, and calls again later.
_TIMEOUT = 4.0
# The model numbers its own pings from 1, so that the numbers never meet.
_FIRST_PING = 100_000


async def call_webhook(scene: ChaosScene, rng: random.Random) -> None:
    """Make the same call twice at once, as a program does that does not wait for the answer."""
    number = _FIRST_PING + scene.next_number()
    scene.unaccepted[number] = rng.choice((*WEBHOOKS,))
    await asyncio.gather(*(call_again(scene, number) for _ in range(2)))


async def call_again(scene: ChaosScene, number: int) -> None:
    """Make a call of `unaccepted`, which stays there until the bot accepts it."""
    hook = scene.unaccepted.get(number)
    if hook is None:
        return
    try:
        async with asyncio.timeout(_TIMEOUT), aiohttp.ClientSession() as http:
            answer = await http.post(
                f"http://127.0.0.1:{scene.webhook_port}/hook/{hook}",
                json={"number": number},
                headers={"Authorization": f"Bearer {SECRET}", "Idempotency-Key": str(number)},
            )
            said = await answer.json()
    except (aiohttp.ClientError, TimeoutError):
        return
    if answer.status in (200, 202):
        scene.unaccepted.pop(number, None)
        scene.hits[f"a call that is {said['status']}"] += 1
        row = {"call": number, "is_plain": hook == "plain", "run": said["run"]}
        scene.record.note("calls", row)


ACTIONS: Mapping[str, Action] = {"call a webhook": call_webhook}
WEIGHTS: Mapping[str, int] = {"call a webhook": 4}
