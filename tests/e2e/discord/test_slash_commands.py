"""Slash commands on Discord: each does what it says, soon, and tells only the one who asked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import pytest
from tests.e2e.discord.discord_scene import DiscordScene
from tests.patience import patience

from ollim_bot.offline.server import Hang

# A command that does not change the session, its arguments, and the words of its answer.
TABLE: Sequence[tuple[str, Mapping[str, str], str]] = (
    ("model", {"name": "opus"}, "model.main is now opus (it was default)."),
    ("model", {"name": "opus or so"}, "`name` is a single word. Right: `/model [name]`."),
    ("thinking", {"mode": "4000"}, "thinking.main is now 4000 (it was off)."),
    ("ping-budget", {"capacity": "3", "refill_rate": "10"}, "budget: 3/3\nIt holds 3 pings"),
    ("config", {"key": "bg_concurrency", "value": "2"}, "bg_concurrency is now 2 (it was 3)."),
    ("search", {"words": "zebra"}, "Nothing was said with these words."),
    ("quiet", {"how_long": "off"}, "It is not quiet. "),
    ("permissions", {"mode": "ask"}, "There is no mode `ask`."),
    ("reminders", {}, "There are no reminders. Tell me what to remind you of, and when."),
)


async def idle(scene: DiscordScene) -> None:
    await scene.ask("hello", "Hi Ada.")


async def busy(scene: DiscordScene) -> None:
    await idle(scene)
    scene.model.then(Hang())
    scene.discord.say("think about it")
    await scene.model.seen(2, patience())
    await scene.said_with("Thinking…")


async def stopped(scene: DiscordScene) -> None:
    """Check that the running turn still runs, by stopping it."""
    assert (await scene.command("interrupt")).is_deleted
    await scene.said("-# stopped.")
    await scene.ask("hello again", "Hi again.")


IN_LINE = {"clear", "compact", "fork", "interrupt", "restart", "resume", "setup"}
# Would update the program that runs the tests; tests/app/test_updates.py and tests/update have it.
ELSEWHERE = {"update"}
# The answers of these are cards with buttons in the conversation.
CARDS = {"today": "Today, ", "sessions": "Conversations", "help": "What do you need?"}


@pytest.mark.real_process
async def test_commands_beside_a_running_answer_are_answered_to_the_caller_alone(
    scene: DiscordScene,
) -> None:
    await busy(scene)
    said = {message.id for message in scene.discord.said}
    asked = len(scene.model.requests)
    for command, given, expected in TABLE:
        answer = await scene.command(command, **given)
        assert answer.text.startswith(expected), command
    menu = scene.discord.commands
    alone = {each["name"] for each in menu if not any(o["required"] for o in each["options"])}
    for command in sorted(alone - IN_LINE - ELSEWHERE - CARDS.keys()):
        assert (await scene.command(command)).text, command
    # A status line may be gone.
    assert {message.id for message in scene.discord.said} <= said
    assert len(scene.model.requests) == asked
    assert _kept(scene, "config.json") == {
        "version": 1,
        "model.main": "opus",
        "thinking.main": 4000,
        "bg_concurrency": 2,
    }
    assert _kept(scene, "ping_budget.json")["capacity"] == 3
    await stopped(scene)
    assert "opus" in scene.model.requests[-1].model


async def test_what_is_found_links_to_its_place(scene: DiscordScene) -> None:
    answer = await scene.ask("hello", "Hi Ada.")
    asked = await scene.command("search", words="hello")
    found = await scene.command("search", words="ada")
    place = f"https://discord.com/channels/@me/{answer.channel.id}"
    assert re.sub(r"\d+:\d\d", "9:00", found.text) == (
        f"- [today 9:00]({place}/{answer.id}), bot: Hi **Ada**."
    )
    assert re.search(rf"\(({re.escape(place)}/\d+)\), you: \*\*hello\*\*", asked.text)


async def test_commands_with_buttons_answer_by_a_card_in_the_conversation(
    scene: DiscordScene,
) -> None:
    await idle(scene)
    for command, title in CARDS.items():
        assert (await scene.command(command)).is_deleted
        await scene.until(lambda title=title: _has_card(scene, title))
    assert len(scene.model.requests) == 1


def _has_card(scene: DiscordScene, title: str) -> bool:
    embeds = (embed for each in scene.discord.said for embed in each.embeds)
    return any(str(embed.get("title")).startswith(title) for embed in embeds)


def _kept(scene: DiscordScene, name: str) -> dict[str, object]:
    kept: dict[str, object] = json.loads((scene.bot.data / "state" / name).read_text())
    return kept
