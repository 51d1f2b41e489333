"""The ping budget, whatever the clock does, and whether a background run may ping."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.kernel.values.strategies import PingStep, instants, ping_budgets, ping_steps, zones

from ollim_bot.kernel.base.errors import WrongInput
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.values.jobs import ReportMode
from ollim_bot.kernel.values.pings import (
    Charge,
    PingAllowed,
    PingBudget,
    PingRefused,
    PingVerdict,
    charged,
)
from ollim_bot.kernel.values.runs import Run, RunKind, RunPolicy

NEW_YORK = ZoneInfo("America/New_York")

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)

FULL = PingBudget.full(NOON)

EMPTY = replace(FULL, available=0.0)

waits = st.timedeltas(timedelta(0), timedelta(days=400))


def spends(budget: PingBudget, now: datetime) -> int:
    """How many pings it allows at one moment."""
    count = 0
    while (step := budget.spent(now))[1]:
        budget, count = step[0], count + 1
    return count


def test_it_starts_full_with_five_and_gains_one_in_ninety_minutes() -> None:
    assert (FULL.capacity, FULL.available, FULL.refill_rate_minutes) == (5, 5.0, 90)
    assert (FULL.critical_used, FULL.daily_used) == (0, 0)
    assert (FULL.critical_reset_date, FULL.daily_used_reset) == (NOON.date(), NOON.date())


@given(ping_budgets(), st.lists(st.tuples(ping_steps, instants), max_size=12))
def test_nothing_brings_it_below_nothing_or_above_its_capacity(
    budget: PingBudget, history: list[tuple[PingStep, datetime]]
) -> None:
    """However the clock jumps between the steps."""
    for step, now in history:
        budget = step(budget, now)
        assert 0 <= budget.available <= budget.capacity
        assert 0 <= budget.tokens <= budget.capacity
        assert budget.daily_used >= 0
        assert budget.critical_used >= 0
        assert budget.last_refill == now


@given(ping_budgets(), waits)
def test_a_clock_that_goes_back_takes_nothing(budget: PingBudget, back: timedelta) -> None:
    earlier = budget.refilled(budget.last_refill - back)
    assert earlier.available == budget.available


@given(ping_budgets(), waits)
def test_a_clock_that_went_back_counts_from_the_new_time_on(
    budget: PingBudget, back: timedelta
) -> None:
    earlier = budget.last_refill - back
    wait = timedelta(minutes=budget.refill_rate_minutes)
    expected = min(float(budget.capacity), budget.available + 1)
    assert budget.refilled(earlier).refilled(earlier + wait).available == pytest.approx(expected)


@given(ping_budgets(), waits, waits)
def test_looking_twice_gains_as_much_as_looking_once(
    budget: PingBudget, first: timedelta, second: timedelta
) -> None:
    start = budget.last_refill
    middle, end = start + first, start + first + second
    budget = budget.refilled(start)
    once, twice = budget.refilled(end), budget.refilled(middle).refilled(end)
    assert twice == replace(once, available=twice.available)
    assert twice.available == pytest.approx(once.available, abs=1e-6)


@given(st.integers(1, 40), instants)
def test_a_full_bucket_gives_exactly_its_capacity(capacity: int, now: datetime) -> None:
    full = replace(PingBudget.full(now), capacity=capacity, available=float(capacity))
    assert spends(full, now) == capacity


@given(st.integers(1, 1_000_000), st.integers(0, 4))
def test_a_token_comes_when_its_minutes_are_over_and_no_second_earlier(
    minutes: int, held: int
) -> None:
    budget = replace(FULL, available=float(held), refill_rate_minutes=minutes)
    due = NOON + timedelta(minutes=minutes)
    assert budget.refilled(due - SECOND).tokens == held
    assert budget.refilled(due).tokens == held + 1


@pytest.mark.parametrize("step", [SECOND, MINUTE, timedelta(seconds=7), 90 * MINUTE], ids=str)
def test_many_small_looks_add_up_to_whole_tokens(step: timedelta) -> None:
    budget, now, end = EMPTY, NOON, NOON + 180 * MINUTE
    while now < end:
        now = min(now + step, end)
        budget = budget.refilled(now)
    assert budget.tokens == 2


@given(ping_budgets(), st.floats(0, 1))
def test_a_token_given_back_at_once_was_never_spent(budget: PingBudget, part: float) -> None:
    now = budget.last_refill
    before = replace(budget, available=1 + part * (budget.capacity - 1)).refilled(now)
    spent, allowed = before.spent(now)
    after = spent.given_back(now)
    assert allowed
    assert after == replace(before, available=after.available)
    assert after.available == pytest.approx(before.available, abs=1e-9)


def test_a_token_given_back_to_a_full_bucket_spills() -> None:
    spent, _ = FULL.spent(NOON)
    later = spent.given_back(NOON + 2 * HOUR)
    assert later.available == 5.0


def test_a_token_given_back_after_midnight_leaves_the_new_day_at_nothing() -> None:
    spent, _ = FULL.spent(NOON)
    assert spent.given_back(NOON + timedelta(days=1)).daily_used == 0


@pytest.mark.parametrize("available", [1.0, 1 - 5e-10], ids=["one", "one-but-for-a-hair"])
def test_the_last_token_leaves_nothing_and_no_debt(available: float) -> None:
    spent, allowed = replace(FULL, available=available).spent(NOON)
    assert (spent.available, allowed) == (0.0, True)


@given(ping_budgets())
def test_a_refused_ping_costs_nothing(budget: PingBudget) -> None:
    now = budget.last_refill
    empty = replace(budget, available=0.99)
    assert empty.spent(now) == (empty.refilled(now), False)


@given(ping_budgets(), st.integers(0, 30))
def test_critical_pings_are_limited_by_the_day_and_by_nothing_else(
    budget: PingBudget, cap: int
) -> None:
    now = budget.last_refill
    start = before = replace(budget, critical_used=0).refilled(now)
    for _ in range(cap):
        before, allowed = before.critical_spent(now, cap)
        assert allowed
    assert before == replace(start, critical_used=cap)
    for reached in (cap, cap - 1):
        assert before.critical_spent(now, reached) == (before, False)


@given(ping_budgets())
def test_a_critical_ping_given_back_was_never_spent(budget: PingBudget) -> None:
    now = budget.last_refill
    before = budget.refilled(now)
    assert before.critical_spent(now, 99)[0].critical_given_back(now) == before


@given(zones, st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1)))
@example(ZoneInfo("Pacific/Apia"), datetime(2011, 12, 29))
@example(ZoneInfo("America/Santiago"), datetime(2024, 4, 6))
def test_counters_start_anew_at_midnight_where_the_owner_is(zone: ZoneInfo, day: datetime) -> None:
    """Also where the clocks go back at midnight, or a whole day is left out."""
    last_second = day.replace(hour=23, minute=59, second=59, microsecond=0, tzinfo=zone, fold=1)
    tonight = last_second.astimezone(UTC).astimezone(zone)
    midnight = (tonight.astimezone(UTC) + SECOND).astimezone(zone)
    today = tonight.date()
    used = replace(FULL, daily_used=3, daily_used_reset=today)
    used = replace(used, critical_used=2, critical_reset_date=today)
    before, after = used.refilled(tonight), used.refilled(midnight)
    assert (before.daily_used, before.critical_used) == (3, 2)
    assert (after.daily_used, after.critical_used) == (0, 0)
    assert after.daily_used_reset == after.critical_reset_date == midnight.date() > today


@given(ping_budgets(), instants)
def test_a_clock_that_goes_back_gives_no_critical_pings_back(
    budget: PingBudget, now: datetime
) -> None:
    """Nor does a journey to the west: no midnight has passed."""
    tomorrow = now.date() + timedelta(days=1)
    used = replace(budget, critical_reset_date=tomorrow, daily_used_reset=tomorrow).refilled(now)
    assert (used.critical_used, used.daily_used) == (budget.critical_used, budget.daily_used)
    assert (used.critical_reset_date, used.daily_used_reset) == (now.date(), now.date())


@pytest.mark.parametrize(
    ("start", "end", "hours"),
    [
        pytest.param((2026, 3, 8, 1, 30), (2026, 3, 8, 3, 30), 1, id="spring"),
        pytest.param((2026, 11, 1, 0, 30), (2026, 11, 1, 2, 30), 3, id="autumn"),
    ],
)
def test_a_change_of_the_clocks_neither_gives_nor_takes(
    start: tuple[int, int, int, int, int], end: tuple[int, int, int, int, int], hours: int
) -> None:
    before = datetime(*start, tzinfo=NEW_YORK)
    budget = replace(EMPTY, last_refill=before, refill_rate_minutes=60)
    assert budget.refilled(datetime(*end, tzinfo=NEW_YORK)).available == pytest.approx(hours)
    middle = budget.refilled((before.astimezone(UTC) + HOUR).astimezone(NEW_YORK))
    assert middle.refilled(datetime(*end, tzinfo=NEW_YORK)).available == pytest.approx(hours)


@given(ping_budgets(), st.integers(1, 1_000_000), st.integers(1, 1_000_000))
def test_a_smaller_bucket_spills_and_a_larger_one_is_not_filled(
    budget: PingBudget, capacity: int, minutes: int
) -> None:
    now = budget.last_refill
    resized = budget.resized(now, capacity=capacity, refill_rate_minutes=minutes)
    assert (resized.capacity, resized.refill_rate_minutes) == (capacity, minutes)
    assert resized.available == min(budget.available, capacity)
    assert (resized.daily_used, resized.critical_used) == (
        budget.refilled(now).daily_used,
        budget.refilled(now).critical_used,
    )


def test_the_time_before_a_resize_counts_by_the_old_rate() -> None:
    resized = EMPTY.resized(NOON + 90 * MINUTE, capacity=5, refill_rate_minutes=10)
    assert resized.available == pytest.approx(1)


@pytest.mark.parametrize(
    ("capacity", "minutes"),
    [(0, 90), (-1, 90), (5, 0), (5, -90), (10**7, 90), (5, 10**7), (10**400, 90), (5, 10**400)],
    ids=range(8),
)
def test_limits_that_make_no_sense_are_refused_with_an_example(capacity: int, minutes: int) -> None:
    with pytest.raises(WrongInput, match="from 1 to 1000000, such as 5 and 90"):
        FULL.resized(NOON, capacity=capacity, refill_rate_minutes=minutes)


@pytest.mark.parametrize("minutes", [10**12, 10**18], ids=["1e12", "1e18"])
def test_a_rate_of_any_size_in_the_file_is_only_slow(minutes: int) -> None:
    slow = replace(EMPTY, refill_rate_minutes=minutes)
    assert slow.refilled(NOON + timedelta(days=400)).tokens == 0
    assert slow.status_line(NOON).startswith("budget: 0/5 (next refill in ")


@pytest.mark.parametrize(
    ("available", "waited", "line"),
    [
        pytest.param(5.0, 0 * MINUTE, "budget: 5/5", id="full"),
        pytest.param(3 + 48 / 90, 0 * MINUTE, "budget: 3/5 (next refill in 42 min)", id="spec"),
        pytest.param(3.0, 48 * MINUTE, "budget: 3/5 (next refill in 42 min)", id="after-a-wait"),
        pytest.param(3.0, 0 * MINUTE, "budget: 3/5 (next refill in 90 min)", id="just-spent"),
        pytest.param(0.0, 0 * MINUTE, "budget: 0/5 (next refill in 90 min)", id="empty"),
        pytest.param(0.0, 90 * MINUTE, "budget: 1/5 (next refill in 90 min)", id="just-gained"),
        pytest.param(0.0, 30 * SECOND, "budget: 0/5 (next refill in 90 min)", id="rounded-up"),
        pytest.param(4.0, 89.9 * MINUTE, "budget: 4/5 (next refill in 1 min)", id="nearly-full"),
        pytest.param(4.0, timedelta(days=9), "budget: 5/5", id="long-full"),
        pytest.param(0.1 + 0.2, 0 * MINUTE, "budget: 0/5 (next refill in 63 min)", id="inexact"),
        pytest.param(3 - 5e-10, 0 * MINUTE, "budget: 3/5 (next refill in 90 min)", id="hair-less"),
        pytest.param(3 + 5e-10, 0 * MINUTE, "budget: 3/5 (next refill in 90 min)", id="hair-more"),
        pytest.param(5 - 5e-10, 0 * MINUTE, "budget: 5/5", id="full-but-for-a-hair"),
        pytest.param(3.0, -9 * HOUR, "budget: 3/5 (next refill in 90 min)", id="clock-back"),
    ],
)
def test_the_status_line_says_what_is_left_and_when_more_comes(
    available: float, waited: timedelta, line: str
) -> None:
    assert replace(FULL, available=available).status_line(NOON + waited) == line


@given(ping_budgets())
def test_the_status_line_keeps_its_word(budget: PingBudget) -> None:
    """After the minutes that it names there is one more token, and not a minute earlier."""
    now, line = budget.last_refill, budget.status_line(budget.last_refill)
    assert ("next refill" in line) is (budget.tokens < budget.capacity)
    assume("next refill" in line)
    minutes = int(line.split()[-2])
    assert budget.refilled(now + minutes * MINUTE).tokens > budget.tokens
    assert budget.refilled(now + (minutes - 1) * MINUTE).tokens == budget.tokens


@pytest.mark.parametrize(
    ("daily", "critical", "more"),
    [
        pytest.param(0, 0, [], id="nothing-used"),
        pytest.param(2, 0, ["used today: 2"], id="used"),
        pytest.param(0, 1, ["critical bypasses: 1"], id="critical"),
        pytest.param(2, 1, ["used today: 2", "critical bypasses: 1"], id="both"),
    ],
)
def test_the_full_status_adds_what_was_used_today(
    daily: int, critical: int, more: list[str]
) -> None:
    budget = replace(FULL, available=4.0, daily_used=daily, critical_used=critical)
    line = "budget: 4/5 (next refill in 90 min)"
    assert budget.full_status(NOON).splitlines() == [line, *more]
    assert budget.full_status(NOON + timedelta(days=1)) == "budget: 5/5"


@given(ping_budgets(), waits)
def test_refills_are_what_time_adds_where_there_is_room(
    budget: PingBudget, wait: timedelta
) -> None:
    """They equal the growth of a budget that was never full in between."""
    now = budget.last_refill
    moment = now + wait
    refills = budget.refills_until(moment, now)
    assert refills >= 0
    later = budget.refilled(moment)
    if later.tokens < later.capacity:
        assert later.tokens == budget.tokens + refills


@pytest.mark.parametrize(
    ("available", "minutes", "refills"),
    [(5.0, 89, 0), (5.0, 90, 1), (0.0, 180, 2), (2.5, 44, 0), (2.5, 45, 1), (0.0, 900, 10)],
)
def test_a_full_bucket_gets_back_what_is_spent_now(
    available: float, minutes: int, refills: int
) -> None:
    budget = replace(FULL, available=available)
    assert budget.refills_until(NOON + minutes * MINUTE, NOON) == refills
    assert budget.refills_until(NOON - HOUR, NOON) == 0


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
@example(FULL, RunPolicy(RunKind.BACKGROUND, ()), False, True, NOON)
@example(EMPTY, RunPolicy(RunKind.BACKGROUND, ()), False, True, NOON)
@example(FULL, RunPolicy(RunKind.BACKGROUND, ()), True, True, NOON)
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
    for critical in (False, True):
        verdict = ask(budget, forbidden, now, critical=critical, busy=busy)[1]
        assert "switched off" in reason(verdict)


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


def _settled(
    outcome: tuple[PingBudget, PingVerdict], now: datetime
) -> tuple[PingBudget, PingVerdict]:
    return outcome[0].refilled(now), outcome[1]
