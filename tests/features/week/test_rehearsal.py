"""A rehearsal follows the rules of the schedule, and names conflicts in words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.features.week.rehearsal_jobs import BERLIN, HOUR, MINUTE, NOW, reminder, routine

from ollim_bot.features.week.rehearsal_findings import FindingKind, findings, push_days
from ollim_bot.kernel.base.moments import Nag
from ollim_bot.kernel.values.jobs import ItemKind, Late
from ollim_bot.kernel.values.occurrences import Occurrence, OccurrenceState, SkipReason
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.quiet import QuietHours, QuietSettings
from ollim_bot.kernel.values.runtime_config import PushWhat, RuntimeConfig
from ollim_bot.kernel.values.schedule import ScheduledJob, key_of, moments_between
from ollim_bot.kernel.values.simulation import (
    Assumptions,
    Fire,
    Ping,
    Rehearsal,
    rehearse,
    warnings,
)


def rehearsed(*jobs: ScheduledJob, now: datetime = NOW, days: int = 1, **more: Any) -> Rehearsal:
    config = RuntimeConfig(bg_concurrency=more.pop("places", 3))
    limits = {name: more.pop(name) for name in ("length", "most") if name in more}
    at = Assumptions(now, BERLIN, PingBudget.full(now), config, **more)
    return rehearse(jobs, at, days, **limits)


def of(name: str, rehearsal: Rehearsal) -> list[Fire]:
    return [fire for fire in rehearsal.fires if fire.job.spec.id == name]


def clocks(moments: Sequence[datetime | None]) -> list[str]:
    return [f"{moment.astimezone(BERLIN):%H:%M:%S}" if moment else "" for moment in moments]


def sentences(rehearsal: Rehearsal) -> list[str]:
    return [finding.sentence for finding in findings(rehearsal)]


def test_all_that_is_due_until_the_end_is_there_in_order() -> None:
    found = rehearsed(
        routine("b", "0 9 * * *"), routine("a", "0 9,21 * * *"), reminder("c", NOW + HOUR), days=2
    )
    assert [fire.job.spec.id for fire in found.fires] == ["c", "a", "a", "b", "a", "a", "b"]
    assert found.until == NOW + timedelta(days=2)
    assert found.is_whole


def test_what_is_paused_or_later_is_not_there() -> None:
    late = reminder("late", NOW + timedelta(days=2))
    assert rehearsed(routine("off", "* * * * *", enabled=False), late).fires == ()


def test_a_routine_whose_run_still_goes_is_skipped() -> None:
    found = rehearsed(routine("often", "31-36 14 * * *"), length=2.5 * MINUTE)
    assert [fire.reason for fire in found.fires[:6]] == [
        *(None, SkipReason.OVERLAP, SkipReason.OVERLAP),
        *(None, SkipReason.OVERLAP, SkipReason.OVERLAP),
    ]
    assert sentences(found)[0] == (
        "“do often” would be skipped 4 times, first today 14:32: its last run would still be going."
    )


def test_a_run_as_long_as_the_pause_overlaps() -> None:
    found = rehearsed(routine("often", "40-42/2 14 * * *"), length=2 * MINUTE)
    assert found.fires[1].reason is SkipReason.OVERLAP


def test_who_finds_no_place_waits_and_reminders_go_first() -> None:
    jobs = [routine(name, "0 15 * * *", allow_ping=False) for name in "abcd"]
    found = rehearsed(*jobs, reminder("r", NOW + 31 * MINUTE), places=2)
    assert clocks([fire.starts for fire in found.fires]) == [
        *("15:00:00", "15:00:00", "15:02:00", "15:04:00"),
        "15:02:00",
    ]
    assert (
        "Only 2 background runs can go at once. A run would wait 3 times, 4 min at most "
        "(“do d”, today 15:00). Reminders go first."
    ) in sentences(found)


def test_what_is_done_in_the_conversation_comes_one_after_another() -> None:
    jobs = [routine(name, "0 15 * * *", background=False) for name in "ab"]
    found = rehearsed(*jobs)
    assert clocks([fire.starts for fire in found.fires]) == ["15:00:00", "15:02:00"]
    assert {fire.ping for fire in found.fires} == {Ping.NONE}


def test_what_was_ordered_does_not_wait_for_its_turn_in_the_conversation() -> None:
    busy = routine("a", "0 15 * * *", background=False)
    at = NOW + 30 * MINUTE + timedelta(seconds=10)
    found = rehearsed(busy, reminder("r", at, background=False))
    (fire,) = of("r", found)
    assert (fire.starts, fire.reason, fire.ping) == (None, SkipReason.POLICY, Ping.ORDERED)


def test_the_budget_pays_for_pings_until_it_is_dry_and_refills() -> None:
    found = rehearsed(routine("often", "*/10 15-16 * * *"), days=1)
    pings = [fire.ping for fire in of("often", found)]
    # Five to begin with, and one after 90 minutes.
    assert pings == [Ping.SENT] * 5 + [Ping.REFUSED] * 4 + [Ping.SENT] + [Ping.REFUSED] * 2
    assert sentences(found) == [
        "The ping budget would run dry today 15:50: 6 pings would be refused."
    ]
    assert found.dry_days == {NOW.date()}


def test_pings_wait_for_the_end_of_the_quiet_and_what_must_come_comes() -> None:
    quiet = QuietSettings(BERLIN, QuietHours.parse("15:00-17:00"))
    jobs = [routine("plan", "30 15,17 * * *"), routine("talk", "0 16 * * *", background=False)]
    found = rehearsed(*jobs, reminder("pills", NOW + 2 * HOUR), days=1, quiet=quiet)
    assert [fire.ping for fire in of("plan", found)] == [Ping.HELD, Ping.SENT]
    (pills,) = of("pills", found)
    assert pills.ping is Ping.ORDERED
    (plain,) = rehearsed(routine("water", "0 16 * * *", plain=True), days=1, quiet=quiet).fires
    assert plain.ping is Ping.HELD
    held = [of("plan", found)[0], pills, *of("talk", found)]
    assert clocks([fire.quiet_until for fire in held]) == ["17:00:00"] * 3
    assert of("plan", found)[1].quiet_until is None


def test_only_the_initiative_of_the_bot_is_paid_for() -> None:
    quiet = routine("quiet", "*/10 * * * *", allow_ping=False)
    aloud = routine("aloud", "*/10 * * * *", background=False)
    ordered = [reminder(f"r{number}", NOW + number * MINUTE) for number in range(1, 9)]
    chained = reminder("chained", NOW + 5 * HOUR, follow_ups=2)
    found = rehearsed(quiet, aloud, *ordered, chained)
    assert of("chained", found)[0].ping is Ping.SENT
    assert {fire.ping for fire in of("quiet", found) + of("aloud", found)} == {Ping.NONE}
    assert {of(job.spec.id, found)[0].ping for job in ordered} == {Ping.ORDERED}
    assert found.dry_days == frozenset()


def test_a_start_catches_up_by_the_wish_of_each_job() -> None:
    jobs: list[ScheduledJob] = [
        routine("run", "0 14 * * *", late=Late.RUN),
        routine("also", "10 14 * * *", late=Late.RUN),
        routine("tell", "0 8 * * *"),
        routine("skip", "0 9 * * *", late=Late.SKIP),
        routine("often", "0 * * * *", late=Late.TELL),
        reminder("overdue", NOW - 9 * HOUR),
    ]
    found = rehearsed(*jobs, watched_until=NOW - 8 * HOUR)
    begun = [fire for fire in found.fires if fire.due <= NOW]
    assert {fire.job.spec.id: fire.state for fire in begun} == {
        "overdue": OccurrenceState.DONE,
        "run": OccurrenceState.DONE,
        "also": OccurrenceState.DONE,
        "tell": OccurrenceState.MISSED,
        "skip": OccurrenceState.MISSED,
        "often": OccurrenceState.MISSED,
    }
    assert clocks([of(name, found)[0].at for name in ("run", "also")]) == ["14:30:00", "14:30:05"]
    assert found.superseded == 7
    assert sentences(found)[:3] == [
        "“do overdue”, today 5:30, was missed. It would run late.",
        "“do tell”, today 8:00, was missed. It would not run, and you would be told.",
        "“do skip”, today 9:00, was missed. It would not run.",
    ]


def test_a_bot_that_runs_has_missed_nothing() -> None:
    found = rehearsed(routine("a", "0 14 * * *"), reminder("r", NOW - HOUR))
    assert clocks([fire.due for fire in found.fires]) == ["14:00:00"]


def test_what_cannot_run_says_why() -> None:
    wrong = routine("tool", "0 15 * * *", allowed_tools=("not a tool",))
    unskilled = routine("skill", "0 16 * * *", skills=("cooking",))
    found = rehearsed(wrong, unskilled, skills=frozenset({"baking"}))
    assert sentences(found) == [
        "“do tool” would not run: a tool in its file is wrong.",
        "“do skill” would not run: it names a skill that does not load.",
    ]
    assert of("skill", rehearsed(unskilled, skills=frozenset({"cooking"})))[0].reason is None


def test_what_the_owner_wants_left_out_is_left_out() -> None:
    def is_skipped(occurrence: Occurrence) -> bool:
        return occurrence.key == "2026-11-15T14:00:00Z"

    found = rehearsed(routine("a", "0 * * * *"), is_skipped=is_skipped)
    assert [fire.reason for fire in found.fires[:2]] == [SkipReason.POLICY, None]


@pytest.mark.parametrize(
    ("job", "day", "sentence"),
    [
        pytest.param(
            routine("a", "30 2 * * *"),
            datetime(2026, 3, 28, 12, tzinfo=BERLIN),
            "“do a”: there is no 2:30 on Sun 29 Mar. It runs at 3:00.",
            id="spring",
        ),
        pytest.param(
            routine("a", "30 2 * * *"),
            datetime(2026, 10, 24, 12, tzinfo=BERLIN),
            "“do a”: 2:30 comes twice on Sun 25 Oct. It runs the first time only.",
            id="autumn",
        ),
        pytest.param(
            reminder("a", datetime(2026, 3, 29, 2, 30)),
            datetime(2026, 3, 28, 12, tzinfo=BERLIN),
            "“do a”: there is no 2:30 on Sun 29 Mar. It runs at 3:00.",
            id="reminder",
        ),
        pytest.param(
            routine("a", "15 2 * * *", timezone=ZoneInfo("America/New_York")),
            datetime(2026, 3, 7, 12, tzinfo=BERLIN),
            "“do a”: there is no 2:15 in America/New_York on Sun 8 Mar. It runs at 3:00.",
            id="elsewhere",
        ),
    ],
)
def test_a_time_that_does_not_exist_or_comes_twice_is_named(
    job: ScheduledJob, day: datetime, sentence: str
) -> None:
    assert sentences(rehearsed(job, now=day)) == [sentence]


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(routine("a", "30 * * * *", allow_ping=False), id="hourly"),
        pytest.param(routine("a", "30 3 * * *"), id="after"),
        pytest.param(reminder("a", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)), id="instant"),
        pytest.param(routine("a", "30 2 * * *", enabled=False), id="paused"),
    ],
)
def test_a_change_of_the_clocks_that_changes_nothing_is_not_mentioned(job: ScheduledJob) -> None:
    assert sentences(rehearsed(job, now=datetime(2026, 10, 24, 12, tzinfo=BERLIN))) == []


def test_three_that_meet_are_named_once_and_two_are_not() -> None:
    jobs = [routine(name, "0 9 * * *", allow_ping=False) for name in "abcd"]
    assert sentences(rehearsed(*jobs[:2], days=3)) == []
    (sentence,) = sentences(rehearsed(*jobs, days=3, places=9))
    assert sentence == (
        "4 jobs come at the same moment, tomorrow 9:00 and 2 more times: "
        "“do a”, “do b”, “do c” and 1 more."
    )


def test_no_run_is_guessed_to_take_longer_than_it_may() -> None:
    config = RuntimeConfig(bg_fork_timeout=60)
    found = rehearse([], Assumptions(NOW, BERLIN, PingBudget.full(NOW), config), 1)
    assert found.length == MINUTE


def test_it_ends_early_rather_than_never() -> None:
    found = rehearsed(routine("a", "* * * * *"), most=10)
    assert len(found.fires) == 10
    assert not found.is_whole
    assert found.until == NOW + 11 * MINUTE


LINES = st.sampled_from(
    ["*/7 * * * *", "0 9 * * *", "30 2 * * *", "0,5 8-18 * * *", "15 * * * 0", "1-20 15 * * *"]
)


@settings(max_examples=25, deadline=None)
@given(
    lines=st.lists(st.tuples(LINES, st.booleans(), st.booleans()), max_size=6),
    places=st.integers(1, 3),
    length=st.integers(1, 1500),
)
def test_no_rule_is_ever_broken(
    lines: list[tuple[str, bool, bool]], places: int, length: int
) -> None:
    """Each moment is there once; no slot and no token is ever given twice."""
    jobs = [
        routine(f"j{number}", cron, background=background or not aloud, allow_ping=aloud)
        for number, (cron, background, aloud) in enumerate(lines)
    ]
    run = timedelta(seconds=length)
    found = rehearsed(*jobs, places=places, length=run)
    due = [
        (moment, key_of(job))
        for job in jobs
        for moment in moments_between(job, NOW, found.until, BERLIN)
    ]
    assert [(fire.due, key_of(fire.job)) for fire in found.fires] == sorted(due)
    begun = sorted(f.starts for f in found.fires if f.starts and f.job.spec.background)
    for number, starts in enumerate(begun[places:]):
        assert starts >= begun[number] + run
    sent = [fire for fire in found.fires if fire.ping is Ping.SENT]
    assert len(sent) <= 5 + (timedelta(days=1) + run * len(begun)) / timedelta(minutes=90)
    assert all((fire.starts is None) == (fire.reason is not None) for fire in found.fires)


def test_a_day_on_which_the_phone_takes_no_more_is_named_and_what_must_come_comes() -> None:
    nag = Nag(10 * MINUTE, 5)
    walks = [routine(f"w{n}", "0 12 * * *", plain=True, nag=nag, must=False) for n in range(18)]
    pills = [routine(f"p{n}", "0 13 * * *", plain=True, kind=ItemKind.DOSE, nag=nag) for n in "ab"]
    # Six times each, and taken off the phone again while there is room.
    for what, total, missing in ((PushWhat.MUST, 24, 0), (PushWhat.ASKS, 220, 8), (None, 0, 0)):
        found = rehearsed(*walks, *pills, days=2, pushes=what)
        days = push_days(found)
        assert [(each.total, each.missing) for each in days] == [(total, missing)] * 2 * bool(total)
        told = [each for each in findings(found) if each.kind is FindingKind.PHONE]
        assert bool(told) is bool(missing)
        if told:
            assert (days[0].must, len(told[0].jobs), told[0].times) == (12, 20, 2)
            assert told[0].sentence == (
                "Your phone takes 250 messages a day, the last 50 only for what must come: "
                "up to 8 could be missing there on 2 days, first tomorrow."
            )


def test_what_rings_on_the_phone_is_counted_as_it_would_be_sent() -> None:
    talk = routine("talk", "0 16 * * *", background=False)
    mail = routine("mail", "0 15 * * *")
    call = reminder("call", NOW + 4 * HOUR, before=(10 * MINUTE,), plain=True)
    quiet = QuietSettings(BERLIN, QuietHours.parse("20:00-22:00"))
    late = [
        routine("late", "0 21 * * *", plain=True, must=False, before=before)
        for before in ((), (2 * HOUR,))
    ]
    jobs: list[ScheduledJob] = [talk, mail, call, *late]
    for what, total in ((PushWhat.MUST, 3), (PushWhat.ASKS, 5), (PushWhat.ALL, 7)):
        (day,) = push_days(rehearsed(*jobs, quiet=quiet, pushes=what))
        # A heads-up, a card and its end; another heads-up and the digest; an answer and a ping.
        assert (day.must, day.total) == (2, total), what


def warned(job: ScheduledJob, *others: ScheduledJob) -> Sequence[str]:
    return warnings(job, others, Assumptions(NOW, BERLIN, PingBudget.full(NOW), RuntimeConfig()))


def test_a_new_job_that_comes_when_others_do_is_warned_of() -> None:
    others = [routine(name, "0 9 * * *", allow_ping=False) for name in "abc"]
    new = reminder("new", datetime(2026, 11, 16, 9, tzinfo=BERLIN))
    assert warned(new, *others) == ["That is when 3 others run."]
    assert warned(new, *others[:1]) == []
    assert warned(reminder("new", NOW + HOUR), *others) == []
    paused = [routine(name, "0 9 * * *", enabled=False) for name in "xyz"]
    assert warned(new, *paused) == []
    assert not warned(new, *others * 400)


def test_a_new_job_that_empties_the_budget_is_warned_of() -> None:
    others = [routine(f"o{hour}", f"0 {hour} * * 2") for hour in (8, 9, 10, 11, 12)]
    tuesday = routine("new", "30-58/7 12 * * 2")
    assert warned(tuesday, *others) == ["The ping budget would run dry on Tue."]
    assert warned(routine("quiet", "30-58/7 12 * * 2", allow_ping=False), *others) == []
    assert warned(routine("new", "*/5 * * * *")) == [
        "The ping budget would run dry on 8 days, first today."
    ]


def test_a_new_job_that_leaves_too_little_to_another_is_warned_of() -> None:
    just_enough = routine("other", "0-40/10 12 * * 2")
    assert warned(just_enough) == []
    assert warned(routine("new", "50 11 * * 2"), just_enough) == [
        "The ping budget would run dry on Tue."
    ]
