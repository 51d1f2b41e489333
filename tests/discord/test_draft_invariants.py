"""Whatever happens while turns run, in the end exactly their answers are shown, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from tests.discord.draft_scene import DraftScene, PresentedTurn, texts_of

from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.events import (
    EndCause,
    TextCompleted,
    TextStreamed,
    TextWithdrawn,
    ToolEnded,
    ToolStarted,
)
from ollim_bot.errors import DeliveryFailed, DeliveryUncertain, OllimError, Unreachable
from ollim_bot.surfaces.discord.rendering import undated


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
