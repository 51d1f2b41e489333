"""Adding a job writes what the command reports, and writes nothing if a value is wrong."""

from __future__ import annotations

import os
import shlex
import string
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.terminal import Terminal

from ollim_bot.features.jobs.job_arguments import LONGEST_MESSAGE
from ollim_bot.kernel.base.instance import single_instance

ROUTINE = ("routine", "add", "-m", "plan my day", "--cron", "30 8 * * 1-5", "--id", "plan")
REMINDER = ("reminder", "add", "-m", "call the dentist", "--id", "dentist")
ROUTINE_WAYS = '(--every "weekday at 9" | --cron "30 8 * * 1-5")'
ROUTINE_EXAMPLE = 'ollim-bot routine add -m "plan my day" --every "weekday at 9"'
REMINDER_WAYS = '(--in 20m | --at "tomorrow 9am" | --delay 20)'
REMINDER_EXAMPLE = 'ollim-bot reminder add -m "call the dentist" --in 20m'


def test_a_reminder_repeats_the_promise_exactly_and_then_how_to_name_it(terminal: Terminal) -> None:
    assert terminal.done(*REMINDER, "--at", "tomorrow 9am") == (
        "Reminder set: call the dentist, tomorrow 9:00 (in 18 h 30 min).\n"
        "id dentist, file ~/.ollim-bot/reminders/call-the-dentist.md\n"
    )


def test_a_reminder_for_a_quiet_moment_is_set_and_says_how_to_move_it(terminal: Terminal) -> None:
    terminal.done("config", "set", "quiet_hours", "22:00-07:00")
    _, out, notes = terminal.run(*REMINDER, "--at", "today 23:30")
    assert out.startswith("Reminder set: call the dentist, today 23:30 (in 9 h).\n")
    command = 'ollim-bot reminder edit dentist --at "2026-11-16 07:00"'
    assert f"it comes in your quiet hours. `{command}` moves it to 7:00." in notes
    moved = terminal.done(*shlex.split(command)[1:])
    assert moved.startswith("Reminder changed: call the dentist, tomorrow 7:00 (in 16 h 30 min).")
    assert "quiet" not in terminal.run(*REMINDER[:-1], "other", "--at", "tomorrow 9am")[2]
    snoozed = terminal.run("reminder", "snooze", "other", "--for", "14h")
    assert "it comes in your quiet hours." in snoozed[2]


def test_a_timer_keeps_from_when_its_time_runs(terminal: Terminal) -> None:
    terminal.done(*REMINDER, "--in", "25m", "--timer")
    (one,) = terminal.json("reminder", "list")["reminders"]
    assert (one["set-at"], one["next"]) == (
        "2026-11-15T14:30:00+01:00",
        "2026-11-15T14:55:01+01:00",
    )
    (coming,) = terminal.json("today")["next"]
    assert (coming["set_at"], coming["at"]) == (one["set-at"], one["next"])
    assert "say how long it runs" in terminal.run("reminder", "edit", "dentist", "--timer")[2]


def test_a_routine_says_its_rhythm_in_words_and_its_next_moment(terminal: Terminal) -> None:
    assert terminal.done(*ROUTINE, "--description", "Morning briefing") == (
        "Routine set: Morning briefing, at 8:30 on Monday through Friday. "
        "Next: tomorrow 8:30 (in 18 h).\n"
        "id plan, file ~/.ollim-bot/routines/morning-briefing.md\n"
    )


def test_a_rhythm_in_words_becomes_a_cron_line(terminal: Terminal) -> None:
    assert terminal.done("routine", "add", "plan", "--every", "weekday at 9", "--id", "plan") == (
        "Routine set: plan, at 9:00 on Monday through Friday. "
        "Next: tomorrow 9:00 (in 18 h 30 min).\nid plan, file ~/.ollim-bot/routines/plan.md\n"
    )
    assert "at 8:00 every day" in terminal.done("routine", "edit", "plan", "--every", "day at 8am")


