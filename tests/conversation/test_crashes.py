"""Wherever the bot dies, every message gets one answer and nothing happens twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conversation.fate import Fate
from tests.conversation.recalling import Death, Entry
from tests.conversation.story import Story, check_answered

from ollim_bot.conversation import texts
from ollim_bot.domain.events import FailureKind
from ollim_bot.domain.sessions import SessionId

pytestmark = pytest.mark.usefixtures("at_once")

# With how many entries of the turn its record has by then.
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
    """Whatever of its last turn the engine had not written down yet."""
    story = Story()
    await story.begin(is_resumed=is_resumed)
    before = story.stores.session.read()
    for step, left in await story.deaths():
        for lost, after in forgetful(left):
            await after.live()
            await after.go_on()

            where = f"{step}, {lost} lost"
            check_answered(after, where)
            assert after.stores.session.read() in after.engine.records, where
            assert before in (None, after.stores.session.read()), where
            assert len(after.engine.records) == 1, where
            assert set(after.created.values()) == {1}, where
            assert after.stores.session.read() in after.created, where


def forgetful(story: Story) -> Iterator[tuple[int, Story]]:
    """The story without the last entries of its engine's record, as long as there are any."""
    records: dict[SessionId, list[Entry]] | None = None
    for lost in range(max(STEPS_OF_THE_ENGINE.values()) + 1):
        after = story.copied()
        after.forget_last(lost)
        if after.engine.records == records:
            return
        records = after.engine.copied().records
        yield lost, after


async def test_the_steps_are_all_there() -> None:
    """If a write were left out, the test above would not crash there."""
    story, fate = Story(), Fate()
    await story.begin()
    await story.live(fate)

    rows = [type(row).__name__ for row in story.rows]
    assert rows == ["Accepted", "Taken", "ToolCalled", "Ended"]
    changes = [step.partition("changes ")[2] for step in fate.steps if "changes" in step]
    assert [each for each in changes if each != "nothing"] == [
        "deliveries, inbox, messages",
        "inbox, mirrors, updates",
        "mirrors, session, session_history",
        "inbox",
        "deliveries, inbox, messages",
    ], "accepted, taken, named, called, concluded"
    assert set(STEPS_OF_THE_ENGINE) <= set(fate.steps)


def losses(kind: FailureKind) -> list[tuple[str, int]]:
    """Each step with all that the engine can lose there, if it does not lose everything."""
    return [
        (step, lost)
        for step, entries in STEPS_OF_THE_ENGINE.items()
        for lost in range(entries + 1 if kind is FailureKind.ENGINE_DIED else 1)
    ]


@pytest.mark.parametrize("kind", [FailureKind.ENGINE_DIED, FailureKind.SESSION_LOST])
async def test_where_the_engine_alone_dies_the_turn_goes_on(kind: FailureKind) -> None:
    begun = Story()
    await begun.begin(is_resumed=True)
    before = begun.stores.session.read()
    for step, lost in losses(kind):
        story, where = begun.copied(), f"{kind} at {step}, {lost} lost"
        story.engine.deaths.append(Death(step, kind, lost))
        await story.live()
        await story.go_on()

        check_answered(story, where)
        assert story.engine.deaths == [], where
        if kind is FailureKind.ENGINE_DIED:
            assert story.stores.session.read() == before, where
            assert story.told == [], where
        else:
            assert story.stores.session.read() != before, where
            assert story.told == [texts.SESSION_LOST], where
            assert story.times_shown(texts.SESSION_LOST) == 1, where


async def test_a_crash_at_any_step_tells_once_that_the_session_was_lost() -> None:
    story = Story()
    await story.begin(is_resumed=True)
    story.engine.records.clear()
    deaths = await story.deaths()
    for where, left in [*deaths, ("no crash", story)]:
        await left.live()
        await left.go_on()

        check_answered(left, where)
        assert left.told == [texts.SESSION_LOST], where
        assert left.times_shown(texts.SESSION_LOST) == 1, where
    assert len(deaths) > 10
