"""The command that a timer runs: silent without work, and clear about what it did."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest
from devtools.localntfy.server import LocalNtfy
from tests.terminal import SUNDAY, Terminal

from ollim_bot.features.install.service import SYSTEMD, ServiceDefinition, Supervisor
from ollim_bot.features.phone.push_file import PushFile
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.store.questions import look_into
from ollim_bot.kernel.upkeep.hand_over import MaintenanceKind, maintenance
from ollim_bot.kernel.values.push import Pairing

WATER = '---\nid: water\nrun-at: "2026-11-15T14:29:30+01:00"\n---\nDrink water.\n'


@pytest.fixture
def after_crash(terminal: Terminal) -> Terminal:
    """The bot ran until 14:20 and crashed; a reminder is due since 14:29:30."""
    prepare_data_directory(terminal.paths)
    begun = SUNDAY - timedelta(hours=1)
    terminal.keep(lambda tx: tx.presence.change(lambda old: old.begun(begun, None)))
    HeartbeatFile(terminal.paths).write(SUNDAY - timedelta(minutes=10))
    terminal.environ["PATH"] = str(terminal.home / "bin")
    terminal.write("reminders/water.md", WATER)
    return terminal


def fake_notifier(terminal: Terminal, program: str = "notify-send", code: int = 0) -> Path:
    """Install a fake notification program, and return the file that records its arguments."""
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


@pytest.mark.real_process
@pytest.mark.parametrize("program", ["notify-send", "osascript"])
def test_it_says_what_it_delivered_once(after_crash: Terminal, program: str) -> None:
    shown = fake_notifier(after_crash, program)
    assert after_crash.done("sentinel") == "“Drink water” was delivered: notification.\n"
    assert "Drink water.\n" in shown.read_text()
    assert after_crash.run("sentinel") == (0, "", "")
    assert shown.read_text().count("Drink water.\n") == 1
    log = look_into(after_crash.paths, after_crash.now, lambda tx: tx.messages.page(10))
    assert log is not None
    assert [each.message.text for each in log] == ["Drink water."]
    assert "delivered by the sentinel" in after_crash.done("runs", "show", "water")


@pytest.mark.real_process
def test_what_it_did_in_json(after_crash: Terminal) -> None:
    fake_notifier(after_crash)
    said = after_crash.json("sentinel")
    assert said["bot"] == "silent"
    (one,) = said["delivered"]
    assert (one["title"], one["through"], one["kept_in"]) == (
        "Drink water",
        ["notification"],
        "ledger",
    )
    assert said["undelivered"] == []


@pytest.mark.real_process
def test_what_could_not_be_shown_is_an_error(after_crash: Terminal) -> None:
    fake_notifier(after_crash, code=1)
    assert after_crash.refused("sentinel", code=1) == (
        "“Drink water” is due and could not be shown: no channel is set up, and this machine "
        "cannot show a notification. It is kept, and the page shows it when the bot runs again.\n"
    )
    answer = after_crash.run("sentinel", "--json")
    assert (answer.code, answer.err) == (0, "")


def test_the_error_in_json_has_the_exit_code_too(after_crash: Terminal) -> None:
    answer = after_crash.run("sentinel", "--json")
    assert (answer.code, answer.err) == (1, "")
    assert [one["title"] for one in json.loads(answer.out)["undelivered"]] == ["Drink water"]


@pytest.mark.real_process
def test_the_supervisor_is_asked_and_the_bot_that_comes_back_is_left_to_it(
    after_crash: Terminal,
) -> None:
    shown, calls = fake_notifier(after_crash), after_crash.home / "calls"
    beat = after_crash.home / "beat"
    beat.write_text(f"{SUNDAY.isoformat()}\n")
    supervisor = after_crash.home / "bin" / "systemctl"
    script = [f'echo "$@" >> {calls}', f"/bin/cat {beat} > {after_crash.paths.heartbeat}"]
    supervisor.write_text("\n".join(["#!/bin/sh", *script]))
    supervisor.chmod(0o755)
    environment = {"OLLIM_DATA_DIR": str(after_crash.paths.root)}
    definition = ServiceDefinition((str(supervisor),), after_crash.paths.root, environment)
    for path, text in Supervisor(SYSTEMD, after_crash.environ).files(definition).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    HeartbeatFile(after_crash.paths).write(SUNDAY - timedelta(minutes=10))
    calls.unlink(missing_ok=True)
    assert after_crash.done("sentinel") == (
        "The bot was silent. The supervisor was asked to start it.\nThe bot is back.\n"
    )
    assert calls.read_text().splitlines()[-1] == "--user start ollim-bot.service"
    assert not shown.exists()


@pytest.mark.real_process
def test_an_update_in_progress_is_said(after_crash: Terminal) -> None:
    shown = fake_notifier(after_crash)
    with maintenance(after_crash.paths, MaintenanceKind.UPDATE, after_crash.now):
        after_crash.done("sentinel")
    assert "The bot is being updated; this came from its watch." in shown.read_text()
    assert after_crash.paths.sentinel.exists()


@pytest.mark.real_process
def test_wrong_settings_cost_discord_only(after_crash: Terminal) -> None:
    after_crash.environ["OLLIM_WEB_PORT"] = "no port"
    fake_notifier(after_crash)
    answer = after_crash.run("sentinel")
    assert answer.code == 0
    assert "note: the settings are wrong, so Discord is left out." in answer.err


async def test_a_paired_phone_gets_it_with_its_buttons_also_with_other_wrong_settings(
    after_crash: Terminal,
) -> None:
    after_crash.environ["OLLIM_WEB_PORT"] = "no port"
    async with LocalNtfy() as ntfy:
        PushFile(after_crash.paths).write(Pairing(ntfy.url, "out", "replies", SUNDAY))
        answer = await asyncio.to_thread(after_crash.run, "sentinel")
        assert (answer.code, answer.out) == (0, "“Drink water” was delivered: your phone.\n")
        again = await asyncio.to_thread(after_crash.run, "sentinel")
        assert (again.code, again.out) == (0, "")
        (push,) = ntfy.published("out")
    assert (push.title, push.text, [each["label"] for each in push.actions]) == (
        "Drink water.",
        "The bot does not answer; this came from its watch.",
        ["Done", "10 min", "1 h"],
    )
    nonces = [str(each["body"]) for each in push.actions]
    known = look_into(
        after_crash.paths,
        after_crash.now,
        lambda tx: [tx.push_buttons.find(each) for each in nonces],
    )
    assert known is not None
    assert all(known)


def test_a_flag_that_is_not_there_is_refused(terminal: Terminal) -> None:
    assert "--now" in terminal.refused("sentinel", "--now")
