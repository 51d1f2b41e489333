"""`/help`: one line and a button for each need, which shows its few lines in place."""

from __future__ import annotations

import re

import pytest
from tests.conversation.scene import Scene, scene, scripted

from ollim_bot.conversation.commands.dispatcher import COMMANDS
from ollim_bot.conversation.commands.help import HELP_TOPICS, help_card
from ollim_bot.domain.cards import Card

_DESTROYS = {"clear", "restart", "interrupt", "compact"}


async def press(at: Scene, label: str) -> None:
    message = at.log[-1]
    assert message.card is not None
    button = next(each for each in message.card.buttons if each.label == label)
    assert not (await at.chat.click("web", message.id, button.custom_id)).is_error


def shown(at: Scene) -> Card:
    card = at.log[-1].card
    assert card is not None
    return card


async def test_help_is_one_line_and_a_button_for_each_need() -> None:
    async with scene(scripted()) as at:
        assert (await at.chat.command("web", "/help")).text == ""
        card = shown(at)
        assert card.problems() == []
        assert "\n" not in card.description
        assert [button.label for button in card.buttons] == [
            each.label for each in HELP_TOPICS.values()
        ]


async def test_a_need_shows_its_lines_in_place_and_leads_to_the_others() -> None:
    async with scene(scripted()) as at:
        await at.chat.command("web", "/help")
        await press(at, "Remind me once")
        await press(at, "Start afresh")
        assert len(at.log) == 1
        assert shown(at).title == "Start afresh"
        assert "Undo brings the old one back" in shown(at).description
        await press(at, "Again and again")
        assert "every weekday at 9" in shown(at).description


async def test_the_button_of_the_welcome_opens_the_help_once() -> None:
    async with scene(scripted()) as at:
        await at.talk.greeting.say()
        await press(at, "What I can do")
        assert [message.text.partition("\n")[0] for message in at.log] == [
            "Hello, I am Ollim",
            "What do you need?",
        ]


@pytest.mark.parametrize("topic", HELP_TOPICS)
def test_every_command_that_the_help_names_exists(topic: str) -> None:
    card = help_card(topic)
    assert card.problems() == []
    assert len(card.description.splitlines()) <= 3
    named = set(re.findall(r"`/([a-z-]+)", card.description))
    assert named <= {command.name for command in COMMANDS}


def test_the_menu_begins_with_a_command_that_destroys_nothing() -> None:
    assert COMMANDS[0].name not in _DESTROYS
    assert "help" in {command.name for command in COMMANDS}
