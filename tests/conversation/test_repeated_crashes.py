"""A bot that dies again and again: each message still has one end, and the owner knows which."""

from __future__ import annotations

import asyncio
from functools import cache

from hypothesis import given
from hypothesis import strategies as st
from tests.conversation.fate import Fate
from tests.conversation.recalling import WRITE
from tests.conversation.scene import AtOnce
from tests.conversation.story import UPDATES, Story, check_answered

from ollim_bot.domain.inbox import InputEnd

crashes = st.lists(st.tuples(st.integers(1, 45), st.integers(0, 3)), min_size=1, max_size=4)


@cache
def begun(*, is_resumed: bool) -> Story:
    story = Story()
    asyncio.run(story.begin(is_resumed=is_resumed))
    return story


@given(crashes=crashes, is_resumed=st.booleans())
def test_however_often_it_dies_a_message_has_one_end(
    crashes: list[tuple[int, int]], is_resumed: bool
) -> None:
    """Each crash is a step and how much the engine lost by it."""

    story = begun(is_resumed=is_resumed).copied()

    async def run() -> None:
        asyncio.get_running_loop().set_default_executor(AtOnce())
        for at, lost in crashes:
            await story.live(Fate(at))
            story.forget_last(lost)
        await story.live()
        await story.go_on()

        given_up = [line for line in story.told if WRITE in line]
        if story.ends == [InputEnd.SET_ASIDE]:
            assert story.answers == []
            assert len(given_up) == 1
            assert story.times_shown(given_up[0]) == 1
            assert len(story.engine.effects) <= 1
            assert [story.times_shown(update) for update in UPDATES] == [1, 1]
            assert (story.attempts, story.waits) == (2, False)
        else:
            assert given_up == []
            check_answered(story, "")

    asyncio.run(run())
