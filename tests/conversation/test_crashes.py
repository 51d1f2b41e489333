"""Wherever the bot crashes, every message gets one answer and nothing happens twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conversation.crashing import StepCounter
from tests.conversation.restarted_bot import RestartedBot, check_answered
from tests.conversation.transcript_engine import EngineCrash, TranscriptEntry

from ollim_bot.conversation import texts
from ollim_bot.domain.events import FailureKind
from ollim_bot.domain.sessions import SessionId

pytestmark = pytest.mark.usefixtures("inline_executor")

# By step, how many entries of the turn are in the transcript.
STEPS_OF_THE_ENGINE = {
    "it is asked": 0,
    "the prompt is taken": 1,
    "the session is named": 1,
    "the tool is about to run": 1,
    "the tool has run": 1,
    "the call is recorded": 2,
    "it streams": 2,
    "the answer is recorded": 3,
    "the answer is given": 3,
}


@pytest.mark.parametrize("is_resumed", [False, True], ids=["fresh", "resumed"])
async def test_a_crash_at_any_step_loses_nothing_and_repeats_nothing(is_resumed: bool) -> None:
    """However many entries of its last turn the engine had not written down yet."""
    bot = RestartedBot()
    await bot.prepare(is_resumed=is_resumed)
    before = bot.stores.session.read()
    for step, left in await bot.crashes():
        for lost, after in with_lost_entries(left):
            await after.run()
            await after.send_another()

            where = f"{step}, {lost} lost"
            check_answered(after, where)
            assert after.stores.session.read() in after.engine.transcripts, where
            assert before in (None, after.stores.session.read()), where
            assert len(after.engine.transcripts) == 1, where
            assert set(after.created.values()) == {1}, where
            assert after.stores.session.read() in after.created, where


def with_lost_entries(bot: RestartedBot) -> Iterator[tuple[int, RestartedBot]]:
    """The bot without the last entries of its transcript, for each number that it can lose."""
    transcripts: dict[SessionId, list[TranscriptEntry]] | None = None
    for lost in range(max(STEPS_OF_THE_ENGINE.values()) + 1):
        after = bot.copied()
        after.forget_last(lost)
        if after.engine.transcripts == transcripts:
            return
        transcripts = after.engine.copied().transcripts
        yield lost, after


async def test_the_steps_are_all_there() -> None:
    """If a write were left out, the test above would not crash there."""
    bot, counter = RestartedBot(), StepCounter()
    await bot.prepare()
    await bot.run(counter)

    rows = [type(row).__name__ for row in bot.rows]
    assert rows == ["Accepted", "Taken", "ToolCalled", "Ended"]
    changes = [step.partition("changes ")[2] for step in counter.steps if "changes" in step]
    assert [each for each in changes if each != "nothing"] == [
        "deliveries, inbox, messages",
        "inbox, mirrors, updates",
        "mirrors, session, session_history",
        "inbox",
        "deliveries, inbox, messages",
    ], "accepted, taken, named, called, concluded"
    assert set(STEPS_OF_THE_ENGINE) <= set(counter.steps)


def losses(kind: FailureKind) -> list[tuple[str, int]]:
    """Each step with all that the engine can lose there, if it does not lose everything."""
    return [
        (step, lost)
        for step, entries in STEPS_OF_THE_ENGINE.items()
        for lost in range(entries + 1 if kind is FailureKind.ENGINE_DIED else 1)
    ]


@pytest.mark.parametrize("kind", [FailureKind.ENGINE_DIED, FailureKind.SESSION_LOST])
async def test_where_the_engine_alone_dies_the_turn_goes_on(kind: FailureKind) -> None:
    begun = RestartedBot()
    await begun.prepare(is_resumed=True)
    before = begun.stores.session.read()
    for step, lost in losses(kind):
        bot, where = begun.copied(), f"{kind} at {step}, {lost} lost"
        bot.engine.crashes.append(EngineCrash(step, kind, lost))
        await bot.run()
        await bot.send_another()

        check_answered(bot, where)
        assert bot.engine.crashes == [], where
        if kind is FailureKind.ENGINE_DIED:
            assert bot.stores.session.read() == before, where
            assert bot.told == [], where
        else:
            assert bot.stores.session.read() != before, where
            assert bot.told == [texts.SESSION_LOST], where
            assert bot.times_shown(texts.SESSION_LOST) == 1, where


async def test_a_crash_at_any_step_tells_once_that_the_session_was_lost() -> None:
    bot = RestartedBot()
    await bot.prepare(is_resumed=True)
    bot.engine.transcripts.clear()
    crashes = await bot.crashes()
    for where, left in [*crashes, ("no crash", bot)]:
        await left.run()
        await left.send_another()

        check_answered(left, where)
        assert left.told == [texts.SESSION_LOST], where
        assert left.times_shown(texts.SESSION_LOST) == 1, where
    assert len(crashes) > 10
