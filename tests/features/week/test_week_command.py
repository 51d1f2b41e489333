"""The week of the page is the week of `ollim-bot rehearse`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from devtools.doubles.clock import ManualClock
from devtools.doubles.journal import RecordingJournal
from tests.surfaces.web.weeks import calendar
from tests.terminal import BERLIN, SUNDAY, Terminal

from ollim_bot.features.week.week import WeekView
from ollim_bot.features.week.week_view import WeekPanel, WeekPlans
from ollim_bot.kernel.changes.job_files import open_repositories
from ollim_bot.kernel.store.calendar_files import CalendarFiles, readable_copies
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.store import DatabaseStore
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.usage import Price, UsageKind, UsageRow

JOBS = {
    "routines/mail.md": 'cron: "*/10 15 * * *"\nbackground: true',
    "routines/course.md": 'every: 1 day\nat: "18:30"\nfrom: 2026-11-15\ntimes: 3',
    "routines/ferns.md": 'after-done: 3 days\nat: "9:00"\nfrom: 2026-11-16',
    "routines/lamp.md": 'cron: "0 17 * * *"\nuntil: 2026-11-17\nplain: true',
    "routines/day.md": 'cron: "30 22 * * *"',
    "reminders/mum.md": 'run-at: "2026-11-17T15:10"\nbefore: 30m',
}


def write_jobs(terminal: Terminal) -> None:
    terminal.make_directory()
    for place, fields in JOBS.items():
        name = place.partition("/")[2].removesuffix(".md")
        terminal.write(place, f"---\nid: {name}\n{fields}\n---\ndo {name}\n")
    CalendarFiles(terminal.paths).write_copy(calendar(SUNDAY))


def as_told(week: WeekView) -> Iterator[tuple[str, Any]]:
    """What the page shows, in the words of the command."""
    hours = [hour for day in week.days for hour in day.hours]
    yield (
        "fires",
        [
            (fire.job.spec.id, fire.due.timestamp(), fire.ping.value, fire.state.value)
            for hour in hours
            for fire in hour.fires
        ],
    )
    yield "findings", [each.sentence for each in week.findings]
    yield "quiet", [(start.isoformat(), until.isoformat()) for start, until in week.quiet]
    yield "pings", [(round(each.left, 2), each.paid, each.refused) for each in week.budget]
    yield "money", (week.money.amount.usd, week.money.runs, week.money.unknown_jobs)
    events = [each for day in week.days for each in day.events]
    yield "calendar", [(each.event.id, _iso(each.leave_by)) for each in events]


def _iso(moment: Any) -> str | None:
    return None if moment is None else moment.isoformat()


def as_read(told: Any) -> Iterator[tuple[str, Any]]:
    yield (
        "fires",
        [
            (
                fire["id"],
                datetime.fromisoformat(fire["due"]).timestamp(),
                fire["ping"],
                fire["state"],
            )
            for fire in told["fires"]
        ],
    )
    yield "findings", [each["sentence"] for each in told["findings"]]
    yield "quiet", [(each["from"], each["until"]) for each in told["quiet"]]
    hours = told["pings"]["hours"]
    yield "pings", [(each["left"], each["paid"], each["refused"]) for each in hours]
    money = told["money"]
    yield "money", (money["cost_usd"], money["runs"], money["unknown_jobs"])
    yield "calendar", [(each["id"], each["leave_by"]) for each in told["calendar"]]


async def test_the_page_and_the_command_tell_the_same_week(terminal: Terminal) -> None:
    write_jobs(terminal)
    clock, paths = ManualClock(SUNDAY, BERLIN), terminal.paths
    database = open_database(paths, lambda: SUNDAY, is_holder=True, report=print)
    with closing(database):
        store = DatabaseStore(database, clock)
        past = [
            UsageRow(
                SUNDAY - timedelta(days=day),
                UsageKind.RUN,
                "m",
                Price.LISTED,
                day * 10_000,
                occurrence=f"routine:mail:2026-11-1{5 - day}T14:00:00Z",
            )
            for day in (1, 2, 3)
        ]

        def step(tx: Transaction) -> None:
            config = tx.config.get().with_value("quiet_hours", "22:00-07:00")
            tx.config.put(config.with_value("travel_minutes", 30))
            tx.usage.add(*past)

        store.run(step)
        repositories = open_repositories(paths, RecordingJournal())
        plans = WeekPlans(store, repositories, frozenset, clock)
        panel = WeekPanel(store, plans.week, partial(readable_copies, paths), clock)
        shown = dict(as_told(await panel.look({})))
    told = dict(as_read(terminal.json("rehearse")))
    assert shown == told
    assert all(told.values()), told
