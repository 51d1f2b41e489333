"""Due items are stored until they are answered, and each query finds the right ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.stores import Stores, memory_stores

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.base.moments import Nag
from ollim_bot.kernel.changes.item_answers import answer_item
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.occurrences import Answer, Occurrence

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)


def item(name: str, at: datetime = NOW, nag: Nag | None = None) -> DueItem:
    job = Reminder(JobSpec(id=name, message=f"Do {name}.", nag=nag), at)
    one = Occurrence.scheduled(JobKind.REMINDER, name, at)
    return DueItem.of(job, one, MessageId("1"), at)


def keep(stores: Stores, *items: DueItem) -> None:
    for each in items:
        assert stores.state.run(lambda tx, each=each: tx.due_items.add(each))  # type: ignore[misc]


def test_an_occurrence_has_one_item() -> None:
    stores, tea = memory_stores(NOW), item("tea", nag=Nag(timedelta(minutes=10), 4))
    keep(stores, tea)
    assert tea.again_at == NOW + timedelta(minutes=10)
    assert not stores.state.run(lambda tx: tx.due_items.add(replace(tea, card=MessageId("2"))))
    assert stores.state.query(lambda tx: tx.due_items.open()) == [tea]


def test_open_items_are_listed_by_their_moments_and_answered_ones_by_their_answers() -> None:
    stores = memory_stores(NOW)
    early, late, other = item("a", NOW - HOUR), item("b"), item("c", NOW - 2 * HOUR)
    keep(stores, late, early, other)
    stores.state.run(lambda tx: answer_item(tx, late.key, Answer.DONE, "web"))
    stores.state.run(lambda tx: answer_item(tx, other.key, Answer.LET_GO, "discord"))
    assert stores.state.query(lambda tx: tx.due_items.open()) == [early]
    answered = stores.state.query(lambda tx: tx.due_items.answered_since(NOW))
    assert [(each.title, each.answer) for each in answered] == [
        ("Do b.", Answer.DONE),
        ("Do c.", Answer.LET_GO),
    ]
    assert stores.state.query(lambda tx: tx.due_items.answered_since(NOW + HOUR)) == []


@pytest.mark.parametrize("answer", [each for each in Answer if each is not Answer.UNDONE])
def test_only_the_first_answer_counts_and_it_ends_the_nagging(answer: Answer) -> None:
    stores, tea = memory_stores(NOW), item("tea", nag=Nag(timedelta(minutes=10), 4))
    keep(stores, tea)
    assert stores.state.query(lambda tx: tx.due_items.to_come_again()) == [tea]
    first = stores.state.run(lambda tx: answer_item(tx, tea.key, answer, "web"))
    assert first is not None
    assert stores.state.run(lambda tx: answer_item(tx, tea.key, Answer.DONE, "web")) is None
    assert stores.state.query(lambda tx: tx.due_items.get(tea.key)) == first
    assert stores.state.query(lambda tx: tx.due_items.to_come_again()) == []
    rows = stores.state.query(lambda tx: tx.ledger.story(Occurrence.parse(tea.occurrence)).rows)
    assert [row.facts["answer"] for row in rows] == [answer.value]
