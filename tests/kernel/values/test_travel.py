"""What a change of the time zone does to a routine's moments, for any zones and moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import example, given
from hypothesis import strategies as st

from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.jobs import JobSpec, Reminder, Routine
from ollim_bot.kernel.values.schedule import last_due, moments_between
from ollim_bot.kernel.values.travel import ZoneMove, follows_zone

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ZONES = st.sampled_from(
    [
        ZoneInfo(name)
        for name in (
            *("UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles"),
            *("Asia/Tokyo", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Auckland"),
            *("Pacific/Honolulu", "Pacific/Kiritimati", "America/St_Johns"),
        )
    ]
)
LINES = st.sampled_from(
    [
        *("0 9 * * *", "30 2 * * *", "0 8,12,18 * * *", "0 9 * * 1-5", "15 23 * * sun"),
        *("0 0 1 * *", "45 7,19 * * *", "0 3 * * *"),
    ]
)
# A year with the nights on which clocks change, in both halves of the earth.
MOMENTS = st.integers(0, 366 * 24 * 60).map(
    lambda minutes: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
)
BERLIN, LONDON, NEW_YORK = (
    ZoneInfo(name) for name in ("Europe/Berlin", "Europe/London", "America/New_York")
)
# An hour after the clocks of Europe were put forward, and back.
SPRING, AUTUMN = datetime(2026, 3, 29, 1, 10, tzinfo=UTC), datetime(2026, 10, 25, 1, 10, tzinfo=UTC)


def routine(line: str) -> Routine:
    return Routine(JobSpec(id="plan", message="Plan."), Cron.parse(line))


def wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


@given(LINES, ZONES, ZONES, MOMENTS)
@example("30 2 * * *", BERLIN, LONDON, SPRING)
@example("30 2 * * *", LONDON, BERLIN, SPRING)
@example("30 2 * * *", BERLIN, NEW_YORK, AUTUMN)
@example("0 3 * * *", BERLIN, LONDON, AUTUMN)
def test_a_time_of_day_comes_once(
    line: str, before: ZoneInfo, after: ZoneInfo, at: datetime
) -> None:
    """No time of day that came in the last half day comes again in the next one."""
    job, move = routine(line), ZoneMove(at, before, after)
    came = {
        (wall(moment, before) + move.days(job)): moment
        for moment in moments_between(job, at - 13 * HOUR, at, before)
    }
    left_out = {new for new, _ in move.repetitions(job, at)}
    comes = [m for m in moments_between(job, at, at + 13 * HOUR, after) if m not in left_out]
    assert not [m for m in comes if wall(m, after) in came], (came, comes)


@given(LINES, ZONES, ZONES, MOMENTS)
def test_what_is_left_out_did_come_not_long_ago(
    line: str, before: ZoneInfo, after: ZoneInfo, at: datetime
) -> None:
    """A moment is skipped only if the same time came in the last half day in the old zone."""
    job, move = routine(line), ZoneMove(at, before, after)
    for new, old in move.repetitions(job, at):
        assert old <= at
        assert move.jumped_since(job) < new
        if last_due(job, old, before) == old:
            assert new - old <= (14 if move.days(job) else 27) * HOUR


@given(LINES, ZONES, ZONES, MOMENTS)
@example("30 2 * * *", BERLIN, LONDON, SPRING)
@example("30 2 * * *", LONDON, BERLIN, AUTUMN)
def test_every_time_of_day_comes_or_is_jumped_over(
    line: str, before: ZoneInfo, after: ZoneInfo, at: datetime
) -> None:
    """The moments of the old zone, the skipped ones and the coming ones leave no gap."""
    job, move = routine(line), ZoneMove(at, before, after)
    days = move.days(job)
    old = {wall(m, before) + days for m in moments_between(job, at - 3 * DAY, at, before)}
    since = min(move.jumped_since(job), at)
    new = {wall(m, after) for m in moments_between(job, since, at + 2 * DAY, after)}
    walls = [*job.rhythm.walls(wall(at, after) - DAY, wall(at, after) + DAY)]
    # A time that does not exist on a day is shown as the end of its gap.
    shown = {wall(m, after) for m in moments_between(job, at - 2 * DAY, at + 2 * DAY, after)}
    assert [each for each in walls if each not in old | new and each in shown] == []


@given(ZONES, ZONES, MOMENTS)
def test_for_what_comes_each_day_the_clock_moves_by_half_a_day_at_most(
    before: ZoneInfo, after: ZoneInfo, at: datetime
) -> None:
    move = ZoneMove(at, before, after)
    assert timedelta() <= at - move.jumped_since(routine("0 9 * * *")) <= 13 * HOUR


def test_exact_moments_and_own_zones_stay() -> None:
    spec = JobSpec(id="call", message="Call.")
    own = JobSpec(id="own", message="Call.", timezone=BERLIN)
    assert follows_zone(Reminder(spec, datetime(2026, 2, 24, 9)))
    assert not follows_zone(Reminder(spec, datetime(2026, 2, 24, 9, tzinfo=UTC)))
    assert not follows_zone(Reminder(own, datetime(2026, 2, 24, 9)))
    assert not follows_zone(Routine(own, Cron.parse("0 9 * * *")))


def test_what_comes_often_goes_on_by_the_new_clock() -> None:
    move = ZoneMove(datetime(2026, 2, 24, 9, tzinfo=UTC), BERLIN, NEW_YORK)
    assert [*move.repetitions(routine("0 */2 * * *"), move.at)] == []
    assert [*move.repetitions(routine("0 8 * * *"), move.at)] != []


def test_across_the_date_line_times_of_day_count_and_not_dates() -> None:
    """9:00 came two hours ago in Los Angeles; in Auckland it is nearly 8:00, a day later."""
    los_angeles, auckland = ZoneInfo("America/Los_Angeles"), ZoneInfo("Pacific/Auckland")
    at = datetime(2026, 2, 24, 19, tzinfo=UTC)
    move = ZoneMove(at, los_angeles, auckland)
    ((new, old),) = move.repetitions(routine("0 9 * * *"), at)
    assert (wall(new, auckland), wall(old, los_angeles)) == (
        datetime(2026, 2, 25, 9),
        datetime(2026, 2, 24, 9),
    )


def test_across_the_date_line_what_comes_on_some_days_goes_by_its_dates() -> None:
    """Tuesday begins at 20:00 in Auckland for who comes from Monday in Los Angeles."""
    los_angeles, auckland = ZoneInfo("America/Los_Angeles"), ZoneInfo("Pacific/Auckland")
    at, job = datetime(2026, 2, 24, 7, tzinfo=UTC), routine("0 9 * * tue")
    there, back = ZoneMove(at, los_angeles, auckland), ZoneMove(at, auckland, los_angeles)
    jumped = moments_between(job, there.jumped_since(job), at, auckland)
    assert [wall(moment, auckland) for moment in jumped] == [datetime(2026, 2, 24, 9)]
    ((new, old),) = back.repetitions(job, at)
    assert (wall(new, los_angeles), wall(old, auckland)) == (datetime(2026, 2, 24, 9),) * 2
