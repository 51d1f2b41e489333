"""A backup of the running bot, restored under another home, goes on with the old memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.bot import Bot
from tests.e2e.conftest import Scene, running
from tests.kernel.engine.scene import spoken

from ollim_bot.surfaces.terminal.main import main

pytestmark = pytest.mark.real_process


@pytest.mark.real_engine
async def test_a_restored_bot_answers_with_the_old_memory(scene: Scene, tmp_path: Path) -> None:
    old, model = scene.bot, scene.model
    model.answers("A fine name.", "Done.", "Minka.")
    await old.ask("my cat is called Minka")
    session = old.session()
    file = tmp_path / "moving.tar.gz"
    assert main(["backup", str(file)], environ=old.environment(), cwd=tmp_path) == 0
    await old.ask("this is said after the backup")
    assert await old.stop() == 0

    elsewhere = tmp_path / "another home"
    elsewhere.mkdir()
    new = Bot(elsewhere, old.environment()["ANTHROPIC_BASE_URL"])
    assert main(["restore", str(file)], environ=new.environment(), cwd=elsewhere) == 0
    async with running(new):
        await new.until(lambda: _says(new, "I am back from the backup made"))
        assert not _says(new, "cut off without warning")
        assert await new.ask("what is my cat called?") == "Minka."
        asked = spoken(model.requests[-1])
        assert any("my cat is called Minka" in text for text in asked)
        assert not any("this is said after the backup" in text for text in asked)
        assert any("I am back from the backup" in text for text in asked), "the agent knows too"
        assert new.session() == session


def _says(bot: Bot, words: str) -> bool:
    return any(words in each.message.text for each in bot.log())
