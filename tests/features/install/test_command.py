"""`ollim-bot update` in a terminal: what it says, and its exit codes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.features.install.fake_installation import NEW, OLD, Checkout, FakeInstallation
from tests.terminal import Terminal

from ollim_bot.kernel.store.opening import open_database

pytestmark = pytest.mark.real_process


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeInstallation:
    """Let this process look like a program that pip has installed."""
    found = FakeInstallation(tmp_path)
    environment = found.environment()
    monkeypatch.setattr(sys, "prefix", str(environment))
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    return found


@pytest.fixture
def terminal(fake: FakeInstallation) -> Terminal:
    made = Terminal(fake.home)
    made.paths = fake.paths
    made.environ |= fake.environ
    fake.paths.state.mkdir(parents=True, mode=0o700)
    open_database(fake.paths, lambda: made.now, is_holder=True, report=print).close()
    return made


def test_a_check_says_what_would_happen_and_what_is_new(
    fake: FakeInstallation, terminal: Terminal
) -> None:
    said = terminal.done("update", "--check")
    assert said.startswith(
        f"{NEW} is there; this is {OLD}, installed by pip in {fake.home / 'env'}.\n"
        f"`ollim-bot update` installs {NEW} beside this version, makes a backup, and goes on as "
        f"{NEW}. If that does not start, this version goes on with your data as they were.\n"
    )
    assert said.endswith("## 0.13.0\n\n- new\n")
    assert not fake.paths.update.exists()
    fake.newest = str(OLD)
    fake.write_plan()
    assert terminal.done("update", "--check") == f"Version {OLD} is the newest one.\n"
    assert terminal.done("update") == f"Version {OLD} is the newest one.\n"


def test_a_check_of_a_clone_says_what_cannot_be_proved(
    fake: FakeInstallation, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = Checkout(fake)
    checkout.release(NEW)
    monkeypatch.setattr(sys, "prefix", str(checkout.environment))
    assert terminal.done("update", "--check").endswith(
        "\n\nThis version's tag is not signed; it is trusted because it comes from the address "
        "your clone came from.\n"
    )


def test_the_outcome_is_the_last_line_and_the_exit_code(
    fake: FakeInstallation, terminal: Terminal
) -> None:
    fake.behaviour[str(NEW)] = "start"
    fake.write_plan()
    answer = terminal.run("update")
    assert answer.code == 1
    assert answer.out.splitlines()[-1] == f"Starting {NEW} on your data …"
    assert answer.err == (
        f"Version {NEW} did not start, so {OLD} goes on with all data as it was: "
        "A fault in the program stopped the bot.\n"
    )
    fake.behaviour.clear()
    fake.write_plan()
    assert terminal.done("update").splitlines()[-1] == f"Updated from {OLD} to {NEW}."
    assert terminal.done("update") == f"Version {NEW} is the newest one.\n"


@pytest.mark.real_engine
def test_the_doctor_says_how_it_is_installed_and_how_the_last_update_went(
    fake: FakeInstallation, terminal: Terminal
) -> None:
    def found() -> list[str]:
        lines = terminal.run("doctor").out.splitlines()
        return [line for line in lines if line[6:].startswith("update: ")]

    terminal.environ["OLLIM_WEB_PORT"] = "0"
    terminal.environ["OLLIM_MODEL"] = "offline"
    del terminal.environ["DISCORD_TOKEN"]
    assert found() == [f"PASS  update: {OLD}, installed by pip in {fake.home / 'env'}"]
    fake.write_plan(full=True)
    assert terminal.run("update").code == 1
    assert found()[0].startswith("WARN  update: today 14:30: No update to 0.13.0; 0.12.0 goes on: ")