def test_a_repeat_in_words_becomes_fields_and_an_edit_replaces_them(terminal: Terminal) -> None:
    words = ("routine", "add", "put the bins out", "--every", "other tuesday at 7pm until 24 dec")
    assert terminal.done(*words, "--id", "bins") == (
        "Routine set: put the bins out, at 19:00 every 2 weeks on Tuesday, until 24 Dec 2026. "
        "Next: Tue 17 Nov 19:00 (in 2 d 4 h).\n"
        "id bins, file ~/.ollim-bot/routines/put-the-bins-out.md\n"
    )
    file = terminal.paths.routines / "put-the-bins-out.md"
    assert file.read_text().startswith(
        '---\nid: bins\nevery: "2 weeks"\nat: "19:00"\nfrom: "2026-11-17"\nuntil: "2026-12-24"\n'
    )
    terminal.done("routine", "edit", "bins", "--every", "last day of the month at 9am")
    assert "until" not in file.read_text()
    shown = terminal.done("routine", "show", "bins")
    assert "at 9:00 on the last day of every month\n" in shown
    terminal.done("routine", "edit", "bins", "--cron", "0 9 1 * *")
    fields = terminal.json("routine", "show", "bins")
    assert (fields["cron"], fields["every"], fields["at"]) == ("0 9 1 * *", None, None)


def test_a_routine_that_has_ended_stays_in_the_list(terminal: Terminal) -> None:
    terminal.write(
        "routines/old.md",
        "---\nid: old\nevery: 1 day\nat: 9:00\nfrom: 2026-11-01\ntimes: 3\n---\nTake the pill",
    )
    assert terminal.done("routine", "list") == "old  has ended  Take the pill\n"
    assert "none, it has ended" in terminal.done("routine", "show", "old")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ("", "cron: is missing"),
        ("every: 2 weeks\ncron: '0 9 * * *'", "every: cannot be combined with cron"),
        ("every: 2 weeks\nat: 9:00", "from: is missing beside every"),
        ("every: 2 weeks\nfrom: 2026-11-01", "at: is missing beside every; write it like 9:00"),
        ("every: 2 weeks\nfrom: 2026-11-01\nat: 25:00", "`25:00` is not a time of day such as"),
        ("every: 2 years\nfrom: 2026-11-01\nat: 9:00", "every: `2 years` is not `2 weeks`"),
        ("every: 1 day\nfrom: 1 May\nat: [9:00, 20:00]", "from: `1 May` is not a day such as"),
        ("cron: '0 9 * * *'\ntimes: 3", "times: needs from, the day from which"),
        ("cron: '0 9 * * *'\nat: 9:00", "at: is for every and after-done"),
        ("after-done: 3d\nat: 9:00\nfrom: 2026-11-01\ntimes: 3", "times: is for cron and every"),
        (
            "every: 1 day\nat: 9:00\nfrom: 2026-11-01\nuntil: 2026-10-01",
            "until: is earlier than from",
        ),
    ],
)
def test_a_wrong_repeat_in_a_file_says_what_would_be_right(
    terminal: Terminal, fields: str, sentence: str
) -> None:
    terminal.write("routines/wrong.md", f"---\nid: wrong\n{fields}\n---\nTake the pill")
    assert sentence in "".join(map(str, terminal.run("routine", "list")))


def test_an_interval_leaves_out_the_quiet_hours_and_says_so(terminal: Terminal) -> None:
    terminal.done("config", "set", "quiet_hours", "22:00-07:00")
    words = ("routine", "add", "drink water", "--every", "2 hours", "--id", "water")
    _, out, notes = terminal.run(*words)
    assert out.startswith("Routine set: drink water, every 2 hours from 8:00 to 20:00.")
    assert notes.startswith(
        'note: it leaves out your quiet hours, 22:00-07:00. `--cron "0 */2 * * *"` would keep'
    )
    out = terminal.done("routine", "edit", "water", "--cron", "0 */2 * * *")
    assert "every 2 hours from 0:00 to 22:00" in out


