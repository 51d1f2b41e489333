"""Wherever the bot dies while it sends, one message is seen and one token is gone, or neither."""

from __future__ import annotations

from contextlib import suppress

import pytest
from tests.conversation.fate import Crash, Fate
from tests.conversation.outbox_scene import (
    FORK,
    PARENT,
    Mailbag,
    as_critical,
    for_nothing,
    ping,
    run_of,
    with_a_token,
)

from ollim_bot.domain.outgoing import Sending
from ollim_bot.domain.runs import RunKind
from ollim_bot.tools.context import Payment

pytestmark = pytest.mark.usefixtures("at_once")

PAYMENTS: dict[str, tuple[Payment, tuple[float, int, int]]] = {
    "a token": (with_a_token, (1, 1, 0)),
    "critical": (as_critical, (0, 0, 1)),
    "nothing": (for_nothing, (0, 0, 0)),
}


async def live(bag: Mailbag, pay: Payment | None, at: int | None = None) -> Fate:
    """Start and, with `pay`, send the one message; the death may come anywhere."""
    fate = Fate(at)
    with suppress(Crash):
        async with bag.life(fate) as outbox:
            if pay is not None:
                await outbox.send(ping(), run_of(RunKind.BACKGROUND), pay)
    return fate


def check_at_death(bag: Mailbag, cost: tuple[float, int, int], where: str) -> None:
    """Nothing is seen that is not paid for and could not be replied to."""
    if bag.texts:
        assert bag.spent == cost, where
        assert bag.recorded == [(int(ping().id), FORK, PARENT)], where


def check_in_the_end(bag: Mailbag, cost: tuple[float, int, int], where: str) -> None:
    was_begun = any(isinstance(row, Sending) for row in bag.rows)
    assert bag.texts == (["ping 7"] if was_begun else []), where
    assert bag.spent == (cost if was_begun else (0, 0, 0)), where
    assert len(bag.recorded) == was_begun, where
    assert bag.waiting == [], where
    assert [each for surface in bag.surfaces for each in surface.unknown] == [], where
    assert len([each for surface in bag.surfaces for each in surface.texts]) <= 1, where


@pytest.mark.parametrize("name", PAYMENTS)
async def test_a_crash_at_any_write_and_another_in_the_start_after_it(name: str) -> None:
    pay, cost = PAYMENTS[name]
    steps = (await live(Mailbag(), pay)).steps
    for first in range(1, len(steps) + 1):
        second, has_crashed = 0, True
        while has_crashed:
            second += 1
            bag = Mailbag()
            died = await live(bag, pay, first)
            assert died.is_dead
            check_at_death(bag, cost, died.steps[-1])
            again = await live(bag, None, second)
            has_crashed = again.is_dead
            where = f"{died.steps[-1]}, then {again.steps[-1]}"
            check_at_death(bag, cost, where)
            await live(bag, None)
            check_in_the_end(bag, cost, where)


async def test_the_steps_are_all_there() -> None:
    """If a write were left out, the test above would not crash there."""
    steps = (await live(Mailbag(), with_a_token)).steps
    assert [step for step in steps if not step.startswith("after")] == [
        "before the outbox is made short",
        "before a change of the budget",
        "before Sending in the outbox",
        "before a change of the fork messages",
        "before ChatMessage in the messages",
        "before Sent in the outbox",
    ]


async def test_a_crash_between_row_and_payment_after_others_were_paid_costs_one_token() -> None:
    bag = Mailbag()
    async with bag.life() as outbox:
        for number in (1, 2):
            await outbox.send(ping(number), run_of(RunKind.BACKGROUND), with_a_token)
    steps = (await live(Mailbag(), with_a_token)).steps
    died = await live(bag, with_a_token, steps.index("after Sending in the outbox") + 1)
    assert died.is_dead
    assert bag.spent == (2, 2, 0)
    await live(bag, None)
    await live(bag, None)
    assert bag.spent == (3, 3, 0)
    assert bag.texts == ["ping 1", "ping 2", "ping 7"]
