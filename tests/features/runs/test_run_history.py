"""The story of each occurrence, from its rows in the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState, Progress
from ollim_bot.kernel.values.run_history import (
    History,
    RunStory,
    checkpoint_row,
    claimed_by,
    part_in_words,
    planned_row,
)

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
ONE, OTHER, THIRD = (
    Occurrence.scheduled(JobKind.ROUTINE, name, NOON) for name in ("one", "other", "third")
)


def rows(states: str, one: Occurrence = ONE) -> list[LedgerRow]:
    return [LedgerRow(NOON, state, one) for state in states.split()]


def story(states: str) -> RunStory:
    return RunStory(ONE, rows(states))


def test_a_story_knows_its_rows_state_attempts_effect_delivery_and_end() -> None:
    told = story("due running cut_off running effect delivered done")
    assert told.state is OccurrenceState.DONE
    assert (told.attempts, told.had_effect) == (2, True)
    assert told.end == told.rows[-1]
    assert told.delivery == {}
    plain = story("due running")
    assert (plain.end, plain.delivery, plain.had_effect) == (None, None, False)
    assert plain.progress == Progress(OccurrenceState.RUNNING, 1, had_effect=False)
    assert story("effect").state is None


def test_a_history_holds_each_story_in_the_order_of_its_rows() -> None:
    mixed = [*rows("due"), *rows("due", OTHER), *rows("running done"), *rows("running", OTHER)]
    history = History.of([LedgerRow(NOON, "armed"), *mixed])
    assert list(history.stories) == [ONE, OTHER]
    assert [row.state for row in history.stories[ONE].rows] == ["due", "running", "done"]
    assert [each.occurrence for each in history.unfinished] == [OTHER]


def test_a_checkpoint_names_all_that_is_unfinished() -> None:
    past = [*rows("due running"), *rows("due running done", OTHER)]
    assert checkpoint_row(NOON, NOON, History.of(past)).facts["unfinished"] == [ONE.id]


def test_only_occurrences_that_have_come_can_be_claimed() -> None:
    assert claimed_by([*rows("due skipped"), *rows("due", OTHER)]) == {ONE, OTHER}
    with pytest.raises(ValueError, match="is not due"):
        claimed_by([LedgerRow(NOON - timedelta(seconds=1), "due", ONE)])
    with pytest.raises(ValueError, match="no occurrence"):
        claimed_by([LedgerRow(NOON, "armed")])


def test_a_further_time_fired_when_it_came_and_not_when_it_was_planned() -> None:
    one = Occurrence.parse("reminder:water:2026-11-16T08:00:00Z#2")
    planned, came = datetime(2026, 11, 16, 8, tzinfo=UTC), datetime(2026, 11, 16, 8, 10, tzinfo=UTC)
    row = planned_row(one, "water", came, planned)
    assert RunStory(one, [row]).fired == came
    late = came + timedelta(minutes=5)
    assert RunStory(one, [row, LedgerRow(late, "done", one)]).fired == late
    assert RunStory(one, [LedgerRow(planned, "due", one.whole)]).fired == planned


@pytest.mark.parametrize(
    ("part", "words"), [("", ""), ("#2", "time 2"), ("#before-90m", "heads-up, 1 h 30 min before")]
)
def test_a_part_of_a_moment_is_said_in_words(part: str, words: str) -> None:
    assert part_in_words(Occurrence.parse(f"routine:meds:2026-11-16T08:00:00Z{part}")) == words
