"""Listing and showing: everything in order, wrong files included, and nothing changed."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

import pytest
from tests.terminal import Terminal

from ollim_bot.kernel.store.job_formats import REMINDERS
from ollim_bot.kernel.store.routine_format import ROUTINES

WRONG = "---\nid: wrong\nrun-at: someday\ncolour: red\n---\nx\n"


def add(terminal: Terminal, job_id: str, *words: str) -> None:
    terminal.done("reminder", "add", "-m", f"do {job_id}", "--id", job_id, *words)


def test_a_list_is_sorted_by_moment_with_what_is_special_of_each(terminal: Terminal) -> None:
    add(terminal, "later", "--at", "wednesday 9am", "--no-ping", "--max-chain", "3")
    add(terminal, "late", "--in", "5m")
    add(terminal, "paused", "--in", "1h", "--disabled", "--foreground")
    add(terminal, "soon", "--at", "tomorrow 9am")
    terminal.wait(minutes=10)
    assert terminal.done("reminder", "list") == (
        "late    overdue: today 14:35  do late\n"
        "soon    tomorrow 9:00         do soon\n"
        "later   Wed 18 Nov 09:00      do later  (silent, chain 1/4)\n"
        "paused  paused                do paused  (foreground)\n"
    )


def test_routines_are_marked_where_they_run_in_the_background(terminal: Terminal) -> None:
    words = ("routine", "add", "-m", "x", "--cron")
    terminal.done(*words, "0 9 * * *", "--id", "nine", "--background")
    terminal.done(*words, "*/15 * * * *", "--id", "often")
    assert terminal.done("routine", "list") == (
        "often  today 14:45    x\nnine   tomorrow 9:00  x  (background)\n"
    )


def test_order_is_by_real_time_in_the_hour_that_comes_twice(terminal: Terminal) -> None:
    add(terminal, "second", "--at", "2027-10-31T02:10:00+01:00")
    add(terminal, "first", "--at", "2027-10-31T02:50:00+02:00")
    listed = terminal.json("reminder", "list")["reminders"]
    assert [job["id"] for job in listed] == ["first", "second"]


def test_a_wrong_file_is_told_beside_the_others_and_hides_none(terminal: Terminal) -> None:
    add(terminal, "right", "--in", "1h")
    terminal.write("reminders/odd.md", WRONG)
    code, out, err = terminal.run("reminder", "list")
    assert (code, out) == (0, "right  today 15:30  do right\n")
    problem, warning = err.splitlines()
    assert problem.startswith("reminders/odd.md:3: run-at: 'someday' is not right; ")
    assert warning == "note: reminders/odd.md:4: colour: is not a field of a reminder"


def test_only_wrong_files_are_not_taken_for_none(terminal: Terminal) -> None:
    terminal.write("reminders/odd.md", WRONG)
    assert terminal.done("reminder", "list") == "No reminder can run: every file has a problem.\n"


def test_json_has_one_shape_whatever_is_there(terminal: Terminal) -> None:
    nothing: dict[str, object] = {"reminders": [], "problems": [], "warnings": []}
    assert terminal.json("reminder", "list") == nothing
    add(terminal, "right", "--in", "1h")
    terminal.write("reminders/odd.md", WRONG)
    code, _, err = terminal.run("reminder", "list", "--json")
    assert (code, err) == (0, "")
    listed = terminal.json("reminder", "list")
    assert listed.keys() == nothing.keys()
    assert [len(listed[key]) for key in nothing] == [1, 1, 1]


@pytest.mark.parametrize(
    ("noun", "when", "fields"),
    [
        ("reminder", ["--in", "1h"], REMINDERS.rules.keys()),
        ("routine", ["--cron", "@daily"], ROUTINES.rules.keys()),
    ],
)
def test_json_names_every_field_as_the_file_does(
    terminal: Terminal, noun: str, when: list[str], fields: Set[str]
) -> None:
    terminal.done(noun, "add", "-m", "x", "--id", "x", *when)
    (job,) = terminal.json(noun, "list")[f"{noun}s"]
    assert job.keys() == fields | {"message", "file", "next"}
    assert terminal.json(noun, "show", "x") == job | {"upcoming": [job["next"], *more(job, noun)]}
    assert Path(job["file"]).read_text().endswith("---\nx\n")


def more(job: dict[str, str], noun: str) -> list[str]:
    assert job["next"].startswith("2026-11-1")
    days = ["2026-11-17", "2026-11-18"] if noun == "routine" else []
    return [f"{day}T00:00:00+01:00" for day in days]


def test_json_tells_of_must_what_holds_in_the_end(terminal: Terminal) -> None:
    add(terminal, "plain", "--in", "1h")
    add(terminal, "chain", "--in", "2h", "--max-chain", "3")
    listed = terminal.json("reminder", "list")["reminders"]
    assert [(job["id"], job["must"]) for job in listed] == [("plain", True), ("chain", False)]


def test_a_paused_job_has_no_next_moment(terminal: Terminal) -> None:
    add(terminal, "x", "--in", "1h", "--disabled")
    shown = terminal.json("reminder", "show", "x")
    assert (shown["next"], shown["upcoming"], shown["enabled"]) == (None, [], False)


def test_a_routine_is_shown_whole_and_in_words(terminal: Terminal) -> None:
    terminal.done(
        *("routine", "add", "--id", "plan", "-m", "Look at my day.\n\nThen plan it."),
        *("--cron", "30 8 * * 1-5", "--description", "Morning briefing", "--background"),
        *("--model", "sonnet", "--no-thinking", "--isolated", "--no-ping", "--late", "skip"),
        *("--allowed-tool", "Bash(ollim-bot tasks *)", "--skill", "planning"),
        *("--timezone", "Europe/London", "--update-main-session", "always"),
    )
    assert terminal.done("routine", "show", "plan") == (
        "Morning briefing\n"
        "  id         plan\n"
        "  when       at 8:30 on Monday through Friday in Europe/London (cron 30 8 * * 1-5)\n"
        "  next       tomorrow 9:30 (in 19 h), Tue 17 Nov 09:30, Wed 18 Nov 09:30\n"
        "  runs       in the background, without the conversation so far\n"
        "  model      sonnet\n"
        "  thinking   off\n"
        "  pings      none (silent)\n"
        "  reports    always\n"
        "  tools      the usual ones, Bash(ollim-bot tasks *)\n"
        "  skills     planning\n"
        "  time zone  Europe/London\n"
        "  if missed  it does not run\n"
        "  delivery   the bot may decide to stay silent\n"
        "  file       ~/.ollim-bot/routines/morning-briefing.md\n"
        "\n"
        "Look at my day.\n\nThen plan it.\n"
    )


def test_a_reminder_is_shown_with_its_chain(terminal: Terminal) -> None:
    terminal.write(
        "reminders/x.md",
        "---\nid: x\nrun-at: 2026-11-15T14:00\nmax-chain: 3\nchain-depth: 1\nchain-parent: root\n"
        "enabled: false\nbackground: false\n---\nstretch\n",
    )
    assert terminal.done("reminder", "show", "x") == (
        "stretch\n"
        "  id          x\n"
        "  when        overdue since today 14:00 (30 min ago)\n"
        "  follow-ups  check 2 of 4; the first was root\n"
        "  paused      it waits until you resume it\n"
        "  runs        in the conversation\n"
        "  tools       the usual ones\n"
        "  skills      none\n"
        "  time zone   yours (Europe/Berlin)\n"
        "  if missed   it runs late\n"
        "  file        ~/.ollim-bot/reminders/x.md\n"
        "\n"
        "stretch\n"
    )


def test_a_file_that_is_wrong_is_shown_by_its_problems(terminal: Terminal) -> None:
    terminal.write("reminders/odd.md", WRONG)
    assert terminal.refused("reminder", "show", "wrong").startswith("reminders/odd.md:3: run-at: ")


def test_what_is_not_there_is_said_with_where_to_look(terminal: Terminal) -> None:
    assert terminal.refused("routine", "show", "nope", code=1) == (
        "There is no routine nope. `ollim-bot routine list` shows them all.\n"
    )
