"""Wherever the bot dies, every message gets one answer and nothing happens twice."""

from __future__ import annotations

import pytest
from tests.conversation.fate import Fate
from tests.conversation.recalling import Death
from tests.conversation.story import Story, check_answered, number_of_steps

from ollim_bot.conversation import texts
from ollim_bot.domain.events import FailureKind

pytestmark = pytest.mark.usefixtures("at_once")

STEPS_OF_THE_ENGINE = (
    "it is asked",
    "the prompt is taken",
    "the session is named",
    "the tool is about to run",
    "the tool has run",
    "the call is recorded",
    "it streams",
    "the answer is recorded",
    "the answer is given",
)


@pytest.mark.parametrize("lost", range(4), ids=lambda lost: f"{lost} lost")
@pytest.mark.parametrize("is_resumed", [False, True], ids=["fresh", "resumed"])
async def test_a_crash_at_any_step_loses_nothing_and_repeats_nothing(
    lost: int, is_resumed: bool
) -> None:
    """`lost` is how much of its last turn the engine had not written down yet."""
    for at in range(1, await number_of_steps(is_resumed=is_resumed) + 1):
        story, fate = Story(), Fate(at)
        await story.begin(is_resumed=is_resumed)
        before = story.stores.session.read()
        await story.live(fate)
        assert fate.is_dead
        story.forget_last(lost)
        await story.live()
        await story.go_on()

        where = f"crash at step {at}: {fate.steps[-1]}"
        check_answered(story, where)
        assert story.stores.session.read() in story.engine.records, where
        assert before in (None, story.stores.session.read()), where
        assert len(story.engine.records) == 1, where
        assert set(story.created.values()) == {1}, where
        assert story.stores.session.read() in story.created, where


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


@pytest.mark.parametrize("kind", [FailureKind.ENGINE_DIED, FailureKind.SESSION_LOST])
@pytest.mark.parametrize("step", STEPS_OF_THE_ENGINE)
@pytest.mark.parametrize("lost", range(4), ids=lambda lost: f"{lost} lost")
async def test_where_the_engine_alone_dies_the_turn_goes_on(
    kind: FailureKind, step: str, lost: int
) -> None:
    story = Story()
    await story.begin(is_resumed=True)
    before = story.stores.session.read()
    story.engine.deaths.append(Death(step, kind, lost))
    await story.live()
    await story.go_on()

    check_answered(story, step)
    assert story.engine.deaths == []
    if kind is FailureKind.ENGINE_DIED:
        assert story.stores.session.read() == before
        assert story.told == []
    else:
        assert story.stores.session.read() != before
        assert story.told == [texts.SESSION_LOST]
        assert story.times_shown(texts.SESSION_LOST) == 1


async def test_a_crash_at_any_step_tells_once_that_the_session_was_lost() -> None:
    at, has_crashed = 0, True
    while has_crashed:
        at += 1
        story, fate = Story(), Fate(at)
        await story.begin(is_resumed=True)
        story.engine.records.clear()
        await story.live(fate)
        has_crashed = fate.is_dead
        await story.live()
        await story.go_on()

        where = f"crash at step {at}: {fate.steps[-1]}"
        check_answered(story, where)
        assert story.told == [texts.SESSION_LOST], where
        assert story.times_shown(texts.SESSION_LOST) == 1, where
    assert at > 25
