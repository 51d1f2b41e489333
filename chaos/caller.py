"""Another program that calls the webhooks, and calls again until it is told that it was heard."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

import aiohttp

from chaos.acts import Act
from chaos.stage import SECRET, WEBHOOKS, Stage

# Whoever waits longer calls again later.
_PATIENCE = 4.0
# The model counts its own pings from one.
_FIRST_PING = 100_000


async def call_webhook(stage: Stage, luck: random.Random) -> None:
    """Twice in the same moment, as one does that did not wait for the answer."""
    number = _FIRST_PING + stage.next_number()
    stage.unaccepted[number] = luck.choice((*WEBHOOKS,))
    await asyncio.gather(*(call_again(stage, number) for _ in range(2)))


async def call_again(stage: Stage, number: int) -> None:
    """Until it is accepted, the caller keeps a call and makes it again."""
    hook = stage.unaccepted.get(number)
    if hook is None:
        return
    try:
        async with asyncio.timeout(_PATIENCE), aiohttp.ClientSession() as http:
            answer = await http.post(
                f"http://127.0.0.1:{stage.webhook_port}/hook/{hook}",
                json={"number": number},
                headers={"Authorization": f"Bearer {SECRET}", "Idempotency-Key": str(number)},
            )
            said = await answer.json()
    except (aiohttp.ClientError, TimeoutError):
        return
    if answer.status in (200, 202):
        stage.unaccepted.pop(number, None)
        stage.hits[f"a call that is {said['status']}"] += 1
        row = {"call": number, "is_plain": hook == "plain", "run": said["run"]}
        stage.record.note("calls", row)


ACTS: Mapping[str, Act] = {"call a webhook": call_webhook}
WEIGHTS: Mapping[str, int] = {"call a webhook": 4}
