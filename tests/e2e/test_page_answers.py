"""What the page's server answers to addresses and words that mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from devtools.scripted_model import ScriptedModel
from tests.e2e.conftest import Scene, running
from tests.e2e.in_process_bot import InProcessBot

from ollim_bot.surfaces.web import frames


@pytest.mark.same_fixtures
@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("panels/run?id=nothing", "There is no run nothing."),
        ("panels/job?id=nothing", "There is no job nothing."),
        ("panels/job?id=routine:nothing", "There is no job routine:nothing."),
        ("panels/week?hour=2001-01-01T05", "Nothing comes in that hour any more."),
        ("messages/around?id=nothing", frames.NO_MESSAGE),
        ("attachments/nothing/0", frames.NO_ATTACHMENT),
    ],
)
async def test_an_id_that_nothing_has_is_not_found(
    in_process: Scene, address: str, sentence: str
) -> None:
    bot = in_process.bot
    async with bot.http.get(f"{bot.url}/api/{address}") as answer:
        assert (answer.status, sentence in (await answer.json())["error"]) == (404, True)


async def test_a_time_that_the_clocks_skip_is_moved_and_shown(tmp_path: Path) -> None:
    berlin = {"OLLIM_TIMEZONE": "Europe/Berlin"}
    async with running(InProcessBot(tmp_path, ScriptedModel(), berlin)) as bot:
        asked = {"action": "add", "fields": {"line": "tea on 28 march 2027 at 2:30"}}
        async with bot.http.post(f"{bot.url}/api/panels/today/previews", json=asked) as answer:
            assert answer.status == 200
            assert "Sun 28 Mar 2027, 3:00" in (await answer.json())["html"]
