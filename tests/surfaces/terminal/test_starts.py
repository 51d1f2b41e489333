"""What a command loads over the data of two weeks: little, or it would start slowly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bench.commands import SLOW, write_two_weeks
from bench.fixtures import environ_of
from tests.test_architecture import HEAVY

# How many of our modules each loads, without their packages. These numbers may only fall.
MOST = {
    "reminder list": 34,
    "today": 58,
    "tasks list": 27,
    "routine list": 37,
    "cost": 48,
    "changes": 40,
    "runs": 49,
    "receipt": 49,
    "doses": 39,
    "history search words": 38,
    "config": 37,
    "--help": 11,
    "reminder list --json": 34,
    "completion ask zsh routine show": 37,
    "runs show p24": 48,
    "rehearse": 101,
    "web url": 31,
}
LISTINGS = ("reminder list", "routine list", *list(MOST)[-5:-3])
SCRIPT = """
import sys
from ollim_bot.surfaces.terminal.main import main
main(sys.argv[1:])
print()
print(*(name for name, each in sys.modules.items() if not hasattr(each, "__path__")))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    write_two_weeks(home)
    return home


@pytest.mark.real_process
@pytest.mark.parametrize("command", MOST)
def test_a_command_loads_only_what_it_answers_with(command: str, home: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, *command.split()],
        env=environ_of(home),
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    *answer, loaded = ran.stdout.splitlines()
    # No bot runs here whose page had an address.
    if command != "web url":
        assert (len(answer) > 1, ran.stderr) == (True, "")
    names = loaded.split()
    heavy = {*HEAVY, *SLOW, "markdown_it", "nh3", "subprocess"}
    if command in LISTINGS:
        heavy |= {"difflib", "random", "shutil", "tempfile"}
    if command in LISTINGS[:2]:
        heavy.add("argparse")
    assert not {name.partition(".")[0] for name in names} & heavy
    assert sum(name.partition(".")[0] == "ollim_bot" for name in names) <= MOST[command]
