"""With pipes, devices and endless files instead of files, the program answers at once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.patience import patience
from tests.terminal import CommandResult, Terminal

HUGE = 1_500_000_000


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_huge(path: Path) -> None:
    path.touch()
    os.truncate(path, HUGE)


def answered(terminal: Terminal, *words: str) -> CommandResult:
    began = time.monotonic()
    answer = terminal.installed(*words)
    assert time.monotonic() - began < patience()
    assert "Traceback" not in answer.err
    return answer


@pytest.mark.parametrize("place", ["start", "data"])
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (os.mkfifo, "not a regular file"),
        (make_device, "not a regular file"),
        (make_huge, "larger than 1 MB"),
    ],
)
def test_settings_that_are_no_file_are_one_sentence_and_exit_code_2(
    terminal: Terminal, place: str, make: Callable[[Path], None], reason: str
) -> None:
    path = terminal.paths.env_file if place == "data" else terminal.home / ".env"
    path.parent.mkdir(exist_ok=True)
    make(path)
    expected = f"{path}: cannot be read ({reason}). Make it a text file of yours, or move it.\n"
    assert terminal.run() == CommandResult(2, "", expected)
    # Without a zone in the environment, a listing has to look into the file too.
    del terminal.environ["OLLIM_TIMEZONE"]
    assert terminal.run("reminder", "list") == CommandResult(2, "", expected)


@pytest.mark.real_process
def test_no_file_of_the_data_directory_can_hold_up_a_command(terminal: Terminal) -> None:
    """All files are pipes at the same time, wherever a pipe can be."""
    terminal.environ["OLLIM_MODEL"] = "offline"  # the login is looked at elsewhere
    terminal.done("reminder", "add", "-m", "call the dentist", "--in", "1h")
    paths = terminal.paths
    for path in (
        paths.gitignore,
        paths.identity,
        paths.user,
        paths.tool_policy,
        paths.bot_pid,
        paths.config,
        paths.reminders / "pipe.md",
        paths.routines / "pipe.md",
        paths.skills / "evil" / "SKILL.md",
    ):
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    make_huge(paths.reminders / "huge.md")
    answer = answered(terminal, "reminder", "list")
    assert "call the dentist" in answer.out
    assert "reminders/pipe.md: is not a file" in answer.err
    assert "reminders/huge.md: is larger than 1000000 bytes" in answer.err
    answer = answered(terminal, "doctor")
    assert answer.code == 1
    for sentence in (
        "routines/pipe.md: is not a file",
        "tool-policy.yaml: it is not a file",
        "state/config.json cannot be read: not a regular file",
        "skills/evil/SKILL.md",
        ".gitignore is not a regular file",
    ):
        assert sentence in answer.out
    added = answered(terminal, "reminder", "add", "-m", "buy milk", "--in", "2h")
    assert added.code == 0
    assert ".gitignore is not a regular file. Move it away" in added.err
