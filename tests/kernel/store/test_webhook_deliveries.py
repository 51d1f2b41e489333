"""Accepted requests: each claims one occurrence, and the same call claims none again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.stores import memory_stores

from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.hook_jobs import KEPT_FOR, Acceptance, AcceptedCall, WebhookCall
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
CALL = WebhookCall("build", "A build", "standard:msg_1", "msg_1", "f00d", {"result": "failed"})


def accept(tx: Transaction, call: WebhookCall, now: datetime = NOW) -> Acceptance:
    tx.webhook_deliveries.forget_old(now)
    return tx.webhook_deliveries.accept(call, now)


def waiting(state: Any) -> list[Occurrence]:
    calls: list[Occurrence] = state.run(lambda tx: tx.webhook_deliveries.open_after(0))[0]
    return calls


def data(tx: Transaction, acceptance: Acceptance) -> Mapping[str, object]:
    call = tx.webhook_deliveries.get(acceptance.occurrence)
    assert call is not None
    return call.fields


def end(tx: Transaction, acceptance: Acceptance) -> None:
    tx.ledger.append(LedgerRow(NOW, OccurrenceState.DONE.value, acceptance.occurrence))


def test_an_accepted_call_is_due_and_open_with_its_data_until_it_ends() -> None:
    state = memory_stores(NOW).state
    accepted = state.run(lambda tx: accept(tx, CALL))
    assert accepted.is_new
    assert accepted.occurrence.id == "webhook:build:msg_1"
    story = state.run(lambda tx: tx.ledger.story(accepted.occurrence))
    assert [(row.state, row.facts) for row in story.rows] == [("due", {"job": "A build"})]
    assert waiting(state) == [accepted.occurrence]
    call = state.run(lambda tx: tx.webhook_deliveries.get(accepted.occurrence))
    assert call == AcceptedCall(accepted.occurrence, NOW, {"result": "failed"})
    state.run(lambda tx: tx.webhook_deliveries.forget_data(accepted.occurrence))
    state.run(lambda tx: tx.webhook_deliveries.forget_all_ended())
    assert state.run(lambda tx: tx.webhook_deliveries.get(accepted.occurrence)) == call
    state.run(lambda tx: end(tx, accepted))
    assert waiting(state) == []


def test_the_data_of_an_ended_call_is_removed_and_the_same_call_still_known() -> None:
    state = memory_stores(NOW).state
    first = state.run(lambda tx: accept(tx, CALL))
    second = state.run(lambda tx: accept(tx, replace(CALL, key="standard:2", name="2")))
    for each in (first, second):
        state.run(lambda tx, each=each: end(tx, each))  # type: ignore[misc]
    state.run(lambda tx: tx.webhook_deliveries.forget_data(first.occurrence))
    found = [state.run(lambda tx, one=one: data(tx, one)) for one in (first, second)]  # type: ignore[misc]
    assert found == [{}, {"result": "failed"}]
    state.run(lambda tx: tx.webhook_deliveries.forget_all_ended())
    assert state.run(lambda tx: data(tx, second)) == {}
    assert not state.run(lambda tx: accept(tx, CALL)).is_new


def test_only_calls_after_a_place_are_read_again() -> None:
    state = memory_stores(NOW).state
    calls = [replace(CALL, key=f"standard:{n}", name=f"{n}") for n in range(3)]
    first = state.run(lambda tx: accept(tx, calls[0]))
    found, place = state.run(lambda tx: tx.webhook_deliveries.open_after(0))
    assert found == [first.occurrence]
    assert state.run(lambda tx: tx.webhook_deliveries.open_after(place)) == ([], place)
    others = [state.run(lambda tx, one=one: accept(tx, one)) for one in calls[1:]]  # type: ignore[misc]
    found, _ = state.run(lambda tx: tx.webhook_deliveries.open_after(place))
    assert found == [one.occurrence for one in others]


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
    kept = state.run(lambda tx: accept(tx, replace(CALL, key="standard:msg_2", name="msg_2")))
    state.run(lambda tx: tx.webhook_deliveries.forget_old(NOW + KEPT_FOR))
    assert state.run(lambda tx: tx.webhook_deliveries.get(ended.occurrence)) is None
    assert waiting(state) == [kept.occurrence]


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
