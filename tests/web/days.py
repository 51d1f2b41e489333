"""A full day, made up for the page."""

from __future__ import annotations

from datetime import datetime, timedelta

from ollim_bot.domain.cards import Button, ButtonStyle
from ollim_bot.domain.day import DayLine, DayView, PingGauge
from ollim_bot.domain.due_items import DONE, LET_GO, OTHER, SNOOZE, TAKEN, UNDO

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
