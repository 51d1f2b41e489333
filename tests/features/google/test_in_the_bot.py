"""The whole bot on doubles with a local Google: connected, used and missed in the chat."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from devtools.doubles.engine import ScriptedEngine
from devtools.doubles.surface import RecordingSurface
from tests.app.test_app import running, until, until_told
from tests.features.google.scene import Browser, google_scene
from tests.features.google.test_calendars import at
from tests.stores import memory_stores

from ollim_bot.app.app import Adapters, App
from ollim_bot.kernel.base.errors import SignInNeeded
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.store.calendar_files import readable_copies
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import IncomingMessage

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


async def test_calendars_are_read_tasks_are_shown_and_ticked_and_the_move_is_offered(
    tmp_path: Path,
) -> None:
    surface = RecordingSurface()

    def cards() -> list[tuple[MessageId, Card]]:
        return [(each.id, each.card) for each in surface.posts if each.card is not None]

    with google_scene(tmp_path / "data") as scene:
        scene.connect()
        scene.google.tasks.add("water")
        scene.google.calendar.add(summary="Talk", start=at(14), end=at(15))
        scene.paths.tasks.write_text("- [ ] call mum\n")
        settings = Settings.from_env(
            {
                "HOME": str(tmp_path),
                "OLLIM_DATA_DIR": str(tmp_path / "data"),
                "OLLIM_TIMEZONE": "Europe/Berlin",
                **scene.google.environment,
            },
            cwd=tmp_path,
        )
        adapters = Adapters(clock=scene.clock, engine=ScriptedEngine(), surfaces=[surface])
        async with running(App(settings, adapters)):
            await until(lambda: [copy.as_of for copy in readable_copies(scene.paths)])
            (copy,) = readable_copies(scene.paths)
            assert [event.summary for event in copy.events] == ["Talk"]

            await until(lambda: any("Move 1 task" in card.title for _, card in cards()))
            chat = surface.receptions[0]
            offer, card = next(each for each in cards() if "Move 1 task" in each[1].title)
            said = await chat.click("web", offer, card.buttons[0].custom_id)
            assert not said.is_error
            assert scene.google.tasks.open_titles == ["water", "call mum"]
            assert scene.paths.tasks.read_text() == ""

            assert not (await chat.command("web", "/tasks")).is_error
            await until(lambda: any(card.lines for _, card in cards()))
            listed, card = next(each for each in cards() if each[1].lines)
            said = await chat.click("web", listed, card.buttons[0].custom_id)
            assert not said.is_error
            assert len(scene.google.tasks.open_titles) == 1
