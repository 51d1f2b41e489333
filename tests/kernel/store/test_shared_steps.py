"""Steps that several parts share are atomic, and can be repeated after a crash."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import pytest
from devtools.doubles.repeating_store import RepeatingStore

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.store.steps import change_provider, leave_notice, leave_update, new_notice
from ollim_bot.kernel.values.updates import MAX_PENDING_UPDATES, PendingUpdate

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)


@pytest.fixture
def store() -> RepeatingStore:
    return RepeatingStore(lambda: NOW)


def use(store: RepeatingStore, kind: str, session: str | None) -> None:
    store.run(lambda tx: change_provider(tx, kind))
    store.run(lambda tx: tx.session.put(SessionId(session) if session else None))


def test_the_offline_model_never_gets_a_session_of_another(store: RepeatingStore) -> None:
    use(store, "claude", "c1")
    store.run(lambda tx: change_provider(tx, "offline"))
    assert store.query(lambda tx: tx.session.get()) is None
    use(store, "offline", "o1")
    store.run(lambda tx: change_provider(tx, "claude"))
    assert store.query(lambda tx: tx.session.get()) == "c1"
    store.run(lambda tx: change_provider(tx, "offline"))
    assert store.query(lambda tx: tx.session.get()) == "o1"


def test_an_update_that_waits_is_not_left_twice(store: RepeatingStore) -> None:
    for _ in range(2):
        store.run(lambda tx: leave_update(tx, PendingUpdate(NOW, "one", "u1")))
    assert len(store.query(lambda tx: tx.updates.get()).entries) == 1


def test_what_gives_way_to_an_update_stays_readable_in_the_ledger(store: RepeatingStore) -> None:
    for number in range(MAX_PENDING_UPDATES + 1):
        update = PendingUpdate(NOW, f"update {number}", f"u{number}")
        store.run(partial(leave_update, update=update))
    rows, _ = store.query(lambda tx: tx.ledger.page(0, 10))
    assert [row.facts["message"] for row in rows] == ["update 0", "update 1"]


def test_a_notice_is_left_once_for_its_key_and_for_the_agent(store: RepeatingStore) -> None:
    for sentence in ("No login.", "Still no login."):
        notice = new_notice(sentence, key="login")
        store.run(partial(leave_notice, notice=notice, now=NOW))
    untold = store.query(lambda tx: tx.notices.get()).untold
    assert [each.text for each in untold] == ["No login."]
    updates = store.query(lambda tx: tx.updates.get()).entries
    assert [each.message for each in updates] == ["No login."]
