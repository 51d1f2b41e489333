"""However often the bot crashes, each message has one end, and the owner knows which."""

from __future__ import annotations

import asyncio
from functools import cache

from hypothesis import given
from hypothesis import strategies as st
from tests.conversation.crashing import StepCounter
from tests.conversation.restarted_bot import UPDATES, RestartedBot, check_answered
from tests.conversation.scene import InlineExecutor
from tests.conversation.transcript_engine import WRITE

from ollim_bot.domain.inbox import InputEnd

crashes = st.lists(st.tuples(st.integers(1, 45), st.integers(0, 3)), min_size=1, max_size=4)


@cache
def begun(*, is_resumed: bool) -> RestartedBot:
    bot = RestartedBot()
    asyncio.run(bot.prepare(is_resumed=is_resumed))
    return bot


@given(crashes=crashes, is_resumed=st.booleans())
def test_however_often_it_crashes_a_message_has_one_end(
    crashes: list[tuple[int, int]], is_resumed: bool
) -> None:
    """Each crash is a step and how many entries of its transcript the engine loses."""

    bot = begun(is_resumed=is_resumed).copied()

    async def run() -> None:
        asyncio.get_running_loop().set_default_executor(InlineExecutor())
        for at, lost in crashes:
            await bot.run(StepCounter(at))
            bot.forget_last(lost)
        await bot.run()
        await bot.send_another()

        given_up = [line for line in bot.told if WRITE in line]
        if bot.ends == [InputEnd.SET_ASIDE]:
            assert bot.answers == []
            assert len(given_up) == 1
            assert bot.times_shown(given_up[0]) == 1
            assert len(bot.engine.effects) <= 1
            assert [bot.times_shown(update) for update in UPDATES] == [1, 1]
            assert (bot.attempts, bot.waits) == (2, False)
        else:
            assert given_up == []
            check_answered(bot, "")

    asyncio.run(run())
