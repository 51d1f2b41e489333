"""Wherever a day or a week is shown, it has the same moments, each at its hour."""

from __future__ import annotations

import json
import random
import re
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from devtools.doubles.journal import RecordingJournal
from tests.kernel.store.files.data_directory import QuickDisk
from tests.offline.test_actions import TOOLS, did
from tests.offline.test_rules import answer, said
from tests.terminal import Terminal

from ollim_bot.features.today.day import DayView, day_of, gauge
from ollim_bot.features.week.rehearsal_difference import rehearse_week
from ollim_bot.features.week.week import WeekView, week_of
from ollim_bot.kernel.changes.job_files import open_repositories
from ollim_bot.kernel.values.costs import PastCosts
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.jobs import ItemKind, JobSpec, Reminder, Routine
from ollim_bot.kernel.values.overviews import today_overview
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.quiet import QuietSettings
from ollim_bot.kernel.values.repeats import AfterDone, DayRule, Repeat
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.schedule import ScheduledJob, Skips
from ollim_bot.kernel.values.simulation import Assumptions
from ollim_bot.offline.server import CallTool, Message, Say

# Moments with what a real clock has: microseconds, and zones whose clocks change in these days.
MOMENTS = [
    datetime(2026, 11, 19, 0, 1, 9, 689954, tzinfo=ZoneInfo("America/New_York")),
    datetime(2026, 10, 24, 7, 59, 59, 999999, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2026, 4, 4, 13, 30, 0, 1, tzinfo=ZoneInfo("Australia/Lord_Howe")),
    datetime(2026, 12, 28, 23, 58, 3, 5, tzinfo=ZoneInfo("Pacific/Kiritimati")),
    datetime(2026, 3, 7, 8, 0, 0, 250000, tzinfo=ZoneInfo("America/Santiago")),
    datetime(2027, 2, 26, 19, 15, 7, 77, tzinfo=ZoneInfo("Asia/Kathmandu")),
]
CRONS = [
    *("0 8,20 * * *", "30 7,13,19 * * 1-5", "*/20 * * * *", "0 9 * * *", "5 9-21 * * *"),
    *("0 1,5,9,13,17,21 * * *", "15 2 * * *", "0 0 * * *", "45 23 * * 0,6"),
    *("0 6,9,12,15,18,21 * * *", "0 3,6,9,12,15,18,21 * * *"),
]  # fmt: skip
WORDS = ("take the pill", "Übung für Łukasz", "薬を飲む", "feed 🐈", "leave for work", "(busy)")

DayRow = tuple[date, str, str]


class Machine(NamedTuple):
    terminal: Terminal
    jobs: Sequence[ScheduledJob]
    week: WeekView

    @property
    def now(self) -> datetime:
        return self.terminal.now

    @property
    def zone(self) -> ZoneInfo:
        assert isinstance(self.now.tzinfo, ZoneInfo)
        return self.now.tzinfo


def some_jobs(now: datetime, seed: int) -> list[ScheduledJob]:
    chance = random.Random(seed)
    today, jobs = now.date(), list[ScheduledJob]()
    own_zones = [None, None, None, ZoneInfo("Asia/Tokyo"), ZoneInfo("America/St_Johns")]
    for number, cron in enumerate(chance.sample(CRONS, 8)):
        spec = JobSpec(
            id=f"c{number}c{seed}c00",
            message=f"{chance.choice(WORDS)} {number}",
            kind=ItemKind.DOSE if chance.random() < 0.4 else None,
            plain=True,
            timezone=chance.choice(own_zones),
            enabled=chance.random() < 0.9,
        )
        jobs.append(Routine(spec, Cron.parse(cron)))
    twice = (time(8, 5), time(20, 5))
    every = Repeat(DayRule.parse("2 days"), at=twice, start=today, until=today + timedelta(5))
    jobs.append(Routine(JobSpec(id="e1e1e1e1", message="wash", plain=True), every))
    after = AfterDone(2, time(9, 10), today + timedelta(seed % 2))
    jobs.append(Routine(JobSpec(id="f1f1f1f1", message="change the filter", plain=True), after))
    for number in range(4):
        at = (now + timedelta(minutes=chance.randrange(2, 9000))).replace(second=0, microsecond=0)
        spec = JobSpec(id=f"a{number}a1a1a1", message=f"call {chance.choice(WORDS)}", plain=True)
        jobs.append(Reminder(spec, at))
    return jobs


@pytest.fixture(params=range(len(MOMENTS)), ids=lambda number: MOMENTS[number].tzinfo)
def machine(request: pytest.FixtureRequest, terminal: Terminal) -> Machine:
    terminal.now = now = MOMENTS[request.param]
    terminal.environ["OLLIM_TIMEZONE"] = str(now.tzinfo)
    terminal.make_directory()
    repositories = open_repositories(terminal.paths, RecordingJournal(), QuickDisk())
    jobs = some_jobs(now, request.param)
    for job in jobs:
        if isinstance(job, Reminder):
            repositories.reminders.add(job)
        else:
            repositories.routines.add(job)
    # As the files have them.
    read: list[ScheduledJob] = [each.item for each in repositories.reminders.all()]
    read += [each.item for each in repositories.routines.all()]
    assert len(read) == len(jobs)
    zone = now.tzinfo
    assert zone is not None
    given = Assumptions(now, zone, PingBudget.full(now), RuntimeConfig())
    rehearsed = rehearse_week(read, given)
    week = week_of(rehearsed.rehearsal, (), None, (), None, PastCosts(()))
    return Machine(terminal, read, week)


