"""The command menu on Discord: valid, sent when it has changed, and never delaying the bot."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import discord
import pytest
from devtools.doubles.clock import ManualClock
from devtools.localdiscord.faults import AnswerLost, Dropped, ErrorResponse, Fault
from tests.discord.interaction_scene import SUNDAY, InteractionScene, interaction_scene, until

from ollim_bot.conversation.commands.dispatcher import COMMANDS
from ollim_bot.domain.commands import Argument, CommandSpec
from ollim_bot.surfaces.discord.command_menu import fingerprint, payload, sync

NAME = re.compile(r"[-_'a-z0-9]{1,32}")
OURS = payload(COMMANDS)
PUT = "PUT /applications/*"


@dataclass
class MenuScene:
    """A client that syncs the command menu, and the mark that it remembers."""

    scene: InteractionScene
    client: discord.Client
    clock: ManualClock = field(default_factory=lambda: ManualClock(SUNDAY))
    remembered: str | None = None

    async def sync(self, *specs: CommandSpec) -> None:
        async with asyncio.timeout(60):
            await sync(self.client, specs, self.clock, self.remembered, self.remember)

    def remember(self, mark: str) -> None:
        self.remembered = mark

    @property
    def puts(self) -> int:
        return self.scene.discord.command_puts

    @property
    def tries(self) -> int:
        return sum(each.method == "PUT" for each in self.scene.discord.requests)


@pytest.fixture
async def menu(tmp_path: Path) -> AsyncIterator[MenuScene]:
    async with (
        interaction_scene(tmp_path) as scene,
        discord.Client(intents=discord.Intents.none()) as on,
    ):
        await on.login(scene.discord.token)
        yield MenuScene(scene, on)


def test_every_command_has_a_name_that_discord_takes() -> None:
    names = [command["name"] for command in OURS]
    assert names == [spec.name for spec in COMMANDS]
    assert [name for name in names if not NAME.fullmatch(name)] == []
    assert len(set(names)) == len(names) <= 100


def test_every_argument_has_a_name_that_discord_takes_and_required_ones_come_first() -> None:
    for command in OURS:
        names = [option["name"] for option in command["options"]]
        assert [name for name in names if not NAME.fullmatch(name)] == []
        assert len(set(names)) == len(names) <= 25
        required = [option["required"] for option in command["options"]]
        assert required == sorted(required, reverse=True)


def test_every_description_says_something_and_is_not_cut() -> None:
    abouts = [command["description"] for command in OURS]
    abouts += [option["description"] for command in OURS for option in command["options"]]
    assert [about for about in abouts if not 1 <= len(about) <= 100 or about.endswith("…")] == []


def test_the_menu_is_offered_in_direct_messages_with_the_bot_only() -> None:
    assert {tuple(command["contexts"]) for command in OURS} == {(1,)}


def test_values_are_proposed_wherever_they_are_known_and_others_stay_possible() -> None:
    proposed = {
        (command["name"], option["name"])
        for command in OURS
        for option in command["options"]
        if option["autocomplete"]
    }
    listed = {(spec.name, one.name) for spec in COMMANDS for one in spec.arguments if one.choices}
    assert proposed == listed | {("resume", "id")}
    assert all("choices" not in option for command in OURS for option in command["options"])


def test_a_command_becomes_what_discord_takes() -> None:
    spec = CommandSpec(
        "move",
        "Move something",
        (Argument("why", "a reason", takes_rest=True), Argument("to", "where", ("a",), True)),
    )
    [command] = payload([spec])
    assert command == {
        "type": 1,
        "name": "move",
        "description": "Move something",
        "options": [
            {
                "type": 3,
                "name": "to",
                "description": "where",
                "required": True,
                "autocomplete": True,
            },
            {
                "type": 3,
                "name": "why",
                "description": "a reason",
                "required": False,
                "autocomplete": False,
            },
        ],
        "contexts": [1],
    }


def test_a_description_that_is_too_long_is_cut_rather_than_refused() -> None:
    [command] = payload([CommandSpec("x", "y" * 101, (Argument("a", "z" * 300),))])
    assert command["description"] == "y" * 99 + "…"
    assert command["options"][0]["description"] == "z" * 99 + "…"


def test_a_menu_is_known_again_and_any_other_is_not() -> None:
    assert fingerprint(payload(COMMANDS), 7) == fingerprint(OURS, 7)
    others = [
        fingerprint(OURS, 8),
        fingerprint(OURS[1:], 7),
        fingerprint([{**OURS[0], "description": "another"}, *OURS[1:]], 7),
        fingerprint([], 7),
    ]
    assert fingerprint(OURS, 7) not in others
    assert len(set(others)) == len(others)


async def test_the_menu_is_put_up_as_it_is(menu: MenuScene) -> None:
    await menu.sync(*COMMANDS)
    kept = [{name: each[name] for name in OURS[0]} for each in menu.scene.discord.commands]
    assert kept == OURS


async def test_the_menu_is_put_up_once_and_again_when_it_is_another(menu: MenuScene) -> None:
    await menu.sync(*COMMANDS)
    first = menu.remembered
    await menu.sync(*COMMANDS)
    assert (menu.puts, menu.remembered) == (1, first)
    await menu.sync(*COMMANDS[1:])
    assert menu.puts == 2
    assert menu.remembered != first
    assert len(menu.scene.discord.commands) == len(COMMANDS) - 1


async def test_the_menu_of_another_application_is_put_up_too(menu: MenuScene) -> None:
    await menu.sync(*COMMANDS)
    menu.remembered = fingerprint(OURS, int(menu.scene.discord.bot.id) + 1)
    await menu.sync(*COMMANDS)
    assert menu.puts == 2


@pytest.mark.parametrize("fault", [ErrorResponse(503), Dropped(), AnswerLost()])
async def test_the_menu_is_put_up_when_discord_is_there_again(
    menu: MenuScene, fault: Fault
) -> None:
    menu.scene.discord.next_fail(PUT, fault, times=None)
    syncing = asyncio.create_task(menu.sync(*COMMANDS))
    await until(lambda: menu.clock.sleeping)
    await menu.clock.advance(59)
    tries = menu.tries
    await menu.clock.advance(1)
    await until(lambda: menu.clock.sleeping and menu.tries > tries)
    assert menu.remembered is None
    menu.scene.discord.mend()
    await menu.clock.advance(120)
    await syncing
    assert menu.remembered is not None
    assert len(menu.scene.discord.commands) == len(COMMANDS)


async def test_the_menu_is_put_up_when_there_is_a_network_again(menu: MenuScene) -> None:
    await menu.scene.discord.refuse_connections()
    syncing = asyncio.create_task(menu.sync(*COMMANDS))
    await until(lambda: menu.clock.sleeping)
    await menu.scene.discord.accept_again()
    await menu.clock.advance(60)
    await syncing
    assert (menu.puts, menu.remembered) == (1, fingerprint(OURS, int(menu.scene.discord.bot.id)))


async def test_pauses_grow_to_an_hour(menu: MenuScene) -> None:
    menu.scene.discord.next_fail(PUT, 503, times=None)
    syncing = asyncio.create_task(menu.sync(*COMMANDS))
    for tries, minutes in enumerate([1, 2, 4, 8, 16, 32, 60, 60], start=1):
        await until(lambda: menu.clock.sleeping)
        await menu.clock.advance(60 * minutes - 1)
        assert (menu.tries, menu.clock.sleeping) == (tries, 1)
        await menu.clock.advance(1)
    await until(lambda: menu.clock.sleeping)
    menu.scene.discord.mend()
    await menu.clock.advance(3600)
    await syncing


async def test_a_connection_that_has_ended_is_not_tried_any_more(menu: MenuScene) -> None:
    menu.scene.discord.next_fail(PUT, 503, times=None)
    syncing = asyncio.create_task(menu.sync(*COMMANDS))
    await until(lambda: menu.clock.sleeping)
    await menu.client.close()
    await menu.clock.advance(60)
    await syncing
    assert menu.remembered is None


async def test_a_menu_that_is_refused_is_left_for_the_next_time(
    menu: MenuScene, caplog: pytest.LogCaptureFixture
) -> None:
    menu.scene.discord.next_fail(PUT, ErrorResponse(400, 50035, "Invalid Form Body"))
    await menu.sync(*COMMANDS)
    assert (menu.remembered, menu.clock.sleeping, menu.tries) == (None, 0, 1)
    assert "Discord refused the slash commands: " in caplog.text
    assert "Invalid Form Body" in caplog.text
    await menu.sync(*COMMANDS)
    assert menu.puts == 1
