"""The whole bot with a local Google: connected in the chat, missed in the chat."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from devtools.doubles.engine import ScriptedEngine
from devtools.doubles.surface import RecordingSurface
from tests.app.test_app import running, until, until_told
from tests.google.scene import Browser, google_scene
from tests.stores import memory_stores

from ollim_bot.app.app import Adapters, App
from ollim_bot.domain.chat import Author
from ollim_bot.domain.inbox import InputId
from ollim_bot.errors import SignInNeeded
from ollim_bot.ports import IncomingMessage
from ollim_bot.settings import Settings
from ollim_bot.store.calendars import readable_copies

pytestmark = pytest.mark.real_process

CONNECTED = "Google is connected as ada@example.com: tasks, calendar and mail."


async def test_google_is_connected_and_missed_in_the_chat(tmp_path: Path) -> None:
    with google_scene(tmp_path / "data") as scene:
        scene.write_credentials()
        environ = {"HOME": str(tmp_path), "OLLIM_DATA_DIR": str(tmp_path / "data")}
        settings = Settings.from_env(environ | scene.google.environment, cwd=tmp_path)
        surface, engine, clock = RecordingSurface(), ScriptedEngine(), scene.clock
        stores = memory_stores(clock.now)
        parts = Adapters(clock=clock, engine=engine, surfaces=[surface], store=stores.state)
        async with running(App(settings, parts)):
            await until(lambda: surface.receptions)
            chat = surface.receptions[0]
            for _ in range(2):
                link = re.search(r"\((\S+)\)", (await chat.command("test", "/google-auth")).text)
                assert link is not None
                address = await asyncio.to_thread(Browser().open, link[1])
            await chat.receive(IncomingMessage(InputId("m1"), "test", address))
            await until(lambda: CONNECTED in surface.posted_by(Author.PROGRAM))
            assert surface.posted_by(Author.OWNER) == ["Google sign-in address (hidden)"]

            scene.google.calendar.add_calendar("team", "Team")
            stores.state.run(
                lambda tx: tx.config.change(
                    lambda config: config.with_value("google_calendars", ("primary", "team"))
                )
            )
            await until(lambda: "Team" in {copy.name for copy in readable_copies(scene.paths)})

            scene.google.sign_ins.revoke_everything()
            with pytest.raises(SignInNeeded):
                await asyncio.to_thread(scene.client().call, "GET", "/tasks/v1/users/@me/lists")
            await until_told("at Google was revoked or has expired", surface, clock)
        assert engine.prompts == []
        told = [each for each in surface.posted_by(Author.PROGRAM) if "was revoked" in each]
        assert len(told) == 1
