"""Interactions must be answered in time, once, and in an allowed form."""

from __future__ import annotations

from typing import Any

import pytest
from devtools.localdiscord.interactions import Interaction
from tests.devtools.discord_server.rest_client import Reply, RestClient

COMMAND = {
    "name": "model",
    "description": "Which one",
    "options": [
        {"type": 3, "name": "name", "description": "Its name", "required": True},
        {"type": 3, "name": "why", "description": "A reason", "autocomplete": True},
    ],
}
BUTTON = {"type": 2, "style": 1, "label": "Yes", "custom_id": "y"}
BUTTONS = [{"type": 1, "components": [BUTTON]}]


async def called(rest: RestClient) -> Interaction:
    await rest.put_commands(COMMAND)
    return rest.server.slash("model", name="opus")


async def answer(rest: RestClient, of: Interaction, kind: int, **data: Any) -> Reply:
    path = f"/interactions/{of.id}/{of.token}/callback?with_response=1"
    return await rest.ask("POST", path, {"type": kind, "data": data})


async def follow_up(rest: RestClient, of: Interaction, **body: Any) -> Reply:
    return await rest.ask("POST", f"/webhooks/{rest.server.bot.id}/{of.token}", body)


async def test_an_interaction_is_answered_once(rest: RestClient) -> None:
    interaction = await called(rest)
    await answer(rest, interaction, 4, content="one")
    reply = await answer(rest, interaction, 4, content="two")
    assert (reply.status, reply.code) == (400, 40060)
    assert interaction.texts == ["one"]


async def test_nothing_follows_before_the_first_answer(rest: RestClient) -> None:
    interaction = await called(rest)
    reply = await follow_up(rest, interaction, content="early")
    assert (reply.status, reply.code) == (404, 10015)


async def test_an_unknown_interaction_is_unknown(rest: RestClient) -> None:
    interaction = await called(rest)
    reply = await rest.ask("POST", f"/interactions/{interaction.id}/wrong/callback", {"type": 5})
    assert (reply.status, reply.code) == (404, 10062)


@pytest.mark.parametrize("kind", [6, 7, 8, 99])
async def test_a_command_is_not_answered_as_a_click_is(rest: RestClient, kind: int) -> None:
    interaction = await called(rest)
    assert (await answer(rest, interaction, kind, content="x")).code == 50035
    assert (await answer(rest, interaction, 4, content="x")).status == 200


async def test_an_answer_is_held_to_the_limits_of_messages(rest: RestClient) -> None:
    interaction = await called(rest)
    assert (await answer(rest, interaction, 4, content="x" * 2001)).code == 50035
    assert (await answer(rest, interaction, 4, content="")).code == 50006
    assert interaction.answer is None


async def test_a_completion_offers_25_choices(rest: RestClient) -> None:
    await rest.put_commands(COMMAND)
    typing = rest.server.complete("model", "why", "be")
    choices = [{"name": str(number), "value": str(number)} for number in range(26)]
    assert (await answer(rest, typing, 8, choices=choices)).code == 50035
    assert (await answer(rest, typing, 8, choices=choices[:25])).status == 200
    assert len(await typing.choice_names()) == 25


async def test_people_cannot_do_what_is_not_there(rest: RestClient) -> None:
    await rest.put_commands(COMMAND)
    disabled = [{"type": 1, "components": [{**BUTTON, "disabled": True}]}]
    sent = (await rest.send("Sure?", components=disabled)).body["id"]
    with pytest.raises(LookupError):
        rest.server.slash("nothing")
    with pytest.raises(LookupError):
        rest.server.slash("model")
    with pytest.raises(LookupError):
        rest.server.slash("model", name="opus", more="x")
    with pytest.raises(LookupError):
        rest.server.complete("model", "name", "o")
    for custom_id in ("y", "z"):
        with pytest.raises(LookupError):
            rest.server.click(sent, custom_id)
    gone = (await rest.send("Sure?", components=BUTTONS)).body["id"]
    await rest.delete(gone)
    with pytest.raises(LookupError):
        rest.server.click(gone, "y")
