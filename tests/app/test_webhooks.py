"""The webhook server in the whole bot: when it is on, what it knows, and when its port is taken."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from devtools.doubles.engine import ScriptedEngine
from devtools.doubles.surface import RecordingSurface
from tests.app.test_app import until
from tests.features.webhooks.calls import HookAnswer, bearer, call
from tests.patience import patience
from tests.ports import unused_port

from ollim_bot.app.app import Adapters, App
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.values.chat import Author

pytestmark = pytest.mark.real_process

FIELDS = "fields: {type: object, properties: {n: {type: integer}}}\n"


class WebhookBot:
    def __init__(self, home: Path, **variables: str) -> None:
        self.folder = home / "data" / "webhooks"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = unused_port()
        self.surface = RecordingSurface()
        environ = {
            "HOME": str(home),
            "OLLIM_DATA_DIR": str(home / "data"),
            "OLLIM_TIMEZONE": "UTC",
            "WEBHOOK_PORT": str(self.port),
            "WEBHOOK_SECRET": "common",
            **variables,
        }
        settings = Settings.from_env(environ, cwd=home)
        self.app = App(settings, Adapters(engine=ScriptedEngine(), surfaces=[self.surface]))

    def write(self, hook_id: str, more: str = "") -> None:
        (self.folder / f"{hook_id}.md").write_text(
            f"---\nid: {hook_id}\n{FIELDS}{more}---\nLook.\n"
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.app.run())
        try:
            async with asyncio.timeout(patience()):
                yield
        finally:
            self.app.stop()
            await asyncio.wait({task})

    async def call(self, hook_id: str, secret: str = "common", key: str = "") -> HookAnswer:
        headers = bearer(secret, key or None)
        return await asyncio.to_thread(call, self.port, hook_id, {"n": 1}, headers)

    async def until(self, hook_id: str, status: int, secret: str = "common") -> None:
        """Wait until a call gets this status. Its key keeps it from being accepted twice."""
        while True:
            try:
                if (await self.call(hook_id, secret, "key")).status == status:
                    return
            except OSError:
                pass
            await asyncio.sleep(0.02)


async def test_hooks_are_known_from_the_first_answer_on_and_followed_afterwards(
    tmp_path: Path,
) -> None:
    bot = WebhookBot(tmp_path, OWN_SECRET="own")
    bot.write("one")
    bot.write("two", "secret-env: OWN_SECRET\n")
    async with bot.running():
        # Until the jobs are known nothing listens, so that no call is answered with 404.
        while True:
            try:
                first = await bot.call("one")
                break
            except OSError:
                await asyncio.sleep(0.02)
        assert first.status == 202
        assert (await bot.call("two")).status == 401
        assert (await bot.call("two", "own")).status == 202
        bot.write("three")
        await bot.until("three", 202)
        bot.write("one", "enabled: false\n")
        await bot.until("one", 404)
        bot.write("two")
        await bot.until("two", 202)
        (bot.folder / "three.md").unlink()
        await bot.until("three", 404)


async def test_without_a_port_nothing_listens(tmp_path: Path) -> None:
    bot = WebhookBot(tmp_path, WEBHOOK_PORT="")
    async with bot.running():
        await until(lambda: bot.surface.receptions)
        with pytest.raises(ConnectionRefusedError):
            await bot.call("one")


async def test_a_taken_port_is_told_and_tried_again(tmp_path: Path) -> None:
    bot = WebhookBot(tmp_path)
    bot.write("one")
    with socket.socket() as other:
        other.bind(("127.0.0.1", bot.port))
        other.listen()
        async with bot.running():
            told = f"Webhooks cannot use port {bot.port}: another program has it."
            await until(lambda: told in "".join(bot.surface.posted_by(Author.PROGRAM)))
            other.close()
            await bot.until("one", 202)
