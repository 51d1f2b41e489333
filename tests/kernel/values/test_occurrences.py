"""Occurrences: one id for one due moment, and one end for each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.kernel.values.strategies import (
    delivery_keys,
    instants,
    job_ids,
    occurrences,
    parted,
    timed_kinds,
    zones,
)

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.occurrences import Occurrence, OccurrenceState, may_follow

NINE = datetime(2026, 11, 16, 9, tzinfo=ZoneInfo("Europe/Berlin"))
STATES = [*OccurrenceState]
ENDS = [state for state in STATES if state.is_end]


@pytest.mark.parametrize(
    ("occurrence", "expected"),
    [
        pytest.param(
            Occurrence.scheduled(JobKind.ROUTINE, "a1b2c3d4", NINE),
            "routine:a1b2c3d4:2026-11-16T08:00:00Z",
            id="routine",
        ),
        pytest.param(
            Occurrence.scheduled(JobKind.REMINDER, "call-mum", NINE + timedelta(seconds=30)),
            "reminder:call-mum:2026-11-16T08:00:30Z",
            id="reminder",
        ),
        pytest.param(
            Occurrence.by_hand(JobKind.REMINDER, "call-mum", NINE),
            "reminder:call-mum:2026-11-16T08:00:00Z:manual",
            id="by-hand",
        ),
        pytest.param(
            Occurrence.scheduled(JobKind.ROUTINE, "meds", NINE).again(2),
            "routine:meds:2026-11-16T08:00:00Z#2",
            id="again",
        ),
        pytest.param(
            Occurrence.scheduled(JobKind.REMINDER, "meds", NINE).before(timedelta(minutes=90)),
            "reminder:meds:2026-11-16T08:00:00Z#before-90m",
            id="heads-up",
        ),
        pytest.param(
            Occurrence(JobKind.WEBHOOK, "github-ci", "72d3162e:cc78"),
            "webhook:github-ci:72d3162e:cc78",
            id="delivery",
        ),
    ],
)
def test_an_occurrence_is_named_by_job_and_moment(occurrence: Occurrence, expected: str) -> None:
    assert occurrence.id == expected


@given(occurrences)
@example(Occurrence(JobKind.WEBHOOK, "ci", "x:manual"))
@example(Occurrence(JobKind.WEBHOOK, "ci", ":manual"))
@example(Occurrence(JobKind.WEBHOOK, "ci", "x#2"))
@example(Occurrence.by_hand(JobKind.ROUTINE, "ci", NINE).again(3))
@example(Occurrence(JobKind.WEBHOOK, "ci", "x:manual:manual"))
@example(Occurrence(JobKind.WEBHOOK, "ci", "x:delivery"))
@example(Occurrence(JobKind.WEBHOOK, "ci", "x:manual:delivery"))
@example(Occurrence(JobKind.WEBHOOK, "ci", "2026-11-16T08:00:00Z:manual"))
def test_an_id_can_be_read_back(occurrence: Occurrence) -> None:
    assert Occurrence.parse(occurrence.id) == occurrence


@pytest.mark.parametrize("part", ["1", "01", "x", "before-", "before-30", "2#3"])
def test_only_a_number_and_a_length_before_are_parts_of_a_moment(part: str) -> None:
    with pytest.raises(ValueError, match="is not an occurrence"):
        Occurrence.parse(f"routine:meds:2026-11-16T08:00:00Z#{part}")


@given(parted)
def test_a_part_belongs_to_its_moment_and_a_heads_up_comes_before_it(one: Occurrence) -> None:
    assert one.whole.part == ""
    assert one.id.startswith(f"{one.whole.id}#")
    moment = one.whole.scheduled_at
    if one.is_again:
        assert one.scheduled_at is None
    elif moment is not None and one.comes_before is not None:
        assert one.scheduled_at == moment - one.comes_before


@given(job_ids, instants, delivery_keys)
@example("ci", NINE, "2026-11-16T08:00:00Z:manual")
def test_a_delivery_never_passes_for_a_run_by_hand(job: str, now: datetime, key: str) -> None:
    """A stranger chooses its key."""
    assert (
        Occurrence(JobKind.WEBHOOK, job, key).id != Occurrence.by_hand(JobKind.WEBHOOK, job, now).id
    )


@given(timed_kinds, job_ids, instants, zones)
def test_one_moment_has_one_id_in_every_zone(
    kind: JobKind, job: str, moment: datetime, zone: ZoneInfo
) -> None:
    here, there = moment.astimezone(UTC), moment.astimezone(zone)
    assert Occurrence.scheduled(kind, job, here) == Occurrence.scheduled(kind, job, there)


def test_the_two_moments_of_a_repeated_hour_have_two_ids() -> None:
    first = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    ids = {
        Occurrence.scheduled(JobKind.ROUTINE, "a", each).id
        for each in (first, first.replace(fold=1))
    }
    assert ids == {"routine:a:2026-10-25T00:30:00Z", "routine:a:2026-10-25T01:30:00Z"}


@given(timed_kinds, job_ids, instants)
def test_the_scheduled_moment_can_be_read_back(kind: JobKind, job: str, moment: datetime) -> None:
    at = moment.replace(microsecond=0)
    assert Occurrence.parse(Occurrence.scheduled(kind, job, at).id).scheduled_at == at
    assert Occurrence.parse(Occurrence.by_hand(kind, job, at).id).scheduled_at == at


@given(job_ids, delivery_keys)
def test_a_delivery_has_no_scheduled_moment(job: str, key: str) -> None:
    assert Occurrence(JobKind.WEBHOOK, job, key).scheduled_at is None


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            ["routine", "reminder", "webhook", "a", "", "2026-11-16T08:00:00Z", "manual"]
        )
    ).map(":".join)
)
def test_what_is_read_as_an_occurrence_is_one(text: str) -> None:
    """Anything else is a `ValueError`; whatever is accepted is written the same way again."""
    try:
        occurrence = Occurrence.parse(text)
    except ValueError:
        return
    assert occurrence.id == text
    assert occurrence.scheduled_at is None or occurrence.scheduled_at.tzinfo == UTC


@pytest.mark.parametrize(
    "text",
    [
        "", "routine", "routine:a", "routine:a:", "routine::2026-11-16T08:00:00Z",
        "habit:a:2026-11-16T08:00:00Z", "routine:a:tomorrow", "routine:a:2026-11-16T08:00:00",
        "routine:a:2026-11-16T09:00:00+01:00", "routine:a:2026-11-16",
        "routine:a:2026-13-16T08:00:00Z", "routine:a:0001-01-01T00:00:00+23:00",
        "reminder:a:2026-11-16T08:00:00Z:manual:manual", "webhook:a:key:manual",
        "webhook:a:key:delivery",
    ],
)  # fmt: skip
def test_what_is_no_occurrence_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an occurrence"):
        Occurrence.parse(text)


def test_these_states_are_ends_and_no_others() -> None:
    assert ENDS == ["done", "failed", "timed_out", "skipped", "missed", "interrupted"]


def test_an_occurrence_begins_by_being_due_or_planned() -> None:
    first = [state for state in STATES if may_follow(None, state)]
    assert first == [OccurrenceState.PLANNED, OccurrenceState.DUE]


@pytest.mark.parametrize("end", ENDS)
def test_nothing_follows_an_end(end: OccurrenceState) -> None:
    assert [state for state in STATES if may_follow(end, state)] == []


@pytest.mark.parametrize("state", STATES)
def test_every_state_can_be_reached_and_an_end_from_it(state: OccurrenceState) -> None:
    assert state in reachable(None)
    assert state.is_end or not reachable(state).isdisjoint(ENDS)


@pytest.mark.parametrize("state", ["attempt_failed", "cut_off"])
def test_a_broken_attempt_is_followed_by_another_or_by_an_end(state: str) -> None:
    followers = [after for after in STATES if may_follow(OccurrenceState(state), after)]
    assert OccurrenceState.RUNNING in followers
    assert all(after.is_end for after in followers if after is not OccurrenceState.RUNNING)


def test_an_attempt_begins_when_it_is_due_or_after_one_that_broke() -> None:
    before = [state for state in STATES if may_follow(state, OccurrenceState.RUNNING)]
    assert before == ["due", "attempt_failed", "cut_off"]


def reachable(start: OccurrenceState | None) -> set[OccurrenceState]:
    found: set[OccurrenceState] = set()
    edge = {start}
    while edge:
        following = {after for state in edge for after in STATES if may_follow(state, after)}
        edge = {state for state in following if state not in found}
        found |= following
    return found
