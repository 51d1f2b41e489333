"""Tries and bad ends in the outbox: nothing of them is forgotten before it is made up for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conversation.scene import NOW

from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.outgoing import (
    NotSent,
    Outbox,
    OutboxRow,
    Sending,
    Sent,
    Settled,
    Tried,
    Unsure,
    as_number,
)
from ollim_bot.domain.pings import Charge, PingBudget
from ollim_bot.store.codecs.rows import OUTBOX_ROWS

ids = st.integers(1, 3).map(lambda number: MessageId(str(number)))
words = st.text(max_size=5)
at = st.just(NOW)
tries = st.builds(Tried, at, ids, st.lists(words, max_size=3).map(tuple))
failures = st.one_of(
    st.builds(NotSent, at, ids, words, st.integers(0, 9), st.sampled_from(["", "discord"])),
    st.builds(Unsure, at, ids, st.sampled_from(["", "discord"])),
)
rows: st.SearchStrategy[OutboxRow] = st.one_of(
    st.builds(lambda message_id: Sending(NOW, said(message_id)), ids),
    tries,
    failures,
    st.builds(Sent, at, ids, words),
    st.builds(Settled, at, ids),
)
histories = st.lists(rows, max_size=15)


def said(message_id: MessageId) -> ChatMessage:
    return ChatMessage(message_id, NOW, Author.BACKGROUND, "words")


@given(st.one_of(tries, failures, st.builds(Settled, at, ids)))
def test_a_row_reads_back_as_it_was_written(row: OutboxRow) -> None:
    assert OUTBOX_ROWS.decode(OUTBOX_ROWS.encode(row)) == row


@given(histories, histories)
def test_the_fewest_rows_amount_to_the_same_whatever_comes_after(
    before: list[OutboxRow], after: list[OutboxRow]
) -> None:
    fewest = Outbox.of(before).rows()
    assert Outbox.of([*fewest, *after]) == Outbox.of([*before, *after])
    assert len(fewest) <= len(before)


@given(histories, ids)
def test_the_last_try_is_that_of_a_message_that_waits(
    history: list[OutboxRow], message_id: MessageId
) -> None:
    outbox, last, waits = Outbox.of(history), None, False
    for row in history:
        if isinstance(row, Sending):
            waits |= row.message.id == message_id
        elif row.id == message_id and isinstance(row, Tried):
            last = row if waits else None
        elif row.id == message_id and not isinstance(row, Settled):
            last, waits = None, False
    assert outbox.last_try(message_id) == last


@given(failures)
def test_a_bad_end_is_owed_until_it_is_settled(failure: NotSent | Unsure) -> None:
    sending = Sending(NOW, said(failure.id))
    owes = bool(failure.service) or (isinstance(failure, NotSent) and failure.refund > 0)
    ended = Outbox.of([sending, failure])
    assert ended.unsettled == (((sending, failure),) if owes else ())
    assert ended.after(Settled(NOW, failure.id)) == Outbox()


@pytest.mark.parametrize("charge", [Charge.TOKEN, Charge.CRITICAL])
def test_a_payment_is_given_back_once_however_often_it_is_asked(charge: Charge) -> None:
    sending = Sending(NOW, said(MessageId("1")), charge, payment=1)
    paid = sending.paid(PingBudget.full(NOW), NOW)
    failure = NotSent(NOW, MessageId("1"), "refused", refund=2, service="discord")
    once = failure.refunded(sending, paid, NOW)
    assert once == replace(PingBudget.full(NOW), payments=2)
    assert failure.refunded(sending, once, NOW) == once


@pytest.mark.parametrize("text", ["", "m1", "-1", " 1", "²", str(2**63), "9" * 5000])
def test_what_is_no_number_of_a_message_is_none(text: str) -> None:
    assert as_number(text) is None
    assert as_number(str(2**63 - 1)) == 2**63 - 1
