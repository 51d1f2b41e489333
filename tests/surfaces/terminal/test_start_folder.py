"""The program runs no code from the folder where it is started, or where the agent works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.terminal import PROGRAM

from ollim_bot.kernel.base.environment import own_command, python_places
from ollim_bot.kernel.engine.launcher import engine_variables

pytestmark = pytest.mark.real_process

NAMES = ("ollim_bot", "json", "argparse", "datetime", "sitecustomize", "usercustomize", "errors")


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder with modules named like ours and Python's, which record that they were run."""
    folder = tmp_path / "trap"
    package = folder / "claude_agent_sdk" / "_bundled"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "claude").write_text(f"#!/bin/sh\ntouch {folder}/ran\n")
    (package / "claude").chmod(0o755)
    for name in NAMES:
        text = f"open({str(folder / 'ran')!r}, 'a').write({name!r})\nraise SystemExit(9)\n"
        (folder / f"{name}.py").write_text(text)
    return folder


def listed(command: list[str], trap: Path, environment: dict[str, str]) -> None:
    """Run a command that imports most modules; it must work as in an empty folder."""
    data = {"OLLIM_DATA_DIR": str(trap.parent / "data"), "OLLIM_TIMEZONE": "UTC"}
    ran = subprocess.run(
        [*command, "reminder", "list"],
        cwd=trap,
        env={"HOME": str(trap.parent), "PATH": os.environ["PATH"], **data, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert not (trap / "ran").exists(), (trap / "ran").read_text()
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_restart_takes_nothing_from_the_current_folder(trap: Path) -> None:
    listed(own_command(), trap, python_places({"PYTHONPATH": ":"}, str(trap.parent)))


def test_the_program_takes_nothing_from_the_current_folder(trap: Path) -> None:
    listed([str(PROGRAM)], trap, {})


def test_the_module_takes_nothing_more_from_the_current_folder_once_it_runs(trap: Path) -> None:
    """The person who runs `python -m` makes sure that the folder has no `ollim_bot` of its own."""
    for name in ("ollim_bot", "sitecustomize", "usercustomize"):
        (trap / f"{name}.py").unlink()
    listed([sys.executable, "-m", "ollim_bot"], trap, {})
    assert subprocess.run(
        [sys.executable, "-m", "ollim_bot", "doctor", "--json"],
        cwd=trap,
        env={"HOME": str(trap.parent), "PATH": os.environ["PATH"]},
        capture_output=True,
        check=False,
        timeout=60,
    ).stdout.startswith(b"{")
    assert not (trap / "ran").exists()


@pytest.mark.parametrize("slip", [":/nowhere", "/nowhere:", "/nowhere::/else", ".", ""])
def test_the_agents_commands_take_nothing_from_where_they_are_run(
    trap: Path, slip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run in the data directory, and an empty entry of a path means the current folder."""
    monkeypatch.chdir(trap.parent)
    inherited = {"PYTHONPATH": slip, "PATH": f".:{os.environ['PATH']}:"}
    environment = engine_variables({}, inherited, PROGRAM.parent)
    (trap / "ollim-bot").write_text(f"#!/bin/sh\ntouch {trap}/ran\n")
    (trap / "ollim-bot").chmod(0o755)
    listed(["/usr/bin/env", "ollim-bot"], trap, environment)


def test_an_honest_path_still_leads_where_it_led(tmp_path: Path) -> None:
    given = {"PYTHONPATH": "src:/opt/lib", "PYTHONUSERBASE": "base", "LANG": "C"}
    assert python_places(given, str(tmp_path)) == {
        "PYTHONPATH": f"{tmp_path}/src:/opt/lib",
        "PYTHONUSERBASE": f"{tmp_path}/base",
    }
    assert python_places({}, str(tmp_path)) == {}
