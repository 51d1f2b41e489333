"""`ollim-bot today`: the same list as in the chat, even while no bot runs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from tests.terminal import SUNDAY, Terminal

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.occurrences import Answer, Occurrence

HOUR = timedelta(hours=1)


def due(job_id: str, text: str, hours: int) -> DueItem:
    at = SUNDAY - hours * HOUR
    reminder = Reminder(JobSpec(id=job_id, message=text), at)
    occurrence = Occurrence.scheduled(JobKind.REMINDER, job_id, at)
    return DueItem.of(reminder, occurrence, MessageId("m1"), at)


def test_today_shows_what_waits_comes_and_is_done(terminal: Terminal) -> None:
    terminal.done("reminder", "add", "-m", "make tea", "--in", "1h")
    terminal.done("reminder", "add", "-m", "next week", "--in", "7d")
    terminal.done("routine", "add", "-m", "stretch", "--cron", "0 * * * *")
    answered = due("b", "call mum", 2).answered(Answer.DONE, SUNDAY - HOUR, "web")
    snoozed = due("c", "bins", 1).answered(Answer.SNOOZED, SUNDAY - HOUR, "web", SUNDAY + HOUR, "d")

    come_again = due("e", "oven", 2).answered(
        Answer.SNOOZED, SUNDAY - HOUR, "web", SUNDAY - HOUR / 2, "f"
    )

    def step(tx: Transaction) -> None:
        tx.due_items.put(due("a", "drink water", 3))
        for each in (answered, snoozed, come_again):
            tx.due_items.put(each)

    terminal.keep(step)
    assert terminal.done("today") == (
        "Today, Sun 15 Nov\n"
        "\n"
        "Overdue\n"
        "  drink water · since 11:30\n"
        "\n"
        "Next\n"
        "  15:00 · stretch · every hour · 8 more today\n"
        "  15:30 · make tea\n"
        "\n"
        "Put off\n"
        "  ⏱ bins · again at 15:30\n"
        "\n"
        "Done\n"
        "  ✓ call mum · 13:30\n"
    )
    day = json.loads(terminal.done("today", "--json"))
    assert (day["date"], day["calendar"]) == ("2026-11-15", [])
    assert sorted(day) == ["calendar", "date", "done", "next", "overdue", "put_off", "tasks"]
    assert [(one["title"], one["due"]) for one in day["overdue"]] == [
        ("drink water", (SUNDAY - 3 * HOUR).isoformat())
    ]
    assert [(one["kind"], one["title"], one["more_today"]) for one in day["next"]] == [
        ("routine", "stretch", 8),
        ("reminder", "make tea", 0),
    ]
    assert [(one["answer"], one["answered_at"]) for one in day["done"]] == [
        ("done", (SUNDAY - HOUR).isoformat())
    ]
    assert [(one["title"], one["answer"]) for one in day["put_off"]] == [("bins", "snoozed")]


def test_all_that_is_overdue_is_listed_the_newest_first(terminal: Terminal) -> None:
    terminal.paths.state.mkdir(parents=True)
    items = [due(f"a{hours}", f"thing {hours}", hours) for hours in range(1, 10)]
    last = replace(items[-1], is_dose=True).in_place_of(due("a9", "thing 9", 10))

    def step(tx: Transaction) -> None:
        for each in (*items[:-1], last):
            tx.due_items.put(each)

    terminal.keep(step)
    lines = terminal.done("today").splitlines()[3:]
    assert lines[:2] == [
        "  thing 9 · since 5:30 · not answered",
        "  thing 9 · before: 4:30 · not answered",
    ]
    assert [each.split()[1] for each in lines[2:]] == [*"12345678"]
    overdue = json.loads(terminal.done("today", "--json"))["overdue"]
    assert [each["title"][-1] for each in overdue] == [*"912345678"]
    assert [each["earlier_count"] for each in overdue] == [1, *[0] * 8]


def test_today_has_the_tasks_that_are_due(terminal: Terminal) -> None:
    terminal.write(
        "tasks.md", "- [ ] later (due 2026-11-16)\n- [ ] rent (due 2026-11-14)\n- [ ] any\n"
    )
    assert terminal.done("today") == (
        "Today, Sun 15 Nov\n\nTasks\n  rent · overdue since yesterday\n"
    )
    assert [task["title"] for task in terminal.json("today")["tasks"]] == ["rent"]


def test_tasks_that_cannot_be_read_do_not_hide_the_day(terminal: Terminal) -> None:
    terminal.paths.tasks.mkdir(parents=True)
    answer = terminal.run("today")
    assert (answer.code, answer.out.splitlines()[0]) == (0, "Today, Sun 15 Nov")
    assert "is not a file. Move it away." in answer.err
