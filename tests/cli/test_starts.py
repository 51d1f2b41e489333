"""What a command loads over the data of two weeks: little, or it would start slowly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bench.commands import COMMANDS, SLOW, write_two_weeks
from bench.fixtures import environ_of

# How many of our modules each loads. These numbers may only fall.
MOST = {
    "reminder list": 34,
    "today": 59,
    "tasks list": 27,
    "routine list": 37,
    "cost": 48,
    "changes": 40,
    "runs": 49,
    "receipt": 50,
    "doses": 41,
    "history search words": 38,
    "config": 37,
    "--help": 14,
}
SCRIPT = """
import sys
from ollim_bot.cli.main import main
main(sys.argv[1:])
print()
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    write_two_weeks(home)
    return home


@pytest.mark.real_process
@pytest.mark.parametrize("command", ["reminder list", *COMMANDS])
def test_a_command_loads_only_what_it_answers_with(command: str, home: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, *command.split()],
        env=environ_of(home),
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
    *answer, loaded = ran.stdout.splitlines()
    assert len(answer) > 2
    names = loaded.split()
    assert not {name.partition(".")[0] for name in names} & {*SLOW, "logging", "subprocess"}
    assert sum(name.partition(".")[0] == "ollim_bot" for name in names) <= MOST[command]
