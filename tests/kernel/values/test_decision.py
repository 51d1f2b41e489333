"""One function decides what a due occurrence leads to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.decision import (
    Abandon,
    Circumstances,
    Decision,
    GiveUp,
    Miss,
    RunInBackground,
    RunInForeground,
    Settle,
    Skip,
    decide,
    deliver_by,
)
from ollim_bot.kernel.values.jobs import JobSpec, Late, Reminder, Routine
from ollim_bot.kernel.values.occurrences import (
    MAX_ATTEMPTS,
    OccurrenceState,
    Progress,
    SkipReason,
    may_follow,
)

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
DUE, RUNNING = OccurrenceState.DUE, OccurrenceState.RUNNING
CUT_OFF, FAILED_ONCE = OccurrenceState.CUT_OFF, OccurrenceState.ATTEMPT_FAILED
RUNS = RunInForeground | RunInBackground


def routine(**fields: Any) -> Routine:
    spec = JobSpec(id="a", message="Look.", **{"background": True, **fields})
    return Routine(spec, Cron.parse("0 12 * * *"))


def reminder(**fields: Any) -> Reminder:
    return Reminder(JobSpec(id="a", message="Look.", **{"background": True, **fields}), NOON)


def at_noon(**fields: Any) -> Circumstances:
    return Circumstances(NOON, **{"now": NOON, "zone": UTC, **fields})


OWN = {"set_by": "routine:plan", "allow_ping": True}

# Each row alone leads to its decision, and each row outweighs all rows below it.
ORDER: list[tuple[dict[str, Any], dict[str, Any], Decision]] = [
    ({}, {"progress": Progress(OccurrenceState.DONE, 1)}, Settle()),
    ({}, {"progress": Progress(DUE, had_effect=True)}, GiveUp(OccurrenceState.FAILED)),
    ({}, {"is_queued": True}, RunInForeground()),
    ({}, {"is_skipped": True}, Skip(SkipReason.POLICY)),
    ({}, {"is_superseded": True}, Skip(SkipReason.SUPERSEDED)),
    ({"late": Late.TELL}, {"was_away": True, "now": NOON + HOUR}, Miss(is_told=True)),
    ({}, {"is_running": True}, Skip(SkipReason.OVERLAP)),
    ({}, {"reached_cost_cap": 2.0}, Skip(SkipReason.COST_CAP, "2.00")),
    (
        {"allowed_tools": ("Bash(*)",)},
        {},
        Skip(SkipReason.INVALID_TOOLS, "`Bash(*)` would allow every command. Name one."),
    ),
    ({"skills": ("x",)}, {"excess_tools": ("x",)}, Skip(SkipReason.INVALID_TOOLS, "x")),
    ({"skills": ("x",)}, {"missing_skills": ("x",)}, Skip(SkipReason.MISSING_SKILL, "x")),
    (OWN, {"has_ping_token": False}, Skip(SkipReason.BUDGET)),
    ({}, {}, RunInBackground(1)),
]


def outcome(decision: Decision) -> tuple[object, ...]:
    """The decision without its sentences about tools, which have their own tests."""
    is_tools = isinstance(decision, Skip) and decision.reason is SkipReason.INVALID_TOOLS
    return (type(decision), SkipReason.INVALID_TOOLS) if is_tools else (decision,)


@pytest.mark.parametrize(("fields", "circumstances", "decision"), ORDER)
def test_each_circumstance_has_its_decision(
    fields: dict[str, Any], circumstances: dict[str, Any], decision: Decision
) -> None:
    assert outcome(decide(routine(**fields), at_noon(**circumstances))) == outcome(decision)


def test_a_foreground_job_does_not_run_without_its_skill_either() -> None:
    job = routine(background=False, skills=("x",))
    assert decide(job, at_noon()) == RunInForeground()
    missing = at_noon(missing_skills=("x",))
    assert decide(job, missing) == Skip(SkipReason.MISSING_SKILL, "x")


@given(st.sets(st.integers(0, len(ORDER) - 1), min_size=1))
def test_of_several_circumstances_the_first_in_order_decides(chosen: set[int]) -> None:
    fields: dict[str, Any] = {}
    circumstances: dict[str, Any] = {}
    for number in sorted(chosen, reverse=True):
        fields |= ORDER[number][0]
        circumstances |= ORDER[number][1]
    decided = decide(routine(**fields), at_noon(**circumstances))
    assert outcome(decided) == outcome(ORDER[min(chosen)][2])


@pytest.mark.parametrize(
    ("progress", "decision"),
    [
        (Progress(DUE), RunInBackground(1)),
        (Progress(RUNNING, 1), RunInBackground(2)),
        (Progress(CUT_OFF, 1), RunInBackground(2)),
        (Progress(FAILED_ONCE, 2), RunInBackground(3)),
        (Progress(RUNNING, 3), GiveUp(OccurrenceState.FAILED)),
        (Progress(CUT_OFF, 3), GiveUp(OccurrenceState.FAILED)),
        (Progress(RUNNING, 1, had_effect=True), GiveUp(OccurrenceState.INTERRUPTED)),
        (Progress(CUT_OFF, 1, had_effect=True), GiveUp(OccurrenceState.INTERRUPTED)),
        (Progress(FAILED_ONCE, 1, had_effect=True), GiveUp(OccurrenceState.FAILED)),
        (Progress(OccurrenceState.SKIPPED), Settle()),
    ],
)
def test_after_a_restart_each_occurrence_goes_on_by_what_the_ledger_says(
    progress: Progress, decision: Decision
) -> None:
    assert decide(routine(), at_noon(progress=progress)) == decision


@pytest.mark.parametrize(
    ("progress", "state"),
    [
        (Progress(DUE), OccurrenceState.SKIPPED),
        (Progress(RUNNING, 1), OccurrenceState.INTERRUPTED),
        (Progress(FAILED_ONCE, 1), OccurrenceState.SKIPPED),
    ],
)
def test_an_occurrence_whose_file_is_gone_is_abandoned(
    progress: Progress, state: OccurrenceState
) -> None:
    assert decide(None, at_noon(progress=progress)) == Abandon(state)


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 5), (2, 30)])
def test_a_failed_attempt_is_repeated_after_a_pause(attempts: int, seconds: int) -> None:
    failed = at_noon(progress=Progress(FAILED_ONCE, attempts), has_just_failed=True)
    assert decide(routine(), failed) == RunInBackground(attempts + 1, seconds * SECOND)


def test_lateness_is_judged_once_and_never_for_a_claimed_reminder() -> None:
    late = at_noon(now=NOON + HOUR, was_away=True)
    job, own = reminder(late=Late.SKIP, must=False), routine(late=Late.SKIP)
    claimed = late._replace(progress=Progress(DUE))
    assert decide(job, late) == decide(own, late) == Miss(is_told=False)
    assert decide(own, claimed) == Miss(is_told=False)
    assert decide(job, claimed) == RunInBackground(1)
    assert decide(own, late._replace(was_away=False)) == RunInBackground(1)


def test_a_reminder_that_runs_already_comes_again_unless_it_is_run_by_hand() -> None:
    assert decide(reminder(), at_noon(is_running=True)) == RunInBackground(1)
    by_hand = at_noon(is_running=True, is_manual=True)
    assert decide(reminder(), by_hand) == Skip(SkipReason.OVERLAP)


def test_a_must_reminder_gives_its_run_a_minute_and_half_of_it_where_it_is_late() -> None:
    assert deliver_by(NOON, NOON) == NOON + MINUTE
    assert deliver_by(NOON, NOON + 20 * SECOND) == NOON + MINUTE
    assert deliver_by(NOON, NOON + HOUR) == NOON + HOUR + 30 * SECOND


progresses = st.builds(
    Progress, st.none() | st.sampled_from(OccurrenceState), st.integers(0, 4), st.booleans()
)
circumstances = st.builds(
    Circumstances,
    due=st.none() | st.just(NOON),
    now=st.sampled_from([NOON, NOON + MINUTE, NOON + 9 * HOUR]),
    zone=st.just(UTC),
    progress=progresses,
    is_manual=st.booleans(),
    was_away=st.booleans(),
    has_just_failed=st.booleans(),
    is_skipped=st.booleans(),
    is_queued=st.booleans(),
    is_superseded=st.booleans(),
    is_running=st.booleans(),
    reached_cost_cap=st.none() | st.just(2.0),
    missing_skills=st.sampled_from([(), ("x",)]),
    has_ping_token=st.booleans(),
)
fields = st.fixed_dictionaries(
    {
        "background": st.booleans(),
        "late": st.none() | st.sampled_from(Late),
        "allowed_tools": st.sampled_from([(), ("Bash(*)",)]),
        "set_by": st.none() | st.just("routine:plan"),
    }
)
jobs = (
    st.none()
    | fields.map(lambda given: routine(**given))
    | fields.map(lambda given: reminder(**given))
)


@given(jobs, circumstances)
def test_what_may_have_been_seen_or_was_tried_often_enough_never_runs_again(
    job: Routine | Reminder | None, now: Circumstances
) -> None:
    if now.progress.had_effect or now.progress.attempts >= MAX_ATTEMPTS:
        assert not isinstance(decide(job, now), RUNS)


@given(jobs, circumstances)
def test_a_run_by_hand_is_not_kept_back_by_costs_budget_or_lateness(
    job: Routine | Reminder | None, now: Circumstances
) -> None:
    decision = decide(job, now._replace(is_manual=True))
    assert not isinstance(decision, Miss)
    reason = decision.reason if isinstance(decision, Skip) else None
    assert reason not in (SkipReason.COST_CAP, SkipReason.BUDGET)


@given(jobs, st.sampled_from([None, DUE, RUNNING, CUT_OFF, FAILED_ONCE]), circumstances)
def test_the_end_that_is_decided_may_follow_what_the_ledger_says(
    job: Routine | Reminder | None, state: OccurrenceState | None, now: Circumstances
) -> None:
    attempts = 0 if state in (None, DUE) else max(now.progress.attempts, 1)
    progress = now.progress._replace(state=state, attempts=attempts)
    decision = decide(job, now._replace(progress=progress))
    # A run that was cut off is noted as such before it is skipped or repeated.
    before = CUT_OFF if state is RUNNING else state or DUE
    match decision:
        case GiveUp(end) | Abandon(end):
            assert may_follow(state or DUE, end)
        case Skip():
            assert may_follow(before, OccurrenceState.SKIPPED)
        case Miss():
            assert may_follow(before, OccurrenceState.MISSED)
        case RunInForeground() | RunInBackground():
            assert may_follow(before, RUNNING)
        case Settle():
            raise AssertionError("it has no end yet")
