"""Output in a terminal: whole words, colour unless it is off, commands that can be typed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.features.runs.test_runs_command import append, row
from tests.terminal import PROGRAM, Terminal

from ollim_bot.kernel.base.environment import called_program
from ollim_bot.kernel.base.text import with_program
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.surfaces.terminal.printing import Style, painted, wrapped

SENTENCE = "The page cannot be opened. Run `ollim-bot web url`. Example: ollim-bot web url"


def seen(terminal: Terminal, *words: str, **environ: str) -> str:
    """What the installed program shows in a terminal of 80 columns."""
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with subprocess.Popen(
        [PROGRAM, *words],
        env=terminal.environ | {"PATH": os.environ["PATH"], "TERM": "xterm"} | environ,
        cwd=terminal.home,
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=its,
    ):
        os.close(its)
        shown = b""
        # Linux ends a terminal whose other side is closed by an error.
        while part := _read(own):
            shown += part
    os.close(own)
    return shown.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_a_line_is_broken_between_words_and_an_address_stays_whole() -> None:
    line = "  one two-three " + "x" * 50 + " four"
    assert wrapped(line, 40, "    ").splitlines() == [
        "  one two-three",
        "    " + "x" * 50,
        "    four",
    ]
    assert wrapped(line, None) == wrapped(line, 200) == line


@pytest.mark.terminal
@pytest.mark.parametrize(
    "words", [("config",), ("remindr",), ("reminder", "add", "--help"), ("rehearse",), ("runs",)]
)
def test_no_word_is_broken_at_80_columns(terminal: Terminal, words: tuple[str, ...]) -> None:
    prepare_data_directory(terminal.paths)
    append(terminal, *(_run_of(day, state) for day in (16, 17) for state in ("delivered", "done")))
    text = "start dinner, and take the bread out of the freezer before it is too late"
    terminal.write(
        "routines/dinner.md", f'---\nid: dinner\ncron: "0 18 * * *"\nmust: true\n---\n{text}\n'
    )
    assert_no_word_is_broken(seen(terminal, *words))


def _run_of(day: int, state: str) -> str:
    """One of several runs, the last step of which the sentinel did."""
    now = datetime.now(UTC).replace(microsecond=0)
    job = "put the bins out, and bring the empty ones of last week back in"
    name = f"routine:3f2a9c1b:2026-11-{day}T07:30:00Z"
    return row(now.isoformat(), name, state, job=job, by="sentinel", silent_because="it was night")


def assert_no_word_is_broken(shown: str) -> None:
    plainly = re.sub(r"\033\[\d+m", "", shown)
    too_long = [line for line in plainly.splitlines() if len(line) > 80]
    assert [line for line in too_long if " " in line.strip()] == []


@pytest.mark.real_engine
def test_the_doctor_is_in_colour_where_it_is_wanted(terminal: Terminal) -> None:
    terminal.environ["OLLIM_MODEL"] = "offline"  # the login is looked at elsewhere
    shown = seen(terminal, "doctor")
    assert "\033[32mPASS\033[0m" in shown
    assert_no_word_is_broken(shown)
    assert "\033" not in terminal.run("doctor").out


def test_colour_is_for_terminals_and_not_where_no_color_is_set(tmp_path: Path) -> None:
    own, its = pty.openpty()
    with open(its, "w") as screen, (tmp_path / "file").open("w") as file:
        colours = {"TERM": "xterm"}
        assert painted("PASS", Style.GREEN, screen, colours) == "\033[32mPASS\033[0m"
        assert painted("PASS", Style.GREEN, screen, {**colours, "NO_COLOR": "1"}) == "PASS"
        assert painted("PASS", Style.GREEN, screen, {"TERM": "dumb"}) == "PASS"
        assert painted("PASS", Style.GREEN, file, colours) == "PASS"
    os.close(own)


def test_a_command_is_named_as_it_can_be_typed_here(tmp_path: Path) -> None:
    called = tmp_path / "bin" / "ollim-bot"
    called.parent.mkdir()
    called.write_text("#!/bin/sh\n")
    called.chmod(0o700)
    home, beside = str(tmp_path), str(called.parent / "python")
    found = called_program(str(called), "/usr/bin/python", f"/nowhere:{called.parent}", home)
    assert with_program(SENTENCE, found) == SENTENCE
    elsewhere = called_program(".venv/bin/ollim-bot", "/usr/bin/python", "/nowhere", home)
    shown = with_program(SENTENCE, elsewhere)
    assert shown == SENTENCE.replace("ollim-bot", ".venv/bin/ollim-bot")
    assert with_program(shown, elsewhere) == shown
    assert with_program("ollim-bot has stopped.", "./ollim-bot") == "ollim-bot has stopped."
    assert called_program("/usr/bin/pytest", "/nowhere/python", "", home) == "ollim-bot"
    # A restarted bot was started as a module of its interpreter.
    assert called_program("ollim_bot/__main__.py", beside, "", home) == "bin/ollim-bot"
    assert called_program("ollim_bot/__main__.py", beside, "", "/") == str(called)


def test_every_command_is_named_as_it_can_be_typed(terminal: Terminal) -> None:
    commands = re.findall(r"^  ([a-z]+) {2,}\w", terminal.done("help"), re.MULTILINE)
    assert "setup" in commands
    typed = [with_program(f"Run `ollim-bot {name}`.", "bin/ollim-bot") for name in commands]
    assert typed == [f"Run `bin/ollim-bot {name}`." for name in commands]


@pytest.mark.terminal
def test_an_empty_list_names_a_command_that_works_here(terminal: Terminal) -> None:
    shown = " ".join(seen(terminal, "reminder", PATH="/usr/bin:/bin").split())
    assert f"Add one: {PROGRAM} reminder add" in shown
