"""What the bot sends by itself is logged, paid for and known to replies in one commit, once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.conversation.delivery_scene import (
    FORK,
    PARENT,
    Mailbag,
    as_critical,
    for_nothing,
    ping,
    run_of,
    with_a_token,
)
from tests.conversation.fate import Crash, Fate
from tests.conversation.scene import NOW

from ollim_bot.domain.chat import MessageId
from ollim_bot.domain.pings import PingRefused
from ollim_bot.domain.runs import RunKind
from ollim_bot.tools.context import Payment

BACKGROUND = run_of(RunKind.BACKGROUND)
PAYMENTS: dict[str, tuple[Payment, tuple[float, int, int]]] = {
    "a token": (with_a_token, (1, 1, 0)),
    "critical": (as_critical, (0, 0, 1)),
    "nothing": (for_nothing, (0, 0, 0)),
}


async def test_a_ping_is_logged_paid_and_recorded_in_one_commit_before_it_is_seen() -> None:
    bag = Mailbag()
    async with bag.life() as life:
        before = bag.store.commits
        assert await life.send(ping(), BACKGROUND, with_a_token)
        assert bag.store.commits == before + 1
        assert bag.texts == ["ping 7"]
        assert bag.spent == (1, 1, 0)
        assert bag.recorded == [(int(ping().id), FORK, PARENT)]
        await bag.until(lambda: bag.surfaces[-1].texts == ["ping 7"])


async def test_a_refused_payment_sends_and_writes_nothing() -> None:
    bag = Mailbag()
    async with bag.life() as life:
        assert not await life.send(ping(), BACKGROUND, lambda budget: (budget, PingRefused("No.")))
        await bag.clock.advance(1)
    assert (bag.texts, bag.recorded, bag.surfaces[-1].texts) == ([], [], [])
    assert bag.spent == (0, 0, 0)


@pytest.mark.parametrize("kind", [RunKind.FORK, RunKind.BACKGROUND, RunKind.ISOLATED])
async def test_a_reply_to_what_a_fork_said_finds_its_session(kind: RunKind) -> None:
    bag, message = Mailbag(), ping()
    async with bag.life() as life:
        await life.send(message, run_of(kind))
    assert bag.recorded == [(int(message.id), FORK, PARENT)]
    known = bag.store.run(lambda tx: tx.fork_messages.get())
    assert [each.ts for each in known] == [NOW.timestamp()]


async def test_what_the_main_session_says_is_no_message_of_a_fork() -> None:
    bag = Mailbag()
    async with bag.life() as life:
        await life.send(replace(ping(), id=MessageId("any-id")), run_of(RunKind.MAIN))
        await life.send(ping(), run_of(RunKind.BACKGROUND, session=None))
    assert bag.recorded == []
    assert bag.texts == ["ping 7", "ping 7"]


async def test_what_costs_nothing_takes_nothing() -> None:
    bag = Mailbag()
    async with bag.life() as life:
        assert await life.send(ping(1), BACKGROUND, for_nothing)
        assert await life.send(ping(2), BACKGROUND)
    assert bag.texts == ["ping 1", "ping 2"]
    assert bag.budget == Mailbag().budget


async def test_of_many_pings_at_once_as_many_are_sent_as_there_are_tokens() -> None:
    bag = Mailbag()
    async with bag.life() as life:
        pings = [ping(number) for number in range(20)]
        sent = await asyncio.gather(*(life.send(each, BACKGROUND, with_a_token) for each in pings))
        texts = [each.text for each, is_sent in zip(pings, sent, strict=True) if is_sent]
        await bag.until(lambda: len(bag.surfaces[-1].texts) == len(texts))
    assert len(texts) == 5
    assert sorted(bag.texts) == sorted(bag.surfaces[-1].texts) == sorted(texts)
    assert bag.spent == (5, 5, 0)
    assert len(bag.recorded) == 5


async def test_the_same_message_is_sent_and_paid_for_once() -> None:
    bag = Mailbag()
    async with bag.life() as life:
        assert await life.send(ping(), BACKGROUND, with_a_token)
        assert await life.send(ping(), BACKGROUND, with_a_token)
    assert bag.texts == ["ping 7"]
    assert bag.spent == (1, 1, 0)


async def live(bag: Mailbag, pay: Payment | None, at: int | None = None) -> Fate:
    """Start and, with `pay`, send the one message; the death may come anywhere."""
    fate = Fate(at)
    with suppress(Crash):
        async with bag.life(fate) as life:
            if pay is not None:
                await life.send(ping(), BACKGROUND, pay)
                await bag.until(lambda: bag.surfaces[-1].texts, fate)
    return fate


@pytest.mark.parametrize("name", PAYMENTS)
async def test_a_crash_at_any_write_and_another_in_the_start_after_it(name: str) -> None:
    pay, cost = PAYMENTS[name]
    steps = (await live(Mailbag(), pay)).steps
    assert len(steps) > 2
    for first in range(1, len(steps) + 1):
        second, has_crashed = 0, True
        while has_crashed:
            second += 1
            bag = Mailbag()
            died = await live(bag, pay, first)
            assert died.is_dead
            again = await live(bag, None, second)
            has_crashed = again.is_dead
            await live(bag, None)
            where = f"{died.steps[-1]}, then {again.steps[-1:]}"
            is_sent = bool(bag.texts)
            assert bag.texts == ["ping 7"] * is_sent, where
            assert bag.spent == (cost if is_sent else (0, 0, 0)), where
            assert bag.recorded == [(int(ping().id), FORK, PARENT)] * is_sent, where
            assert sum(len(surface.texts) for surface in bag.surfaces) <= 1, where
