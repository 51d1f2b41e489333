"""Whatever happens to the bot, the clock and the service, each message has one right end."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace

from devtools.doubles.channel import DeliveryFault
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conversation.crashing import Crash, StepCounter
from tests.conversation.delivery_scene import (
    RunningDelivery,
    ping,
    run_of,
    service_scene,
    with_a_token,
)
from tests.conversation.scene import InlineExecutor
from tests.examples import examples

from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.runs import RunKind
from ollim_bot.store.deliveries import DeliveryState

_TOKENS = 500
BACKGROUND = run_of(RunKind.BACKGROUND)


@dataclass(frozen=True)
class Event:
    """`what` happens to the bot or the service, and then time passes."""

    what: str
    seconds: float = 0.0
    faults: tuple[DeliveryFault, ...] = ()


@dataclass(frozen=True)
class PlannedRun:
    events: tuple[Event, ...]
    crash_at: int | None


events = st.one_of(
    st.builds(Event, st.just("two are sent"), st.sampled_from([0.0, 0.5, 20.0])),
    st.builds(
        Event,
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
        Event,
        st.sampled_from(["down", "refuses", "hides", "slow", "well"]),
        st.sampled_from([0.0, 5.0, 100.0, 400.0]),
    ),
    # No jump of the clock equals the time asleep: then the bot could not know how long ago a
    # message was sent.
    st.builds(Event, st.just("asleep"), st.sampled_from([30.0, 1000.0])),
    st.builds(Event, st.just("set"), st.sampled_from([130.0, 1000.0, -2500.0])),
)
runs = st.builds(
    PlannedRun, st.lists(events, max_size=5).map(tuple), st.none() | st.integers(1, 70)
)


class DeliveryHistory:
    def __init__(self) -> None:
        self.scene, self.service, self._service_clock = service_scene(longest=5)
        self._number = 0
        self._tasks: list[asyncio.Task[bool]] = []
        self.scene.store.run(lambda tx: tx.budget.change(_plenty))

    async def run(self, planned: PlannedRun) -> None:
        counter = StepCounter(planned.crash_at)
        with suppress(Crash):
            async with self.scene.running(counter) as outbox:
                for event in planned.events:
                    await self._apply(event, outbox)
                    counter.check()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def finish(self) -> None:
        """One more run in which everything works, until all has an end."""
        self._set_service("well")
        self.service.faults.clear()
        async with self.scene.running():
            await self.scene.until(lambda: not self.scene.waiting and not self.scene.untold)

    async def _apply(self, event: Event, outbox: RunningDelivery) -> None:
        match event.what:
            case "two are sent":
                self._send_two(outbox)
            case "something is lost":
                self.service.faults.extend(event.faults)
            case "asleep" | "set":
                self.scene.clock.jump(event.seconds)
                self._service_clock.asleep += event.seconds if event.what == "asleep" else 0
                return
            case state:
                self._set_service(state)
        await self.scene.clock.advance(event.seconds)

    def _send_two(self, outbox: RunningDelivery) -> None:
        for _ in range(2):
            self._number += 1
            words = f"{self._number:03}a {self._number:03}b"
            send = outbox.send(replace(ping(self._number), text=words), BACKGROUND, with_a_token)
            self._tasks.append(asyncio.create_task(send))

    def _set_service(self, state: str) -> None:
        service = self.service
        service.is_down = state == "down"
        service.is_hidden = state == "hides"
        service.refusal = "Your direct messages are closed." if state == "refuses" else ""
        if state == "slow":
            service.may_answer.clear()
        else:
            service.may_answer.set()

    def check(self) -> None:
        arrived = Counter(self.service.texts)
        used = failed = 0
        for message in self.scene.log:
            parts = [part.text for part in self.service.parts(message)]
            seen = [arrived.pop(part, 0) for part in parts]
            end = self._end_of(message.id)
            used += end is not DeliveryState.REFUSED
            failed += end is not DeliveryState.CONFIRMED
            is_told = f"message {message.id} discord" in self.scene.told
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
        assert round(_TOKENS - self.scene.budget.available) == used
        assert len(self.scene.told) == failed

    def _end_of(self, message_id: MessageId) -> DeliveryState:
        found = self.scene.store.run(lambda tx: tx.deliveries.get("discord", message_id))
        assert found is not None
        return found.state

    def check_order(self) -> None:
        begun = self.scene.log
        parts = [part.text for each in begun for part in self.service.parts(each)]
        places = [parts.index(text) for text in self.service.texts]
        assert places == sorted(places)


def _plenty(budget: PingBudget) -> PingBudget:
    """So many tokens that only spending and giving back changes their number."""
    return replace(budget, capacity=2 * _TOKENS, available=_TOKENS, refill_rate_minutes=10**6)


@settings(max_examples=examples(1.5))
@given(st.lists(runs, min_size=1, max_size=4))
def test_never_lost_never_doubled_and_what_is_unsure_is_told(planned: list[PlannedRun]) -> None:
    async def run() -> None:
        asyncio.get_running_loop().set_default_executor(InlineExecutor())
        history = DeliveryHistory()
        for each in planned:
            await history.run(each)
        await history.finish()
        history.check()
        history.check_order()

    asyncio.run(run())
