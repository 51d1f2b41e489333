"""Accepted requests: each claims one occurrence, and the same call claims none again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from tests.stores import memory_stores

from ollim_bot.domain.occurrences import LedgerRow, OccurrenceState
from ollim_bot.domain.webhooks import KEPT_FOR, Acceptance, WebhookCall
from ollim_bot.store.transaction import Transaction

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
CALL = WebhookCall("build", "A build", "standard:msg_1", "msg_1", "f00d", {"result": "failed"})


def accept(tx: Transaction, call: WebhookCall, now: datetime = NOW) -> Acceptance:
    tx.webhook_deliveries.forget_old(now)
    return tx.webhook_deliveries.accept(call, now)


def end(tx: Transaction, acceptance: Acceptance) -> None:
    tx.ledger.append(LedgerRow(NOW, OccurrenceState.DONE.value, acceptance.occurrence))


def test_an_accepted_call_is_due_and_open_with_its_data_until_it_ends() -> None:
    state = memory_stores(NOW).state
    accepted = state.run(lambda tx: accept(tx, CALL))
    assert accepted.is_new
    assert accepted.occurrence.id == "webhook:build:msg_1"
    story = state.run(lambda tx: tx.ledger.story(accepted.occurrence))
    assert [(row.state, row.facts) for row in story.rows] == [("due", {"job": "A build"})]
    (call,) = state.run(lambda tx: tx.webhook_deliveries.open())
    assert (call.occurrence, call.fields) == (accepted.occurrence, {"result": "failed"})
    state.run(lambda tx: end(tx, accepted))
    assert state.run(lambda tx: tx.webhook_deliveries.open()) == []
    assert state.run(lambda tx: tx.webhook_deliveries.get(accepted.occurrence)) == call


def test_the_same_call_is_known_for_seven_days_and_then_gets_an_occurrence_of_its_own() -> None:
    state = memory_stores(NOW).state
    first = state.run(lambda tx: accept(tx, CALL))
    again = replace(CALL, token="beef", fields={})
    late = NOW + KEPT_FOR
    known = Acceptance(first.occurrence, is_new=False)
    assert state.run(lambda tx: accept(tx, again, late - timedelta(seconds=1))) == known
    second = state.run(lambda tx: accept(tx, again, late))
    assert second.is_new
    assert second.occurrence.id == "webhook:build:msg_1-beef"


def test_old_data_is_forgotten_only_when_its_run_has_ended() -> None:
    state = memory_stores(NOW).state
    ended = state.run(lambda tx: accept(tx, CALL))
    state.run(lambda tx: end(tx, ended))
    waiting = state.run(lambda tx: accept(tx, replace(CALL, key="standard:msg_2", name="msg_2")))
    state.run(lambda tx: tx.webhook_deliveries.forget_old(NOW + KEPT_FOR))
    assert state.run(lambda tx: tx.webhook_deliveries.get(ended.occurrence)) is None
    assert [call.occurrence for call in state.run(lambda tx: tx.webhook_deliveries.open())] == [
        waiting.occurrence
    ]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["build", "door"]),
            st.sampled_from(["github:a", "standard:a", "standard:b", "bearer:a"]),
        ),
        max_size=12,
    )
)
def test_hooks_never_share_keys_and_no_call_is_accepted_twice(calls: list[tuple[str, str]]) -> None:
    state = memory_stores(NOW).state
    accepted: dict[tuple[str, str], str] = {}
    for number, (hook, key) in enumerate(calls):
        name = key.partition(":")[2]
        call = WebhookCall(hook, hook, key, name, f"{number:04x}", {})
        found = state.run(lambda tx, call=call: accept(tx, call))  # type: ignore[misc]
        assert found.is_new == ((hook, key) not in accepted)
        first = accepted.setdefault((hook, key), found.occurrence.id)
        assert found.occurrence.id == first
        assert found.occurrence.job_id == hook
    assert len(set(accepted.values())) == len(accepted)
