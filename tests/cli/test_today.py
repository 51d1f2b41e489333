"""`ollim-bot today`: the same list as in the chat, even while no bot runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from tests.cli.terminal import BERLIN, SUNDAY, Terminal

from ollim_bot.cli.caller import Caller
from ollim_bot.cli.data import open_data
from ollim_bot.cli.tasks import task_list
from ollim_bot.domain.day import DayLine, day_of, gauge
from ollim_bot.domain.due_items import DueItem
from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.jobs import JobSpec, Reminder, Routine
from ollim_bot.domain.occurrences import Answer, Occurrence
from ollim_bot.domain.quiet import QuietSettings
from ollim_bot.store.transaction import Transaction

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


def test_the_page_shows_the_same_day(terminal: Terminal) -> None:
    """The panel is made of what `--json` prints, group by group and in its order."""
    terminal.done("reminder", "add", "-m", "make tea", "--in", "1h")
    terminal.done("reminder", "add", "-m", "next week", "--in", "7d")
    terminal.done("routine", "add", "-m", "stretch", "--cron", "0 * * * *")
    terminal.write("tasks.md", "- [ ] later (due 2026-11-16)\n- [ ] rent (due 2026-11-14)\n")
    items = [
        due("a", "drink water", 3),
        due("g", "take out the bins", 1),
        due("b", "call mum", 2).answered(Answer.DONE, SUNDAY - HOUR, "web"),
        due("c", "bins", 1).answered(Answer.SNOOZED, SUNDAY - HOUR, "web", SUNDAY + HOUR, "d"),
    ]

    def step(tx: Transaction) -> None:
        for each in items:
            tx.due_items.put(each)

    terminal.keep(step)
    printed = terminal.json("today")

    caller = Caller(terminal.environ, terminal.home, lambda: SUNDAY)
    data = open_data(caller)
    jobs = [*data.jobs(JobKind.REMINDER), *data.jobs(JobKind.ROUTINE)]
    midnight = SUNDAY.replace(hour=0, minute=0)
    day = data.read(
        lambda tx: day_of(
            tx.due_items.open(),
            tx.due_items.answered_since(midnight),
            [each for each in jobs if isinstance(each, Reminder | Routine)],
            tx.skips.get(),
            SUNDAY,
            (),
            task_list(data, caller).tasks(),
            (),
            QuietSettings(BERLIN),
            gauge(tx.budget.get(), 0, SUNDAY),
        )
    )
    assert day is not None

    def shown(lines: Sequence[DayLine]) -> list[tuple[str, str]]:
        return [(each.title, each.at.isoformat() if each.at else "") for each in lines]

    following = [day.next] if day.next else []
    coming = sorted([*following, *day.later], key=lambda each: each.at or SUNDAY)
    assert shown(coming) == [(one["title"], one["at"]) for one in printed["next"]]
    assert shown(day.overdue) == [(one["title"], one["due"]) for one in printed["overdue"]]
    for lines, name in ((day.done, "done"), (day.put_off, "put_off")):
        assert [each.at.isoformat() for each in lines if each.at] == [
            one["answered_at"] for one in printed[name]
        ]
        pairs = zip(lines, printed[name], strict=True)
        assert all(one["title"] in line.title for line, one in pairs)
    assert [each.title for each in day.tasks] == ["rent · overdue since yesterday"]
    assert [one["title"] for one in printed["tasks"]] == ["rent"]
