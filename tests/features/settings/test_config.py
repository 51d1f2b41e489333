"""Runtime settings are checked before they are stored, and are shown with their default."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from tests.terminal import Terminal

from ollim_bot.kernel.values.runtime_config import CONFIG_KEYS


def stored(terminal: Terminal) -> dict[str, object]:
    if not terminal.paths.config.exists():
        return {}
    kept: dict[str, object] = json.loads(terminal.paths.config.read_text())
    kept.pop("version")
    return kept


def test_a_list_shows_what_each_setting_does(terminal: Terminal) -> None:
    lines = terminal.done("config", "list").splitlines()
    assert [line.split()[0] for line in lines] == list(CONFIG_KEYS)
    shown = [" ".join(line.split()) for line in lines]
    assert "bg_fork_timeout 1800 seconds how long a background run may take" in shown
    assert list(terminal.home.iterdir()) == []


def test_what_differs_from_its_default_is_marked(terminal: Terminal) -> None:
    terminal.done("config", "set", "bg_concurrency", "5")
    *settings, legend = terminal.done("config", "list").splitlines()
    assert legend == "* differs from the default"
    marked = [" ".join(line.split()) for line in settings if line.startswith("*")]
    assert marked == ["* bg_concurrency 5 how many background runs go on at once; default: 3"]


def make_older(terminal: Terminal, **values: object) -> None:
    """Make the directory look like one of a version without a daily limit."""
    record = json.dumps({"version": 1, **values})
    terminal.write("state/config.json", record)
    with closing(sqlite3.connect(terminal.paths.state / "ollim.db")) as database, database:
        database.execute("UPDATE records SET value = ? WHERE name = 'config'", (record,))
        database.execute("DELETE FROM meta WHERE name = 'daily_limit_notice'")


def test_a_new_directory_has_a_daily_limit_that_can_be_changed(terminal: Terminal) -> None:
    assert terminal.done("config", "get", "daily_cost_cap") == "5\n"
    terminal.done("config", "set", "daily_cost_cap", "none")
    assert stored(terminal) == {"daily_cost_cap": None}
    assert terminal.done("config", "get", "daily_cost_cap") == "none\n"
    terminal.done("config", "unset", "daily_cost_cap")
    assert stored(terminal) == {}
    assert terminal.done("config", "get", "daily_cost_cap") == "5\n"


@pytest.mark.parametrize("cap", ["none", "5", "2.5"])
def test_an_older_directory_keeps_its_limit_or_none(terminal: Terminal, cap: str) -> None:
    terminal.done("config", "set", "bg_concurrency", "4")
    own = {} if cap == "none" else {"daily_cost_cap": float(cap)}
    make_older(terminal, bg_concurrency=4, **own)
    terminal.done("config", "set", "bg_concurrency", "6")
    assert terminal.done("config", "get", "daily_cost_cap") == f"{cap}\n"
    assert terminal.json("config", "get", "daily_cost_cap")["default"] is None
    terminal.done("config", "unset", "daily_cost_cap")
    assert terminal.done("config", "get", "daily_cost_cap") == "none\n"
    assert stored(terminal) == {"bg_concurrency": 6, "made_before_daily_limit": True}


def test_json_tells_value_and_default_with_their_types(terminal: Terminal) -> None:
    terminal.done("config", "set", "google_calendars", "primary, work")
    terminal.done("config", "set", "auto_update", "on")
    listed = terminal.json("config", "list")
    assert listed.keys() == {"settings", "problems"}
    settings = {setting["key"]: setting for setting in listed["settings"]}
    assert list(settings) == list(CONFIG_KEYS)
    assert settings["google_calendars"]["value"] == ["primary", "work"]
    assert settings["auto_update"] == {
        "key": "auto_update",
        "value": True,
        "default": False,
        "takes": "on or off",
        "about": "install newer versions by itself, in the hour auto_update_hour",
    }
    assert terminal.json("config", "get", "auto_update") == settings["auto_update"]


def test_setting_and_unsetting_say_what_was_before(terminal: Terminal) -> None:
    say = terminal.done
    assert say("config", "get", "thinking.main") == "off\n"
    assert say("config", "set", "thinking.main", "4000") == (
        "thinking.main is now 4000 (it was off).\n"
    )
    assert stored(terminal) == {"thinking.main": 4000}
    assert say("config", "get", "thinking.main") == "4000\n"
    assert say("config", "set", "thinking.main", "4000") == "thinking.main is 4000 already.\n"
    assert say("config", "unset", "thinking.main") == (
        "thinking.main has its default again (it was 4000): off.\n"
    )
    assert (
        say("config", "unset", "thinking.main") == "thinking.main has its default already: off.\n"
    )
    assert stored(terminal) == {}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["set", "bg_concurrency", "50"],
            "bg_concurrency: '50' is not right. It takes a number from 1 to 16.",
        ),
        (
            ["set", "timezone", "Tokyo"],
            (
                "timezone: 'Tokyo' is not right. Did you mean Asia/Tokyo? "
                "It takes the name of a time zone such as Asia/Tokyo, or default."
            ),
        ),
        (
            ["set", "bg-concurency", "5"],
            "There is no setting `bg-concurency`. Did you mean `bg_concurrency`?",
        ),
        (
            ["get", "colour"],
            "There is no setting `colour`. `ollim-bot config list` shows them all.",
        ),
        (
            ["unset", "colour"],
            "There is no setting `colour`. `ollim-bot config list` shows them all.",
        ),
    ],
)
def test_what_is_wrong_is_refused_and_makes_nothing(
    terminal: Terminal, words: list[str], sentence: str
) -> None:
    assert terminal.refused("config", *words) == f"{sentence}\n"
    assert list(terminal.home.iterdir()) == []


def test_a_hyphen_is_as_good_as_an_underscore(terminal: Terminal) -> None:
    terminal.done("config", "set", "bg-concurrency", "5")
    assert terminal.done("config", "get", "bg_concurrency") == "5\n"


def test_a_wrong_stored_value_is_told_and_survives(terminal: Terminal) -> None:
    terminal.write("state/config.json", '{"version": 1, "bg_concurrency": 99, "auto_update": true}')
    terminal.paths.locks.mkdir()
    code, out, err = terminal.run("config", "get", "bg_concurrency")
    assert (code, out) == (0, "3\n")
    assert err.startswith("note: state/config.json: bg_concurrency: 99 is not right.")
    assert terminal.run("config", "list").err == err
    assert len(terminal.json("config", "list")["problems"]) == 1
    terminal.done("config", "set", "auto_update", "off")
    assert stored(terminal) == {"bg_concurrency": 99}


def test_another_time_zone_says_what_moves(terminal: Terminal) -> None:
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


def test_a_reminder_for_a_time_of_day_follows_and_an_exact_moment_stays(terminal: Terminal) -> None:
    terminal.done("reminder", "add", "-m", "Call mom", "--at", "tomorrow 9:00")
    terminal.done("reminder", "add", "-m", "Tea", "--in", "1h")
    told = terminal.done("config", "set", "timezone", "America/New_York")
    assert "- Call mom: tomorrow 9:00 (it would have come tomorrow 3:00)" in told
    assert "Tea" not in told
    listed = terminal.done("reminder", "list")
    assert "tomorrow 9:00" in listed
    assert "today 9:30" in listed
