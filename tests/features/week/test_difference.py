"""The difference that a draft makes is that of two whole rehearsals, in plain words."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, time, timedelta
from typing import Any

from tests.features.week.rehearsal_jobs import BERLIN, HOUR, MINUTE, NOW, reminder, routine

from ollim_bot.features.week.rehearsal_difference import (
    NOTHING_CHANGES,
    RehearsedSide,
    RehearsedWeek,
    difference,
    rehearse_week,
)
from ollim_bot.features.week.rehearsal_findings import findings
from ollim_bot.kernel.base.moments import Nag
from ollim_bot.kernel.values.costs import PastCosts
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.jobs import JobSpec, Reminder, Routine
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.quiet import QuietChoice, QuietHours, QuietSettings
from ollim_bot.kernel.values.repeats import AfterDone, read_rhythm
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.schedule import ScheduledJob, key_of, occurrence_at
from ollim_bot.kernel.values.simulation import Assumptions, Fire, rehearse
from ollim_bot.kernel.values.usage import Price, UsageKind, UsageRow

EDITS = 100
EDITS_OF_ONE_WEEK = 20
NIGHT = QuietSettings(BERLIN, QuietHours.parse("22-07"))
CRONS = (
    *("*/10 8,9 * * *", "0 9-18/3 * * *", "0 9 * * *", "0,2,4 9 * * *", "30 2 * * 1-5"),
    *("15 21,22,23 * * *", "1-6 7 * * 1,3", "45 14 * * 0"),
)
NO_COSTS = PastCosts(())


def given(**more: Any) -> Assumptions:
    config = RuntimeConfig(bg_concurrency=more.pop("places", 3))
    return Assumptions(NOW, BERLIN, PingBudget.full(NOW), config, **more)


def random_job(name: str, dice: random.Random) -> ScheduledJob:
    spec = JobSpec(
        id=name,
        message=f"do {name}",
        background=dice.random() < 0.6,
        allow_ping=dice.random() < 0.8,
        plain=dice.random() < 0.2,
        enabled=dice.random() < 0.9,
        set_by="routine:j1" if dice.random() < 0.2 else None,
        must=dice.choice((None, None, True, False)),
        nag=Nag.parse("10m x 3") if dice.random() < 0.2 else None,
        before=(20 * MINUTE, HOUR) if dice.random() < 0.2 else (),
    )
    if dice.random() < 0.2:
        return Reminder(spec, NOW + MINUTE * dice.randint(1, 12000))
    return Routine(spec, Cron.parse(dice.choice(CRONS)), quiet=dice.random() < 0.8)


def random_week(dice: random.Random) -> RehearsedWeek:
    jobs = [random_job(f"j{number}", dice) for number in range(dice.randint(2, 11))]
    choice = dice.choice(
        (
            QuietChoice(),
            QuietChoice(until=NOW + 5 * HOUR),
            QuietChoice(lifted_until=NOW + HOUR * dice.randint(1, 30)),
        )
    )
    quiet = dice.choice((None, NIGHT, replace(NIGHT, choice=choice)))
    return rehearse_week(jobs, given(quiet=quiet, places=dice.randint(1, 3)))


def edits(job: ScheduledJob, dice: random.Random) -> Iterator[tuple[str, ScheduledJob | None]]:
    """A draft of each kind of edit; None deletes the job."""

    def of_spec(**fields: Any) -> ScheduledJob:
        return replace(job, spec=replace(job.spec, **fields))

    yield "text", of_spec(message="something else")
    yield "pause", of_spec(enabled=not job.spec.enabled)
    yield "must", of_spec(must=not job.must)
    yield "heads-ups", of_spec(before=() if job.spec.before else (45 * MINUTE,))
    yield "again", of_spec(nag=None if job.spec.nag else Nag.parse("15m x 2"))
    yield "background", of_spec(background=not job.spec.background)
    yield "plain", of_spec(plain=not job.spec.plain)
    yield "pings", of_spec(allow_ping=not job.spec.allow_ping)
    yield "delete", None
    yield "add", random_job("new", dice)
    if isinstance(job, Reminder):
        yield "moment", replace(job, run_at=NOW + MINUTE * dice.randint(1, 11000))
        return
    yield "rhythm", replace(job, rhythm=Cron.parse(dice.choice(CRONS)))
    yield "repeat", replace(job, rhythm=read_rhythm("every 2 days at 9:00, 21:00 from 2026-11-14"))
    yield "after", replace(job, rhythm=AfterDone(2, time(9), date(2026, 11, 16)))
    yield "quiet", replace(job, quiet=not job.quiet)


def outcome(fire: Fire) -> tuple[object, ...]:
    fields = (fire.state, fire.reason, fire.starts, fire.ping, fire.quiet_until)
    return id(fire.job), fire.due, fire.at, *fields, fire.heads_ups, fire.again


def test_the_difference_is_that_of_rehearsals_before_and_after_for_any_edit() -> None:
    dice = random.Random(12)
    kinds: set[str] = set()
    wrong = []
    for number in range(EDITS):
        if number % EDITS_OF_ONE_WEEK == 0:
            week = random_week(dice)
            old = rehearse(week.jobs.values(), week.given, 7)
        job = dice.choice([*week.jobs.values()])
        kind, after = dice.choice([*edits(job, dice)])
        before = None if kind == "add" else job
        others = [other for other in week.jobs.values() if other is not before]
        new = rehearse([*others, *([after] if after else ())], week.given, 7)
        replanned = week.replanned(None if before is None else key_of(before), after)
        whole = difference(
            RehearsedSide(old, findings(old), before),
            RehearsedSide(new, findings(new), after),
            NO_COSTS,
        )
        is_same = [*map(outcome, replanned.fires)] == [*map(outcome, new.fires)]
        if not is_same or week.difference(before, after, NO_COSTS) != whole:
            wrong.append((number, kind, before, after))
        kinds.add(kind)
    assert wrong == []
    assert len(kinds) == 15


def test_the_difference_is_said_in_plain_words() -> None:
    daily = routine("mail", "0 21 * * *")
    runs = []
    for days, cost in ((1, 40_000), (2, 60_000), (3, 900_000)):
        at = NOW - timedelta(days)
        name = occurrence_at(daily, at).id
        runs.append(UsageRow(at, UsageKind.RUN, "", Price.LISTED, cost, occurrence=name))
    busy = [routine(f"o{number}", f"{number}0 14 * * 5") for number in range(5)]
    together = [routine(name, "0 9 * * *", allow_ping=False) for name in "ab"]

    def moved(job: Routine, cron: str, **fields: Any) -> Routine:
        return replace(job, rhythm=Cron.parse(cron), spec=replace(job.spec, **fields))

    table: list[tuple[list[ScheduledJob], ScheduledJob | None, ScheduledJob | None, str]] = [
        ([], None, daily, "Adds 7 pings in the coming week; about $0.42."),
        ([daily], daily, None, "Removes 7 pings from the coming week; about $0.42 less."),
        ([daily], daily, moved(daily, "0 21 * * *", message="x"), NOTHING_CHANGES),
        ([daily], daily, moved(daily, "0 20 * * *"), "Moves 7 pings in the coming week."),
        (
            [daily],
            daily,
            moved(daily, "0 23 * * *"),
            "Moves 7 pings in the coming week, 7 more waiting until your quiet hours end.",
        ),
        (
            [],
            None,
            reminder("call", NOW + 9 * HOUR, nag=Nag.parse("10m x 3"), before=(HOUR,), plain=True),
            (
                "Adds 1 ping in the coming week, 1 more in your quiet hours; 1 heads-up more; "
                "comes up to 3 times more if you do not answer."
            ),
        ),
        (
            [],
            None,
            routine("day", "0 20-23 * * *", plain=True),
            "Adds 28 pings in the coming week, 14 more waiting until your quiet hours end.",
        ),
        (
            [],
            None,
            routine("pill", "30 23 * * 1-2", must=True),
            "Adds 2 pings in the coming week, 2 more in your quiet hours; about $0.12.",
        ),
        (
            [*busy],
            None,
            moved(daily, "0 15 * * 5"),
            (
                "Adds 1 silent run in the coming week; about $0.06; the budget is used up on "
                "Fri 20 Nov at 15:00."
            ),
        ),
        (
            [*together],
            None,
            routine("c", "0 9 * * *", background=False),
            (
                "Adds 7 turns in the conversation in the coming week. 3 jobs come at the same "
                "moment, tomorrow 9:00 and 6 more times: “do a”, “do b” and “do c”."
            ),
        ),
        (
            [daily],
            daily,
            moved(daily, "0 21 * * 1", allow_ping=False),
            (
                "Removes 7 pings from the coming week; adds 1 silent run in the coming week; "
                "about $0.36 less."
            ),
        ),
    ]
    found = []
    for jobs, before, after, _ in table:
        week = rehearse_week(jobs, given(quiet=NIGHT))
        found.append(week.difference(before, after, PastCosts(runs)).in_words())
    assert found == [sentence for *_, sentence in table]
