"""Drafts that no answer takes over are deleted, or say where they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection

import pytest
from tests.discord.draft_scene import DraftScene

from ollim_bot.domain.events import AgentEvent, EndCause, TextStreamed, ToolEnded, ToolStarted
from ollim_bot.domain.ids import TurnId
from ollim_bot.errors import Unreachable
from ollim_bot.ports import TurnStart
from ollim_bot.surfaces.discord.drafts import GOES_ON_BELOW, StaleDrafts
from ollim_bot.surfaces.discord.rendering import OutgoingMessage


@pytest.fixture
async def scene() -> AsyncIterator[DraftScene]:
    scene = DraftScene()
    yield scene
    await scene.close()


async def nothing_waits() -> None:
    pass


def orphans_of(
    scene: DraftScene,
    known: Collection[str] = (),
    caught_up: Callable[[], Awaitable[None]] = nothing_waits,
) -> StaleDrafts:
    async def is_known(ref: str) -> bool:
        return ref in known

    return StaleDrafts(scene.channel, scene.background, scene.memory, caught_up, is_known)


async def test_a_turn_that_ends_without_words_leaves_nothing(scene: DraftScene) -> None:
    turn = await scene.begin()
    await turn.show(ToolStarted("1", "Read"), ToolEnded("1"))
    await scene.clock.advance(5)
    await turn.end(EndCause.INTERRUPTED)
    await scene.settle()
    assert scene.channel.texts == []
    assert scene.memory.ever
    assert not scene.memory.refs


async def test_words_without_an_answer_stay_and_say_that_they_end(scene: DraftScene) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("word " * 500))
    await scene.clock.advance(10)
    await turn.show(TextStreamed("and half a sen"))
    await turn.end(EndCause.FAILED)
    await scene.settle()
    first, last = scene.channel.texts
    assert first.startswith("word word")
    assert last.endswith("and half a sen\n-# cut off here")
    assert not scene.memory.refs


async def test_very_many_words_without_an_answer_say_that_they_end(scene: DraftScene) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("word " * 20_000))
    await scene.clock.advance(20)
    await turn.end(EndCause.FAILED)
    await scene.settle()
    *words, last = scene.channel.texts
    assert (len(words), last) == (9, "-# cut off here")


async def test_words_of_a_completed_turn_that_nobody_posted_were_not_meant_to_stay(
    scene: DraftScene,
) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("noise"))
    await scene.clock.advance(5)
    await turn.end(EndCause.COMPLETED)
    await scene.settle()
    assert scene.channel.texts == []


async def test_what_cannot_be_taken_away_now_is_taken_away_later(scene: DraftScene) -> None:
    turn = await scene.begin()
    scene.channel.is_down = True
    await turn.end(EndCause.INTERRUPTED)
    await scene.clock.advance(300)
    assert scene.memory.refs == set(scene.channel.bot)
    scene.channel.is_down = False
    await scene.clock.advance(31)
    assert scene.channel.texts == []
    assert not scene.memory.refs


async def test_a_draft_that_may_have_arrived_is_looked_for_and_taken_away(
    scene: DraftScene,
) -> None:
    scene.channel.lost_answers["send"] = 1
    turn = await scene.begin()
    assert len(scene.channel.bot) == 1
    await turn.end(EndCause.INTERRUPTED)
    await scene.settle()
    assert scene.channel.texts == []


async def test_a_presentation_that_is_cancelled_draws_no_more_and_leaves_its_drafts(
    scene: DraftScene,
) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("hello"))
    turn.presented.cancel()
    await asyncio.gather(turn.presented, return_exceptions=True)
    before = list(scene.channel.calls)
    await scene.clock.advance(60)
    assert scene.channel.calls == before
    assert scene.memory.refs == set(scene.channel.bot)


async def test_a_turn_whose_events_break_off_is_not_shown_as_running(scene: DraftScene) -> None:
    async def broken() -> AsyncIterator[AgentEvent]:
        yield TextStreamed("half")
        await scene.clock.advance(0)
        raise RuntimeError("a fault")

    start = TurnStart(TurnId("turn"), scene.clock.now(), ())
    with pytest.raises(RuntimeError):
        await scene.presenter.present(start, broken())
    await scene.settle()
    assert scene.channel.texts == ["half\n-# cut off here"]


async def test_the_next_start_closes_what_a_crash_has_left(scene: DraftScene) -> None:
    turn = await scene.begin()
    await turn.show(TextStreamed("word " * 500), ToolStarted("1", "Read"))
    await scene.clock.advance(10)
    await scene.background.close()
    first, _ = scene.channel.texts
    next_run = DraftScene()
    next_run.channel, next_run.memory = scene.channel, scene.memory
    status = await next_run.channel.send(OutgoingMessage("-# Thinking… (3s)"), "s" * 24)
    scene.memory.add_draft(status)
    scene.channel.fail("newest", Unreachable("no"))
    scene.channel.fail("edit", Unreachable("no"))
    with next_run.time_goes_on():
        await orphans_of(next_run).close(sorted(scene.memory.refs), 0)
    assert scene.channel.texts[0] == first
    assert scene.channel.texts[1].endswith(f"word\n{GOES_ON_BELOW}")
    assert len(scene.channel.texts) == 2
    assert not scene.memory.refs


async def test_each_turn_that_a_crash_has_cut_off_says_so(scene: DraftScene) -> None:
    texts = ("one\n-# Thinking… (3s)", "two, which is full", "three")
    refs = [await scene.channel.send(OutgoingMessage(text), text) for text in texts]
    await orphans_of(scene).close(refs, 0)
    ends = [f"one\n{GOES_ON_BELOW}", "two, which is full", f"three\n{GOES_ON_BELOW}"]
    assert scene.channel.texts == ends


async def test_a_full_draft_of_an_earlier_run_has_room_for_the_line(scene: DraftScene) -> None:
    ref = await scene.channel.send(OutgoingMessage("```\n" + "x " * 990 + "\n```"), "n" * 24)
    await orphans_of(scene).close([ref], 0)
    [text] = scene.channel.texts
    assert len(text) <= 2000
    assert text.endswith(f"```\n{GOES_ON_BELOW}")


async def test_drafts_that_could_not_be_noted_any_more_are_known_by_their_looks(
    scene: DraftScene,
) -> None:
    texts = (
        "-# Thinking…",
        "Half an\n-# Working… (1m 05s)\n-# Read …",
        "answer, which streams",
        "-# shutting down",
        "I think…",
        "-# Retrying (1 of 10)… (3s)\n-# side conversation · apart from the main one",
    )
    newest = [await scene.channel.send(OutgoingMessage(text), text) for text in texts][-1]
    await scene.channel.send(OutgoingMessage("-# Thinking… (2s)"), "of this life")
    await orphans_of(scene).close((), int(newest))
    assert scene.channel.texts == [
        f"Half an\n{GOES_ON_BELOW}",
        f"answer, which streams\n{GOES_ON_BELOW}",
        "-# shutting down",
        "I think…",
        "-# Thinking… (2s)",
    ]


async def test_a_draft_of_two_lives_ago_is_found_before_that_of_the_last(scene: DraftScene) -> None:
    texts = ("-# Thinking…", "-# Thinking… (3s)")
    refs = [await scene.channel.send(OutgoingMessage(text), text) for text in texts]
    await orphans_of(scene).close(refs[1:], int(refs[1]))
    assert scene.channel.texts == []


async def test_a_draft_that_is_far_up_is_closed_too(scene: DraftScene) -> None:
    refs = [await scene.channel.send(OutgoingMessage("-# Thinking…"), "n" * 24)]
    for number in range(60):
        scene.channel.say(f"words {number}")
    await orphans_of(scene).close(refs, 0)
    assert scene.channel.texts == []


async def test_what_has_become_an_answer_is_no_orphan(scene: DraftScene) -> None:
    refs = [await scene.channel.send(OutgoingMessage("whole"), "n" * 24)]
    known: list[str] = []
    is_caught_up = asyncio.Event()

    async def caught_up() -> None:
        await is_caught_up.wait()

    closing = asyncio.create_task(orphans_of(scene, known, caught_up).close(refs, 0))
    await scene.clock.advance(60)
    assert scene.channel.texts == ["whole"]
    known += refs
    is_caught_up.set()
    async with asyncio.timeout(60):
        await closing
    assert scene.channel.texts == ["whole"]


async def test_words_that_are_said_again_below_do_not_stay(scene: DraftScene) -> None:
    refs = [
        await scene.channel.send(OutgoingMessage(text), text)
        for text in ("A whole", "A whole answer.")
    ]
    await orphans_of(scene, refs[1:]).close(refs[:1], 0)
    assert scene.channel.texts == ["A whole answer."]
