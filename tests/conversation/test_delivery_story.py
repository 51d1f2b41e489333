"""Whatever happens to the bot, the clock and the service, each message has one right end."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conversation.delivery_scene import Life as Running
from tests.conversation.delivery_scene import far_bag, ping, run_of, with_a_token
from tests.conversation.fate import Crash, Fate
from tests.conversation.scene import AtOnce
from tests.examples import examples

from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.runs import RunKind
from ollim_bot.store.deliveries import DeliveryState
from ollim_bot.testing.channel import DeliveryFault

_TOKENS = 500
BACKGROUND = run_of(RunKind.BACKGROUND)


@dataclass(frozen=True)
class Happens:
    """`what` befalls the bot or the service, and then time passes."""

    what: str
    seconds: float = 0.0
    faults: tuple[DeliveryFault, ...] = ()


@dataclass(frozen=True)
class Life:
    events: tuple[Happens, ...]
    crash_at: int | None


happenings = st.one_of(
    st.builds(Happens, st.just("two are sent"), st.sampled_from([0.0, 0.5, 20.0])),
    st.builds(
        Happens,
        st.just("something is lost"),
        faults=st.lists(
            st.sampled_from(
                [
                    DeliveryFault.NONE,
                    DeliveryFault.REQUEST_LOST,
                    DeliveryFault.ANSWER_LOST,
                    DeliveryFault.FAULT,
                ]
            ),
            max_size=4,
        ).map(tuple),
    ),
    st.builds(
        Happens,
        st.sampled_from(["down", "refuses", "hides", "slow", "well"]),
        st.sampled_from([0.0, 5.0, 100.0, 400.0]),
    ),
    # Never so that one makes up for the other: then nobody could know how long ago a thing was.
    st.builds(Happens, st.just("asleep"), st.sampled_from([30.0, 1000.0])),
    st.builds(Happens, st.just("set"), st.sampled_from([130.0, 1000.0, -2500.0])),
)
lives = st.builds(Life, st.lists(happenings, max_size=5).map(tuple), st.none() | st.integers(1, 70))


class Story:
    def __init__(self) -> None:
        self.bag, self.service, self._time = far_bag(longest=5)
        self._number = 0
        self._tasks: list[asyncio.Task[bool]] = []
        self.bag.store.run(lambda tx: tx.budget.change(_plenty))

    async def live(self, life: Life) -> None:
        fate = Fate(life.crash_at)
        with suppress(Crash):
            async with self.bag.life(fate) as outbox:
                for event in life.events:
                    await self._happen(event, outbox)
                    fate.check()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def end_well(self) -> None:
        """In the end everything works for long enough."""
        self._be("well")
        self.service.faults.clear()
        async with self.bag.life():
            await self.bag.until(lambda: not self.bag.waiting and not self.bag.untold)

    async def _happen(self, event: Happens, outbox: Running) -> None:
        match event.what:
            case "two are sent":
                self._send_two(outbox)
            case "something is lost":
                self.service.faults.extend(event.faults)
            case "asleep" | "set":
                self.bag.clock.jump(event.seconds)
                self._time.asleep += event.seconds if event.what == "asleep" else 0
                return
            case mood:
                self._be(mood)
        await self.bag.clock.advance(event.seconds)

    def _send_two(self, outbox: Running) -> None:
        for _ in range(2):
            self._number += 1
            words = f"{self._number:03}a {self._number:03}b"
            send = outbox.send(replace(ping(self._number), text=words), BACKGROUND, with_a_token)
            self._tasks.append(asyncio.create_task(send))

    def _be(self, mood: str) -> None:
        service = self.service
        service.is_down = mood == "down"
        service.is_hidden = mood == "hides"
        service.refusal = "Your direct messages are closed." if mood == "refuses" else ""
        if mood == "slow":
            service.may_answer.clear()
        else:
            service.may_answer.set()

    def check(self) -> None:
        arrived = Counter(self.service.texts)
        used = failed = 0
        for message in self.bag.log:
            parts = [part.text for part in self.service.parts(message)]
            seen = [arrived.pop(part, 0) for part in parts]
            end = self._end_of(message.id)
            used += end is not DeliveryState.REFUSED
            failed += end is not DeliveryState.CONFIRMED
            is_told = f"message {message.id} discord" in self.bag.told
            assert is_told == (end is not DeliveryState.CONFIRMED)
            match end:
                case DeliveryState.CONFIRMED:
                    assert seen == [1] * len(parts)
                case DeliveryState.REFUSED:
                    assert sorted(seen, reverse=True) == seen
                    assert set(seen[:-1]) <= {0, 1}
                    assert seen[-1] == 0
                case DeliveryState.UNKNOWN:
                    assert max(seen) <= 1
                case _:
                    raise AssertionError(end)
        assert arrived == {}, "what was never begun has arrived"
        assert round(_TOKENS - self.bag.budget.available) == used
        assert len(self.bag.told) == failed

    def _end_of(self, message_id: MessageId) -> DeliveryState:
        found = self.bag.store.run(lambda tx: tx.deliveries.get("discord", message_id))
        assert found is not None
        return found.state

    def check_order(self) -> None:
        begun = self.bag.log
        parts = [part.text for each in begun for part in self.service.parts(each)]
        places = [parts.index(text) for text in self.service.texts]
        assert places == sorted(places)


def _plenty(budget: PingBudget) -> PingBudget:
    """So many that only what is spent and given back can be seen."""
    return replace(budget, capacity=2 * _TOKENS, available=_TOKENS, refill_rate_minutes=10**6)


@settings(max_examples=examples(1.5))
@given(st.lists(lives, min_size=1, max_size=4))
def test_never_lost_never_doubled_and_what_is_unsure_is_told(history: list[Life]) -> None:
    async def run() -> None:
        asyncio.get_running_loop().set_default_executor(AtOnce())
        story = Story()
        for life in history:
            await story.live(life)
        await story.end_well()
        story.check()
        story.check_order()

    asyncio.run(run())
