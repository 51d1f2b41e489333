"""The check finds nothing in a correct ledger, and names each row that was tampered with."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.values.ledger_scene import (
    BERLIN,
    START,
    Scene,
    ledger_rows,
    reminder,
    routine,
    scenes,
)

from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.definitions import Armed, Definition, removed_row
from ollim_bot.kernel.values.ledger_check import check
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState
from ollim_bot.kernel.values.run_history import (
    CHECKPOINT,
    PLAINLY,
    STARTED,
    claiming_row,
    planned_row,
)

DAY = timedelta(days=1)
STEPS = frozenset(state.value for state in OccurrenceState)


def checked(scene: Scene, rows: list[LedgerRow] | None = None) -> list[str]:
    return check(scene.rows if rows is None else rows, scene.now, scene.watched)


def week_scene() -> Scene:
    scene = Scene()
    scene.put(routine("a", "30 8 * * *"))
    scene.put(reminder("b", START + 2 * DAY))
    for _ in range(7):
        scene.wait(DAY)
        scene.checkpoint()
    return scene


@given(scenes())
def test_of_a_right_ledger_nothing_is_said(scene: Scene) -> None:
    assert checked(scene) == []
    scene.finish()
    assert checked(scene) == check(scene.rows, scene.now) == []


@given(scenes(), st.data())
def test_a_row_that_is_doubled_is_named_alone(scene: Scene, data: st.DataObject) -> None:
    steps = [n for n, row in enumerate(scene.rows) if row.state in STEPS]
    where = data.draw(st.sampled_from(steps))
    doubled = scene.rows[where]
    rows = [*scene.rows[:where], doubled, *scene.rows[where:]]
    [finding] = checked(scene, rows)
    assert finding.startswith(f"{_id(doubled)}: ")


@given(scenes(), st.data())
def test_a_row_that_is_deleted_is_named_alone(scene: Scene, data: st.DataObject) -> None:
    scene.finish()
    steps = [n for n, row in enumerate(scene.rows) if row.state in STEPS and _is_missed(scene, n)]
    where = data.draw(st.sampled_from(steps))
    rows = [*scene.rows[:where], *scene.rows[where + 1 :]]
    [finding] = checked(scene, rows)
    assert finding.startswith(f"{_id(scene.rows[where])}: ")


def _is_missed(scene: Scene, where: int) -> bool:
    """Whether the other rows show the gap: an end right after a pause makes the pause redundant."""
    after = scene.rows[where + 1 :]
    follower = next((row for row in after if row.occurrence == scene.rows[where].occurrence), None)
    is_pause = scene.rows[where].state in ("cut_off", "attempt_failed")
    return not (is_pause and follower and OccurrenceState(follower.state).is_end)


@given(scenes(), st.data())
def test_a_story_that_is_deleted_whole_is_named_alone(scene: Scene, data: st.DataObject) -> None:
    scene.finish()
    due = [row.occurrence for row in scene.rows if row.state == "due" and row.occurrence]
    timed = [one for one in due if not one.manual and one.scheduled_at]
    gone = data.draw(st.sampled_from(timed))
    rows = [row for row in scene.rows if row.occurrence != gone]
    # Moments before a set-back of the clock need not be due again afterwards.
    said = [f"{gone.id}: was due, and nothing is known of it."]
    allowed = [said, []] if scene.was_set_back else [said]
    assert checked(scene, rows) in allowed


@given(scenes(), st.data())
def test_a_story_that_is_invented_is_named(scene: Scene, data: st.DataObject) -> None:
    where = data.draw(st.integers(1, len(scene.rows)))
    kind = data.draw(st.sampled_from([JobKind.ROUTINE, JobKind.REMINDER]))
    name = data.draw(st.sampled_from(["a", "b", "unknown"]))
    moment = START + data.draw(st.integers(0, 10_000)) * timedelta(minutes=1) + timedelta(seconds=7)
    one = Occurrence.scheduled(kind, name, moment)
    rows = [*scene.rows[:where], *ledger_rows(one, moment, "running done"), *scene.rows[where:]]
    said = check(rows, scene.now, scene.watched)
    assert said == [f"{one.id}: has no cause; no such job was due then."]


def _id(row: LedgerRow) -> str:
    assert row.occurrence is not None
    return row.occurrence.id


@pytest.mark.parametrize("state", ["armed", "roster", "removed"])
def test_a_definition_that_is_deleted_shows(state: str) -> None:
    scene = week_scene()
    scene.take("routine a")
    scene.wait(2 * DAY)
    where = next(n for n, row in enumerate(scene.rows) if row.state == state)
    rows = [*scene.rows[:where], *scene.rows[where + 1 :]]
    said = checked(scene, rows)
    assert all("routine:a:" in text or text.startswith("routine a: ") for text in said)
    # Without its first roster, a ledger has no start that the check could use.
    assert bool(said) is (state != "roster")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("armed", "is said to be armed, but it was already"),
        ("changed", "is said to be changed, but it is as it was"),
        ("removed", "is said to be removed, but it was not armed"),
    ],
)
def test_a_definition_that_is_doubled_is_named(state: str, words: str) -> None:
    scene = Scene()
    scene.put(routine("a", "30 8 * * *"))
    scene.put(routine("a", "30 9 * * *"))
    scene.take("routine a")
    where = next(n for n, row in enumerate(scene.rows) if row.state == state)
    rows = [*scene.rows[: where + 1], scene.rows[where], *scene.rows[where + 1 :]]
    assert checked(scene, rows) == [f"routine a: {words}."]


def test_a_change_of_what_was_never_armed_and_a_roster_that_does_not_fit_are_named() -> None:
    scene = Scene()
    scene.put(routine("a", "30 8 * * *"))
    scene.put(routine("a", "30 9 * * *"))
    rows = [row for row in scene.rows if row.state != "armed"]
    assert checked(scene, rows) == ["routine a: is said to be changed, but it was not armed."]
    scene.now += timedelta(days=40)
    scene.arm()
    rows = [row for row in scene.rows if row.state not in ("armed", "changed")]
    assert check(rows, START) == ["routine a: the roster does not fit what was said before it."]


def test_what_was_due_while_the_bot_was_off_must_be_accounted_for_after_its_start() -> None:
    scene = week_scene()
    off = scene.watched
    scene.now += 3 * DAY
    assert check(scene.rows, scene.now, off) == []
    assert len(check(scene.rows, scene.now, scene.now)) == 3
    scene.now -= 3 * DAY
    scene.sleep(3 * DAY)
    assert checked(scene) == []


def test_without_a_heartbeat_the_last_checkpoint_says_how_far_the_ledger_goes() -> None:
    scene = week_scene()
    later = scene.now + 5 * DAY
    assert check(scene.rows, later) == []
    scene.watched = later
    scene.checkpoint()
    assert len(check(scene.rows, later)) == 5
    assert check([row for row in scene.rows if row.state != CHECKPOINT], later) == []


def test_a_clock_behind_the_heartbeat_looks_for_nothing_that_is_still_to_come() -> None:
    scene = week_scene()
    assert check(scene.rows, scene.now, scene.now + 5 * DAY) == []


def test_what_was_due_before_its_job_was_armed_has_no_cause() -> None:
    scene = Scene()
    scene.put(routine("a", "30 8 * * *"))
    scene.wait(DAY / 24)
    early = Occurrence.scheduled(JobKind.ROUTINE, "a", START.replace(hour=7, minute=30))
    said = checked(scene, scene.rows + ledger_rows(early, scene.now, "skipped"))
    assert said == [f"{early.id}: has no cause; no such job was due then."]


def test_a_reminder_that_was_overdue_at_the_first_start_may_come_but_need_not() -> None:
    overdue = Definition.of(reminder("b", START - DAY + timedelta(milliseconds=5)), BERLIN)
    rows = Armed().rows_for([overdue], START, START)
    late = Occurrence.scheduled(JobKind.REMINDER, "b", START - DAY)
    assert check(rows, START + DAY, START + DAY) == []
    assert check([*rows, *ledger_rows(late, START, "running done")], START + DAY, START + DAY) == []


def test_what_still_runs_is_no_finding_until_its_limit_is_over() -> None:
    scene = Scene()
    one = Occurrence.by_hand(JobKind.ROUTINE, "a", scene.now)
    begun = ledger_rows(one, scene.now, "running")
    rows = [*scene.rows, *begun]
    for minutes, findings in ((0, 0), (34, 0), (36, 1)):
        now = begun[-1].ts + timedelta(minutes=minutes)
        assert len(check(rows, now, now)) == findings
    waiting = [*scene.rows, begun[0]]
    assert check(waiting, scene.now + DAY, scene.now + DAY / 2) == []
    [late] = check(waiting, scene.now + 2 * DAY, scene.now + DAY + timedelta(seconds=1))
    assert late == f"{one.id}: has no end; the last word is `due`."


def test_a_bot_that_is_off_leaves_runs_without_an_end_to_its_next_start() -> None:
    scene = week_scene()
    one = Occurrence.by_hand(JobKind.ROUTINE, "a", scene.now)
    rows = [*scene.rows, *ledger_rows(one, scene.now, "running")]
    assert check(rows, scene.now + 90 * DAY, scene.watched) == []


def test_after_a_start_what_was_left_without_an_end_has_its_time_again() -> None:
    scene = Scene()
    one = Occurrence.by_hand(JobKind.ROUTINE, "a", scene.now)
    later = scene.now + 3 * DAY
    rows = [*scene.rows, *ledger_rows(one, scene.now, "running")]
    started = [*rows, LedgerRow(later, STARTED)]
    for minutes, findings in ((0, 0), (34, 0), (36, 1)):
        now = later + timedelta(minutes=minutes)
        assert len(check(rows, now, now)) == 1
        assert len(check(started, now, now)) == findings
    waiting = [*started, LedgerRow(later, "cut_off", one)]
    assert check(waiting, later + DAY, later + DAY / 2) == []
    assert len(check(waiting, later + 2 * DAY, later + 2 * DAY)) == 1


def test_two_ends_and_an_impossible_order_are_named_in_words() -> None:
    scene = week_scene()
    one = Occurrence.by_hand(JobKind.ROUTINE, "a", scene.now)
    both = [*ledger_rows(one, scene.now, "running done"), LedgerRow(scene.now, "failed", one)]
    assert checked(scene, scene.rows + both) == [f"{one.id}: has 2 ends: done, failed."]
    odd = ledger_rows(one, scene.now, "done")
    assert checked(scene, scene.rows + odd) == [f"{one.id}: `done` cannot follow `due`."]
    torn = ledger_rows(one, scene.now, "running done")[1:]
    assert checked(scene, scene.rows + torn) == [f"{one.id}: begins with `running`."]
    lost = [row for row in ledger_rows(one, scene.now, "running failed") if row.state != "running"]
    assert checked(scene, scene.rows + lost) == [f"{one.id}: an attempt is missing."]


def test_each_planned_time_needs_an_end_soon_after_its_moment() -> None:
    scene = week_scene()
    one = Occurrence.by_hand(JobKind.ROUTINE, "a", scene.now)
    at = scene.now + timedelta(minutes=10)
    planned = planned_row(one.again(2), "a", at, scene.now)
    rows = [*scene.rows, *ledger_rows(one, scene.now, "running done"), planned]
    for minutes, findings in ((0, 0), (14, 0), (16, 1)):
        now = scene.now + timedelta(minutes=minutes)
        assert len(check(rows, now, now)) == findings
    ended = [*rows, LedgerRow(at, "done", one.again(2), PLAINLY)]
    assert check(ended, at + timedelta(hours=1), at + timedelta(hours=1)) == []
    unplanned = [*rows[:-1], *ended[-1:]]
    assert checked(scene, unplanned) == [f"{one.again(2).id}: begins with `done`."]


def test_a_time_without_its_first_time_has_no_cause() -> None:
    scene = week_scene()
    one = Occurrence.by_hand(JobKind.ROUTINE, "a", scene.now).again(2)
    rows = [planned_row(one, "a", scene.now, scene.now), LedgerRow(scene.now, "skipped", one)]
    no_cause = f"{one.id}: has no cause; no such job was due then."
    assert checked(scene, scene.rows + rows) == [no_cause]


def test_heads_ups_are_demanded_and_no_others_are_allowed() -> None:
    scene = week_scene()
    job = routine("a", "0 12 * * *")
    told = replace(job, spec=replace(job.spec, before=(timedelta(minutes=30),)))
    scene.put(told)
    scene.wait(DAY)
    missing = [text for text in checked(scene, scene.rows) if "#before-30m: was due" in text]
    assert len(missing) == 1
    one = Occurrence.parse(missing[0].partition(": was due")[0])
    assert one.scheduled_at is not None
    end = LedgerRow(one.scheduled_at, "done", one, PLAINLY)
    assert checked(scene, [*scene.rows, claiming_row(one, one.scheduled_at), end]) == []
    other = one.whole.before(timedelta(minutes=20))
    assert other.scheduled_at is not None
    made_up = [claiming_row(other, other.scheduled_at), replace(end, occurrence=other)]
    assert f"{other.id}: has no cause; no such job was due then." in checked(
        scene, [*scene.rows, *made_up]
    )


def test_a_ledger_whose_older_months_are_gone_is_judged_from_its_first_roster_on() -> None:
    scene = week_scene()
    scene.sleep(40 * DAY)
    where = max(n for n, row in enumerate(scene.rows) if row.state == "roster")
    assert where > 1
    scene.wait(3 * DAY)
    for cut in range(where + 1):
        assert checked(scene, scene.rows[cut:]) == []
    last = max(n for n, row in enumerate(scene.rows) if row.state == "due")
    assert len(checked(scene, [*scene.rows[3:last], *scene.rows[last + 3 :]])) == 1


def test_times_of_the_spring_and_autumn_nights_are_expanded_as_they_fire() -> None:
    for night in (datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 10, 24, tzinfo=UTC)):
        scene = Scene()
        scene.now = scene.watched = night
        for name, cron in zip("abc", ("30 2 * * *", "0 * * * *", "15 3 * * *"), strict=True):
            scene.put(routine(name, cron))
        scene.wait(2 * DAY)
        assert checked(scene) == []
        assert len([row for row in scene.rows if row.state == "due"]) == 2 + 48 + 2


@pytest.mark.parametrize(
    "facts",
    [
        {"cron": "every day"},
        {"zone": "Europe/Nowhere"},
        {"zone": 5},
        {"kind": "dream"},
        {"since": "lately"},
        {"since": "2026-11-15T09:00:00"},
    ],
)
def test_a_definition_that_cannot_be_understood_is_named(facts: dict[str, object]) -> None:
    scene = Scene()
    scene.put(routine("a", "30 8 * * *"))
    odd = [replace(row, facts={**row.facts, **facts}) for row in scene.rows if row.state == "armed"]
    said = checked(scene, [scene.rows[0], *odd])
    assert said == ["The row `armed` of 2026-03-27T09:00:00+00:00 cannot be understood."]


@given(st.lists(st.sampled_from(["roster", "armed", "changed", "removed", "checkpoint", "due"])))
def test_rows_of_another_make_never_stop_the_check(states: list[str]) -> None:
    for facts in ({}, {"jobs": 5, "since": f"{START}"}, {"watched_until": "x", "jobs": [1]}):
        check([LedgerRow(START, state, facts=facts) for state in states], START)


def test_the_rows_of_definitions_lead_from_one_set_of_jobs_to_the_next() -> None:
    first = [Definition.of(routine(name, "30 8 * * *"), BERLIN) for name in "ab"]
    then = [first[0], Definition.of(routine("b", "0 9 * * *"), BERLIN)]
    then.append(Definition.of(reminder("c", START), BERLIN))
    rows = Armed().rows_for(first, START, START)
    assert [row.state for row in rows] == ["roster"]
    rows += Armed().followed_by(rows).rows_for(then, START, START)
    assert [row.state for row in rows[1:]] == ["changed", "armed"]
    armed = Armed().followed_by(rows)
    assert armed == Armed({job.key: job for job in then}, START)
    assert armed.rows_for(then, START, START) == []
    assert armed.rows_for(then[:2], START, START) == [removed_row(then[2].key, START, START)]
    later = armed.rows_for(then, START + 40 * DAY, START)
    assert [row.state for row in later] == ["roster"]
    assert Armed().followed_by(later) == Armed(armed.jobs, START + 40 * DAY)


@pytest.mark.parametrize("days", [0, 40])
def test_what_is_armed_after_a_change_is_what_its_rows_say(days: int) -> None:
    a, b, c = (Definition.of(routine(name, "30 8 * * *"), BERLIN) for name in "abc")
    changed = Definition.of(routine("b", "0 9 * * *"), BERLIN)
    before = Armed({a.key: a, b.key: b}, START)
    concerned = Armed({a.key: a, b.key: b}, START)
    rows = concerned.rows_for([changed, c], START + days * DAY, START)
    after = before.with_changes(concerned.jobs, [changed, c], rows)
    assert after == before.followed_by(rows)
    assert before.with_changes([b.key], [changed], []).jobs == {a.key: a, b.key: changed}
