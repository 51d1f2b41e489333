"""What the views of the page show, made up: full, and some of it hostile."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from tests.surfaces.web.scene import SUNDAY

from ollim_bot.features.today.day import DayLine, DayView, PingGauge
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.store.routine_format import ROUTINES
from ollim_bot.kernel.values.about_me import OWNERS_WORDS, AboutMe, KnownLine
from ollim_bot.kernel.values.cards import Button, ButtonStyle
from ollim_bot.kernel.values.changes import (
    ChangeFilter,
    ChangeLine,
    ChangeList,
    Changer,
    ChangeRow,
    OlderChange,
)
from ollim_bot.kernel.values.costs import Amount, CostReport, cost_report
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.due_items import DONE, LET_GO, OTHER, SNOOZE, TAKEN, UNDO
from ollim_bot.kernel.values.job_form import JobForm, form_of
from ollim_bot.kernel.values.job_list import (
    DAYS,
    DayState,
    JobDay,
    JobLine,
    JobList,
    JobPast,
    LastRun,
)
from ollim_bot.kernel.values.jobs import JobSpec, JobText, Routine
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.receipts import RunFilter, RunList, RunPage, receipt_of
from ollim_bot.kernel.values.run_history import History
from ollim_bot.kernel.values.usage import Price, UsageKind, UsageRow
from ollim_bot.kernel.values.views import HealthLine, HealthReport, WayOut

HOSTILE = "<img src=x onerror=document.title='hacked'> **b** /clear \u202egnp <system-reminder>"


def waiting_line(title: str, key: str, at: datetime, note: str = "since 8:00") -> DayLine:
    """A line that asks, with the buttons of its card."""
    is_dose = "pill" in title
    return DayLine(
        title,
        at,
        note=note,
        buttons=(
            Button(
                "Taken" if is_dose else "Done", TAKEN if is_dose else DONE, key, ButtonStyle.SUCCESS
            ),
            Button("Snooze 10 min", SNOOZE, f"{key}:10m"),
            Button("1 h", SNOOZE, f"{key}:1h"),
            Button("Other…", SNOOZE, f"{key}:{OTHER}", asks="When? (in 20 minutes, 17:30)"),
            Button("Let it go", LET_GO, key),
        ),
    )


def full_day(now: datetime) -> DayView:
    """A day with something in every part of the panel, some of it hostile."""

    def at(minutes: int) -> datetime:
        return now + timedelta(minutes=minutes)

    skip = Button("Skip once", "job_skip", "routine:water")
    return DayView(
        now,
        overdue=[
            waiting_line("take the heart pill", "k1", at(-60), "since 8:00 · not answered"),
            waiting_line(HOSTILE, "k2", at(-30)),
        ],
        next=DayLine(
            "call the dentist", at(42), buttons=(Button("Snooze 1 h", "job_snooze", "r:1h"),)
        ),
        later=[
            DayLine("drink water", at(150), note="3 more today", buttons=(skip,), job="water"),
            DayLine("stretch", at(300), note="skipped", is_skipped=True),
        ],
        events=[DayLine(HOSTILE, at(-20), at(40), note="14:00–15:00 · Work")],
        all_day=[DayLine("Ada’s birthday", note="all day")],
        quiet=[DayLine("Quiet", at(360), at(900), note="until tomorrow 7:00")],
        tasks=[
            DayLine(
                "water the ferns · due today",
                buttons=(Button("Done", "task_done", "t1", ButtonStyle.SUCCESS),),
            )
        ],
        done=[DayLine("✓ feed the cat · 7:10", buttons=(Button("Undo", UNDO, "item:k3"),))],
        pings=PingGauge(3, 5, at(25), 2),
    )


NOW = datetime(2026, 11, 17, 10, 0, tzinfo=UTC)


def hostile_form() -> JobForm:
    """A form with everything in it, whose texts all try to be markup."""
    text = f"\n</textarea>{HOSTILE}\n</details>&amp;"
    spec = JobSpec(
        id="plan",
        message=text,
        description=f'">{HOSTILE}',
        first_step=HOSTILE,
        untrusted=HOSTILE,
        set_by="routine:x",
    )
    job = Routine(spec, Cron.parse("0 9 * * 1-5"))
    fields, file = ROUTINES.rules.values(), JobText("plan.md", text)
    return form_of(job, fields, "plan", file, NOW, is_skipped=False)


def known() -> AboutMe:
    """A line of the owner's words, and a hostile one in a file with a hostile name."""
    lines = (
        KnownLine("USER.md", 1, "likes tea", date(2026, 5, 3), OWNERS_WORDS),
        KnownLine(HOSTILE, 7, HOSTILE, date(2026, 5, 4), "web page"),
    )
    return AboutMe(SUNDAY.date(), lines, (f"{HOSTILE} cannot be read: it is not UTF-8 text.",))


RUN = Occurrence.scheduled(JobKind.ROUTINE, "plan", SUNDAY).id


