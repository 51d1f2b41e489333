"""A webhook server on a free port, with hooks and secrets that a test can change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from devtools.doubles.clock import ManualClock, run_ready_tasks
from tests.features.webhooks import calls
from tests.stores import Stores, memory_stores

from ollim_bot.features.webhooks.webhook_server import WebhookLimits, WebhookServer
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.store.webhook_format import WEBHOOKS
from ollim_bot.kernel.values.hook_jobs import WebhookSpec

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
SECRET = "the common secret"
TITLE = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
DATA = {"title": "It rains"}


def hook(hook_id: str = "rain", **fields: object) -> WebhookSpec:
    """The fields are named as in a file, with underscores for hyphens."""
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return WEBHOOKS.made({"id": hook_id, "fields": TITLE, **named}, "Look at the data.")


@dataclass
class HookScene:
    stores: Stores
    clock: ManualClock
    hooks: dict[str, WebhookSpec] = field(default_factory=dict)
    secrets: dict[str | None, bytes] = field(default_factory=dict)
    port: int = 0

    def add(self, *hooks: WebhookSpec) -> None:
        self.hooks |= {one.spec.id: one for one in hooks}

    async def call(
        self,
        hook_id: str = "rain",
        data: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "POST",
    ) -> calls.HookAnswer:
        """Call a hook, with the right bearer secret unless there are other headers."""
        headers = calls.bearer(SECRET) if headers is None else headers
        sent = DATA if data is None else data
        return await asyncio.to_thread(calls.call, self.port, hook_id, sent, headers, method=method)

    async def configure(self, **values: object) -> None:
        """Set keys of the runtime configuration, and wait until the server has read them."""

        def step(tx: Transaction) -> None:
            for key, value in values.items():
                tx.config.put(tx.config.get().with_value(key, value))

        await self.stores.state.transact(step)
        await run_ready_tasks()

    @property
    def accepted(self) -> list[tuple[str, Mapping[str, object]]]:
        def step(tx: Transaction) -> list[tuple[str, Mapping[str, object]]]:
            calls, _ = tx.webhook_deliveries.open_after(0)
            found = (tx.webhook_deliveries.get(one) for one in calls)
            return [(call.occurrence.id, call.fields) for call in found if call is not None]

        return self.stores.state.query(step)


def new_scene() -> HookScene:
    clock = ManualClock(NOW)
    scene = HookScene(memory_stores(clock.now), clock, secrets={None: SECRET.encode()})
    scene.add(hook())
    return scene


@asynccontextmanager
async def serving(
    scene: HookScene, limits: WebhookLimits | None = None
) -> AsyncIterator[HookScene]:
    server = WebhookServer(
        0, scene.hooks.get, scene.secrets.get, scene.stores.state, scene.clock, limits
    )
    task = asyncio.create_task(server.run())
    try:
        await server.ready()
        scene.port = server.port
        yield scene
    finally:
        task.cancel()
        await asyncio.wait({task})
