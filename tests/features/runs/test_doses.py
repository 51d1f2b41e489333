"""`ollim-bot doses`: each dose of a month with its answer, and nothing about what to do."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.terminal import BERLIN, SUNDAY, Terminal

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.agent_caller import CALLED_BY
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.due_items import DueItem
from ollim_bot.kernel.values.jobs import Chain, ItemKind, JobSpec, Reminder, Routine
from ollim_bot.kernel.values.occurrences import Answer, Occurrence

PILL = JobSpec(id="pill", message="take the pill", kind=ItemKind.DOSE)
MINUTE = timedelta(minutes=1)


def at(day: int, hour: int, minute: int = 0, month: int = 11) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=BERLIN)


def dose(due: datetime, spec: JobSpec = PILL) -> DueItem:
    occurrence = Occurrence.scheduled(JobKind.ROUTINE, spec.id, due)
    return DueItem.of(Routine(spec, Cron.parse("0 8 * * *")), occurrence, MessageId("m"), due)


def reminder(due: datetime, spec: JobSpec, chain: Chain | None = None) -> DueItem:
    occurrence = Occurrence.scheduled(JobKind.REMINDER, spec.id, due)
    return DueItem.of(Reminder(spec, due, chain or Chain()), occurrence, MessageId("m"), due)


def store(terminal: Terminal, *items: DueItem) -> None:
    terminal.make_directory()
    terminal.keep(lambda tx: [tx.due_items.add(each) for each in items])


def states(terminal: Terminal, *words: str) -> list[tuple[str, str]]:
    found = terminal.json("doses", *words)["doses"]
    return [(each["due"][5:16], each["state"]) for each in found]


def test_each_dose_of_the_month_is_listed_with_its_answer(terminal: Terminal) -> None:
    taken = dose(at(13, 8)).answered(Answer.TAKEN, at(13, 8, 4), "web")
    skipped = dose(at(14, 8)).answered(Answer.NOT_TAKEN, at(15, 0, 30), "web")
    not_asked_again = replace(dose(at(12, 8)), is_followed_up=True)
    other = dose(at(13, 9), JobSpec(id="water", message="drink water"))
    store(terminal, taken, skipped, not_asked_again, dose(at(15, 8)), other)
    assert terminal.done("doses") == (
        "Thu 12 Nov 08:00  unanswered                take the pill\n"
        "Fri 13 Nov 08:00  taken 8:04                take the pill\n"
        "Sat 14 Nov 08:00  skipped Sun 15 Nov 00:30  take the pill\n"
        "Sun 15 Nov 08:00  unanswered                take the pill\n"
        "\n"
        "4 doses: 1 taken, 1 skipped, 2 unanswered.\n"
    )
    page = terminal.json("doses")
    assert (page["month"], page["taken"], page["skipped"], page["unanswered"]) == (
        *("2026-11", 1),
        *(1, 2),
    )
    assert page["doses"][1] == {
        "due": at(13, 8).isoformat(),
        "kind": "routine",
        "job_id": "pill",
        "title": "take the pill",
        "state": "taken",
        "answered_at": at(13, 8, 4).isoformat(),
        "until": None,
    }


def test_a_dose_that_was_put_off_is_one_dose(terminal: Terminal) -> None:
    moved = dose(at(31, 23, 50, month=10)).answered(
        Answer.SNOOZED, at(31, 23, 51, month=10), "web", at(1, 0, 10), "first"
    )
    again = reminder(at(1, 0, 10), replace(PILL, id="first", message="take the pill"))
    again = again.answered(Answer.SNOOZED, at(1, 0, 11), "web", at(1, 0, 30), "second")
    last = reminder(at(1, 0, 30), replace(PILL, id="second"))
    store(terminal, moved, again, last.answered(Answer.TAKEN, at(1, 0, 31), "web"))
    assert states(terminal) == []
    assert states(terminal, "--month", "2026-10") == [("10-31T23:50", "taken")]


def test_a_dose_that_comes_again_later_says_when(terminal: Terminal) -> None:
    later = SUNDAY + 20 * MINUTE
    store(terminal, dose(at(15, 14)).answered(Answer.SNOOZED, SUNDAY, "web", later, "next"))
    assert "unanswered, again today 14:50" in terminal.done("doses")
    assert terminal.json("doses")["doses"][0]["until"] == later.isoformat()


def test_the_checks_of_one_reminder_are_one_dose(terminal: Terminal) -> None:
    first = reminder(at(2, 8), PILL, Chain(max=2))
    check = reminder(at(2, 9), replace(PILL, id="check"), Chain(max=2, depth=1, parent="pill"))
    store(
        terminal, replace(first, is_followed_up=True), check.answered(Answer.TAKEN, at(2, 9), "web")
    )
    assert states(terminal) == [("11-02T08:00", "taken")]


def test_of_a_strangers_dose_the_agent_is_shown_no_words(terminal: Terminal) -> None:
    store(terminal, dose(at(13, 8), replace(PILL, message="OBEY", untrusted="web page")))
    assert "OBEY" in terminal.done("doses")
    terminal.environ[CALLED_BY] = "conversation"
    assert "OBEY" not in terminal.done("doses") + terminal.done("doses", "--json")


@pytest.mark.parametrize("month", ["2026-13", "yesterday", "26-1", "0000-00", "9999-12"])
def test_a_wrong_month_is_named(terminal: Terminal, month: str) -> None:
    said = terminal.refused("doses", "--month", month)
    assert month in said
    assert "Example: 2026-11" in said


def test_a_month_can_be_completed(terminal: Terminal) -> None:
    said = terminal.done("completion", "ask", "zsh", "doses", "--month", "2026-1")
    assert said.split() == ["words", "2026-11", "2026-10"]