def test_a_text_that_comes_first_needs_no_flag(terminal: Terminal) -> None:
    assert terminal.done("reminder", "add", "call mum", "--in", "5m", "--id", "mum") == (
        "Reminder set: call mum, today 14:35 (in 5 min).\n"
        "id mum, file ~/.ollim-bot/reminders/call-mum.md\n"
    )


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (
            ["call", "mum", "--in", "5m"],
            (
                "'mum' is not understood. A text of several words needs quotes: "
                "ollim-bot reminder add 'call mum' --in 5m"
            ),
        ),
        (
            ["-m", "call", "mum", "--at", "tomorrow", "9am"],
            (
                "'mum' is not understood. A text of several words needs quotes: "
                "ollim-bot reminder add -m 'call mum' --at 'tomorrow 9am'"
            ),
        ),
        (
            ["call mum", "-m", "call dad", "--in", "5m"],
            "'call mum' stands beside -m. Give one text.",
        ),
    ],
)
def test_words_that_lead_nowhere_are_answered_with_what_to_type(
    terminal: Terminal, words: list[str], hint: str
) -> None:
    answer = terminal.run("reminder", "add", *words)
    assert answer.err == f"ollim-bot reminder add: {hint}\n"
    assert not terminal.paths.reminders.exists()


@pytest.mark.parametrize(
    ("words", "run_at"),
    [
        (["--in", "20m"], "2026-11-15T14:50:01+01:00"),
        (["--in", "1 hour and a half"], "2026-11-15T16:00:01+01:00"),
        (["--delay", "20"], "2026-11-15T14:50:01+01:00"),
        (["--delay", "0.5"], "2026-11-15T14:30:31+01:00"),
        (["--at", "tomorrow 9am"], "2026-11-16T09:00:00"),
        (["--at", "2027-07-01 18:00"], "2027-07-01T18:00:00"),
        (["--at", "2026-11-16T09:00+09:00"], "2026-11-16T01:00:00+01:00"),
        (["--at", "tomorrow 9am", "--timezone", "America/New_York"], "2026-11-16T09:00:00"),
    ],
)
def test_a_length_is_stored_as_an_instant_and_a_time_of_day_follows_the_owner(
    terminal: Terminal, words: list[str], run_at: str
) -> None:
    terminal.done(*REMINDER, *words)
    assert terminal.json("reminder", "show", "dentist")["run-at"] == run_at


def test_a_moment_elsewhere_is_told_in_both_zones(terminal: Terminal) -> None:
    assert terminal.done(*REMINDER, "--at", "tomorrow 9am", "--timezone", "Asia/Tokyo").startswith(
        "Reminder set: call the dentist, tomorrow 1:00 (in 10 h 30 min), 9:00 in Asia/Tokyo.\n"
    )


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--description", "Teeth"], "description", "Teeth"),
        (["--foreground"], "background", False),
        (["--model", "haiku"], "model", "haiku"),
        (["--no-thinking"], "thinking", False),
        (["--isolated"], "isolated", True),
        (["--update-main-session", "on-ping"], "update-main-session", "on_ping"),
        (["--update-main-session", "blocked"], "update-main-session", "blocked"),
        (["--no-ping"], "allow-ping", False),
        (
            ["--allowed-tool", "Bash(ollim-bot tasks *)", "--allowed-tool", "X(a, b)"],
            "allowed-tools",
            ["Bash(ollim-bot tasks *)", "X(a, b)"],
        ),
        (["--skill", "one", "--skill", "two"], "skills", ["one", "two"]),
        (["--timezone", "Asia/Tokyo"], "timezone", "Asia/Tokyo"),
        (["--late", "tell"], "late", "tell"),
        (["--disabled"], "enabled", False),
        (["--no-must"], "must", False),
        (["--max-chain", "3"], "max-chain", 3),
        (["--nag", "10m x 4"], "nag", "10m x 4"),
        (["--first-step", "fill a glass"], "first-step", "fill a glass"),
        (["--before", "10m", "--before", "1h"], "before", ["1h", "10m"]),
        (["--dose"], "kind", "dose"),
    ],
)
def test_every_flag_becomes_its_field(
    terminal: Terminal, words: list[str], field: str, value: object
) -> None:
    plain = terminal.json(*REMINDER, "--in", "1h")
    added = terminal.json(*REMINDER[:-1], "other", "--in", "1h", *words)
    assert added[field] == value
    assert terminal.json("reminder", "show", "other")[field] == value
    assert plain[field] != value or value == "on_ping"


