"""Slash commands on Discord: each does what it says, soon, and tells only the one who asked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from tests.e2e.discord.discord_scene import DiscordScene
from tests.patience import patience

from ollim_bot.offline.server import Hang

MODES = "dontAsk, default, acceptEdits, bypassPermissions"
MODELS = "opus, sonnet, haiku, a full model id, or default"
THINKING = "off, adaptive, or a number of tokens such as 4000"


@dataclass(frozen=True, slots=True)
class Row:
    """A command that does not change the session, and the words of its answer."""

    command: str
    words: str | tuple[str, ...]
    arguments: Mapping[str, str] = field(default_factory=dict)


BUILT_IN = "The built-in model answers until a real one is connected."
TABLE = (
    Row("version", "ollim-bot "),
    Row("cost", "Today: "),
    # On a machine that stalls, a check times out and says so.
    Row("doctor", ("All is well: ", "- **WARN** Claude program: was not done within")),
    Row("model", f"{BUILT_IN} Model: default. It takes {MODELS}."),
    Row("model", "model.main is now opus (it was default).", {"name": "opus"}),
    Row("model", "model.main is opus already.", {"name": "opus"}),
    Row("model", f"model.main: '?' is not right. It takes {MODELS}.", {"name": "?"}),
    Row("model", "`name` is a single word. Right: `/model [name]`.", {"name": "opus or so"}),
    Row("thinking", f"Thinking: off. It takes {THINKING}."),
    Row("thinking", "thinking.main is now 4000 (it was off).", {"mode": "4000"}),
    Row("thinking", f"thinking.main: 'deep' is not right. It takes {THINKING}.", {"mode": "deep"}),
    Row("permissions", "Mode: `dontAsk` (what is not allowed beforehand is refused). "),
    Row("permissions", f"There is no mode `ask`. It takes one of {MODES}.", {"mode": "ask"}),
    Row("permissions", "Mode: `acceptEdits` (files are written", {"mode": "acceptEdits"}),
    Row("ping-budget", "budget: 5/5\nIt holds 5 pings at most, and gets one more every 90 min."),
    Row(
        "ping-budget",
        "budget: 3/3\nIt holds 3 pings at most, and gets one more every 10 min.",
        {"capacity": "3", "refill_rate": "10"},
    ),
    Row("ping-budget", "The ping budget takes a capacity", {"capacity": "many"}),
    Row(
        "ping-budget",
        "`refill_rate` needs `capacity` too. Right: `/ping-budget [capacity] [refill_rate]`.",
        {"refill_rate": "10"},
    ),
    Row(
        "config",
        "- `model.main` opus (changed): the model that answers you\n- `model.fork` default: ",
    ),
    Row(
        "config",
        "`bg_concurrency` 3: how many background runs go on at once.\n"
        "It takes a number from 1 to 16.",
        {"key": "bg_concurrency"},
    ),
    Row("config", "bg_concurrency is now 2 (it was 3).", {"key": "bg_concurrency", "value": "2"}),
    Row("config", "There is no setting `modl`. ", {"key": "modl"}),
    Row("config", "`value` needs `key` too. Right: `/config [key] [value]`.", {"value": "2"}),
    Row("routines", "There are no routines. Tell me what to do again and again, and when."),
    Row("reminders", "There are no reminders. Tell me what to remind you of, and when."),
    Row("runs", "Nothing has run yet."),
    Row("search", "Nothing was said with these words.", {"words": "zebra"}),
    Row("quiet", "It is not quiet. `/quiet 2h` or `/quiet until 15:00` makes it quiet"),
    Row("quiet", "`soon` is not exact", {"how_long": "soon"}),
    Row("quiet", "It is not quiet. ", {"how_long": "off"}),
    Row("tasks", "No task is open. Tell me what you want to do, and I write it"),
    Row("google-auth", "Google needs an OAuth client of your own, which you make once:\n1. https"),
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
    for row in TABLE:
        answer = await scene.command(row.command, **row.arguments)
        assert answer.text.startswith(row.words), row
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


async def test_every_command_of_the_menu_is_in_these_tests(scene: DiscordScene) -> None:
    known = {row.command for row in TABLE} | IN_LINE | ELSEWHERE | CARDS.keys()
    assert {each["name"] for each in scene.discord.commands} == known


def _kept(scene: DiscordScene, name: str) -> dict[str, object]:
    kept: dict[str, object] = json.loads((scene.bot.data / "state" / name).read_text())
    return kept
