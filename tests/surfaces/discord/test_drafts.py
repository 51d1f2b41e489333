"""Drafts: an answer takes them over, or they are deleted, or say where they end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.surfaces.discord.draft_scene import DraftScene, PresentedTurn, texts_of

from ollim_bot.kernel.base.errors import DeliveryFailed, DeliveryUncertain, OllimError, Unreachable
from ollim_bot.kernel.base.ids import MessageId, TurnId
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.events import (
    AgentEvent,
    EndCause,
    TextCompleted,
    TextStreamed,
    TextWithdrawn,
    ToolEnded,
    ToolStarted,
)
from ollim_bot.kernel.values.ports import TurnStart
from ollim_bot.surfaces.discord.drafts import GOES_ON_BELOW, StaleDrafts
from ollim_bot.surfaces.discord.rendering import OutgoingMessage, undated


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
    turn = await scene.begin(ToolStarted("1", "Read"), ToolEnded("1"), seconds=5)
    await scene.finish(turn, EndCause.INTERRUPTED)
    assert scene.channel.texts == []
    assert scene.memory.ever
    assert not scene.memory.refs


async def test_words_without_an_answer_stay_and_say_that_they_end(scene: DraftScene) -> None:
    turn = await scene.begin(TextStreamed("word " * 500), seconds=10)
    await turn.show(TextStreamed("and half a sen"))
    await scene.finish(turn, EndCause.FAILED)
    first, last = scene.channel.texts
    assert first.startswith("word word")
    assert last.endswith("and half a sen\n-# cut off here")
    assert not scene.memory.refs


async def test_very_many_words_without_an_answer_say_that_they_end(scene: DraftScene) -> None:
    turn = await scene.begin(TextStreamed("word " * 20_000), seconds=20)
    await scene.finish(turn, EndCause.FAILED)
    *words, last = scene.channel.texts
    assert (len(words), last) == (9, "-# cut off here")


async def test_words_of_a_completed_turn_that_nobody_posted_were_not_meant_to_stay(
    scene: DraftScene,
) -> None:
    turn = await scene.begin(TextStreamed("noise"), seconds=5)
    await scene.finish(turn)
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
    await scene.finish(turn, EndCause.INTERRUPTED)
    assert scene.channel.texts == []


async def test_a_presentation_that_is_cancelled_draws_no_more_and_leaves_its_drafts(
    scene: DraftScene,
) -> None:
    turn = await scene.begin(TextStreamed("hello"))
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
    await scene.begin(TextStreamed("word " * 500), ToolStarted("1", "Read"), seconds=10)
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


LONG = "One sentence of some words, as they come. " * 150


async def test_an_answer_takes_the_place_of_its_drafts(scene: DraftScene) -> None:
    turn = await scene.begin(TextStreamed(LONG), seconds=20)
    drafts = list(scene.channel.bot)
    answer = scene.answer(turn, LONG)
    assert await scene.deliver(answer) == drafts
    await scene.finish(turn)
    assert scene.channel.texts == texts_of(answer)
    assert scene.memory.ever == set(drafts)
    assert not scene.memory.refs


async def test_an_answer_stands_below_the_question_from_the_page(scene: DraftScene) -> None:
    turn = await scene.begin(TextStreamed("Blue"), seconds=5)
    question = replace(
        scene.answer(None, "which colour?"), id=MessageId("in-1"), author=Author.OWNER
    )
    await scene.deliver(question)
    answer = scene.answer(turn, "Blue.")
    await scene.deliver(answer)
    await scene.finish(turn)
    assert scene.channel.texts == [*texts_of(question), "Blue."]


async def test_an_answer_that_is_longer_than_what_was_drawn_goes_on_below(
    scene: DraftScene,
) -> None:
    turn = await scene.begin()
    answer = scene.answer(turn, LONG)
    await scene.deliver(answer)
    await scene.finish(turn)
    assert scene.channel.texts == texts_of(answer)
    assert scene.requests() == ["send", "edit", "send", "send", "send"]


async def test_drafts_beyond_the_end_of_the_answer_go_with_its_last_part(scene: DraftScene) -> None:
    turn = await scene.begin(TextStreamed(LONG), seconds=20)
    answer = scene.answer(turn, "short")
    await scene.deliver(answer)
    await scene.clock.advance(1)
    assert scene.channel.texts == ["short"]
    await scene.finish(turn)
    assert not scene.memory.refs


async def test_nothing_is_drawn_over_an_answer(scene: DraftScene) -> None:
    turn = await scene.begin(TextStreamed("half"))
    await scene.deliver(scene.answer(turn, "whole"))
    await turn.show(TextStreamed(" an answer"))
    await scene.clock.advance(60)
    assert scene.channel.texts == ["whole"]
    await scene.finish(turn, EndCause.INTERRUPTED)
    assert scene.channel.texts == ["whole"]


async def test_a_request_under_way_is_waited_for_before_the_answer_takes_over(
    scene: DraftScene,
) -> None:
    scene.channel.may_answer.clear()
    turn = await scene.begin()
    delivered = asyncio.create_task(scene.deliver(scene.answer(turn, "whole")))
    await scene.clock.advance(0)
    assert scene.requests() == ["send"]
    scene.channel.may_answer.set()
    await delivered
    assert scene.channel.texts == ["whole"]
    assert scene.requests() == ["send", "edit"]


async def test_a_request_that_hangs_does_not_hold_the_answer_up_for_long(scene: DraftScene) -> None:
    turn = await scene.begin()
    scene.channel.may_answer.clear()
    await turn.show(TextStreamed("half"))
    await scene.clock.advance(2)
    answer = scene.answer(turn, "whole")
    delivered = asyncio.create_task(scene.deliver(answer))
    await scene.clock.advance(4)
    assert scene.requests() == ["send", "edit"]
    await scene.clock.advance(2)
    assert scene.requests() == ["send", "edit", "send"]
    scene.channel.may_answer.set()
    await delivered
    await scene.settle()
    assert scene.channel.texts == ["whole"]


async def test_a_note_takes_the_place_of_a_status_line(scene: DraftScene) -> None:
    turn = await scene.begin()
    [draft] = scene.channel.bot
    note = scene.note(turn, "I stopped.")
    assert await scene.deliver(note) == [draft]
    await scene.finish(turn, EndCause.INTERRUPTED)
    assert scene.channel.texts == texts_of(note)


async def test_a_note_never_takes_the_place_of_words(scene: DraftScene) -> None:
    turn = await scene.begin(TextStreamed("half an answer"), seconds=5)
    note = scene.note(turn, "The engine stopped.")
    await scene.deliver(note)
    await scene.finish(turn, EndCause.FAILED)
    assert scene.channel.texts == ["half an answer\n-# cut off here", *texts_of(note)]


async def test_a_note_after_an_answer_stands_below_it(scene: DraftScene) -> None:
    turn = await scene.begin(TextStreamed("half"))
    answer, note = scene.answer(turn, "half"), scene.note(turn, "The engine stopped.")
    await scene.deliver(answer)
    await scene.deliver(note)
    await scene.finish(turn, EndCause.FAILED)
    assert scene.channel.texts == [*texts_of(answer), *texts_of(note)]


async def test_an_announced_answer_is_waited_for_after_the_end_of_its_turn(
    scene: DraftScene,
) -> None:
    turn = await scene.begin(TextStreamed("half"), seconds=5)
    [draft] = scene.channel.bot
    answer = scene.answer(turn, "whole")
    scene.post(answer)
    await turn.end()
    await scene.clock.advance(60)
    assert list(scene.channel.bot) == [draft]
    assert await scene.deliver(answer) == [draft]
    assert scene.channel.texts == ["whole"]


async def test_an_answer_that_nobody_announced_is_new_after_the_end_of_its_turn(
    scene: DraftScene,
) -> None:
    turn = await scene.begin(TextStreamed("half"), seconds=5)
    await turn.end(EndCause.INTERRUPTED)
    await scene.clock.advance(60)
    [draft] = scene.channel.bot.values()
    assert draft.outgoing.text == "half\n-# cut off here"
    assert draft.ref not in await scene.deliver(scene.answer(turn, "whole"))
    await scene.settle()
    assert scene.channel.texts == ["whole"]


async def test_an_answer_that_comes_long_after_stands_below_the_question_that_came_meanwhile(
    scene: DraftScene,
) -> None:
    first = await scene.begin(TextStreamed("half"), seconds=5)
    answer = scene.answer(first, "first answer")
    scene.post(answer)
    await first.end()
    scene.channel.is_down = True
    await scene.clock.advance(600)
    asked = scene.channel.say("and?")
    second = await scene.begin(TextStreamed("second"))
    scene.channel.is_down = False
    await scene.clock.advance(31)
    [ref] = await scene.deliver(answer)
    assert int(ref) > int(asked.ref)
    await scene.clock.advance(10)
    assert undated(scene.channel.texts[0]) == "first answer"
    assert scene.channel.texts[1].startswith("second")
    await scene.deliver(scene.answer(second, "second answer"))
    await scene.finish(second)
    assert [undated(text) for text in scene.channel.texts] == ["first answer", "second answer"]


async def test_the_next_turn_does_not_make_an_answer_jump_that_comes_at_once(
    scene: DraftScene,
) -> None:
    first = await scene.begin(TextStreamed("half"), seconds=5)
    [draft] = scene.channel.bot
    answer = scene.answer(first, LONG)
    scene.post(answer)
    await first.end()
    second = await scene.begin()
    refs = await scene.deliver(answer)
    assert refs[0] == draft
    await scene.clock.advance(10)
    *texts, status = scene.channel.texts
    assert texts == texts_of(answer), "the status of the next turn moves below it"
    assert status.startswith("-# Thinking…")
    await scene.deliver(scene.answer(second, "second answer"))
    await scene.settle()
    assert scene.channel.texts == [*texts_of(answer), "second answer"]


async def test_the_status_of_the_next_turn_moves_once_for_all_parts_of_an_answer(
    scene: DraftScene,
) -> None:
    scene.channel.pause = 0.0
    first = await scene.begin()
    answer = scene.answer(first, LONG)
    scene.post(answer)
    await first.end()
    await scene.begin(TextStreamed("second "))
    parts = await scene.deliver(answer)
    await scene.clock.advance(10)
    assert len(parts) > 2
    assert len(scene.requests("send")) == len(parts) + 2, "one took the first status over"
    assert scene.channel.texts[:-1] == texts_of(answer)


async def test_two_answers_after_an_outage_stand_in_the_order_in_which_they_were_given(
    scene: DraftScene,
) -> None:
    answers = []
    for text in ("first answer", "second answer"):
        turn = await scene.begin()
        await turn.show(TextStreamed(text))
        await scene.clock.advance(5)
        answers.append(scene.answer(turn, text))
        scene.post(answers[-1])
        await turn.end()
        await scene.clock.advance(60)
    for answer in answers:
        await scene.deliver(answer)
    await scene.settle()
    assert [undated(text) for text in scene.channel.texts] == ["first answer", "second answer"]


async def test_a_ping_during_a_turn_leaves_words_where_they_are(scene: DraftScene) -> None:
    turn = await scene.begin(TextStreamed("wh"), seconds=5)
    [draft] = scene.channel.bot
    await scene.deliver(scene.answer(None, "stand up"))
    await scene.clock.advance(10)
    assert await scene.deliver(scene.answer(turn, "whole")) == [draft]
    assert scene.channel.texts == ["whole", "stand up"]


async def test_a_status_line_moves_below_what_comes_while_no_word_can_be_read(
    scene: DraftScene,
) -> None:
    turn = await scene.begin()
    await scene.deliver(scene.answer(None, "may I?"))
    await turn.show(TextStreamed("wh"))
    await scene.clock.advance(10)
    assert scene.channel.texts == ["may I?", "wh"]
    await scene.deliver(scene.answer(turn, "whole"))
    await scene.settle()
    assert scene.channel.texts == ["may I?", "whole"]


async def test_a_status_line_that_a_card_overtook_costs_a_second_message_only_if_the_turn_lasts(
    scene: DraftScene,
) -> None:
    turn = await scene.begin()
    await scene.deliver(scene.answer(None, "a card"))
    await scene.clock.advance(3)
    assert scene.channel.texts == ["a card"]
    await scene.clock.advance(3)
    assert scene.channel.texts == ["a card", "-# Thinking… (5s)"]
    [_, draft] = scene.channel.bot
    assert await scene.deliver(scene.answer(turn, "whole")) == [draft]


async def test_answers_stand_in_order_though_the_first_draft_came_after_the_second(
    scene: DraftScene,
) -> None:
    """For example because sending the first draft took several tries."""
    scene.channel.pause = 0.0
    scene.channel.fail("send", Unreachable("not yet"))
    first = await scene.begin()
    second = await scene.begin(seconds=5)
    above, below = list(scene.channel.bot)
    one, two = scene.answer(first, "one"), scene.answer(second, "two")
    assert await scene.deliver(one) == [below]
    await first.end()
    await scene.deliver(two)
    await scene.finish(second)
    assert scene.channel.texts == ["one", "two"]
    assert above not in scene.channel.bot


@dataclass(frozen=True)
class Failing:
    """The next call raises `error`; without one it succeeds, but its answer is lost."""

    call: str
    error: OllimError | None


@dataclass(frozen=True)
class Outage:
    """Calls fail from here on, or hang."""

    hangs: bool


class Recovery:
    pass


class Ping:
    pass


class Delivery:
    """All waiting messages are delivered while the turn runs."""


@dataclass(frozen=True)
class Step:
    """Something happens, and then some time passes."""

    what: object
    seconds: float


CHUNKS = st.sampled_from(
    ["word ", "A sentence. ", "\n\n", "- a row\n", "some words " * 130, "```py\nx = 1\n", "```\n"]
)

EVENTS = st.one_of(
    CHUNKS.map(TextStreamed),
    CHUNKS.map(TextStreamed),
    CHUNKS.map(TextCompleted),
    st.just(TextWithdrawn()),
    st.just(ToolStarted("1", "Read")),
    st.just(ToolEnded("1")),
)

PASSING_TROUBLES: list[OllimError | None] = [None, Unreachable("no"), DeliveryUncertain("lost")]

FAILURES = st.one_of(
    st.builds(
        Failing,
        st.sampled_from(["send", "edit"]),
        st.sampled_from([DeliveryFailed("no"), *PASSING_TROUBLES]),
    ),
    # `delete` is never refused for good: such a draft would stay for ever.
    st.builds(Failing, st.sampled_from(["delete", "newest"]), st.sampled_from(PASSING_TROUBLES)),
)

STEPS = st.builds(
    Step,
    st.one_of(
        EVENTS,
        EVENTS,
        FAILURES,
        st.booleans().map(Outage),
        st.builds(Recovery),
        st.builds(Ping),
        st.builds(Delivery),
    ),
    st.sampled_from([0.0, 1.3, 1.3, 3.0, 11.0, 70.0]),
)


@dataclass(frozen=True)
class Plan:
    """A turn: its steps, its answer if any, and whether the answer comes after its end."""

    steps: tuple[Step, ...]
    answer: str | None
    is_late: bool


PLANS = st.builds(
    Plan,
    st.lists(STEPS, max_size=10).map(tuple),
    st.one_of(
        st.none(), st.lists(CHUNKS, min_size=1, max_size=8).map(lambda each: f"So: {''.join(each)}")
    ),
    st.booleans(),
)


class TurnRunner:
    def __init__(self) -> None:
        self.scene = DraftScene()
        self.pings: set[str] = set()
        self.answers: list[ChatMessage] = []
        self.waiting: list[ChatMessage] = []

    async def run(self, plan: Plan) -> None:
        turn = await self.scene.begin()
        for step in plan.steps:
            await self.take(turn, step.what)
            await self.scene.clock.advance(step.seconds)
        if plan.answer is not None:
            answer = self.scene.answer(turn, plan.answer)
            self.answers.append(answer)
            self.waiting.append(answer)
            self.scene.post(answer)
        if not plan.is_late:
            await self.deliver()
        await turn.end(EndCause.COMPLETED)

    async def take(self, turn: PresentedTurn, what: object) -> None:
        channel = self.scene.channel
        match what:
            case Failing(call=call, error=None):
                channel.lost_answers[call] = channel.lost_answers.get(call, 0) + 1
            case Failing(call=call, error=error):
                channel.fail(call, error)
            case Outage(hangs=True):
                channel.may_answer.clear()
            case Outage():
                channel.is_down = True
            case Recovery():
                self.recover()
            case Ping():
                await self.ping()
            case Delivery():
                await self.deliver()
            case TextStreamed() | TextCompleted() | TextWithdrawn() | ToolStarted() | ToolEnded():
                await turn.show(what)

    def recover(self) -> None:
        self.scene.channel.is_down = False
        self.scene.channel.may_answer.set()

    async def ping(self) -> None:
        """Deliver a ping, unless another message waits before it."""
        if not self.waiting:
            self.spare_messages()
            self.pings.update(await self.scene.deliver(self.scene.answer(None, "stand up")))
            await self.scene.pause()

    async def deliver(self) -> None:
        self.spare_messages()
        while self.waiting:
            await self.scene.deliver(self.waiting.pop(0))
        await self.scene.pause()

    def spare_messages(self) -> None:
        """Let no message be refused, and none fail so often that it is given up."""
        self.recover()
        failures = self.scene.channel.failures
        kept = [each for each in failures.get("send", ()) if not isinstance(each, DeliveryFailed)]
        failures["send"] = deque(kept[:2])
        self.scene.channel.lost_answers["send"] = min(
            2, self.scene.channel.lost_answers.get("send", 0)
        )

    async def end(self) -> list[str]:
        await self.deliver()
        await self.scene.clock.advance(300)
        shown = [each for each in self.scene.channel.bot.values() if each.ref not in self.pings]
        await self.scene.close()
        in_order = sorted(shown, key=lambda each: int(each.ref))
        return [undated(each.outgoing.text) for each in in_order]


@given(st.lists(PLANS, min_size=1, max_size=3))
def test_in_the_end_the_answers_stand_there_once_in_order_and_nothing_else_of_their_turns(
    plans: list[Plan],
) -> None:
    async def run() -> None:
        runner = TurnRunner()
        for plan in plans:
            await runner.run(plan)
        assert await runner.end() == [text for each in runner.answers for text in texts_of(each)]
        assert not runner.scene.memory.refs

    asyncio.run(run())
