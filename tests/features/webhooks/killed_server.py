"""Run as a program: serve and call webhooks until killed, in one child process per moment.

Arguments: a folder, which gets one data directory per moment, and the number of moments. These are
before and after each COMMIT. Each child appends a line to `acknowledged` for every call that was
answered with 202.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from devtools.doubles.clock import ManualClock
from tests.features.webhooks.calls import bearer, call
from tests.features.webhooks.scene import DATA, SECRET, hook
from tests.kernel.store.killed_worker import CrashPoint, connecting, kill_at_each
from tests.kernel.store.scene import NOW, StoreScene

from ollim_bot.features.webhooks.webhook_server import WebhookServer
from ollim_bot.kernel.store.store import DatabaseStore

CALLERS = 2
CALLS = 20


async def live(place: StoreScene, moments: CrashPoint) -> None:
    clock = ManualClock(NOW)
    store = DatabaseStore(place.open(connection=connecting(moments)), clock)
    server = WebhookServer(0, {"rain": hook()}.get, lambda _: SECRET.encode(), store, clock)
    serving = asyncio.create_task(server.run())
    await server.ready()
    moments.is_armed = True
    for caller in range(CALLERS):
        arguments = (server.port, caller, place.root / "acknowledged")
        threading.Thread(target=call_all, args=arguments, daemon=True).start()
    await serving


def call_all(port: int, caller: int, file: Path) -> None:
    with file.open("ab", buffering=0) as acknowledged:
        for number in range(CALLS):
            key = f"key-{caller}-{number}"
            answer = call(port, "rain", DATA, bearer(SECRET, key))
            assert answer.status == 202
            acknowledged.write(f"{key}\n".encode())


if __name__ == "__main__":
    kill_at_each(lambda place, moments: asyncio.run(live(place, moments)))
