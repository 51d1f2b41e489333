"""Slash commands on Discord: each does what it says, soon, and tells only the one who asked."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from devtools.localdiscord.interactions import FIRST_ANSWER_WITHIN
from tests.e2e.bot import LIMIT
from tests.e2e.discord.talk import Talk

from ollim_bot.offline.messages import Hang
from ollim_bot.paths import DataPaths
from ollim_bot.store.opening import open_database

FORK = "side conversation · apart from the main one"
MODES = "dontAsk, default, acceptEdits, bypassPermissions"
MODELS = "opus, sonnet, haiku, a full model id, or default"
THINKING = "off, adaptive, or a number of tokens such as 4000"


@dataclass(frozen=True, slots=True)
class Row:
    """A command that changes nothing of the session, and the words of its answer."""

    command: str
    words: str | tuple[str, ...]
    arguments: Mapping[str, str] = field(default_factory=dict)


TABLE = (
    Row("version", "ollim-bot "),
    Row("cost", "Today: "),
    # A machine that stalls has it give up on a check, and say so.
    Row("doctor", ("All is well: ", "- **WARN** Claude program: was not done within")),
    Row("model", f"Model: default. It takes {MODELS}."),
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
    Row(
        "config",
        "bg_concurrency is now 2 (it was 3).",
        {"key": "bg_concurrency", "value": "2"},
    ),
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


async def idle(talk: Talk) -> None:
    await talk.ask("hello", "Hi Ada.")


async def busy(talk: Talk) -> None:
    await talk.ask("hello", "Hi Ada.")
    talk.model.then(Hang())
    talk.discord.say("think about it")
    await talk.model.seen(2, LIMIT)
    await talk.said_with("Thinking…")


async def forked(talk: Talk) -> None:
    await talk.ask("hello", "Hi Ada.")
    talk.model.answers("Rome, in May.")
    await talk.command("fork", topic="a trip to Rome")
    await talk.said(f"Rome, in May.\n-# {FORK}")


async def hello_again(talk: Talk) -> None:
    await talk.ask("hello again", "Hi again.")


async def stopped(talk: Talk) -> None:
    """The turn that was running is still there to be stopped."""
    assert (await talk.command("interrupt")).is_deleted
    await talk.said("-# stopped.")
    await hello_again(talk)


async def still_forked(talk: Talk) -> None:
    talk.model.answers("Hi again.")
    talk.discord.say("hello again")
    await talk.said(f"Hi again.\n-# {FORK}")


IN_LINE = {"clear", "compact", "fork", "interrupt", "restart", "resume", "setup"}
# Would update the program that runs the tests; tests/app/test_updates.py and tests/update have it.
ELSEWHERE = {"update"}
# What these answer is a card in the conversation, with buttons.
CARDS = {"today": "Today, ", "sessions": "Conversations", "help": "What do you need?"}

Step = Callable[[Talk], Awaitable[None]]


@pytest.mark.parametrize(
    ("before", "after"),
    [(idle, hello_again), (busy, stopped), (forked, still_forked)],
    ids=["idle", "busy", "forked"],
)
async def test_commands_beside_the_conversation_are_answered_to_the_caller_alone(
    talk: Talk, before: Step, after: Step
) -> None:
    await before(talk)
    said = {message.id for message in talk.discord.said}
    asked = len(talk.model.requests)
    for row in TABLE:
        answer = await talk.command(row.command, **row.arguments)
        assert answer.text.startswith(row.words), row
    # A line about the turn may be gone by now.
    assert {message.id for message in talk.discord.said} <= said
    assert len(talk.model.requests) == asked
    assert _kept(talk, "config.json") == {
        "version": 1,
        "model.main": "opus",
        "thinking.main": 4000,
        "bg_concurrency": 2,
    }
    assert _kept(talk, "ping_budget.json")["capacity"] == 3
    await after(talk)
    assert "opus" in talk.model.requests[-1].model


async def test_what_is_found_links_to_its_place(talk: Talk) -> None:
    answer = await talk.ask("hello", "Hi Ada.")
    asked = await talk.command("search", words="hello")
    found = await talk.command("search", words="ada")
    place = f"https://discord.com/channels/@me/{answer.channel.id}"
    assert re.sub(r"\d+:\d\d", "9:00", found.text) == (
        f"- [today 9:00]({place}/{answer.id}), bot: Hi **Ada**."
    )
    assert re.search(rf"\(({re.escape(place)}/\d+)\), you: \*\*hello\*\*", asked.text)


async def test_commands_with_buttons_answer_by_a_card_in_the_conversation(talk: Talk) -> None:
    await idle(talk)
    for command, title in CARDS.items():
        assert (await talk.command(command)).is_deleted
        await talk.until(lambda title=title: _has_card(talk, title))
    assert len(talk.model.requests) == 1


def _has_card(talk: Talk, title: str) -> bool:
    embeds = (embed for each in talk.discord.said for embed in each.embeds)
    return any(str(embed.get("title")).startswith(title) for embed in embeds)


async def test_each_argument_with_known_values_proposes_them(talk: Talk) -> None:
    assert await proposed(talk, "model", "name", "") == ["opus", "sonnet", "haiku", "default"]
    assert await proposed(talk, "model", "name", "SO") == ["sonnet"]
    assert await proposed(talk, "thinking", "mode", "a") == ["adaptive"]
    assert await proposed(talk, "permissions", "mode", "d") == ["dontAsk", "default", "acceptEdits"]
    assert await proposed(talk, "config", "key", "model") == ["model.main", "model.fork"]
    assert await proposed(talk, "config", "key", "timeout") == [
        "bg_fork_timeout",
        "fork_idle_timeout",
        "approval_timeout",
    ]
    assert await proposed(talk, "resume", "id", "") == []
    completed = {
        (each["name"], option["name"])
        for each in talk.discord.commands
        for option in each.get("options", [])
        if option.get("autocomplete")
    }
    assert completed == {
        ("model", "name"),
        ("thinking", "mode"),
        ("permissions", "mode"),
        ("config", "key"),
        ("resume", "id"),
    }


async def test_the_menu_is_put_up_once_and_again_when_it_was_another(talk: Talk) -> None:
    await talk.until(lambda: talk.bot.asked(lambda tx: tx.discord.get()).commands)
    talk.discord.drop_gateway(4000, resumable=False)
    await talk.ask("hello", "Hi Ada.")
    assert talk.discord.command_puts == 1
    await talk.bot.stop()
    paths = DataPaths(talk.bot.data)
    database = open_database(paths, lambda: datetime.now(UTC), is_holder=False, report=print)
    database.run(lambda tx: tx.discord.change(lambda known: known.with_commands("of another")))
    database.close()
    await talk.bot.start()
    await talk.until(lambda: talk.discord.command_puts == 2)
    assert (await talk.command("version")).text.startswith("ollim-bot ")


async def test_every_command_of_the_menu_is_in_these_tests(talk: Talk) -> None:
    known = {row.command for row in TABLE} | IN_LINE | ELSEWHERE | CARDS.keys()
    assert {each["name"] for each in talk.discord.commands} == known


async def proposed(talk: Talk, command: str, argument: str, typed: str) -> list[str]:
    asked = talk.discord.complete(command, argument, typed)
    names = await asked.choice_names(LIMIT)
    assert asked.answered_after is not None
    assert asked.answered_after < FIRST_ANSWER_WITHIN
    return names


def _kept(talk: Talk, name: str) -> dict[str, object]:
    kept: dict[str, object] = json.loads((talk.bot.data / "state" / name).read_text())
    return kept
