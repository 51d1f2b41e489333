"""The command that a timer runs: silent without work, and plain about what it did."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from tests.cli.terminal import SUNDAY, Terminal

from ollim_bot.store.data_directory import prepare_data_directory
from ollim_bot.store.heartbeat import HeartbeatFile
from ollim_bot.store.opening import look_into, open_database
from ollim_bot.upkeep.maintenance import MaintenanceKind, maintenance
from ollim_bot.upkeep.supervision import ServiceDefinition
from ollim_bot.upkeep.systemd import Systemd

WATER = '---\nid: water\nrun-at: "2026-11-15T14:29:30+01:00"\n---\nDrink water.\n'


@pytest.fixture
def dead(terminal: Terminal) -> Terminal:
    """A bot has run until 14:20, and a reminder is due since 14:29:30."""
    prepare_data_directory(terminal.paths)
    database = open_database(
        terminal.paths, lambda: terminal.now, is_holder=True, report=lambda _: None
    )
    begun = SUNDAY - timedelta(hours=1)
    database.run(lambda tx: tx.presence.change(lambda old: old.begun(begun, None)))
    database.close()
    HeartbeatFile(terminal.paths).write(SUNDAY - timedelta(minutes=10))
    terminal.environ["PATH"] = str(terminal.home / "bin")
    terminal.write("reminders/water.md", WATER)
    return terminal


def desktop(terminal: Terminal, program: str = "notify-send", code: int = 0) -> Path:
    """A stand-in for the program that shows notifications; gives the file with its words."""
    folder, shown = terminal.home / "bin", terminal.home / "shown"
    folder.mkdir(exist_ok=True)
    script = folder / program
    script.write_text(
        f'#!/bin/sh\nfor word in "$@"; do echo "$word"; done >> {shown}\nexit {code}\n'
    )
    script.chmod(0o755)
    return shown


def test_without_a_bot_or_with_one_that_beats_it_says_and_writes_nothing(
    terminal: Terminal,
) -> None:
    assert terminal.run("sentinel") == (0, "", "")
    assert not terminal.paths.root.exists()
    terminal.paths.state.mkdir(parents=True)
    HeartbeatFile(terminal.paths).write(SUNDAY - timedelta(seconds=20))
    assert terminal.run("sentinel") == (0, "", "")
    assert [each.name for each in terminal.paths.root.rglob("*")] == ["state", "heartbeat"]
    assert terminal.json("sentinel")["bot"] == "running"


def test_a_dead_bot_without_anything_due_is_no_news(dead: Terminal) -> None:
    (dead.paths.reminders / "water.md").unlink()
    assert dead.run("sentinel") == (0, "", "")


@pytest.mark.parametrize("program", ["notify-send", "osascript"])
def test_it_says_what_it_delivered_once(dead: Terminal, program: str) -> None:
    shown = desktop(dead, program)
    assert dead.done("sentinel") == "“Drink water” was delivered: notification.\n"
    assert "Drink water.\n" in shown.read_text()
    assert dead.run("sentinel") == (0, "", "")
    assert shown.read_text().count("Drink water.\n") == 1
    log = look_into(dead.paths, dead.now, lambda tx: tx.messages.page(10))
    assert log is not None
    assert [each.message.text for each in log] == ["Drink water."]
    assert "delivered by the sentinel" in dead.done("runs", "show", "water")


def test_words_of_a_reminder_are_no_flags_of_the_program_that_shows_them(dead: Terminal) -> None:
    dead.write("reminders/water.md", WATER.replace("Drink water.", "--icon=/etc/passwd"))
    shown = desktop(dead)
    dead.done("sentinel")
    assert shown.read_text().splitlines()[2:4] == ["--", "--icon=/etc/passwd"]


def test_what_it_did_in_json(dead: Terminal) -> None:
    desktop(dead)
    said = dead.json("sentinel")
    assert said["bot"] == "silent"
    (one,) = said["delivered"]
    assert (one["title"], one["through"], one["kept_in"]) == (
        "Drink water",
        ["notification"],
        "ledger",
    )
    assert said["undelivered"] == []


def test_what_could_not_be_shown_is_an_error(dead: Terminal) -> None:
    desktop(dead, code=1)
    assert dead.refused("sentinel", code=1) == (
        "“Drink water” is due and could not be shown: there is no Discord and no way to show a "
        "notification on this machine. It is kept, and the page shows it when the bot runs again.\n"
    )
    answer = dead.run("sentinel", "--json")
    assert (answer.code, answer.err) == (0, "")


def test_the_error_in_json_has_the_exit_code_too(dead: Terminal) -> None:
    answer = dead.run("sentinel", "--json")
    assert (answer.code, answer.err) == (1, "")
    assert [one["title"] for one in json.loads(answer.out)["undelivered"]] == ["Drink water"]


def test_the_supervisor_is_asked_and_the_bot_that_comes_back_is_left_to_it(
    dead: Terminal,
) -> None:
    shown, calls = desktop(dead), dead.home / "calls"
    beat = dead.home / "beat"
    beat.write_text(f"{SUNDAY.isoformat()}\n")
    supervisor = dead.home / "bin" / "systemctl"
    script = [f'echo "$@" >> {calls}', f"/bin/cat {beat} > {dead.paths.heartbeat}"]
    supervisor.write_text("\n".join(["#!/bin/sh", *script]))
    supervisor.chmod(0o755)
    environment = {"OLLIM_DATA_DIR": str(dead.paths.root)}
    definition = ServiceDefinition((str(supervisor),), dead.paths.root, environment)
    for path, text in Systemd(dead.environ).files(definition).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    HeartbeatFile(dead.paths).write(SUNDAY - timedelta(minutes=10))
    calls.unlink(missing_ok=True)
    assert dead.done("sentinel") == (
        "The bot was silent. The supervisor was asked to start it.\nThe bot is back.\n"
    )
    assert calls.read_text().splitlines()[-1] == "--user start ollim-bot.service"
    assert not shown.exists()


def test_an_update_in_progress_is_said(dead: Terminal) -> None:
    shown = desktop(dead)
    with maintenance(dead.paths, MaintenanceKind.UPDATE, dead.now):
        dead.done("sentinel")
    assert "The bot is being updated; this came from its watch." in shown.read_text()
    assert dead.paths.sentinel.exists()


def test_wrong_settings_cost_discord_only(dead: Terminal) -> None:
    dead.environ["OLLIM_WEB_PORT"] = "no port"
    desktop(dead)
    answer = dead.run("sentinel")
    assert answer.code == 0
    assert "note: the settings are wrong, so Discord is left out." in answer.err


def test_a_flag_that_is_not_there_is_refused(terminal: Terminal) -> None:
    assert "--now" in terminal.refused("sentinel", "--now")
