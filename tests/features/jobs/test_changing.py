"""Changing and cancelling jobs changes only the named fields, and reports the change."""

from __future__ import annotations

from datetime import datetime

import pytest
from tests.terminal import SUNDAY, Terminal

COMMENTED = """\
---
id: plan
cron: "30 8 * * 1-5"  # after the coffee
colour: red
---
plan my day
"""


@pytest.fixture
def dentist(terminal: Terminal) -> Terminal:
    terminal.done("reminder", "add", "-m", "call the dentist", "--at", "today 15:00", "--id", "x")
    return terminal


def run_at(terminal: Terminal) -> str:
    return str(terminal.json("reminder", "show", "x")["run-at"])


def test_an_edit_changes_one_line_and_keeps_what_a_person_wrote(terminal: Terminal) -> None:
    path = terminal.write("routines/mine.md", COMMENTED)
    answer = terminal.done("routine", "edit", "plan", "--cron", "0 9 * * *")
    assert answer == (
        "Routine changed: plan my day, at 9:00 every day. Next: tomorrow 9:00 (in 18 h 30 min).\n"
    )
    assert path.read_text() == COMMENTED.replace("30 8 * * 1-5", "0 9 * * *")


def test_an_edit_can_change_the_message_and_clear_fields(dentist: Terminal) -> None:
    dentist.done("reminder", "edit", "x", "--description", "Teeth", "--late", "skip")
    answer = dentist.done(
        *("reminder", "edit", "x", "-m", " call Dr. Who \n", "--clear", "description"),
        *("--clear", "late"),
    )
    assert answer == "Reminder changed: call Dr. Who, today 15:00 (in 30 min).\n"
    assert (dentist.paths.reminders / "call-the-dentist.md").read_text() == (
        '---\nid: x\nrun-at: "2026-11-15T15:00:00"\nplain: true\n---\ncall Dr. Who\n'
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], 'Say what to change. Example: ollim-bot reminder edit 3f2a9c1b --at "tomorrow 9am"'),
        (["--clear", "color"], "--clear: there is no field 'color'. Fields: id, "),
        (["--clear", "run-at"], "reminders/call-the-dentist.md: run-at: is missing"),
        (
            ["--foreground", "--model", "opus"],
            "reminders/call-the-dentist.md:6: model: is for background jobs only; ",
        ),
    ],
)
def test_a_wrong_edit_changes_nothing(dentist: Terminal, words: list[str], sentence: str) -> None:
    path = dentist.paths.reminders / "call-the-dentist.md"
    before = path.read_bytes()
    assert dentist.refused("reminder", "edit", "x", *words).startswith(sentence)
    assert path.read_bytes() == before


def test_an_edit_can_mend_a_wrong_file(terminal: Terminal) -> None:
    terminal.write("routines/odd.md", "---\nid: Wrong Id\ncron: often\n---\nx\n")
    words = ("routine", "edit", "odd.md", "--cron", "@hourly")
    assert terminal.refused(*words).startswith("routines/odd.md:2: id: 'Wrong Id' is not right")
    assert terminal.done(*words, "--id", "right").startswith("Routine changed: x, every hour. ")
    assert [job["id"] for job in terminal.json("routine", "list")["routines"]] == ["right"]


def test_an_id_of_another_file_is_not_taken_over(dentist: Terminal) -> None:
    dentist.done("reminder", "add", "-m", "other", "--in", "1h", "--id", "y")
    refusal = dentist.refused("reminder", "edit", "y", "--id", "x")
    assert refusal == "id: x is taken by another file.\n"
    assert dentist.done("reminder", "edit", "x", "--id", "x", "--late", "skip")


def test_a_moment_is_read_in_the_zone_of_the_job(dentist: Terminal) -> None:
    edit = ("reminder", "edit", "x")
    assert "today 21:00 (in 6 h 30 min)" in dentist.done(*edit, "--timezone", "America/New_York")
    assert "tomorrow 15:00" in dentist.done(*edit, "--at", "tomorrow 9am")
    assert "tomorrow 9:00" in dentist.done(*edit, "--at", "tomorrow 9am", "--clear", "timezone")
    assert run_at(dentist) == "2026-11-16T09:00:00"


@pytest.mark.parametrize("noun", ["routine", "reminder"])
def test_a_pause_keeps_the_file_and_a_resume_leaves_no_trace(terminal: Terminal, noun: str) -> None:
    when = {"routine": ["--cron", "0 9 * * *"], "reminder": ["--at", "tomorrow 9am"]}[noun]
    terminal.done(noun, "add", "-m", "water the plants", "--id", "x", *when)
    path = terminal.paths.root / f"{noun}s" / "water-the-plants.md"
    before = path.read_text()
    paused = terminal.done(noun, "pause", "x")
    assert paused.startswith(f"{noun.capitalize()} paused: water the plants, ")
    assert paused.endswith(f" It does nothing until `ollim-bot {noun} resume x`.\n")
    assert terminal.done(noun, "pause", "x") == paused
    resumed = terminal.done(noun, "resume", "x")
    assert resumed.startswith(f"{noun.capitalize()} resumed: water the plants, ")
    assert "tomorrow 9:00 (in 18 h 30 min)" in resumed
    assert path.read_text() == before


