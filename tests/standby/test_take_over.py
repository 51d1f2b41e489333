"""The real engine's conversation goes on at another machine, which has other folders."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from devtools.scripted_model import ScriptedModel
from tests.e2e.bot import Bot
from tests.e2e.conftest import running
from tests.kernel.engine.scene import spoken
from tests.postgres_server import new_url

from ollim_bot.kernel.engine.transcripts import Transcripts
from ollim_bot.offline.server import CallTool, MessagesServer, ModelRequest, Reply, Say

pytestmark = [pytest.mark.usefixtures("postgres"), pytest.mark.real_engine]

FIRST = "sleep 0.01"
CUT_OFF = "sleep 24"


POLICY = 'main_session:\n  additional_allowed: ["Bash(sleep *)"]\n'


def machine(home: Path, model: str, settings: dict[str, str]) -> Bot:
    bot = Bot(home, model, {**settings, "CLAUDE_CONFIG_DIR": str(home / "engine of this one")})
    bot.data.mkdir(parents=True)
    (bot.data / "tool-policy.yaml").write_text(POLICY)
    return bot


def record(bot: Bot, session: str | None) -> bytes:
    """All that is recorded of the session on the machine of the bot."""
    found = Transcripts(bot.environment()).files_of({str(session)})
    return b"".join(path.read_bytes() for _, path in found)


def is_continued(request: ModelRequest) -> bool:
    return "restarted" in request.last_user_text


def calls(command: str) -> Reply:
    return Reply((CallTool("Bash", {"command": command}),))


async def test_a_turn_that_was_cut_off_in_a_call_goes_on_at_another_machine(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with MessagesServer(model) as messages:
        settings = {"DATABASE_URL": new_url()}
        desk = machine(tmp_path / "desk", messages.url, settings)
        shelf = machine(tmp_path / "a longer place" / "shelf", messages.url, settings)
        async with running(desk), running(shelf):
            model.answers("A fine name.")
            assert await desk.ask("my cat is called Minka") == "A fine name."
            session = desk.session()
            model.then(calls(FIRST), calls(CUT_OFF))
            model.when(is_continued, Reply((Say("I have waited."),)))
            await desk.say("wait twice")
            await model.seen(3)
            await shelf.until(lambda: CUT_OFF.encode() in record(shelf, session))
            os.kill(desk.pid, signal.SIGKILL)
            await shelf.until(
                lambda: shelf.output.read_text().count("is running with its data") == 2
            )
            await shelf.reconnect()
            assert await shelf.answer(2) == "I have waited."
            assert shelf.session() == session
            asked = model.requests[-1]
            assert any("my cat is called Minka" in text for text in spoken(asked))
            ended, _, unknown = asked.last_user_text.partition("These calls failed, or")
            assert FIRST in ended
            assert CUT_OFF in unknown
            assert CUT_OFF not in ended
