"""A crash at any step of a fork's life: it is opened once, answers once and ends once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest
from tests.conversation.scene import Scene
from tests.conversation.story import UPDATES, Story
from tests.forks.branch import Branch

from ollim_bot.domain.inbox import Accepted
from ollim_bot.domain.inputs import CommandCall, OwnerMessage
from ollim_bot.domain.sessions import SessionChange

pytestmark = pytest.mark.usefixtures("at_once")

WAYS_OUT = {
    "Keep all of it": ("fork_save", "Side conversation ended — all of it kept"),
    "Keep a summary": ("fork_report", "Side conversation ended — summary kept"),
    "Leave it": ("fork_exit", "Side conversation ended — left"),
}


def accepted(story: Story, is_it: Callable[[object], bool]) -> bool:
    return any(isinstance(row, Accepted) and is_it(row.input) for row in story.rows)


def has_called(story: Story, name: str) -> bool:
    return accepted(story, lambda one: isinstance(one, CommandCall) and one.name == name)


async def live(way_out: str, story: Story, scene: Scene) -> None:
    """The owner does each thing until it was accepted."""
    at = Branch(scene)
    await scene.quiet()
    if not has_called(story, "fork"):
        asked = asyncio.create_task(scene.chat.command("web", "/fork Rome"))
        await scene.until(asked.done)
        await asked
    await scene.quiet()
    if not accepted(story, lambda one: isinstance(one, OwnerMessage)):
        await scene.send("hello", "m1")
    await scene.quiet()
    if not has_called(story, WAYS_OUT[way_out][0]):
        await at.pressed(way_out, at.entry())
    await scene.quiet()


@pytest.mark.parametrize("way_out", WAYS_OUT)
async def test_whenever_the_bot_dies_a_fork_is_opened_answered_and_ended_once(way_out: str) -> None:
    story, life = Story(), partial(live, way_out)
    await story.begin(is_resumed=True)
    main = story.stores.session.read()
    deaths = await story.deaths(life)
    for where, after in [*deaths, ("no crash", story)]:
        await after.live(live=life)

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
    assert len(deaths) > 15