def full_list() -> ChangeList:
    """A change that can be undone, with hostile texts; one that was; one that cannot be."""
    at = SUNDAY - timedelta(hours=3)
    texts = [f"-{HOSTILE}", *(f"+line {number}" for number in range(8))]
    mail = ChangeRow("1" * 8, at, HOSTILE, Changer.AGENT, "a", "b", HOSTILE, HOSTILE)
    model = ChangeRow("2" * 8, at, "setting:model.main", Changer.AGENT, "sonnet", "opus", RUN)
    pill = ChangeRow("3" * 8, at, "answer:x", Changer.BUTTON, "open\npill\n", "done\npill\n")
    return ChangeList(
        SUNDAY,
        ChangeFilter("agent", HOSTILE),
        (
            ChangeLine(mail, tuple(texts)),
            ChangeLine(model, is_undone=True),
            ChangeLine(pill, refusal="The next moment of “pill” has come since."),
            ChangeLine(replace(mail, key="4" * 8), refusal="It was changed since.", edit="/jobs/x"),
        ),
        (OlderChange(at - timedelta(days=9), HOSTILE),),
        has_more=True,
    )


def full_report() -> HealthReport:
    """A warning that can be mended, a failure with hostile words, and a check that passed."""
    lines = (
        HealthLine("PASS", "clock", "right"),
        HealthLine("WARN", "files", "a lock is stale", "Remove it.", can_fix=True),
        HealthLine("FAIL", "calendars", HOSTILE, "Run `ollim-bot cal refresh`."),
    )
    ways = (WayOut("discord", SUNDAY - timedelta(hours=1), 2), WayOut("phone", None, 0))
    return HealthReport(SUNDAY, lines, SUNDAY - timedelta(minutes=5), False, ways, 1)


def hostile_jobs(now: datetime) -> JobList:
    """A routine with a day of each state, and a paused webhook, both with hostile words."""
    states = [*DayState, *[DayState.NOTHING] * (DAYS - len(DayState))]
    days = [
        JobDay(now.date() - timedelta(days=DAYS - 1 - place), each, HOSTILE if place == 3 else "")
        for place, each in enumerate(states)
    ]
    cost = Amount(12_300, 0, frozenset({Price.LISTED}))
    past = JobPast(days, cost, LastRun(now - timedelta(hours=1), HOSTILE))
    moments = [now + timedelta(days=each) for each in (1, 2, 3)]
    plan = JobLine(
        "a b",
        JobKind.ROUTINE,
        HOSTILE,
        "At 14:30 on every day",
        moments,
        asks_model=True,
        is_skipped=True,
        past=past,
    )
    hook = JobLine('x"><b>', JobKind.WEBHOOK, HOSTILE, "", is_enabled=False)
    return JobList(now, (plan, hook), 2, 2, HOSTILE, problems=(HOSTILE,), warnings=(HOSTILE,))


MORNING = Occurrence.scheduled(JobKind.ROUTINE, "morning", SUNDAY - timedelta(hours=2)).id


def spent() -> CostReport:
    """A turn and a run of a job with a hostile name today, and a turn a week ago."""
    week = SUNDAY - timedelta(days=7)
    rows = (
        UsageRow(week, UsageKind.TURN, "sonnet", Price.LISTED, 1_000_000, 900, "t1"),
        UsageRow(SUNDAY, UsageKind.TURN, "sonnet", Price.LISTED, 250_000, 900, "t2"),
        UsageRow(SUNDAY, UsageKind.RUN, HOSTILE, Price.UNKNOWN, 0, 0, "", MORNING),
    )
    return cost_report(rows, week, SUNDAY, 2.0, {"routine morning": HOSTILE})


SKIPPED = Occurrence.scheduled(JobKind.ROUTINE, "water", SUNDAY)


SPOKE = Occurrence.parse(f"webhook:door:{HOSTILE}/?#")


def hostile_rows(now: datetime) -> list[LedgerRow]:
    """A run that was skipped, and one with hostile words in every fact."""
    at, named, skipped = now, {"job": HOSTILE}, Occurrence.scheduled(JobKind.ROUTINE, "water", now)
    refused = [{"text": HOSTILE, "reason": HOSTILE}]
    told = {"report": HOSTILE, "tools": [HOSTILE], "untrusted": HOSTILE, "refused_pings": refused}
    held = {"message": "7", "text": HOSTILE, "until": HOSTILE}
    return [
        LedgerRow(at, "due", skipped, {"job": "drink water"}),
        LedgerRow(at, "skipped", skipped, {"reason": "cost cap"}),
        LedgerRow(at, "due", SPOKE, named),
        LedgerRow(at, "running", SPOKE, {"attempt": 1}),
        LedgerRow(at, "held", SPOKE, held),
        LedgerRow(at, "failed", SPOKE, {**told, "error": HOSTILE, "tokens": 7}),
    ]


def hostile_list(now: datetime) -> RunList:
    rows = hostile_rows(now)
    receipt = receipt_of(rows, now.date(), now)
    return RunList(now, RunFilter(), History.of(rows).newest_first, has_more=True, receipt=receipt)


def hostile_run(now: datetime) -> RunPage:
    story = next(
        each for each in History.of(hostile_rows(now)).newest_first if each.occurrence == SPOKE
    )
    spent = Amount(250_000, prices=frozenset({Price.LISTED}))
    return RunPage(now, story._replace(spent=spent), [HOSTILE], "webhook:door")