@pytest.mark.parametrize(
    ("words", "is_plain"),
    [
        ((), True),
        (("--nag", "10m x 4", "--before", "30m", "--must"), True),
        (("--agent",), False),
        (("--no-plain",), False),
        (("--max-chain", "2"), False),
        (("--foreground",), False),
        (("--skill", "mail"), False),
        (("--model", "opus"), False),
    ],
)
def test_the_words_of_a_reminder_come_as_they_are_unless_a_run_is_asked_for(
    terminal: Terminal, words: tuple[str, ...], is_plain: bool
) -> None:
    added = terminal.json(*REMINDER, "--in", "1h", *words)
    assert added["plain"] is is_plain
    assert ("plain: true" in next(terminal.paths.reminders.iterdir()).read_text()) is is_plain


def test_a_new_file_holds_only_what_was_said(terminal: Terminal) -> None:
    terminal.done(*ROUTINE)
    assert (terminal.paths.routines / "plan-my-day.md").read_text() == (
        '---\nid: plan\ncron: "30 8 * * 1-5"\n---\nplan my day\n'
    )


def test_whatever_is_written_is_read_back(terminal: Terminal) -> None:
    """A text that cannot be written is refused."""
    terminal.make_directory()
    numbers = count()

    @settings(max_examples=15, deadline=None)
    @given(message=st.text(min_size=1).filter(str.strip), description=st.text(string.printable))
    def is_read_back(message: str, description: str) -> None:
        name = f"x{next(numbers)}"
        words = (f"--message={message}", f"--description={description}", "--in", "1h")
        answer = terminal.run("reminder", "add", *words, "--id", name)
        if message == "-" or answer.code == 2:
            assert answer.out == ""
            return
        shown = terminal.json("reminder", "show", name)
        assert shown["message"] == message.strip()
        assert shown["description"] == " ".join(description.split())

    is_read_back()


