"""A missed occurrence is run, told or skipped; each moment counts once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.values import cron_oracle
from tests.kernel.values.cron_lines import NIGHTS, Line, lines
from tests.kernel.values.strategies import instants, reminders, routines, zones

from ollim_bot.kernel.base.moments import Nag
from ollim_bot.kernel.values.catch_up_decision import (
    MOST_LISTED,
    CatchUp,
    Missed,
    away_message,
    catch_up,
    missed_since,
)
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.jobs import ItemKind, JobSpec, Late, Reminder, Routine
from ollim_bot.kernel.values.schedule import ScheduledJob, is_late, late_rule, next_due

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
HAIR, SECOND, MINUTE = datetime.resolution, timedelta(seconds=1), timedelta(minutes=1)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def routine(cron: str, name: str = "a", late: Late | None = None) -> Routine:
    return Routine(JobSpec(id=name, message=f"Do {name}.", late=late), Cron.parse(cron))


def reminder(
    at: datetime, name: str = "b", late: Late | None = None, *, must: bool | None = None
) -> Reminder:
    return Reminder(JobSpec(id=name, message=f"Do {name}.", late=late, must=must), at)


DAILY = Cron.parse("0 12 * * *")
MUST_COME: list[dict[str, Any]] = [
    {"must": True},
    {"kind": ItemKind.DOSE},
    {"nag": Nag(10 * MINUTE, 4)},
]


def missed(job: ScheduledJob, gap: timedelta, now: datetime = NOON) -> Missed:
    found = missed_since(job, now - gap, now, UTC)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("cron", "late", "patience", "then"),
    [
        pytest.param("0 12 * * *", None, 2 * HOUR, Late.TELL, id="daily-two-hours-at-most"),
        pytest.param("0 */3 * * *", None, 90 * MINUTE, Late.TELL, id="half-of-three-hours"),
        pytest.param("0 * * * *", None, 30 * MINUTE, Late.TELL, id="half-an-hour"),
        pytest.param("*/4 * * * *", None, 2 * MINUTE, Late.TELL, id="half-of-four-minutes"),
        pytest.param("0 12 * * *", Late.TELL, MINUTE + HAIR, Late.TELL, id="to-be-told"),
        pytest.param("0 12 * * *", Late.SKIP, MINUTE + HAIR, Late.SKIP, id="to-be-skipped"),
    ],
)
def test_a_routine_is_still_run_for_a_while(
    cron: str, late: Late | None, patience: timedelta, then: Late
) -> None:
    job = routine(cron, late=late)
    assert late_rule(job, NOON, NOON + patience - HAIR, UTC) is Late.RUN
    assert late_rule(job, NOON, NOON + patience, UTC) is then


@pytest.mark.parametrize(
    ("job", "always"),
    [
        (routine("0 12 * * *", late=Late.RUN), Late.RUN),
        (reminder(NOON), Late.RUN),
        (reminder(NOON, late=Late.RUN), Late.RUN),
        (reminder(NOON, late=Late.TELL, must=False), Late.TELL),
        (reminder(NOON, late=Late.SKIP, must=False), Late.SKIP),
        *((reminder(NOON, late=late), Late.RUN) for late in Late),
        *(
            (Routine(JobSpec(id="a", message="Do.", late=late, **given), DAILY), Late.RUN)
            for given in MUST_COME
            for late in (None, *Late)
        ),
    ],
)
def test_however_late_it_is_the_wish_of_the_author_holds_and_what_must_come_comes(
    job: ScheduledJob, always: Late
) -> None:
    for lateness in (MINUTE + HAIR, HOUR, 9 * HOUR, 400 * DAY):
        assert late_rule(job, NOON, NOON + lateness, UTC) is always


@pytest.mark.parametrize("late", [None, *Late])
def test_up_to_a_minute_is_not_late(late: Late | None) -> None:
    """It is run whatever `late` says, and has no label."""
    for job in (routine("0 12 * * *", late=late), reminder(NOON, late=late)):
        assert late_rule(job, NOON, NOON + MINUTE, UTC) is Late.RUN
        found = Missed(job, NOON)
        assert found.late_since(NOON + MINUTE) is None
        assert found.late_since(NOON + MINUTE + HAIR) == NOON


def test_in_the_hour_that_comes_twice_lateness_is_real_time() -> None:
    first = datetime(2025, 10, 26, 2, 30, tzinfo=BERLIN)
    again = first.replace(fold=1)
    assert is_late(first, again)
    assert late_rule(routine("30 2 * * *"), first, again + 61 * MINUTE, BERLIN) is Late.TELL


def test_of_very_many_some_are_listed_and_all_are_counted() -> None:
    found = missed(routine("* * * * *"), 365 * DAY)
    assert found.newest == NOON
    assert len(found.older) == MOST_LISTED
    assert found.older[:2] == (NOON - 365 * DAY + MINUTE, NOON - 365 * DAY + 2 * MINUTE)
    assert found.older_count == 365 * 24 * 60 - 1


@pytest.mark.parametrize("count", [MOST_LISTED - 1, MOST_LISTED, MOST_LISTED + 1])
def test_the_count_is_right_where_the_list_ends(count: int) -> None:
    found = missed(routine("* * * * *"), (count + 1) * MINUTE)
    assert (len(found.older), found.older_count) == (min(count, MOST_LISTED), count)


@pytest.mark.parametrize("back", [timedelta(0), HAIR, HOUR, 1000 * DAY])
def test_nothing_is_missed_when_the_clock_went_back(back: timedelta) -> None:
    jobs: list[ScheduledJob] = [routine("* * * * *"), reminder(NOON - back), reminder(NOON)]
    assert catch_up(jobs, NOON, NOON - back, UTC) == CatchUp()


def test_what_was_claimed_is_not_missed_and_what_is_to_come_neither() -> None:
    claimed, to_come = reminder(NOON - HOUR), reminder(NOON + HAIR)
    assert catch_up([claimed, to_come, routine("30 12 * * *")], NOON - HOUR, NOON, UTC) == CatchUp()


def test_reminders_come_first_then_what_was_due_first() -> None:
    jobs: list[ScheduledJob] = [
        routine("30 11 * * *", "morning"),
        routine("0 11 * * *", "water"),
        routine("0 11 * * *", "air"),
        reminder(NOON - MINUTE, "dentist"),
        reminder(NOON - 5 * HOUR, "rent"),
        routine("0 9 * * *", "news"),
        routine("0 8 * * *", "stretch"),
        reminder(NOON - 6 * HOUR, "gone", late=Late.TELL, must=False),
        routine("0 10 * * *", "secret", late=Late.SKIP),
    ]
    found = catch_up(jobs, NOON - 8 * HOUR, NOON, UTC)
    assert [each.job.spec.id for each in found.run] == [
        "rent",
        "dentist",
        "air",
        "water",
        "morning",
    ]
    assert [each.job.spec.id for each in found.tell] == ["gone", "stretch", "news"]
    assert [each.job.spec.id for each in found.skip] == ["secret"]


stretches = st.tuples(
    st.timedeltas(timedelta(0), 32 * HOUR), st.timedeltas(timedelta(0), 32 * HOUR)
).map(sorted)


@settings(deadline=None)
@given(lines, st.sampled_from(NIGHTS), stretches)
def test_each_missed_moment_is_counted_exactly_once(
    line: Line, night: tuple[str, datetime], stretch: list[timedelta]
) -> None:
    """As the newest or as an older one: exactly the moments of the oracle."""
    zone, first = ZoneInfo(night[0]), night[1].replace(tzinfo=UTC) - 20 * HOUR
    heartbeat, now = (first + each for each in stretch)
    due = cron_oracle.due(line.pattern, zone, first, first + 33 * HOUR)
    wanted = [moment for moment in due if heartbeat < moment <= now]
    found = missed_since(routine(line.text), heartbeat, now, zone)
    if found is None:
        assert wanted == []
    else:
        assert found.newest == wanted[-1]
        assert list(found.older) == wanted[:-1][:MOST_LISTED]
        assert found.older_count == len(wanted) - 1


@settings(deadline=None)
@given(routines | reminders, st.lists(instants, min_size=2, max_size=6).map(sorted), zones)
def test_however_often_it_was_away_the_count_is_the_same(
    job: ScheduledJob, wakes: list[datetime], zone: ZoneInfo
) -> None:
    """Each gap begins where the last one ended, so that no moment is lost or counted twice."""
    wakes = [wakes[0] + (wake - wakes[0]) / 10_000 for wake in wakes]
    whole = missed_since(job, wakes[0], wakes[-1], zone)
    parts = [missed_since(job, *pair, zone) for pair in pairwise(wakes)]
    assert sum(map(count, parts)) == count(whole)
    assert [part.newest for part in parts if part][-1:] == ([whole.newest] if whole else [])


def count(found: Missed | None) -> int:
    return found.older_count + 1 if found else 0


@settings(deadline=None)
@given(routines | reminders, instants, zones, st.lists(st.floats(0, 1), min_size=2).map(sorted))
def test_what_is_too_late_stays_too_late(
    job: ScheduledJob, after: datetime, zone: ZoneInfo, shares: list[float]
) -> None:
    """Between its moment and the next, it is run if little time has passed, and not later."""
    newest = next_due(job, after, zone)
    if newest is None:
        return
    following = next_due(job, newest, zone) or newest + 30 * DAY
    verdicts = [
        late_rule(job, newest, newest + (following - newest) * share, zone) for share in shares
    ]
    assert verdicts == sorted(verdicts, key=lambda each: each is not Late.RUN)
    assert len({each for each in verdicts if each is not Late.RUN}) <= 1


def told(title: str, at: datetime, older_count: int = 0) -> Missed:
    spec = JobSpec(id="a", message="", description=title)
    return Missed(Routine(spec, Cron.parse("@daily")), at, older_count=older_count)


def test_one_missed_thing_is_told_in_a_sentence() -> None:
    now = NOON.astimezone(BERLIN)
    assert away_message([told("Morning briefing.", NOON - 5 * HOUR)], now) == (
        "While I was away I missed “Morning briefing”, today 8:00. Tell me if it should still run."
    )
    assert away_message([told("Stretch", NOON - DAY, 1)], now) == (
        "While I was away I missed “Stretch”, yesterday 13:00 and once before. "
        "Tell me if it should still run."
    )


def test_several_missed_things_are_one_list() -> None:
    message = away_message(
        [
            told("Pay the rent", NOON - 10 * DAY),
            told("Morning briefing", NOON - 5 * HOUR, 2),
            told(
                "Look at the mail,\nand answer what is older than two days or marked", NOON - HOUR
            ),
        ],
        NOON.astimezone(BERLIN),
    )
    assert message == (
        "While I was away I missed 3 things:\n"
        "- Pay the rent: Fri 6 Nov 13:00\n"
        "- Morning briefing: today 8:00 and 2 times before\n"
        "- Look at the mail, and answer what is older than two days or…: today 12:00\n"
        "Tell me which of them should still run."
    )


def test_of_many_missed_things_the_first_are_named_and_all_counted() -> None:
    many = [told(f"Task {number}", NOON - HOUR) for number in range(40)]
    assert away_message(many, NOON).splitlines() == [
        "While I was away I missed 40 things:",
        *(f"- Task {number}: today 11:00" for number in range(5)),
        "- and 35 more",
        "Tell me which of them should still run.",
    ]
    assert "more" not in away_message(many[:5], NOON)


def test_nothing_missed_is_nothing_to_tell() -> None:
    assert away_message([], NOON) == ""
