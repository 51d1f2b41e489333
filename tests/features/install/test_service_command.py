"""`ollim-bot service`: what a person sees, and the real bot under a supervisor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.features.install.supervisors import FakeSystemd, write_bot
from tests.ports import unused_port
from tests.terminal import PROGRAM, CommandResult, InteractiveInput, Terminal, held

from ollim_bot.features.install.service import TIMER, UNIT
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.upkeep.hand_over import MaintenanceKind, maintenance

pytestmark = pytest.mark.real_process


class ServiceTerminal(Terminal):
    """A terminal with the real clock and a fake systemd."""

    def __init__(self, home: Path, manager: FakeSystemd) -> None:
        super().__init__(home)
        self.manager = manager
        self.environ |= {"PATH": str(manager.bin), "OLLIM_DATA_DIR": str(self.paths.root)}
        del self.environ["OLLIM_TIMEZONE"]

    def service(self, *words: str) -> CommandResult:
        return self.run("service", *words, now=lambda: datetime.now(UTC))

    def set_bot_behaviour(self, *words: str) -> None:
        self.write("how", " ".join(words))

    @property
    def units(self) -> list[str]:
        return sorted(path.name for path in self.manager.folder.glob("*.*") if path.is_file())


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[ServiceTerminal]:
    home = tmp_path / "home"
    home.mkdir()
    manager = FakeSystemd(tmp_path / "stand-in", home)
    with manager.open():
        yield ServiceTerminal(home, manager)


@pytest.fixture
def stub(shell: ServiceTerminal, monkeypatch: pytest.MonkeyPatch) -> ServiceTerminal:
    """A terminal with a fake bot program, which starts quickly."""
    monkeypatch.setattr(sys, "argv", [str(write_bot(shell.home / "bin"))])
    shell.paths.state.mkdir(parents=True)
    shell.set_bot_behaviour("alive")
    return shell


def test_the_real_bot_lives_as_a_service(shell: ServiceTerminal) -> None:
    """From installation to removal: started, watched, stopped."""
    port = unused_port()
    shell.write(".env", f"OLLIM_WEB_PORT={port}\nOLLIM_MODEL=offline\nOLLIM_TIMEZONE=UTC\n")
    installed = shell.service("install")
    assert installed.code == 0, installed
    assert "ExecStart=" in installed.out
    assert "The bot is running, as process" in installed.out
    told = json.loads(shell.service("status", "--json").out)
    first = told["service_process"]
    assert told["alive"]
    assert first == told["bot_process"] == running_pid(shell.paths.bot_pid)

    assert shell.manager.elapse(TIMER) == 0, shell.manager.log.read_text()

    status = shell.service("status")
    assert (status.code, status.err) == (0, "")
    assert "active (running)" in status.out
    assert status.out.endswith("\nThe bot is running.\n")
    assert shell.manager.services.starts(UNIT) == 1

    removed = shell.service("uninstall")
    assert removed.code == 0, removed
    assert "its data stays in ~/.ollim-bot" in removed.out
    assert shell.units == []
    assert "ollim-bot has stopped." in shell.manager.log.read_text()
    assert shell.service("uninstall") == CommandResult(0, "No service is installed.\n", "")


def test_install_shows_what_it_writes_and_says_what_is_left_to_do(stub: ServiceTerminal) -> None:
    stub.manager.may_linger = False
    answer = stub.service("install", "--yes")
    assert answer.code == 0, answer
    for name in (UNIT, TIMER, "ollim-bot-sentinel.service"):
        assert f"~/.config/systemd/user/{name}:\n  # Written by" in answer.out
    assert f"  ExecStart={stub.home}/bin/ollim-bot\n" in answer.out
    assert "note: The bot still ends when you log out. Run this once: sudo loginctl" in answer.err
    calls = len(stub.manager.calls)
    again = stub.service("install")
    assert again.code == 0
    assert again.out.startswith("The service is installed as it should be, and the bot lives")
    assert "sudo loginctl" in again.err
    asked = [words for words in stub.manager.calls[calls:] if words[0] == "systemctl"]
    assert all("show" in words for words in asked), "nothing was started anew"


def test_install_asks_in_a_terminal(stub: ServiceTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    for typed in ("n\n", "\n", ""):
        monkeypatch.setattr(sys, "stdin", InteractiveInput(typed))
        answer = stub.service("install")
        assert answer.code == 1
        assert answer.err.endswith("Nothing was changed.\n")
        assert "Write this and start the bot? [y/N]" in answer.out
        assert stub.units == []
    monkeypatch.setattr(sys, "stdin", InteractiveInput("y\n"))
    assert stub.service("install").code == 0
    assert len(stub.units) == 3


def test_a_bot_that_runs_already_is_only_stopped_if_the_person_agrees(
    stub: ServiceTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with held(stub.paths.bot_pid) as bot:
        answer = stub.service("install")
        assert answer.code == 1
        assert f"The bot runs already (process {bot.pid}), outside the service." in answer.err
        assert "or say --yes" in answer.err
        monkeypatch.setattr(sys, "stdin", InteractiveInput("y\nn\n"))
        assert stub.service("install").err.endswith("Nothing was changed.\n")
        assert stub.units == []
        status = stub.service("status")
        assert status.code == 1
        assert f"(process {bot.pid}), outside the service. No service is installed." in status.err
        assert bot.poll() is None
        monkeypatch.setattr(sys, "stdin", InteractiveInput("y\ny\n"))
        taken_over = stub.service("install")
        assert taken_over.code == 0, taken_over
        assert bot.wait() == -signal.SIGTERM


def test_what_the_service_would_not_see_is_refused_or_moved(
    stub: ServiceTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.environ |= {"DISCORD_TOKEN": "secret", "OLLIM_USER_NAME": "Ada"}
    answer = stub.service("install", "--yes")
    assert answer.code == 2
    assert "DISCORD_TOKEN (environment), OLLIM_USER_NAME (environment)" in answer.err
    assert "~/.ollim-bot/.env" in answer.err
    assert "secret" not in answer.out + answer.err
    monkeypatch.setattr(sys, "stdin", InteractiveInput("n\n"))
    answer = stub.service("install")
    assert (answer.code, answer.err) == (2, "Nothing was changed.\n")
    assert not stub.paths.env_file.exists()
    monkeypatch.setattr(sys, "stdin", InteractiveInput("y\ny\n"))
    assert stub.service("install").code == 0
    assert stub.paths.env_file.read_text() == "DISCORD_TOKEN=secret\nOLLIM_USER_NAME=Ada\n"
    assert stub.paths.env_file.stat().st_mode & 0o777 == 0o600


def test_what_fails_only_in_the_service_is_refused(stub: ServiceTerminal) -> None:
    stub.set_bot_behaviour("forgets")
    stub.environ |= {"OUTSIDE": "yes"}
    answer = stub.service("install", "--yes")
    assert answer.code == 1
    assert answer.err.endswith(
        "In the service this would be worse than here:\nmodel: broken. Mend it.\n"
    )
    assert stub.units == []


def test_status_and_logs_of_a_service_that_died(stub: ServiceTerminal) -> None:
    assert stub.service("status").err.startswith("No service is installed.")
    assert stub.service("logs").err.startswith("No service is installed.")
    stub.service("install", "--yes")
    stub.set_bot_behaviour("exit", "2")
    pid = running_pid(stub.paths.bot_pid)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    stub.manager.services.until(lambda: stub.manager.services.state(UNIT) == "failed")
    status = stub.service("status")
    assert status.code == 1
    assert "failed (failed), starts with the machine, stays after log-out" in status.out
    assert status.err.startswith("The bot does not run. `")
    told = stub.service("status", "--json")
    assert (told.code, told.err) == (1, "")
    assert json.loads(told.out)["alive"] is False
    command = [str(PROGRAM), "service", "logs", "-n", "1"]
    logs = subprocess.run(command, env=stub.environ, capture_output=True, text=True, check=True)
    assert logs.stdout == "hello from ['exit', '2']\n"
    assert stub.service("logs", "-n", "0").code == 2


def test_a_hand_in_the_unit_is_respected(stub: ServiceTerminal) -> None:
    stub.service("install", "--yes")
    unit = stub.manager.folder / UNIT
    unit.write_text(f"{unit.read_text()}# mine\n")
    answer = stub.service("install", "--yes")
    assert answer.code == 0
    assert f"{UNIT} was changed by hand. It is kept as {UNIT}.bak" in answer.err
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    answer = stub.service("uninstall")
    assert answer.code == 1
    assert "was not made by `" in answer.err
    assert unit.exists()


def test_a_service_of_another_data_directory_is_replaced_and_that_is_said(
    stub: ServiceTerminal,
) -> None:
    stub.service("install", "--yes")
    former = stub.paths
    stub.paths = DataPaths(stub.home / "other")
    stub.paths.state.mkdir(parents=True)
    stub.set_bot_behaviour("alive")
    stub.environ["OLLIM_DATA_DIR"] = str(stub.paths.root)
    answer = stub.service("install", "--yes")
    assert answer.code == 0, answer
    assert "The service runs the bot of ~/.ollim-bot" in answer.err
    assert running_pid(former.bot_pid) is None
    assert running_pid(stub.paths.bot_pid) == stub.manager.services.pid(UNIT)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be called by sudo")
def test_sudo_is_refused(stub: ServiceTerminal) -> None:
    stub.environ["SUDO_USER"] = "ada"
    assert stub.service("install").err.endswith("run this without sudo.\n")


def test_no_supervisor_and_an_update_in_progress_are_said(stub: ServiceTerminal) -> None:
    with maintenance(stub.paths, MaintenanceKind.UPDATE, datetime.now(UTC)):
        assert "Wait for the update" in stub.service("install", "--yes").err
    stub.manager.is_reachable = False
    answer = stub.service("install", "--yes")
    assert (answer.code, answer.out) == (1, "")
    assert "log in as this user" in answer.err
    stub.environ["PATH"] = ""
    for verb in ("install", "uninstall", "status", "logs"):
        answer = stub.service(verb)
        assert answer.code == 1
        assert answer.err.startswith("This machine has neither systemd nor launchd")
