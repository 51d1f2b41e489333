"""The installed program as a process: it starts quickly and behaves well in a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.terminal import Terminal

from ollim_bot import __version__
from ollim_bot.kernel.store.files import FileLock

pytestmark = pytest.mark.real_process

ADD = ("reminder", "add", "-m", "call the dentist", "--in", "20m", "--id", "x")


def fifty_jobs(terminal: Terminal) -> None:
    for number in range(50):
        name = f"job-{number}"
        day = f"2030-01-{number % 28 + 1:02}"
        terminal.write(f"reminders/{name}.md", f"---\nid: {name}\nrun-at: {day}T09:00\n---\nx\n")
        terminal.write(
            f"routines/{name}.md", f'---\nid: {name}\ncron: "{number} 9 * * *"\n---\nx\n'
        )


def test_the_program_answers_with_its_exit_codes(terminal: Terminal) -> None:
    assert terminal.installed("--version") == (0, f"ollim-bot {__version__}\n", "")
    assert terminal.installed("reminder", "show", "x").code == 1
    assert terminal.installed("reminder", "show").code == 2


def test_the_module_is_the_program(terminal: Terminal) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "ollim_bot", "version"],
        env=terminal.environ,
        cwd=terminal.home,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == f"ollim-bot {__version__}\n"


@pytest.mark.parametrize("words", [["help"], ["reminder", "list"], ["reminder", "add", "-h"]])
def test_a_reader_that_goes_away_is_no_failure(terminal: Terminal, words: list[str]) -> None:
    """The case of `ollim-bot reminder list | head`."""
    fifty_jobs(terminal)
    read, write = os.pipe()
    os.close(read)
    answer = terminal.installed(*words, stdout=write)
    os.close(write)
    assert (answer.code, answer.err) == (0, "")


def test_a_command_is_done_although_nobody_reads_its_answer(terminal: Terminal) -> None:
    read, write = os.pipe()
    os.close(read)
    assert terminal.installed(*ADD, stdout=write).code == 0
    os.close(write)
    assert terminal.json("reminder", "show", "x")["message"] == "call the dentist"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_an_answer_that_cannot_be_written_is_a_failure_in_one_line(terminal: Terminal) -> None:
    with open("/dev/full", "w") as full:
        answer = terminal.installed("help", stdout=full)
    assert answer.code == 1
    assert answer.err == "The answer could not be written: No space left on device.\n"


def test_a_terminal_without_the_letters_of_a_text_still_gets_an_answer(terminal: Terminal) -> None:
    terminal.environ |= {"PYTHONIOENCODING": "ascii"}
    answer = terminal.installed("reminder", "add", "-m", "Zahnärztin 🦷", "--in", "20m")
    assert answer.code == 0
    assert r"Zahn\xe4rztin \U0001f9b7" in answer.out


def has_come_to(lock: Path, child: subprocess.Popen[str]) -> bool:
    """True once the process has opened the lock; False if it ended before."""
    opened = Path(f"/proc/{child.pid}/fd")
    while child.poll() is None:
        with suppress(FileNotFoundError):
            if any(os.path.realpath(link) == str(lock) for link in opened.iterdir()):
                return True
    return False


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="no /proc here")
def test_a_change_waits_for_another_process_and_then_builds_on_its_work(terminal: Terminal) -> None:
    terminal.done(*ADD)
    path = terminal.paths.reminders / "call-the-dentist.md"
    lock = terminal.paths.locks / "reminders"
    with FileLock(lock).held():
        change = terminal.start("reminder", "pause", "x")
        assert has_come_to(lock, change)
        path.write_text(path.read_text().replace("id: x", "id: x  # theirs"))
    change.communicate(timeout=60)
    assert change.returncode == 0
    assert "id: x  # theirs" in path.read_text()
    assert "enabled: false" in path.read_text()


def test_programs_that_start_at_once_on_a_new_machine_lose_nothing(terminal: Terminal) -> None:
    terminal.is_new_machine = True
    names = [f"job-{number}" for number in range(3)]
    words = ("reminder", "add", "-m", "the same text", "--in", "1h", "--id")
    started = [terminal.start(*words, name) for name in names]
    answers = [child.communicate(timeout=60) for child in started]
    assert [child.returncode for child in started] == [0] * 3, answers
    listed = terminal.json("reminder", "list")
    assert sorted(job["id"] for job in listed["reminders"]) == names
    assert len({job["file"] for job in listed["reminders"]}) == 3


def test_without_git_everything_works_and_a_note_says_so(terminal: Terminal) -> None:
    nowhere = terminal.home / "bin"
    nowhere.mkdir()
    child = subprocess.run(
        [Path(sys.executable).with_name("ollim-bot"), *ADD, "--json"],
        env=terminal.environ | {"PATH": str(nowhere)},
        cwd=terminal.home,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(child.stdout)["id"] == "x"
    notes = child.stderr.splitlines()
    assert all(note.startswith("note: ") for note in notes)
    assert "git was not found" in child.stderr
