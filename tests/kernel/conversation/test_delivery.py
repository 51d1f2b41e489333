"""A message is delivered when the service has given it an id: once; what is unsure is told."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from devtools.doubles.channel import ChannelContract, DeliveryFault, FakeChatService
from devtools.doubles.clock import ManualClock
from devtools.doubles.repeating_store import RepeatingStore
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.kernel.conversation.crashing import Crash, StepCounter
from tests.kernel.conversation.delivery_scene import (
    FORK,
    PARENT,
    DeliveryScene,
    RunningDelivery,
    ServiceClock,
    ping,
    run_of,
    service_scene,
    with_a_token,
)
from tests.kernel.conversation.scene import NOW, InlineExecutor

from ollim_bot.kernel.base.errors import DeliveryFailed, NotStored, WriteFailed
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.store.delivery_rows import DeliveryState
from ollim_bot.kernel.tools.tool_context import Arrival
from ollim_bot.kernel.values.chat import Author, ChatMessage, numbered_id
from ollim_bot.kernel.values.forks import ForkStatus, lookup_fork_session
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.ports import Channel
from ollim_bot.kernel.values.runs import RunKind

pytestmark = pytest.mark.usefixtures("inline_executor")


BACKGROUND = run_of(RunKind.BACKGROUND)


class TestFarService(ChannelContract):
    def make(self) -> Channel:
        return FakeChatService(ManualClock(NOW))


def said(number: int, text: str) -> ChatMessage:
    return ChatMessage(numbered_id(NOW, number), NOW, Author.BACKGROUND, text)


async def sent(scene: DeliveryScene, outbox: RunningDelivery, *messages: ChatMessage) -> list[bool]:
    """Send them one after the other, without waiting for any."""
    sending = [
        asyncio.create_task(outbox.send(each, BACKGROUND, with_a_token)) for each in messages
    ]
    await scene.until(lambda: all(each.done() for each in sending))
    return [each.result() for each in sending]


async def test_a_ping_is_on_the_page_then_handed_over_and_confirmed_by_its_id() -> None:
    scene, service, _ = service_scene()
    counter = StepCounter()
    async with scene.running(counter) as outbox:
        counter.steps.clear()
        assert await sent(scene, outbox, ping()) == [True]
    after = [step for step in counter.steps if step.startswith("after")]
    arrived = after.index("after a part was handed over")
    [confirmed] = after[arrived + 1 :]
    assert "deliveries, fork_messages" in confirmed, "all that follows from it is one step"
    [arrival] = service.history
    assert arrival.text == "ping 7"
    assert scene.surfaces[-1].texts == ["ping 7"]
    assert [scene.refs(each.id) for each in scene.log] == [(arrival.id,)]
    assert (scene.waiting, scene.spent, scene.told) == ([], (1, 1, 0), {})


async def test_a_reply_finds_the_session_by_our_number_and_by_those_of_the_service() -> None:
    scene, service, _ = service_scene(longest=4)
    async with scene.running() as outbox:
        await sent(scene, outbox, ping())
    numbers = [int(ping().id), *(int(each.id) for each in service.history)]
    assert scene.recorded == [(number, FORK, PARENT) for number in numbers]
    known = scene.store.run(lambda tx: tx.fork_messages.get())
    for number in numbers:
        assert lookup_fork_session(known, number, NOW.timestamp()).status is ForkStatus.LIVE


async def test_a_long_message_arrives_in_parts_each_under_a_nonce_of_its_own() -> None:
    scene, service, _ = service_scene(longest=3)
    async with scene.running() as outbox:
        assert await sent(scene, outbox, said(1, "abcabcabcab"), said(2, "xyz")) == [True, True]
    assert service.texts == ["abc", "abc", "abc", "ab", "xyz"]
    nonces = {each.nonce for each in service.history}
    assert len(nonces) == 5
    assert {len(nonce) for nonce in nonces} == {24}
    first = scene.refs(scene.log[0].id)
    assert list(first) == [each.id for each in service.history[:4]]


async def test_what_must_come_waits_for_the_rest_of_one_message_at_most() -> None:
    scene, service, _ = service_scene(longest=3)
    service.is_down = True
    async with scene.running() as outbox:
        dose = replace(said(4, "dose"), must=True)
        quoting = said(3, '"must": true')
        await sent(scene, outbox, said(1, "abcdef"))
        await sent(scene, outbox, said(2, "uvwxyz"), quoting, dose)
        service.is_down = False
        await scene.until(lambda: not scene.waiting)
    assert service.texts == ["abc", "def", "dos", "e", "uvw", "xyz", '"mu', 'st"', ": t", "rue"]


async def test_a_message_that_is_refused_costs_nothing_and_both_are_told() -> None:
    scene, service, _ = service_scene()
    service.refusal = REFUSAL
    async with scene.running() as outbox:
        with pytest.raises(DeliveryFailed, match="direct messages are closed"):
            await sent(scene, outbox, ping())
        service.refusal = ""
        assert await sent(scene, outbox, ping(8)) == [True]
    assert service.texts == ["ping 8"]
    assert scene.spent == (1, 1, 0)
    why = "(Your direct messages are closed). It is on the page."
    assert list(scene.told.values()) == [f"This did not arrive on Discord: “ping 7” {why}"]
    assert (scene.waiting, scene.untold) == ([], [])


async def test_who_sends_is_not_kept_waiting_by_a_service_that_does_not_answer() -> None:
    scene, service, _ = service_scene()
    service.is_down = True
    async with scene.running() as outbox:
        sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
        await scene.clock.advance(9.9)
        assert not sending.done()
        await scene.clock.advance(0.1)
        assert sending.done()
        assert await sending
        assert outbox.arrival is Arrival.ON_ITS_WAY
        assert scene.waiting == [ping().id]
        service.is_down = False
        await scene.until(lambda: not scene.waiting)
    assert service.texts == ["ping 7"]
    assert (scene.waiting, scene.spent) == ([], (1, 1, 0))


async def test_a_service_that_is_away_for_hours_is_asked_ever_less_and_loses_nothing() -> None:
    scene, service, _ = service_scene()
    service.is_down = True
    async with scene.running() as outbox:
        await sent(scene, outbox, ping(1), ping(2))
        await scene.clock.advance(4 * 3600)
        assert service.tries <= 10 + 4 * 60
        service.is_down, service.is_hidden = False, True
        await scene.clock.advance(61)
    assert service.texts == ["ping 1", "ping 2"]
    assert scene.told == {}


async def test_the_same_message_is_delivered_once_however_often_it_is_sent() -> None:
    scene, service, _ = service_scene()
    service.is_down = True
    async with scene.running() as outbox:
        await sent(scene, outbox, ping(), ping())
        service.is_down = False
        await scene.until(lambda: not scene.waiting)
        await sent(scene, outbox, ping())
    assert service.texts == ["ping 7"]
    assert scene.spent == (1, 1, 0)


REFUSAL = "Your direct messages are closed."

LOST = [DeliveryFault.REQUEST_LOST, DeliveryFault.ANSWER_LOST]

TOLD = "I cannot tell whether this arrived on Discord: “ping 7”. It is on the page."


async def tried(scene: DeliveryScene, outbox: RunningDelivery) -> asyncio.Task[bool]:
    """Send it, and wait for the first try."""
    sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
    await scene.until(lambda: scene.services[0].tries)
    return sending


def sleeps(scene: DeliveryScene, time: ServiceClock) -> None:
    """The machine sleeps for longer than the service remembers a nonce."""
    scene.clock.jump(1000)
    time.asleep += 1000


@pytest.mark.parametrize("mishap", LOST)
async def test_a_lost_answer_is_asked_for_again_under_the_same_nonce(mishap: DeliveryFault) -> None:
    scene, service, _ = service_scene()
    service.faults.append(mishap)
    async with scene.running() as outbox:
        assert await sent(scene, outbox, ping()) == [True]
    assert service.texts == ["ping 7"]
    assert (service.tries, service.readings) == (2, 0)
    assert (scene.waiting, scene.told, scene.spent) == ([], {}, (1, 1, 0))


@pytest.mark.parametrize("mishap", LOST)
@pytest.mark.parametrize("how", ["the machine sleeps", "the clock is set back", "the bot restarts"])
async def test_what_the_service_may_have_forgotten_is_read_back_first(
    mishap: DeliveryFault, how: str
) -> None:
    scene, service, time = service_scene(remembers=timedelta(minutes=3))
    service.faults.append(mishap)
    async with scene.running() as outbox:
        sending = await tried(scene, outbox)
        match how:
            case "the machine sleeps":
                sleeps(scene, time)
            case "the clock is set back":
                scene.clock.jump(-86400)
                time.asleep += 1000
            case "the bot restarts":
                time.asleep += 1000
                sending.cancel()
        if how != "the bot restarts":
            await scene.until(lambda: not scene.waiting)
    async with scene.running():
        await scene.until(lambda: not scene.waiting)
    await asyncio.gather(sending, return_exceptions=True)
    assert service.texts == ["ping 7"]
    assert service.readings == 1
    assert (scene.told, scene.spent) == ({}, (1, 1, 0))


@pytest.mark.parametrize("mishap", LOST)
@pytest.mark.parametrize("reason", ["nobody may read", "too much came after it"])
async def test_what_cannot_be_known_is_not_repeated_and_told_once(
    mishap: DeliveryFault, reason: str
) -> None:
    scene, service, time = service_scene()
    service.faults.append(mishap)
    async with scene.running() as outbox:
        sending = await tried(scene, outbox)
        sleeps(scene, time)
        service.is_hidden = reason == "nobody may read"
        service.add_foreign(30)
        service.reach = 20
        await scene.until(lambda: scene.told)
        assert await sending
    service.is_hidden, service.reach = False, None
    async with scene.running():
        await scene.clock.advance(600)
    assert service.texts == (["ping 7"] if mishap is DeliveryFault.ANSWER_LOST else [])
    assert service.tries == 1
    assert list(scene.told.values()) == [TOLD]
    assert (scene.waiting, scene.untold) == ([], [])
    assert scene.budget.daily_used == 1, "it may have been seen, so it was paid for"
    assert [each.text for each in scene.log] == ["ping 7"]


async def test_a_reading_that_fails_for_a_while_gives_nothing_up() -> None:
    scene, service, time = service_scene()
    service.faults.append(DeliveryFault.ANSWER_LOST)
    async with scene.running() as outbox:
        sending = await tried(scene, outbox)
        sleeps(scene, time)
        service.is_hidden = True
        await scene.until(lambda: service.readings == 7)
        service.is_hidden, service.is_down = False, True
        await scene.clock.advance(4 * 3600)
        service.is_down = False
        await scene.until(lambda: not scene.waiting)
        assert await sending
    assert service.texts == ["ping 7"]
    assert scene.told == {}


async def test_a_try_that_arrives_after_the_second_one_is_known_by_its_nonce() -> None:
    scene, service, _ = service_scene()
    service.faults.append(DeliveryFault.LATE)
    async with scene.running() as outbox:
        assert await sent(scene, outbox, ping()) == [True]
    service.deliver_late()
    assert service.texts == ["ping 7"]


async def test_another_message_with_the_same_words_is_not_taken_for_it() -> None:
    scene, service, time = service_scene()
    async with scene.running() as outbox:
        assert await sent(scene, outbox, ping()) == [True]
        same = replace(ping(8), text="ping 7")
        service.faults.append(DeliveryFault.REQUEST_LOST)
        sending = asyncio.create_task(outbox.send(same, BACKGROUND, with_a_token))
        await scene.until(lambda: service.tries == 2)
        sleeps(scene, time)
        await scene.until(lambda: not scene.waiting)
        assert await sending
    assert service.texts == ["ping 7", "ping 7"]
    assert service.readings == 1
    assert [scene.refs(each.id) for each in scene.log] == [(each.id,) for each in service.history]


async def test_what_was_never_handed_over_needs_no_reading_after_a_restart() -> None:
    scene, service, _ = service_scene()
    service.is_down = service.is_hidden = True
    async with scene.running() as outbox:
        assert await sent(scene, outbox, ping()) == [True]
        later = asyncio.create_task(outbox.send(ping(8), BACKGROUND, with_a_token))
        await scene.until(later.done)
    service.is_down = False
    async with scene.running():
        await scene.until(lambda: not scene.waiting)
    assert service.texts == ["ping 7", "ping 8"]
    assert (service.readings, scene.told) == (0, {})


@pytest.mark.parametrize(("ahead", "set_back"), [(3000.0, 0.0), (86400.0, -86400.0)])
async def test_a_clock_that_was_wrong_hides_nothing_that_has_arrived(
    ahead: float, set_back: float
) -> None:
    scene, service, time = service_scene()
    scene.clock.jump(ahead)
    service.faults.append(DeliveryFault.ANSWER_LOST)
    async with scene.running() as outbox:
        sending = await tried(scene, outbox)
    sending.cancel()
    scene.clock.jump(set_back + 1000)
    time.asleep += 1000
    service.add_foreign(30)
    async with scene.running():
        await scene.until(lambda: not scene.waiting)
    await asyncio.gather(sending, return_exceptions=True)
    assert service.texts == ["ping 7"]
    assert scene.told == {}


async def test_a_reading_that_is_never_answered_is_asked_for_again() -> None:
    scene, service, time = service_scene()
    service.faults.append(DeliveryFault.ANSWER_LOST)
    async with scene.running() as outbox:
        sending = await tried(scene, outbox)
        sleeps(scene, time)
        service.may_answer.clear()
        await scene.clock.advance(3600)
        assert service.readings > 8
        assert (scene.waiting, scene.told) == ([ping().id], {})
        service.may_answer.set()
        await scene.until(lambda: not scene.waiting)
        assert await sending
    assert service.texts == ["ping 7"]


class FullDisk(StepCounter):
    """Lets a store refuse every write from the chosen one on; the first is number 1."""

    def __init__(self, store: RepeatingStore, full_at: int | None = None) -> None:
        super().__init__()
        self.has_begun = False
        self.writes = 0
        self._store = store
        self._full_at = full_at

    def step(self, what: str) -> None:
        super().step(what)
        if self.has_begun and what.startswith("before a step"):
            self.writes += 1
            if self.writes == self._full_at:
                self._store.fail_with(WriteFailed(Path("ollim.db"), "No space left on device."))

    def make_room(self) -> None:
        self._store.fail_with(None)


def is_settled(scene: DeliveryScene) -> bool:
    return not scene.waiting and not scene.untold


async def send(scene: DeliveryScene, disk: FullDisk, *, makes_room: bool) -> bool:
    """One run with one ping; gives whether it was accepted. Room comes in that run or after it."""
    async with scene.running(disk) as outbox:
        await scene.clock.advance(0)
        disk.has_begun = True
        sending = asyncio.create_task(outbox.send(ping(), BACKGROUND, with_a_token))
        await scene.until(lambda: sending.done() or not scene.store.is_writable)
        await scene.until(lambda: is_settled(scene) or not scene.store.is_writable)
        await scene.clock.advance(60)
        if makes_room:
            disk.make_room()
            await scene.until(lambda: sending.done() and is_settled(scene))
        sending.cancel()
        [outcome] = await asyncio.gather(sending, return_exceptions=True)
    disk.make_room()
    return not isinstance(outcome, NotStored)


def check(scene: DeliveryScene, service: FakeChatService, where: str, *, is_accepted: bool) -> None:
    assert is_settled(scene), where
    if not is_accepted:
        assert (scene.texts, service.texts, scene.spent, scene.recorded) == (
            [],
            [],
            (0, 0, 0),
            [],
        ), where
        assert scene.told == {}, where
    elif service.refusal:
        assert (service.texts, scene.budget.daily_used, len(scene.told)) == ([], 0, 1), where
    else:
        assert (scene.texts, service.texts) == (["ping 7"], ["ping 7"]), where
        assert (scene.spent, scene.told) == ((1, 1, 0), {}), where
        assert [scene.refs(each.id) for each in scene.log] == [(service.history[0].id,)], where


async def writes_of_a_ping(refusal: str) -> int:
    scene, service, _ = service_scene()
    disk = FullDisk(scene.store)
    service.refusal = refusal
    assert await send(scene, disk, makes_room=True)
    return disk.writes


@pytest.mark.parametrize("refusal", ["", REFUSAL])
@pytest.mark.parametrize("makes_room", [True, False], ids=["room", "a restart"])
async def test_wherever_the_disk_is_full_a_ping_is_refused_or_comes_once_with_its_cost(
    refusal: str, *, makes_room: bool
) -> None:
    number = await writes_of_a_ping(refusal)
    accepted = []
    for full_at in range(1, number + 1):
        scene, service, _ = service_scene()
        service.refusal = refusal
        accepted.append(await send(scene, FullDisk(scene.store, full_at), makes_room=makes_room))
        for _ in range(2):
            async with scene.running():
                await scene.until(lambda: is_settled(scene))  # noqa: B023  # it ends with the round
        check(scene, service, f"full at write {full_at} of {number}", is_accepted=accepted[-1])
    assert accepted == [False] + [True] * (number - 1)
    assert number > 3


_TOKENS = 500


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
                    DeliveryFault.BROKEN_OFF,
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
        service.refusal = REFUSAL if state == "refuses" else ""
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
