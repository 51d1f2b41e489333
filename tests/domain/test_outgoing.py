"""The outbox: a message waits until its sending has ended, and is paid for once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.domain.strategies import instants, ping_budgets

from ollim_bot.domain.chat import Author, ChatMessage, MessageId, numbered_id
from ollim_bot.domain.outgoing import NotSent, Outbox, OutboxRow, Sending, Sent, Unsure
from ollim_bot.domain.pings import Charge, PingBudget
from ollim_bot.domain.sessions import SessionId

AT = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
# Few ids, so that ends meet beginnings.
ids = st.integers(1, 4).map(lambda number: MessageId(str(number)))
charges = st.sampled_from(Charge)
beginnings = st.builds(
    lambda message_id, charge: Sending(AT, message(message_id), charge), ids, charges
)
rows: st.SearchStrategy[OutboxRow] = st.one_of(
    beginnings,
    st.builds(Sent, st.just(AT), ids),
    st.builds(NotSent, st.just(AT), ids, st.just("no space")),
    st.builds(Unsure, st.just(AT), ids),
)
these_times = st.datetimes(datetime(2000, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
histories = st.lists(rows, max_size=12)
paying = st.builds(
    lambda charge, number: Sending(AT, message(MessageId("1")), charge, number),
    st.sampled_from([Charge.TOKEN, Charge.CRITICAL]),
    st.integers(1, 9),
)


def message(message_id: MessageId) -> ChatMessage:
    return ChatMessage(message_id, AT, Author.BACKGROUND, "words")


@given(histories)
def test_what_waits_is_what_was_begun_and_has_no_end_after_it(history: list[OutboxRow]) -> None:
    waits: dict[MessageId, Sending] = {}
    for row in history:
        if isinstance(row, Sending):
            waits.setdefault(row.message.id, row)
        else:
            waits.pop(row.id, None)
    assert list(Outbox.of(history).open) == list(waits.values())


@given(histories, histories)
def test_the_fewest_rows_amount_to_the_same_whatever_comes_after(
    before: list[OutboxRow], after: list[OutboxRow]
) -> None:
    fewest = Outbox.of(before).rows()
    assert len(fewest) <= 4
    assert Outbox.of([*fewest, *after]) == Outbox.of([*before, *after])


@given(ping_budgets(), paying, instants, instants)
def test_it_is_paid_for_once_however_often_it_is_asked(
    budget: PingBudget, sending: Sending, now: datetime, later: datetime
) -> None:
    assume(budget.tokens >= 1)
    unpaid = replace(budget.refilled(now), payments=sending.payment - 1)
    paid = sending.paid(unpaid, now)
    tokens = int(sending.charge is Charge.TOKEN)
    assert unpaid.available - paid.available == pytest.approx(tokens)
    assert paid.daily_used - unpaid.daily_used == tokens
    assert paid.critical_used - unpaid.critical_used == 1 - tokens
    assert sending.paid(paid, later) == paid


@given(ping_budgets(), paying, instants)
def test_what_is_given_back_is_what_it_had_cost(
    budget: PingBudget, sending: Sending, now: datetime
) -> None:
    assume(budget.tokens >= 1)
    unpaid = replace(budget.refilled(now), payments=sending.payment - 1)
    again = sending.given_back(sending.paid(unpaid, now), now)
    same = replace(again, available=unpaid.available, payments=unpaid.payments)
    assert same == unpaid
    assert again.available == pytest.approx(unpaid.available)
    assert again.payments == sending.payment, "the number is not given to another payment"


@given(ping_budgets(), charges, instants, st.integers(0, 3))
def test_what_was_not_paid_for_is_not_given_back(
    budget: PingBudget, charge: Charge, now: datetime, payments: int
) -> None:
    budget = replace(budget, payments=payments)
    free = Sending(AT, message(MessageId("1")), charge)
    unpaid = replace(free, payment=payments + 1)
    assert free.given_back(budget, now) == free.paid(budget, now) == budget
    assert unpaid.given_back(budget, now) == budget


@pytest.mark.parametrize(
    "name", ["", "m1", "-1", "1.5", " 1", "1_000", "٣", "²", str(2**63), "9" * 5000]
)
def test_a_fork_says_nothing_under_an_id_that_is_no_number(name: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        Sending(AT, message(MessageId(name)), fork=SessionId("fork-1"))
    Sending(AT, message(MessageId(name)))


@given(these_times, st.integers())
def test_a_numbered_id_is_a_number_that_a_fork_may_use(now: datetime, chance: int) -> None:
    Sending(AT, message(numbered_id(now, chance)), fork=SessionId("fork-1"))


@given(these_times, st.integers(), st.integers())
def test_numbered_ids_are_in_the_order_of_time(now: datetime, first: int, second: int) -> None:
    earlier, later = numbered_id(now, first), numbered_id(now + 2 * MILLISECOND, second)
    assert int(earlier) < int(later)
    assert len(earlier) <= len(later)


@given(st.sets(st.integers(0, 2**20 - 1), max_size=50))
def test_numbered_ids_of_one_moment_are_as_different_as_chance(chances: set[int]) -> None:
    assert len({numbered_id(AT, chance) for chance in chances}) == len(chances)
