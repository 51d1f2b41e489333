"""The agenda of due moments: in order, each key once, and no larger than needed."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ollim_bot.domain.job_kinds import JobKey, JobKind
from ollim_bot.domain.schedule import Agenda

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


class AgendaAgainstAList(RuleBasedStateMachine):
    """Compares the agenda with a plain dictionary that is sorted for each question."""

    def __init__(self) -> None:
        super().__init__()
        self.agenda: Agenda[int] = Agenda()
        self.model: dict[int, datetime] = {}

    keys, minutes = st.integers(0, 6), st.integers(0, 20)

    @rule(key=keys, minute=minutes, zone=st.sampled_from([UTC, BERLIN]))
    def put(self, key: int, minute: int, zone: ZoneInfo) -> None:
        self.model[key] = NOON + minute * MINUTE
        self.agenda.put(key, self.model[key].astimezone(zone))

    @rule(key=keys)
    def remove(self, key: int) -> None:
        self.model.pop(key, None)
        self.agenda.remove(key)

    @rule(key=keys, minute=minutes)
    def put_to_and_fro(self, key: int, minute: int) -> None:
        for turn in range(40):
            self.put(key, minute + turn % 2, UTC)

    @rule(minute=minutes)
    def take(self, minute: int) -> None:
        now = NOON + minute * MINUTE
        due = sorted((at, key) for key, at in self.model.items() if at <= now)
        assert self.agenda.due(now) == [(key, at) for at, key in due]
        for _, key in due:
            del self.model[key]

    @invariant()
    def agrees(self) -> None:
        assert self.agenda.next_at == min(self.model.values(), default=None)
        assert len(self.agenda) == len(self.model)
        assert [key for key in range(7) if key in self.agenda] == sorted(self.model)


TestAgendaAgainstAList = AgendaAgainstAList.TestCase
TestAgendaAgainstAList.settings = settings(deadline=None, max_examples=60)


def put_again_and_again(agenda: Agenda[int]) -> None:
    for number in range(20_000):
        agenda.put(0, NOON + number * MINUTE)


def put_and_remove(agenda: Agenda[int]) -> None:
    for number in range(20_000):
        agenda.put(number, NOON + number * MINUTE)
    for number in range(20_000):
        agenda.remove(number)


@pytest.mark.parametrize("changes", [put_again_and_again, put_and_remove])
def test_what_does_not_hold_any_more_takes_no_room(changes: Callable[[Agenda[int]], None]) -> None:
    agenda: Agenda[int] = Agenda()
    tracemalloc.start()
    try:
        changes(agenda)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 200_000


def test_ten_thousand_jobs_come_out_in_order_of_time_then_key() -> None:
    agenda: Agenda[JobKey] = Agenda()
    keys = [JobKey(JobKind.ROUTINE, f"{number:05}") for number in range(10_000)]
    for number, key in enumerate(keys):
        agenda.put(key, NOON + (number * 7919 % 100) * MINUTE)
    due = agenda.due(NOON + DAY)
    assert due == sorted(due, key=lambda each: (each[1], each[0]))
    assert sorted(key for key, _ in due) == keys
    assert (agenda.next_at, len(agenda)) == (None, 0)
