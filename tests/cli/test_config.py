"""Runtime settings are checked before they are stored, and are shown with their default."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from tests.cli.terminal import Terminal

from ollim_bot.domain.runtime_config import CONFIG_KEYS, LISTED_KEYS

pytestmark = pytest.mark.real_process


def stored(terminal: Terminal) -> dict[str, object]:
    if not terminal.paths.config.exists():
        return {}
    kept: dict[str, object] = json.loads(terminal.paths.config.read_text())
    kept.pop("version")
    return kept


def test_a_list_shows_what_each_setting_does(terminal: Terminal) -> None:
    lines = terminal.done("config", "list").splitlines()
    assert [line.split()[0] for line in lines] == list(LISTED_KEYS)
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
        pytest.param(
            ["set", "bg_concurrency", "50"],
            "bg_concurrency: '50' is not right. It takes a number from 1 to 16.",
            id="wrong value",
        ),
        pytest.param(
            ["set", "bg-concurency", "5"],
            "There is no setting `bg-concurency`. Did you mean `bg_concurrency`?",
            id="near key",
        ),
        pytest.param(
            ["get", "colour"],
            "There is no setting `colour`. `ollim-bot config list` shows them all.",
            id="unknown key",
        ),
        pytest.param(
            ["unset", "colour"],
            "There is no setting `colour`. `ollim-bot config list` shows them all.",
            id="unknown key to unset",
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
