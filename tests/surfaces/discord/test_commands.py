"""Commands on Discord: acknowledged at once, done once; and the menu that offers them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import discord
import pytest
from devtools.doubles.clock import ManualClock
from devtools.localdiscord.faults import AnswerLost, Delayed, Dropped, ErrorResponse, Fault
from devtools.localdiscord.interactions import ResponseType
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.patience import eventually
from tests.slash_commands import COMMANDS
from tests.surfaces.discord.interaction_scene import SUNDAY, InteractionScene, interaction_scene

from ollim_bot.kernel.base.errors import Unreadable, WrongInput
from ollim_bot.kernel.conversation.dispatcher import read_line
from ollim_bot.kernel.values.commands import Argument, CommandAnswer, CommandSpec
from ollim_bot.surfaces.discord.interactions import (
    COMPLETION_SECONDS,
    FAILED,
    fingerprint,
    line_of,
    payload,
    sync,
)

BY_NAME = {spec.name: spec for spec in COMMANDS}

WORDS = st.text() | st.text("ab \n\t\u2003", max_size=5)

LONG = "\n".join(f"line {number} of a long answer" for number in range(250))


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[InteractionScene]:
    async with interaction_scene(tmp_path) as made, made.connected() as client:
        await made.put_menu(client, CommandSpec("gone", "No longer there"))
        yield made


@given(data=st.data(), spec=st.sampled_from(COMMANDS))
def test_a_line_is_read_as_the_arguments_that_were_given(
    data: st.DataObject, spec: CommandSpec
) -> None:
    names = st.sampled_from([*(one.name for one in spec.arguments), "other"])
    given = data.draw(st.dictionaries(names, WORDS))
    said = {name: value.strip() for name, value in given.items() if value.strip()}
    said.pop("other", None)
    try:
        line = line_of(spec, given)
    except WrongInput:
        assert not _can_be_typed(spec, said)
        return
    assume(said or not any(one.is_required for one in spec.arguments))
    assert read_line(line, COMMANDS) == (spec, said)


def _can_be_typed(spec: CommandSpec, said: dict[str, str]) -> bool:
    places = [number for number, one in enumerate(spec.arguments) if one.name in said]
    has_no_gap = places == [*range(len(places))]
    single = [one.name for one in spec.arguments if not one.takes_rest]
    return has_no_gap and all(len(said.get(name, "x").split()) == 1 for name in single)


def test_white_space_around_an_argument_is_not_part_of_it() -> None:
    assert line_of(BY_NAME["config"], {"value": " \n"}) == "/config"
    assert line_of(BY_NAME["config"], {"key": " a", "value": "b  c\t"}) == "/config a b  c"


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("config", {"value": "on"}, "`value` needs `key` too. Right: `/config [key] [value]`."),
        (
            "ping-budget",
            {"capacity": "5 10"},
            "`capacity` is a single word. Right: `/ping-budget [capacity] [refill_rate]`.",
        ),
    ],
)
def test_what_no_line_could_say_is_refused_with_what_is_right(
    name: str, given: dict[str, str], sentence: str
) -> None:
    with pytest.raises(WrongInput) as refused:
        line_of(BY_NAME[name], given)
    assert str(refused.value) == sentence


async def test_a_command_is_acknowledged_while_it_runs_and_then_answered(
    scene: InteractionScene,
) -> None:
    scene.core.may_answer.clear()
    asked = scene.discord.slash("model", name="sonnet")
    assert await asked.answered() is ResponseType.DEFERRED_MESSAGE
    assert (asked.is_ephemeral, asked.texts, scene.core.lines) == (True, [], [])
    scene.core.may_answer.set()
    assert await asked.said() == "`/model sonnet` is done."
    assert (asked.is_ephemeral, asked.followups, scene.told) == (True, [], [])
    assert scene.core.lines == [("discord", "/model sonnet")]


async def test_a_command_waits_for_no_other(scene: InteractionScene) -> None:
    scene.core.may_answer.clear()
    first, second = scene.discord.slash("clear"), scene.discord.slash("cost")
    assert await first.answered() is await second.answered() is ResponseType.DEFERRED_MESSAGE
    scene.core.may_answer.set()
    assert await first.said() == "`/clear` is done."
    assert await second.said() == "`/cost` is done."


async def test_arguments_come_in_their_order_whatever_the_order_of_typing(
    scene: InteractionScene,
) -> None:
    asked = scene.discord.slash("config", value="a  b", key="timezone")
    await asked.said()
    assert scene.core.lines == [("discord", "/config timezone a  b")]


async def test_a_long_answer_comes_in_pieces_that_only_the_owner_sees(
    scene: InteractionScene,
) -> None:
    scene.core.answers["/runs"] = CommandAnswer(LONG)
    asked = scene.discord.slash("runs")
    await scene.discord.until(lambda: "line 249 of" in "".join(asked.texts))
    assert "\n".join(asked.texts) == LONG
    assert len(asked.followups) == (len(LONG) // 2000)
    assert all(each.is_ephemeral for each in asked.followups)
    assert scene.told == []


async def test_a_command_whose_answer_is_in_the_conversation_leaves_nothing(
    scene: InteractionScene,
) -> None:
    scene.core.answers["/clear"] = CommandAnswer()
    asked = scene.discord.slash("clear")
    await scene.discord.until(lambda: asked.is_deleted)
    assert (asked.texts, scene.told, scene.discord.texts) == ([], [], [])


async def test_an_error_is_said_to_the_owner_alone(scene: InteractionScene) -> None:
    scene.core.answers["/model"] = CommandAnswer("There is no such model.", is_error=True)
    asked = scene.discord.slash("model", name="x")
    assert await asked.said() == "There is no such model."
    assert asked.is_ephemeral


async def test_arguments_that_cannot_be_typed_are_refused_and_nothing_is_done(
    scene: InteractionScene,
) -> None:
    asked = scene.discord.slash("config", value="on")
    assert await asked.said() == "`value` needs `key` too. Right: `/config [key] [value]`."
    assert (asked.is_ephemeral, scene.core.calls) == (True, [])


async def test_a_command_of_an_older_menu_is_left_to_the_core(scene: InteractionScene) -> None:
    await scene.discord.slash("gone").said()
    assert scene.core.lines == [("discord", "/gone")]


async def test_an_answer_after_a_quarter_of_an_hour_comes_as_a_message(
    scene: InteractionScene,
) -> None:
    scene.core.answers["/compact"] = CommandAnswer(LONG, is_error=True)
    scene.core.may_answer.clear()
    asked = scene.discord.slash("compact")
    await asked.answered()
    scene.late += 15 * 60 + 1
    scene.core.may_answer.set()
    await scene.discord.until(lambda: scene.discord.requests[-1].method == "PATCH")
    assert await scene.discord.slash("cost").said() == "`/cost` is done."
    assert (scene.told, asked.texts) == ([LONG], [])


async def test_what_is_missing_of_a_long_answer_comes_as_a_message(scene: InteractionScene) -> None:
    scene.core.answers["/runs"] = CommandAnswer(LONG)
    scene.discord.next_fail("POST /webhooks/*", Delayed(0))
    scene.discord.next_fail("POST /webhooks/*", Dropped())
    asked = scene.discord.slash("runs")
    await eventually(lambda: scene.told)
    assert "\n".join([*asked.texts, *scene.told]) == LONG
    assert (len(asked.texts), len(scene.told)) == (2, 1)


async def test_nothing_is_said_where_an_empty_answer_cannot_be_taken_away(
    scene: InteractionScene,
) -> None:
    scene.core.answers["/clear"] = CommandAnswer()
    scene.discord.next_fail("DELETE /webhooks/*", 404)
    scene.discord.slash("clear")
    await scene.discord.until(lambda: scene.discord.requests[-1].method == "DELETE")
    assert await scene.discord.slash("cost").said() == "`/cost` is done."
    assert scene.told == []


async def test_what_discord_gave_up_waiting_for_is_not_done_behind_its_back(
    scene: InteractionScene,
) -> None:
    asked = scene.discord.slash("clear")
    scene.late += 4
    await scene.discord.until(lambda: asked.late)
    assert await scene.discord.slash("cost").said() == "`/cost` is done."
    assert (scene.core.calls, scene.told) == (["/cost"], [])


async def test_a_command_is_done_once_though_its_acknowledgement_was_not_confirmed(
    scene: InteractionScene,
) -> None:
    scene.discord.next_fail("POST /interactions/*", AnswerLost())
    asked = scene.discord.slash("cost")
    assert await asked.said() == "`/cost` is done."
    assert scene.core.calls == ["/cost"]


async def test_a_command_that_was_acknowledged_by_an_earlier_try_is_done(
    scene: InteractionScene,
) -> None:
    scene.discord.next_fail("POST /interactions/*", ErrorResponse(400, 40060))
    scene.discord.slash("cost")
    await eventually(lambda: scene.core.lines)
    assert scene.core.lines == [("discord", "/cost")]


async def test_a_fault_of_ours_is_told_plainly_and_logged(
    scene: InteractionScene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.core.fault = LookupError("the details")
    asked = scene.discord.slash("cost")
    assert await asked.said() == FAILED
    assert "the details" in caplog.text


async def test_values_are_proposed_while_an_argument_is_typed(scene: InteractionScene) -> None:
    asked = scene.discord.complete("model", "name", "s")
    assert await asked.choice_names() == ["sonnet"]
    asked = scene.discord.complete("config", "key", "model.m", value="opus")
    assert await asked.choice_names() == ["model.main"]
    asked = scene.discord.complete("model", "name", "")
    assert await asked.choice_names() == ["opus", "sonnet", "haiku", "default"]
    assert [each["value"] for each in asked.choices] == ["opus", "sonnet", "haiku", "default"]


async def test_no_more_is_proposed_than_discord_takes(scene: InteractionScene) -> None:
    fitting = [f"{number:0100}" for number in range(30)]
    scene.core.proposed = ["x" * 101, "", *fitting]
    asked = scene.discord.complete("resume", "id", "a")
    assert await asked.choice_names() == fitting[:25]


async def test_values_that_cannot_be_read_are_no_values(scene: InteractionScene) -> None:
    scene.core.fault = Unreadable(Path("sessions.json"), "cannot be read.")
    assert await scene.discord.complete("resume", "id", "").choice_names() == []


async def test_values_that_take_too_long_are_no_values(tmp_path: Path) -> None:
    assert COMPLETION_SECONDS < 3
    async with interaction_scene(tmp_path) as scene:
        scene.completion_seconds = 0.01
        async with scene.connected() as client:
            await scene.put_menu(client)
            scene.core.may_propose.clear()
            asked = scene.discord.complete("resume", "id", "")
            assert await asked.choice_names() == []


async def test_proposals_that_come_too_late_harm_nothing(
    scene: InteractionScene, caplog: pytest.LogCaptureFixture
) -> None:
    asked = scene.discord.complete("model", "name", "")
    scene.late += 4
    await scene.discord.until(lambda: asked.late)
    assert await scene.discord.slash("cost").said() == "`/cost` is done."
    assert [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")] == []


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
    await eventually(lambda: menu.clock.sleeping)
    await menu.clock.advance(59)
    tries = menu.tries
    await menu.clock.advance(1)
    await eventually(lambda: menu.clock.sleeping and menu.tries > tries)
    assert menu.remembered is None
    menu.scene.discord.mend()
    await menu.clock.advance(120)
    await syncing
    assert menu.remembered is not None
    assert len(menu.scene.discord.commands) == len(COMMANDS)


async def test_pauses_grow_to_an_hour(menu: MenuScene) -> None:
    menu.scene.discord.next_fail(PUT, 503, times=None)
    syncing = asyncio.create_task(menu.sync(*COMMANDS))
    for tries, minutes in enumerate([1, 2, 4, 8, 16, 32, 60, 60], start=1):
        await eventually(lambda: menu.clock.sleeping)
        await menu.clock.advance(60 * minutes - 1)
        assert (menu.tries, menu.clock.sleeping) == (tries, 1)
        await menu.clock.advance(1)
    await eventually(lambda: menu.clock.sleeping)
    menu.scene.discord.mend()
    await menu.clock.advance(3600)
    await syncing


async def test_a_connection_that_has_ended_is_not_tried_any_more(menu: MenuScene) -> None:
    menu.scene.discord.next_fail(PUT, 503, times=None)
    syncing = asyncio.create_task(menu.sync(*COMMANDS))
    await eventually(lambda: menu.clock.sleeping)
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
