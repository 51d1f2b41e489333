"""Whether a background run may ping: the order of the checks, and the cost of each answer."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from devtools.doubles.repeating_store import RepeatingStore
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.strategies import instants, ping_budgets

from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.jobs import ReportMode
from ollim_bot.domain.pings import (
    Charge,
    PingAllowed,
    PingBudget,
    PingRefused,
    PingVerdict,
    charged,
)
from ollim_bot.domain.runs import Run, RunKind, RunPolicy

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
FULL = PingBudget.full(NOON)

policies = st.builds(
    RunPolicy,
    st.sampled_from([RunKind.BACKGROUND, RunKind.ISOLATED]),
    st.just(()),
    st.sampled_from(ReportMode),
    st.booleans(),
    st.booleans(),
)
ordinary = policies.map(lambda policy: replace(policy, allow_ping=True, must=False))
caps = st.integers(0, 20)


def run_of(policy: RunPolicy, has_pinged: bool = False, critical_used: bool = False) -> Run:
    pings = [MessageId("1")] * has_pinged
    return Run(policy, NOON, pings=pings, critical_used=critical_used)


runs = st.builds(run_of, policies, st.booleans(), st.booleans())


def ask(
    budget: PingBudget,
    run: Run,
    now: datetime = NOON,
    *,
    critical: bool = False,
    busy: bool = False,
    cap: int = 5,
) -> tuple[PingBudget, PingVerdict]:
    return charged(budget, run, now, wants_critical=critical, is_busy=busy, daily_cap=cap)


def reason(verdict: PingVerdict) -> str:
    assert isinstance(verdict, PingRefused)
    return verdict.reason


@given(ping_budgets(), ordinary, st.booleans(), st.booleans(), instants)
def test_the_first_objection_in_this_order_is_the_one_that_is_said(
    budget: PingBudget, policy: RunPolicy, has_pinged: bool, busy: bool, now: datetime
) -> None:
    """Pings allowed, one for each run, not busy, a token left."""
    run = run_of(policy, has_pinged)
    _, verdict = ask(budget, run, now, busy=busy)
    objections = {
        "has pinged once": has_pinged,
        "in the middle of a conversation": busy,
        "budget is used up": budget.refilled(now).tokens < 1,
    }
    first = next((words for words, holds in objections.items() if holds), None)
    if first is None:
        assert verdict == PingAllowed(Charge.TOKEN)
    else:
        assert first in reason(verdict)
    forbidden = replace(run, policy=replace(policy, allow_ping=False))
    assert "switched off" in reason(ask(budget, forbidden, now, busy=busy)[1])


@given(ping_budgets(), runs, instants, st.booleans(), st.booleans(), caps)
def test_a_refusal_costs_nothing_and_says_what_to_do_instead(
    budget: PingBudget, run: Run, now: datetime, critical: bool, busy: bool, cap: int
) -> None:
    after, verdict = ask(budget, run, now, critical=critical, busy=busy, cap=cap)
    if isinstance(verdict, PingRefused):
        assert after.refilled(now) == budget.refilled(now)
        is_blocked = run.policy.report is ReportMode.BLOCKED
        assert ("report_updates" in verdict.reason) is not is_blocked
        assert verdict.reason.endswith("without a message.")


@given(ping_budgets(), runs, instants, st.booleans(), st.booleans(), caps)
def test_what_is_given_back_is_what_was_charged(
    budget: PingBudget, run: Run, now: datetime, critical: bool, busy: bool, cap: int
) -> None:
    after, verdict = ask(budget, run, now, critical=critical, busy=busy, cap=cap)
    if isinstance(verdict, PingAllowed):
        before, back = budget.refilled(now), after
        if verdict.charge is Charge.CRITICAL:
            back = after.critical_given_back(now)
        elif verdict.charge is Charge.TOKEN:
            back = after.given_back(now)
        back = back.refilled(now)
        assert back == replace(before, available=back.available)
        assert back.available == pytest.approx(before.available, abs=1e-8)


@given(ping_budgets(), policies, instants, st.booleans(), st.booleans(), caps)
def test_what_must_come_is_free_and_never_refused(
    budget: PingBudget, policy: RunPolicy, now: datetime, critical: bool, busy: bool, cap: int
) -> None:
    run = run_of(replace(policy, allow_ping=True, must=True))
    after, verdict = ask(budget, run, now, critical=critical, busy=busy, cap=cap)
    assert (after, verdict) == (budget, PingAllowed(Charge.NOTHING))


@given(ping_budgets(), instants, st.booleans())
def test_after_that_it_is_a_run_like_others(budget: PingBudget, now: datetime, busy: bool) -> None:
    run = run_of(RunPolicy(RunKind.BACKGROUND, (), must=True), has_pinged=True)
    assert "has pinged once" in reason(ask(budget, run, now, busy=busy)[1])


@given(ping_budgets(), ordinary, instants, st.booleans(), st.booleans(), caps)
def test_a_critical_ping_skips_the_last_three_checks_while_the_day_has_some_left(
    budget: PingBudget, policy: RunPolicy, now: datetime, has_pinged: bool, busy: bool, cap: int
) -> None:
    run, today = run_of(policy, has_pinged), budget.refilled(now)
    after, verdict = ask(budget, run, now, critical=True, busy=busy, cap=cap)
    if today.critical_used < cap:
        assert verdict == PingAllowed(Charge.CRITICAL)
        assert after == replace(today, critical_used=today.critical_used + 1)
    else:
        assert (after.refilled(now), verdict) == _settled(ask(budget, run, now, busy=busy), now)


@given(ping_budgets(), ordinary, instants, st.booleans(), st.booleans(), caps)
def test_a_second_critical_ping_of_a_run_is_an_ordinary_one(
    budget: PingBudget, policy: RunPolicy, now: datetime, has_pinged: bool, busy: bool, cap: int
) -> None:
    run = run_of(policy, has_pinged, critical_used=True)
    critical = ask(budget, run, now, critical=True, busy=busy, cap=cap)
    assert critical == ask(budget, run, now, critical=False, busy=busy, cap=cap)


def test_a_critical_ping_is_as_silent_as_any_where_pings_are_switched_off() -> None:
    policy = RunPolicy(RunKind.BACKGROUND, (), allow_ping=False)
    assert "switched off" in reason(ask(FULL, run_of(policy), critical=True)[1])


def test_a_day_takes_so_many_critical_pings_and_the_next_as_many_again() -> None:
    policy, budget = RunPolicy(RunKind.BACKGROUND, ()), replace(FULL, available=0.0)
    verdicts = []
    for _ in range(4):
        budget, verdict = ask(budget, run_of(policy), critical=True, cap=3)
        verdicts.append(verdict)
    assert verdicts[:3] == [PingAllowed(Charge.CRITICAL)] * 3
    assert "(budget: 0/5 (next refill in 90 min))" in reason(verdicts[3])
    _, verdict = ask(budget, run_of(policy), NOON + timedelta(days=1), critical=True, cap=3)
    assert verdict == PingAllowed(Charge.CRITICAL)


def test_of_many_runs_that_race_for_the_last_token_exactly_one_wins() -> None:
    store = RepeatingStore(lambda: NOON)
    store.run(lambda tx: tx.budget.put(replace(FULL, available=1.0)))
    racers = 8
    together = threading.Barrier(racers)
    verdicts: list[PingVerdict] = []

    def race() -> None:
        run = run_of(RunPolicy(RunKind.BACKGROUND, ()))
        together.wait(timeout=10)
        verdicts.append(store.run(lambda tx: tx.budget.take(lambda budget: ask(budget, run))))

    threads = [threading.Thread(target=race) for _ in range(racers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert verdicts.count(PingAllowed(Charge.TOKEN)) == 1
    assert len(verdicts) == racers
    left = store.query(lambda tx: tx.budget.get())
    assert (left.available, left.daily_used) == (0.0, 1)


def _settled(
    outcome: tuple[PingBudget, PingVerdict], now: datetime
) -> tuple[PingBudget, PingVerdict]:
    return outcome[0].refilled(now), outcome[1]
