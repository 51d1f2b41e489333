"""The real clock and the fake clock keep the same contract; the fake moves only on demand."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from devtools.doubles.clock import ManualClock
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.kernel.base.clock import Backoff, Clock, SystemClock, wait_until_set

BERLIN = ZoneInfo("Europe/Berlin")
NINE = datetime(2026, 11, 15, 9, 0)


def manual_clock() -> ManualClock:
    return ManualClock(NINE, BERLIN)


@pytest.fixture(
    params=[
        pytest.param(lambda: SystemClock(BERLIN), id="system"),
        pytest.param(manual_clock, id="manual"),
    ]
)
def clock(request: pytest.FixtureRequest) -> Clock:
    make: Callable[[], Clock] = request.param
    return make()


def test_now_is_an_instant_in_the_zone(clock: Clock) -> None:
    assert clock.now().tzinfo is BERLIN


def test_monotonic_never_goes_back(clock: Clock) -> None:
    assert clock.monotonic() <= clock.monotonic()


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_sleep_of_no_length_ends_by_itself_and_lets_others_run(
    clock: Clock, seconds: float
) -> None:
    async def scenario() -> list[str]:
        seen: list[str] = []
        other = asyncio.create_task(asyncio.sleep(0))
        other.add_done_callback(lambda _: seen.append("other"))
        await clock.sleep(seconds)
        await clock.sleep(seconds)
        await clock.sleep(seconds)
        return seen

    assert asyncio.run(scenario()) == ["other"]


def test_the_system_clock_tells_the_time() -> None:
    before = datetime.now(UTC)
    assert before <= SystemClock(BERLIN).now() <= datetime.now(UTC)


def test_a_manual_clock_begins_at_the_wall_time_of_its_zone_but_on_no_whole_second() -> None:
    assert manual_clock().now().isoformat() == "2026-11-15T09:00:00.330745+01:00"
    said = NINE.replace(microsecond=7)
    assert ManualClock(said, BERLIN).now() == said.replace(tzinfo=BERLIN)
    assert ManualClock(NINE.replace(tzinfo=UTC), BERLIN).now().hour == 10


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = manual_clock()
    assert (clock.now(), clock.monotonic()) == (clock.now(), 0.0)
    asyncio.run(clock.advance(90.5))
    assert clock.now() == datetime(2026, 11, 15, 9, 1, 30, 830745, tzinfo=BERLIN)
    assert clock.monotonic() == 90.5


def test_time_passes_rightly_over_a_change_of_the_clocks() -> None:
    clock = ManualClock(datetime(2026, 10, 25, 2, 30), BERLIN)
    asyncio.run(clock.advance(3600))
    assert clock.now().isoformat() == "2026-10-25T02:30:00.330745+01:00"


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_jump_moves_the_wall_clock_alone_and_wakes_nobody(seconds: float) -> None:
    async def scenario() -> tuple[timedelta, float, bool]:
        clock = manual_clock()
        before = clock.now()
        sleeper = asyncio.create_task(clock.sleep(10))
        await clock.advance(0)
        clock.jump(seconds)
        await clock.advance(0)
        woken = sleeper.done()
        await clock.advance(10)
        await sleeper
        return clock.now() - before, clock.monotonic(), woken

    assert asyncio.run(scenario()) == (timedelta(seconds=seconds + 10), 10.0, False)


def test_time_cannot_be_advanced_back() -> None:
    with pytest.raises(ValueError, match="jump"):
        asyncio.run(manual_clock().advance(-1))


@given(st.lists(st.integers(1, 50), max_size=8), st.lists(st.integers(0, 30), max_size=5))
def test_sleepers_wake_in_order_each_at_its_own_moment(
    lengths: list[int], advances: list[int]
) -> None:
    clock = manual_clock()
    woken: list[tuple[float, int]] = []

    async def sleeper(number: int, length: int) -> None:
        await clock.sleep(length / 10)
        woken.append((clock.monotonic(), number))

    async def scenario() -> None:
        tasks = [asyncio.create_task(sleeper(*each)) for each in enumerate(lengths)]
        for seconds in (0, *advances):
            await clock.advance(seconds / 10)
        assert clock.sleeping == len(lengths) - len(woken)
        await clock.advance(5)
        await asyncio.gather(*tasks)

    asyncio.run(scenario())
    assert woken == sorted((length / 10, number) for number, length in enumerate(lengths))


def test_one_who_sleeps_again_and_again_wakes_each_time_within_one_advance() -> None:
    clock = manual_clock()
    ticks: list[float] = []

    async def ticker() -> None:
        while True:
            await clock.sleep(0.1)
            ticks.append(clock.monotonic())

    async def scenario() -> None:
        task = asyncio.create_task(ticker())
        await clock.advance(0.5)
        task.cancel()

    asyncio.run(scenario())
    assert ticks == [0.1, 0.2, 0.3, 0.4, 0.5]


def test_a_cancelled_sleeper_is_forgotten() -> None:
    async def scenario() -> int:
        clock = manual_clock()
        task = asyncio.create_task(clock.sleep(1))
        await clock.advance(0)
        task.cancel()
        await clock.advance(0)
        sleeping = clock.sleeping
        await clock.advance(2)
        return sleeping

    assert asyncio.run(scenario()) == 0


@pytest.mark.parametrize(
    ("at_most", "set_after", "waited"),
    [(10, 3, 3.0), (10, 20, 10.0), (None, 20, 20.0), (0, 5, 0.0)],
)
def test_a_wait_ends_with_its_event_or_its_time(
    at_most: float | None, set_after: int, waited: float
) -> None:
    clock, event = manual_clock(), asyncio.Event()
    ended_at: list[float] = []

    async def waiting() -> None:
        await wait_until_set(event, clock, at_most)
        ended_at.append(clock.monotonic())

    async def scenario() -> int:
        task = asyncio.create_task(waiting())
        await clock.advance(set_after)
        event.set()
        await clock.advance(0)
        await task
        return clock.sleeping

    assert asyncio.run(scenario()) == 0
    assert ended_at == [waited]


@pytest.mark.real_time
async def test_a_thread_ends_its_work_before_the_manual_clock_moves() -> None:
    clock = manual_clock()

    async def look_then_sleep() -> None:
        await asyncio.to_thread(time.sleep, 0.05)
        await clock.sleep(1)

    task = asyncio.create_task(look_then_sleep())
    await clock.advance(1)
    assert task.done()


async def test_a_thread_that_is_held_does_not_hold_the_manual_clock() -> None:
    clock = manual_clock()
    goes_on = threading.Event()
    task = asyncio.create_task(asyncio.to_thread(goes_on.wait, 60))
    await clock.advance(1)
    assert not task.done()
    goes_on.set()
    assert await task


async def test_pauses_between_tries_grow_and_begin_anew_after_a_long_try() -> None:
    clock, tried = manual_clock(), list[tuple[int, float]]()
    began = clock.monotonic()
    lasts = {4: 10.0}

    async def try_often() -> None:
        async for failures in Backoff(clock, 1.0, 5.0):
            tried.append((failures, clock.monotonic() - began))
            await clock.sleep(lasts.get(failures, 0.0))

    task = asyncio.create_task(try_often())
    for _ in range(40):
        await clock.advance(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert tried[:7] == [(0, 0), (1, 1), (2, 3), (3, 7), (4, 12), (5, 23), (6, 25)]
