"""The whole bot on doubles, with an account at the local Google."""

from __future__ import annotations

from pathlib import Path

import pytest
from devtools.doubles.engine import ScriptedEngine
from devtools.doubles.surface import RecordingSurface
from tests.app.test_app import running, until
from tests.google.scene import google_scene
from tests.google.test_calendars import at

from ollim_bot.app.app import Adapters, App
from ollim_bot.domain.cards import Card
from ollim_bot.domain.ids import MessageId
from ollim_bot.settings import Settings
from ollim_bot.store.calendars import read_copies

pytestmark = pytest.mark.real_process


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
            await until(lambda: [copy.as_of for copy in read_copies(scene.paths)])
            (copy,) = read_copies(scene.paths)
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
