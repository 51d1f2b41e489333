"""The time zone of the runtime configuration has priority, and a change reports what moves."""

from __future__ import annotations

import pytest
from tests.cli.terminal import Terminal

pytestmark = pytest.mark.real_process


def test_the_answer_says_what_moves(terminal: Terminal) -> None:
    terminal.done("routine", "add", "-m", "Take the pills", "--every", "day at 9")
    terminal.done("routine", "add", "-m", "Walk", "--every", "day at 17")
    told = terminal.done("config", "set", "timezone", "Asia/Tokyo").splitlines()
    assert told == [
        "timezone is now Asia/Tokyo (it was Europe/Berlin). It is 22:30 there.",
        "Next by the new clock:",
        "- Take the pills: tomorrow 9:00 (it would have come tomorrow 17:00)",
        "- Walk: tomorrow 17:00 (it would have come tomorrow 1:00)",
        "Jumped over, so it comes late or is told as missed: Walk (today 17:00).",
    ]
    assert terminal.done("config", "set", "timezone", "Asia/Tokyo") == (
        "timezone is Asia/Tokyo already.\n"
    )


def test_another_name_for_the_same_clock_moves_nothing(terminal: Terminal) -> None:
    terminal.done("routine", "add", "-m", "Walk", "--every", "day at 17")
    assert terminal.done("config", "set", "timezone", "Arctic/Longyearbyen") == (
        "timezone is now Arctic/Longyearbyen (it was Europe/Berlin). It is 14:30 there. "
        "That is the same as before, so nothing moves.\n"
    )


def test_the_chosen_zone_wins_over_the_settings_until_it_is_taken_back(terminal: Terminal) -> None:
    terminal.done("reminder", "add", "-m", "Call", "--in", "2h")
    terminal.done("config", "set", "timezone", "America/New_York")
    assert "today 10:30" in terminal.done("reminder", "list")
    terminal.environ["OLLIM_TIMEZONE"] = "Asia/Tokyo"
    assert "today 10:30" in terminal.done("reminder", "list")
    terminal.environ["OLLIM_TIMEZONE"] = "Europe/Berlin"
    back = terminal.done("config", "unset", "timezone").splitlines()[0]
    assert back == (
        "timezone is now Europe/Berlin, its default (it was America/New_York). It is 14:30 there."
    )
    assert "today 16:30" in terminal.done("reminder", "list")
    assert terminal.done("config", "set", "timezone", "default") == (
        "timezone is Europe/Berlin, its default already.\n"
    )


def test_a_wrong_name_changes_nothing_and_creates_nothing(terminal: Terminal) -> None:
    answer = terminal.run("config", "set", "timezone", "Tokyo")
    assert answer.code == 2
    assert "Did you mean Asia/Tokyo?" in answer.err
    assert list(terminal.home.iterdir()) == []


def test_a_reminder_for_a_time_of_day_follows_and_an_exact_moment_stays(terminal: Terminal) -> None:
    terminal.done("reminder", "add", "-m", "Call mom", "--at", "tomorrow 9:00")
    terminal.done("reminder", "add", "-m", "Tea", "--in", "1h")
    told = terminal.done("config", "set", "timezone", "America/New_York")
    assert "- Call mom: tomorrow 9:00 (it would have come tomorrow 3:00)" in told
    assert "Tea" not in told
    listed = terminal.done("reminder", "list")
    assert "tomorrow 9:00" in listed
    assert "today 9:30" in listed