@pytest.mark.real_process
def test_a_cancelled_job_is_gone_but_stays_in_the_history(dentist: Terminal) -> None:
    assert dentist.done("reminder", "cancel", "x") == "Reminder cancelled: call the dentist.\n"
    assert dentist.json("reminder", "list")["reminders"] == []
    assert dentist.refused("reminder", "cancel", "x", code=1).startswith("There is no reminder x.")
    log = dentist.git("log", "--format=%s", "--max-count=2")
    assert log == ["remove reminder x", "add reminder x"]


def test_a_job_can_be_named_by_its_words(terminal: Terminal) -> None:
    terminal.done("reminder", "add", "-m", "drink water", "--in", "1h", "--id", "a1")
    terminal.done("reminder", "add", "-m", "water the plants", "--in", "2h", "--id", "b2")
    snoozed = terminal.done("reminder", "snooze", "Plant", "--for", "1h")
    assert snoozed.startswith("Reminder snoozed: water the plants, ")
    for verb in ("pause", "resume", "show"):
        assert "drink water" in terminal.done("reminder", verb, "drink")
    several = (
        "Several fit “water”: a1 (drink water, today 15:30); b2 (water the plants, today 17:30). "
        "Say which one by its id.\n"
    )
    assert terminal.refused("reminder", "cancel", "water") == several
    assert (
        terminal.done("reminder", "cancel", "drink water") == "Reminder cancelled: drink water.\n"
    )
    assert terminal.done("reminder", "cancel", "water") == "Reminder cancelled: water the plants.\n"


def test_an_id_comes_before_words_and_a_short_beginning_names_nothing(terminal: Terminal) -> None:
    terminal.done("reminder", "add", "-m", "call mum", "--in", "1h", "--id", "dad")
    terminal.done("reminder", "add", "-m", "call dad", "--in", "2h", "--id", "b2")
    assert terminal.refused("reminder", "cancel", "c", code=1).startswith("There is no reminder c.")
    assert terminal.done("reminder", "cancel", "dad") == "Reminder cancelled: call mum.\n"


def test_a_wrong_file_can_be_cancelled_by_its_name(terminal: Terminal) -> None:
    terminal.write("reminders/odd.md", "no job")
    answer = terminal.done("reminder", "cancel", "odd.md")
    assert answer == "Reminder cancelled: ~/.ollim-bot/reminders/odd.md.\n"


@pytest.mark.parametrize("verb", ["edit", "cancel", "pause", "resume"])
def test_a_change_of_what_is_not_there_makes_nothing(terminal: Terminal, verb: str) -> None:
    assert terminal.refused("reminder", verb, "x", code=1).startswith("There is no reminder x.")
    assert list(terminal.home.iterdir()) == []


@pytest.mark.parametrize(
    ("waited", "words", "told"),
    [
        (0, ("--for", "15m"), "today 15:15 (in 45 min)"),
        (2, ("--for", "15m"), "today 16:45 (in 15 min)"),
        (0, ("--until", "tomorrow 9am"), "tomorrow 9:00 (in 18 h 30 min)"),
    ],
)
def test_a_snooze_counts_from_the_due_moment_or_from_now_if_it_is_over(
    dentist: Terminal, waited: int, words: tuple[str, ...], told: str
) -> None:
    dentist.wait(hours=waited)
    answer = dentist.done("reminder", "snooze", "x", *words)
    assert answer == f"Reminder snoozed: call the dentist, {told}.\n"


def test_a_snooze_knows_an_overdue_moment_in_the_hour_that_comes_twice(terminal: Terminal) -> None:
    terminal.now = datetime(2026, 10, 25, 1, 0, tzinfo=SUNDAY.tzinfo)
    terminal.done("reminder", "add", "-m", "x", "--id", "x", "--at", "2026-10-25T02:50:00+02:00")
    terminal.now = datetime(2026, 10, 25, 2, 10, tzinfo=SUNDAY.tzinfo, fold=1)
    terminal.done("reminder", "snooze", "x", "--for", "15m")
    assert run_at(terminal) == "2026-10-25T02:25:00+01:00"


@pytest.mark.parametrize("words", [[], ["--for", "15m", "--until", "tomorrow 9am"]])
def test_a_snooze_needs_one_length(dentist: Terminal, words: list[str]) -> None:
    assert dentist.refused("reminder", "snooze", "x", *words) == (
        "Say --for or --until. Example: ollim-bot reminder snooze rent --for 15m\n"
    )


def test_what_a_person_changed_meanwhile_survives_a_resume(dentist: Terminal) -> None:
    path = dentist.paths.reminders / "call-the-dentist.md"
    path.write_text(path.read_text().replace("id: x", "id: x  # theirs"))
    dentist.done("reminder", "pause", "x")
    dentist.done("reminder", "resume", "x")
    assert "id: x  # theirs" in path.read_text()
