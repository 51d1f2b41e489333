"""Commands are put all at once, and have their form."""

from __future__ import annotations

from typing import Any

import pytest
from tests.discord_server.rest_client import RestClient

COMMAND = {"name": "model", "description": "Which one"}
OPTION = {"type": 3, "name": "name", "description": "Its name"}


@pytest.mark.parametrize(
    "wrong",
    [
        [{**COMMAND, "name": "Model"}],
        [{**COMMAND, "name": "two words"}],
        [{**COMMAND, "name": "x" * 33}],
        [{**COMMAND, "description": ""}],
        [{**COMMAND, "description": "x" * 101}],
        [COMMAND, COMMAND],
        [{**COMMAND, "options": [{**OPTION, "description": "x" * 101}]}],
        [{**COMMAND, "options": [OPTION, {**OPTION, "name": "b", "required": True}]}],
        [{**COMMAND, "options": [{**OPTION, "choices": [{"name": "", "value": ""}]}]}],
        [{**COMMAND, "options": [{**OPTION, "choices": [{"name": "a", "value": "a"}] * 26}]}],
    ],
)
async def test_commands_have_their_form(rest: RestClient, wrong: list[dict[str, Any]]) -> None:
    assert (await rest.put_commands(*wrong)).code == 50035
    assert rest.server.command_puts == 0


async def test_commands_that_are_put_again_keep_their_ids(rest: RestClient) -> None:
    [first] = (await rest.put_commands(COMMAND)).body
    [again] = (await rest.put_commands({**COMMAND, "description": "Another"})).body
    assert again["id"] == first["id"]
    assert rest.server.command_puts == 2
    assert rest.server.commands == [again]
