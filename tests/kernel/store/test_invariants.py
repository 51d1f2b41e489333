"""The tables hold the same state as the rows of the domain, in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import count

import pytest
from devtools.doubles.repeating_store import NotRepeatable, RepeatingStore
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.store.files.chat_strategies import chat_messages
from tests.kernel.store.scene import NOW
from tests.kernel.values import strategies
from tests.kernel.values.test_inbox import histories, inbox_of

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.store.connection import escaped, unescaped
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.definitions import Armed
from ollim_bot.kernel.values.inbox import Accepted, InboxRow
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState
from ollim_bot.kernel.values.run_history import History

occurrences = st.integers(0, 4).map(
    lambda number: Occurrence.scheduled(
        JobKind.REMINDER, f"job-{number}", datetime(2026, 11, 15, 8, tzinfo=UTC)
    )
)
states = st.sampled_from([*(state.value for state in OccurrenceState), "effect", "delivered"])
ledgers = st.lists(
    st.builds(LedgerRow, strategies.instants, states, occurrences) | strategies.ledger_rows,
    max_size=25,
)


@given(histories, st.integers(1, 4))
def test_the_inbox_is_what_its_rows_amount_to(rows: Sequence[InboxRow], together: int) -> None:
    store = RepeatingStore(lambda: NOW)
    for start in range(0, len(rows), together):
        some = rows[start : start + together]
        store.run(lambda tx, some=some: tx.inbox.append(*some))  # type: ignore[misc]
    inbox, wanted = store.run(lambda tx: tx.inbox.get()), inbox_of(rows)
    assert (inbox.accepted, inbox.running, inbox.tools) == (
        wanted.accepted,
        wanted.running,
        wanted.tools,
    )
    for row in rows:
        if isinstance(row, Accepted):
            assert store.run(lambda tx, row=row: tx.inbox.has(row.input.id))  # type: ignore[misc]


@given(ledgers)
def test_the_ledger_is_what_was_appended(rows: Sequence[LedgerRow]) -> None:
    store = RepeatingStore(lambda: NOW)
    store.run(lambda tx: tx.ledger.append(*rows))
    assert store.run(lambda tx: tx.ledger.page(0, 99))[0] == rows
    history = History.of(rows)
    found = store.run(lambda tx: tx.ledger.open_history())
    assert list(found.stories.values()) == history.unfinished
    for story in history.stories.values():
        assert store.run(lambda tx, one=story.occurrence: tx.ledger.story(one)) == story  # type: ignore[misc]
    assert store.run(lambda tx: tx.ledger.armed()).jobs == Armed().followed_by(rows).jobs
    since = NOW
    assert store.run(lambda tx: tx.ledger.rows_since(since)) == [
        row for row in rows if row.ts >= since
    ]


@given(st.lists(chat_messages, max_size=8))
def test_a_message_comes_back_as_it_was_last_added(messages: Sequence[ChatMessage]) -> None:
    store = RepeatingStore(lambda: NOW)
    for message in messages:
        store.run(lambda tx, message=message: tx.messages.add(message))  # type: ignore[misc]
    wanted = {message.id: message for message in messages}
    found = store.run(lambda tx: tx.messages.page(99))
    assert [each.message.id for each in found] == list(wanted)
    for each in found:
        assert each.message.text == wanted[each.message.id].text
        assert each.message.card == wanted[each.message.id].card


@given(st.text(), st.text())
def test_escaped_texts_are_ascii_and_differ_where_the_texts_do(one: str, other: str) -> None:
    assert unescaped(escaped(one)) == one
    assert escaped(one).isascii()
    assert (escaped(one) == escaped(other)) == (one == other)


def raise_with(number: int) -> int:
    raise ValueError(number)


@pytest.mark.parametrize(
    ("what", "step"),
    [
        ("writes", lambda tx, number: tx.session.put(SessionId(f"session-{number}"))),
        ("returns", lambda _, number: number),
        ("raises", lambda _, number: raise_with(number)),
    ],
)
def test_a_step_that_does_something_else_when_repeated_is_told(
    what: str, step: Callable[[Transaction, int], object]
) -> None:
    store, numbers = RepeatingStore(lambda: NOW), count()
    with pytest.raises(NotRepeatable, match=what):
        store.run(lambda tx: step(tx, next(numbers)))
    assert store.run(lambda tx: tx.session.get()) is None