def of_week(at: Machine, *, of: slice) -> list[DayRow]:
    """The moments in the week view; what comes more than six times a day is its first there."""
    days = [at.now.date() + timedelta(days) for days in range(15)][of]
    rows: list[DayRow] = []
    for shown in at.week.days:
        found = [fire for hour in shown.hours for line in hour.lines() for fire in line.fires]
        by_job = groupby(sorted(found, key=lambda fire: fire.job.spec.id), lambda fire: fire.job)
        for job, fires in by_job:
            moments = [fire.at.astimezone(at.zone) for fire in fires]
            often = times_on(at, job, shown.day) > 6
            title = job.spec.owner_title
            rows += [(shown.day, clock(each), title) for each in moments[: 1 if often else None]]
    return sorted(each for each in rows if each[0] in days)


def times_on(at: Machine, job: ScheduledJob, day: date) -> int:
    """How often a job comes on a whole day, counted minute by minute from its rule."""
    if not isinstance(job, Routine) or not isinstance(job.rhythm, Cron):
        return 2
    begin = datetime.combine(day, time(), at.zone).astimezone(UTC)
    end = datetime.combine(day + timedelta(1), time(), at.zone).astimezone(UTC)
    zone = job.spec.zone(at.zone)
    count, moment = 0, begin - timedelta(microseconds=1)
    while (moment := job.rhythm.next(moment, zone).astimezone(UTC)) < end:
        count += 1
    return count


def clock(moment: datetime) -> str:
    return f"{moment:%H:%M}"


def day_view(at: Machine) -> DayView:
    quiet, pings = QuietSettings(at.zone), gauge(PingBudget.full(at.now), 0, at.now)
    return day_of((), (), at.jobs, Skips(), at.now, (), (), (), quiet, pings)


def in_lines(text: str, day: date, form: str) -> Iterator[DayRow]:
    for line in text.splitlines():
        if found := re.fullmatch(form, line):
            yield day, found["clock"].zfill(5), re.sub(r" · .*", "", found["title"])


def asked(at: Machine, text: str) -> str:
    """The answer of the built-in model, with what our own commands print."""
    messages: list[Message] = [said(f"[{at.now:%Y-%m-%d %a %I:%M %p} {at.zone}]\n\n{text}")]
    while True:
        (part,) = answer(*messages, tools=TOOLS)
        if isinstance(part, Say):
            return part.text
        assert isinstance(part, CallTool)
        command = shlex.split(str(part.arguments.get("command", "")))[1:]
        messages += did(part, at.terminal.done(*command) if command else "There are none.")


def in_days(text: str, today: date) -> Iterator[DayRow]:
    day = today
    for line in text.splitlines():
        if heading := re.fullmatch(r"- (today|tomorrow|\w{3} (\d+) (\w{3}))", line):
            near = {"today": today, "tomorrow": today + timedelta(1)}
            dates = [today + timedelta(each) for each in range(20)]
            named = {f"{each:%a} {each.day} {each:%b}": each for each in dates}
            day = (near | named)[heading[1]]
        yield from in_lines(line, day, r"  - (?P<clock>\d+:\d\d): (?P<title>.*)")


def test_today_has_each_moment_everywhere(machine: Machine) -> None:
    today = machine.now.date()
    rows = of_week(machine, of=slice(1))
    day = day_view(machine)
    coming = [*([day.next] if day.next else []), *day.later]
    assert sorted((today, clock(each.at), each.title) for each in coming if each.at) == rows
    shown = today_overview((), (), machine.jobs, Skips(), machine.now).card
    listed = r" *(?P<clock>\d+:\d\d) · (?P<title>.*)"
    assert sorted(in_lines(shown.text, today, listed)) == rows
    assert shown.problems() == []
    assert sorted(in_lines(machine.terminal.done("today"), today, listed)) == rows
    printed = json.loads(machine.terminal.done("today", "--json"))["next"]
    moments = [(datetime.fromisoformat(each["at"]), each["title"]) for each in printed]
    assert sorted((today, clock(at), title) for at, title in moments) == rows
    said_now = asked(machine, "what is on today")
    assert sorted(in_lines(said_now, today, r"- (?P<clock>\d+:\d\d): (?P<title>.*)")) == rows


def test_the_days_to_come_are_those_of_the_week(machine: Machine) -> None:
    today = machine.now.date()
    said_now = asked(machine, "what is on tomorrow")
    found = in_lines(said_now, today + timedelta(1), r"- (?P<clock>\d+:\d\d): (?P<title>.*)")
    assert sorted(found) == of_week(machine, of=slice(1, 2))
    week = of_week(machine, of=slice(7))
    assert sorted(in_days(asked(machine, "my week"), today)) == week
    # What comes first is said first, with all that repeats.
    following = [*in_days(asked(machine, "what's next"), today)]
    assert following
    assert sorted(following) == week[: len(following)]


def test_what_comes_often_is_one_line_with_its_rhythm() -> None:
    now = datetime(2026, 11, 15, 14, 30, 12, 345678, tzinfo=ZoneInfo("Europe/Berlin"))
    often = Routine(JobSpec(id="s1", message="Stretch"), Cron.parse("0 * * * *"))
    six = Routine(JobSpec(id="w1", message="Water"), Cron.parse("0 6,9,12,15,18,21 * * *"))
    shown = today_overview((), (), [often, six], Skips(), now).card
    assert [each.text for each in shown.lines] == [
        "15:00 · Stretch · every hour · 8 more today",
        "15:00 · Water",
        "18:00 · Water",
        "21:00 · Water",
    ]
    # A tap on a later line would mean the next moment.
    assert [each.line for each in shown.buttons] == [1, 2]
