"""A fork is opened once, answers once and ends once, at whatever step the bot crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
from tests.conversation.restarted_bot import UPDATES, RestartedBot
from tests.conversation.scene import Scene
from tests.forks.fork_scene import ForkScene

from ollim_bot.domain.inbox import Accepted
from ollim_bot.domain.inputs import CommandCall, OwnerMessage
from ollim_bot.domain.sessions import SessionChange

pytestmark = pytest.mark.usefixtures("inline_executor")

WAYS_OUT = {
    "Keep all of it": ("fork_save", "Side conversation ended — all of it kept"),
    "Keep a summary": ("fork_report", "Side conversation ended — summary kept"),
    "Leave it": ("fork_exit", "Side conversation ended — left"),
}


def accepted(bot: RestartedBot, is_it: Callable[[object], bool]) -> bool:
    return any(isinstance(row, Accepted) and is_it(row.input) for row in bot.rows)


def has_called(bot: RestartedBot, name: str) -> bool:
    return accepted(bot, lambda one: isinstance(one, CommandCall) and one.name == name)


async def use_fork(way_out: str, bot: RestartedBot, scene: Scene) -> None:
    """The owner opens a fork, writes in it and ends it; what was accepted is not repeated."""
    at = ForkScene(scene)
    await scene.quiet()
    if not has_called(bot, "fork"):
        asked = asyncio.create_task(scene.chat.command("web", "/fork Rome"))
        await scene.until(asked.done)
        await asked
    await scene.quiet()
    if not accepted(bot, lambda one: isinstance(one, OwnerMessage)):
        await scene.send("hello", "m1")
    await scene.quiet()
    if not has_called(bot, WAYS_OUT[way_out][0]):
        await at.press_only(way_out, at.entry())
    await scene.quiet()


@pytest.mark.parametrize("way_out", WAYS_OUT)
async def test_whenever_the_bot_crashes_a_fork_is_opened_answered_and_ended_once(
    way_out: str,
) -> None:
    bot, actions = RestartedBot(), partial(use_fork, way_out)
    await bot.prepare(is_resumed=True)
    main = bot.stores.session.read()
    crashes = await bot.crashes(actions)
    for where, after in [*crashes, ("no crash", bot)]:
        await after.run(actions=actions)

        assert after.stores.fork.read() is None, where
        cards = {one.id: one for one in after.log if one.card}
        titles = [one.card.title for one in cards.values() if one.card]
        assert titles == ["Side conversation", WAYS_OUT[way_out][1]], where
        events = after.stores.session_history.read().entries
        (forked,) = [one for one in events if one.event is SessionChange.INTERACTIVE_FORK]
        assert forked.parent_session_id == main, where
        assert after.texts.count("Hello.") == 2, where
        assert [after.times_shown(update) for update in UPDATES] == [1, 1], where
        swapped = [one.session_id for one in events if one.event is SessionChange.SWAPPED]
        is_saved = way_out == "Keep all of it"
        assert swapped == ([forked.session_id] if is_saved else []), where
        assert after.stores.session.read() == (forked.session_id if is_saved else main), where
        pending = [entry.message for entry in after.stores.updates.read().entries]
        assert pending[:2] == [*UPDATES], where
        assert len(pending) == (3 if way_out == "Keep a summary" else 2), where
        assert not after.waits, where
    assert len(crashes) > 15