@contextmanager
def standard_input(content: bytes) -> Iterator[None]:
    own = os.dup(0)
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        os.dup2(file.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(own, 0)
            os.close(own)


def test_a_message_can_come_from_standard_input(terminal: Terminal) -> None:
    words = ("reminder", "add", "-m", "-", "--in", "20m", "--id", "x")
    with standard_input(b""):
        said = 'The message is empty. Example: -m "call the dentist"\n'
        assert terminal.refused(*words) == said
    with standard_input(b"\xff\xfe"):
        assert terminal.refused(*words) == "Standard input is not UTF-8 text.\n"
    with standard_input(b"call the dentist\n\nand ask\n"):
        terminal.done(*words)
    assert terminal.json("reminder", "show", "x")["message"] == "call the dentist\n\nand ask"


@pytest.mark.real_time
def test_commands_work_while_the_bot_runs_and_say_nothing_of_it(terminal: Terminal) -> None:
    terminal.done(*REMINDER, "--in", "1h")
    with single_instance(terminal.paths.bot_pid):
        added = terminal.run(*REMINDER[:-1], "other", "--in", "20m")
    assert (added.code, added.err) == (0, "")
    assert added.out.startswith("Reminder set: call the dentist, ")


def test_an_id_is_made_up_where_none_is_given(terminal: Terminal) -> None:
    ids = {terminal.json(*REMINDER[:4], "--in", "1h")["id"] for _ in range(3)}
    assert len(ids) == 3
    assert all(len(made) == 8 and int(made, 16) >= 0 for made in ids)


def test_a_taken_id_is_refused(terminal: Terminal) -> None:
    terminal.done(*ROUTINE)
    assert terminal.refused(*ROUTINE, code=1) == (
        "routines/plan-my-day.md and the new file have the same id plan. "
        "Give one of them another id.\n"
    )
    assert len(terminal.json("routine", "list")["routines"]) == 1


@pytest.mark.parametrize(
    ("words", "problems"),
    [
        (
            ["routine", "add", "-m", "x", "--every", "day", "--cron", "0 9 * * *"],
            ["--every and --cron both say when. Give one of them."],
        ),
        (
            ["routine", "add", "-m", "x", "--every", "day at 3"],
            ["`day at 3` can be read two ways. Write `every day at 3am` or `every day at 3pm`."],
        ),
        (
            ["reminder", "add", "-m", "x"],
            [f"Say when: {REMINDER_WAYS}. Example: {REMINDER_EXAMPLE}"],
        ),
        (
            ["reminder", "add", "-m", "x", "--in", "5m", "--at", "9am"],
            ["--in and --at both say when. Give one of them."],
        ),
        (
            ["reminder", "add", "--in", "5m"],
            [f"Say what to do, with -m. Example: {REMINDER_EXAMPLE}"],
        ),
        (
            ["reminder", "add", "-m", " ", "--in", "5m"],
            ['The message is empty. Example: -m "call the dentist"'],
        ),
        (
            ["reminder", "add", "-m", "x", "--in", "soon"],
            ["`soon` is not exact. Write `20m`, `1h 30m` or `2 days`."],
        ),
        (
            ["reminder", "add", "-m", "x", "--delay", "20m"],
            ["--delay: '20m' is not a number of minutes. Example: --delay 20"],
        ),
        (
            ["reminder", "add", "-m", "x", "--in", "5m", "--max-chain", "many"],
            ["max-chain: 'many' is not right; it takes a whole number from 0 to 1000."],
        ),
        (
            ["reminder", "add", "-m", "x", "--in", "5m", "--timezone", "berlin"],
            ["--timezone: 'berlin' is not a time zone. Did you mean Europe/Berlin?"],
        ),
        (
            ["reminder", "add", "-m", "x", "--in", "5m", "--allowed-tool", "Read,Grep"],
            ["'Read,Grep' looks like several. Give the flag once for each."],
        ),
        (
            ["reminder", "add", "-m", "x", "--in", "5m", "--allowed-tool", "Bash(*)"],
            ["allowed-tools: `Bash(*)` would allow every command. Name one, such as "],
        ),
        (
            ["reminder", "add", "-m", "x", "--in", "5m", "--foreground", "--model", "opus"],
            ["model: is for background jobs only. Add --background."],
        ),
        (["routine", "add", "-m", "x"], [f"Say when: {ROUTINE_WAYS}. Example: {ROUTINE_EXAMPLE}"]),
        (
            ["routine", "add", "-m", "x", "--cron", "30 8 * *", "--late", "never", "--id", "X Y"],
            [
                "cron: ",
                "late: 'never' is not right; it takes one of run, skip, tell.",
                "id: 'X Y' is not right; ",
            ],
        ),
    ],
)
def test_a_wrong_job_is_refused_with_every_reason_and_makes_nothing(
    terminal: Terminal, words: list[str], problems: list[str]
) -> None:
    lines = terminal.refused(*words).splitlines()
    assert len(lines) == len(problems)
    assert all(any(line.startswith(problem) for line in lines) for problem in problems)
    assert list(terminal.home.iterdir()) == []


def test_a_message_is_refused_before_its_file_would_be_too_large_to_read(
    terminal: Terminal,
) -> None:
    words = ("reminder", "add", "--in", "1h", "--id", "x", "-m")
    assert terminal.refused(*words, "🦷" * (LONGEST_MESSAGE + 1)).startswith(
        "The message is longer"
    )
    terminal.done(*words, "🦷" * LONGEST_MESSAGE)
    assert len(terminal.json("reminder", "show", "x")["message"]) == LONGEST_MESSAGE


def test_a_paused_job_says_what_starts_it(terminal: Terminal) -> None:
    assert terminal.done(*ROUTINE, "--disabled").startswith(
        "Routine set: plan my day, at 8:30 on Monday through Friday. "
        "It does nothing until `ollim-bot routine resume plan`.\n"
    )


@pytest.mark.real_process
def test_the_first_command_that_writes_makes_the_data_directory_and_its_history(
    terminal: Terminal,
) -> None:
    terminal.is_new_machine = True
    terminal.done("reminder", "list")
    assert not terminal.paths.root.exists()
    terminal.done(*ROUTINE)
    tracked = [".gitignore", "IDENTITY.md", "USER.md", "routines/plan-my-day.md"]
    listed = terminal.git("ls-files")
    subagents, others = listed[:-4], listed[-4:]
    assert others == tracked
    assert all(each.startswith(".claude/agents/") for each in subagents)
    assert terminal.git("log", "--format=%s", "--max-count=1") == ["add routine plan"]


def test_that_the_bot_is_not_running_is_said_apart_from_the_answer(terminal: Terminal) -> None:
    note = "note: the bot is not running, so nothing comes yet.\n"
    assert terminal.run(*ROUTINE).err == note
    assert terminal.run(*REMINDER, "--in", "1h", "--json").err == note
    assert terminal.run("routine", "pause", "plan").err == ""


@pytest.mark.real_time
def test_where_only_the_page_can_show_it_the_first_job_and_today_say_so(terminal: Terminal) -> None:
    note = "note: the bot can only show this on its page. A phone: `ollim-bot push setup`.\n"
    terminal.make_directory()
    terminal.keep(lambda _: None)
    with single_instance(terminal.paths.bot_pid):
        terminal.done("config", "set", "desktop_notifications", "off")
        assert terminal.run(*ROUTINE).err == note
        assert terminal.run(*ROUTINE[:-1], "other").err == ""
        assert terminal.run("today").err == note
        terminal.keep(lambda tx: tx.channels.join("phone", "a"))
        assert terminal.run(*REMINDER, "--in", "1h").err == terminal.run("today").err == ""


def test_a_late_that_has_no_effect_is_said(terminal: Terminal) -> None:
    said = "note: late is read as run, because it must come, however late; remove it.\n"
    assert said in terminal.run(*ROUTINE, "--must", "--late", "skip").err
    assert "it comes, however late" in terminal.done("routine", "show", "plan")
    assert said not in terminal.run("routine", "edit", "plan", "--clear", "late").err


def test_the_usual_nag_is_given_to_new_reminders_that_must_come(terminal: Terminal) -> None:
    terminal.done("config", "set", "nag_default", "15m x 2")
    assert terminal.json(*REMINDER, "--in", "1h")["nag"] == "15m x 2"
    for words in (["--no-must"], ["--max-chain", "2"]):
        added = terminal.json("reminder", "add", "-m", "x", "--in", "1h", *words)
        assert added["nag"] is None
    own = terminal.json("reminder", "add", "-m", "x", "--in", "1h", "--nag", "5m x 1")
    assert own["nag"] == "5m x 1"


def test_what_is_unusual_about_a_moment_is_shown(terminal: Terminal) -> None:
    unusual = ["--plain", "--dose", "--nag", "10m x 4", "--before", "30m"]
    terminal.done(*REMINDER, "--in", "1h", *unusual, "--first-step", "fill a glass")
    shown = terminal.done("reminder", "show", "dentist")
    for line in (
        "  sent        as written, no model involved",
        "  heads-up    30 min before",
        "  kind        a dose, answered with Taken or Skipped",
        "  again       every 10 min until you answer, at most 4 times",
        "  first step  fill a glass",
    ):
        assert line in shown.splitlines()
    assert "(dose, nag 10m x 4)" in terminal.done("reminder", "list")


def test_without_quiet_hours_an_interval_says_that_it_would_come_at_night(
    terminal: Terminal,
) -> None:
    words = ("routine", "add", "drink water", "--id", "water", "--every")
    code, out, error = terminal.run(*words, "2 hours")
    assert (code, out) == (2, "")
    assert "would come at night too. Write `every 2 hours between 8am and 9pm` or" in error
    assert "2 hours day and night" in error
    assert "every 2 hours from 8:00 to 20:00" in terminal.done(*words, "2 hours from 8 to 21")
    edited = ("routine", "edit", "water", "--every", "every hour")
    assert terminal.run(*edited)[0] == 2
    assert "every hour." in terminal.done(*edited[:-1], "every hour day and night")
    assert "every 30 min" in terminal.done(*words[:2], "look", "--agent", "--every", "30 minutes")
