"""Shells complete commands, verbs, flags, words and ids, and never evaluate completed text."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from select import select

import pytest
from tests.terminal import PROGRAM, Terminal, is_here

from ollim_bot.kernel.values.agent_caller import CALLED_BY, CONVERSATION
from ollim_bot.surfaces.terminal.completion import escaped
from ollim_bot.surfaces.terminal.main import GROUPS

LONG = 60.0
SHELLS = ("bash", "zsh", "fish")
HOSTILE = "$(touch here) `touch here` 'a' \"b\" \x1b[31m\x07\t;touch here"


def offered(terminal: Terminal, *line: str) -> dict[str, str]:
    """The completions of the last word of the line, with their descriptions."""
    kind, *lines = terminal.done("completion", "ask", "zsh", *line).splitlines()
    assert kind in ("", "words", "files")
    return dict(line.split("\t") for line in lines)


def flags_in_help(terminal: Terminal, *command: str) -> set[str]:
    return set(re.findall(r"--[a-z-]+", terminal.done(*command, "--help").partition("example")[0]))


@pytest.fixture
def jobs(terminal: Terminal) -> Terminal:
    reminder = f"id: hostile\nrun-at: 2030-01-01T09:00\ndescription: {json.dumps(HOSTILE)}"
    terminal.write("routines/a.md", '---\nid: plants\ncron: "0 9 * * *"\n---\nwater the plants\n')
    terminal.write("reminders/b.md", f"---\n{reminder}\n---\nx\n")
    terminal.write("tasks.md", "- [ ] buy milk\n")
    return terminal


def commands(terminal: Terminal) -> dict[str, str]:
    """All commands of the help, with their descriptions."""
    return dict(re.findall(r"^  ([a-z-]+) {2,}(.*)$", terminal.done("help"), re.MULTILINE))


def test_every_command_of_the_help_is_offered_with_its_words(terminal: Terminal) -> None:
    assert offered(terminal, "") == commands(terminal)
    assert [*offered(terminal, "rem")] == ["reminder"]
    assert [*offered(terminal, "help", "rem")] == ["reminder"]


@pytest.mark.parametrize("noun", [each for each in GROUPS if is_here(each)])
def test_every_verb_and_flag_of_the_help_is_offered(terminal: Terminal, noun: str) -> None:
    overview = terminal.done(noun, "--help").partition("examples:")[0]
    verbs = re.findall(r"^  ([\w-]+) ", overview, re.MULTILINE)
    assert [*offered(terminal, noun, "")] == verbs
    assert [*offered(terminal, "help", noun, "")] == verbs
    for verb in verbs:
        assert set(offered(terminal, noun, verb, "--")) == flags_in_help(terminal, noun, verb)


def test_a_command_without_verbs_offers_its_flags(terminal: Terminal) -> None:
    for command in {*commands(terminal)} - {*GROUPS, "help", "version"}:
        assert set(offered(terminal, command, "--")) == flags_in_help(terminal, command)


def test_asking_does_nothing(terminal: Terminal) -> None:
    for command in commands(terminal):
        for verb in ([], *([each] for each in offered(terminal, command, ""))):
            for word in ("", "-", "x", "help", "--help"):
                said = terminal.done("completion", "ask", "zsh", command, *verb, word)
                assert said.startswith(("words\n", "files\n", "\n"))
    assert list(terminal.home.iterdir()) == []


def test_ids_are_offered_with_their_titles(jobs: Terminal) -> None:
    assert offered(jobs, "routine", "show", "") == {"plants": "water the plants"}
    assert offered(jobs, "routine", "edit", "--late", "run", "p") == {"plants": "water the plants"}
    assert set(offered(jobs, "runs", "--job", "")) == {"plants", "hostile"}
    ((task, title),) = offered(jobs, "tasks", "done", "").items()
    assert (len(task), title) == (8, "buy milk")
    assert offered(jobs, "routine", "show", "plants", "") == offered(
        jobs, "routine", "show", "plants", "--"
    )


def test_a_title_is_one_line_without_signs_that_a_terminal_obeys(jobs: Terminal) -> None:
    (about,) = offered(jobs, "reminder", "snooze", "").values()
    assert about.isprintable()
    assert about.startswith("$(touch here) `touch here` 'a' \"b\" ?[31m? ;touch here")


def test_words_that_a_flag_takes_are_offered(terminal: Terminal) -> None:
    assert [*offered(terminal, "routine", "add", "--late", "")] == ["run", "skip", "tell"]
    assert [*offered(terminal, "routine", "add", "--late=s")] == ["--late=skip"]
    assert [*offered(terminal, "history", "search", "--who", "")] == ["owner", "bot", "job"]
    assert [*offered(terminal, "reminder", "add", "--timezone", "Europe/Berl")] == ["Europe/Berlin"]
    assert "cron" in offered(terminal, "routine", "edit", "x", "--clear", "")
    assert [*offered(terminal, "setup", "disc")] == ["discord"]
    assert [*offered(terminal, "setup", "--timezone", "Europe/Berl")] == ["Europe/Berlin"]
    assert offered(terminal, "reminder", "add", "-m", "") == {}


def test_a_flag_is_offered_once_unless_it_may_be_repeated(terminal: Terminal) -> None:
    found = offered(terminal, "routine", "add", "text", "--late", "run", "--skill", "a", "--")
    assert "--late" not in found
    assert "--skill" in found


def test_keys_and_their_words_are_offered(terminal: Terminal) -> None:
    keys = offered(terminal, "config", "set", "")
    assert keys["model.main"] == "the model that answers you"
    assert [*offered(terminal, "config", "set", "model.main", "")] == [
        *("opus", "sonnet", "haiku", "default")
    ]
    assert [*offered(terminal, "config", "set", "permission-mode", "acc")] == ["acceptEdits"]
    assert [*offered(terminal, "config", "set", "timezone", "Europe/Berl")] == ["Europe/Berlin"]
    assert offered(terminal, "config", "set", "no_such_key", "") == {}


def test_a_place_for_a_file_is_left_to_the_shell(terminal: Terminal) -> None:
    for line in (["skill", "add", ""], ["messages", "export", "--output", "x"]):
        assert terminal.done("completion", "ask", "zsh", *line) == "files\n"


def test_the_agent_learns_nothing_by_it(jobs: Terminal) -> None:
    jobs.environ |= {CALLED_BY: CONVERSATION}
    assert jobs.done("completion", "ask", "zsh", "routine", "show", "") == "\n"


@pytest.mark.parametrize(
    ("line", "replaced", "words"),
    [
        ("ollim-bot rem", "rem", ["reminder"]),
        ("ollim-bot routine add 'two words' --late=s", "s", ["skip"]),
        ('ollim-bot routine add "an open quote --late', '"an open quote --late', []),
        (r"ollim-bot routine show pla\n", r"pla\n", ["plants"]),
        (
            "ollim-bot reminder add --timezone America/Argentina/Buenos_A",
            "America/Argentina/Buenos_A",
            ["America/Argentina/Buenos_Aires"],
        ),
        ("ollim-bot 'routine' show ", "", ["plants"]),
    ],
)
def test_bash_gives_its_line_and_gets_what_it_replaces(
    jobs: Terminal, line: str, replaced: str, words: list[str]
) -> None:
    assert jobs.done("completion", "ask", "bash", line, replaced).splitlines()[1:] == words


def test_how_to_get_it_is_one_sentence_for_the_shell_in_use(terminal: Terminal) -> None:
    terminal.environ |= {"SHELL": "/usr/bin/fish"}
    sentence = "Put this line at the end of ~/.config/fish/config.fish, and open a new terminal:"
    assert terminal.done("completion") == f"{sentence}\nollim-bot completion fish | source\n"
    terminal.environ |= {"SHELL": "/bin/tcsh"}
    assert "ollim-bot completion bash, zsh or fish" in terminal.refused("completion")


@contextmanager
def shell_in(terminal: Terminal, shell: str) -> Iterator[int]:
    """An interactive shell in a pseudo-terminal, with the completion script loaded.

    In this shell `ollim-bot` prints its arguments as the shell has parsed them.
    """
    options = {"bash": ["--norc", "-i"], "zsh": ["-f", "-i"], "fish": ["--no-config"]}[shell]
    environ = terminal.environ | {"PATH": f"{PROGRAM.parent}:/usr/bin:/bin", "TERM": "dumb"}
    child, ours = pty.fork()
    if child == 0:
        os.chdir(terminal.home)
        os.execve(str(shutil.which(shell)), [shell, *options], environ)
    load = (
        "ollim-bot completion fish | source"
        if shell == "fish"
        else f'eval "$(ollim-bot completion {shell})"'
    )
    define = (
        "function ollim-bot; printf '<%s>' $argv; end"
        if shell == "fish"
        else "ollim-bot() { printf '<%s>' \"$@\"; }"
    )
    try:
        os.write(ours, f"{load}; {define}; echo rea''dy\n".encode())
        seen(ours, "ready\r\n")
        yield ours
    finally:
        os.close(ours)
        os.waitpid(child, 0)


def seen(terminal: int, text: str) -> None:
    """Wait until the terminal has shown the text."""
    shown = ""
    while text not in shown:
        assert select([terminal], [], [], LONG)[0], f"{text!r} did not come: {shown!r}"
        shown += os.read(terminal, 4096).decode(errors="replace")


@pytest.mark.real_process
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_and_evaluates_nothing(jobs: Terminal, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    folder = "a $(touch here) folder"
    (jobs.home / folder).mkdir()
    with shell_in(jobs, shell) as terminal:
        for typed, shown in (
            ("routine sh\tpl\t\n", "<routine><show><plants>"),
            ("reminder snooze \t\n", "<reminder><snooze><hostile>"),
            ("skill add a\t\n", f"<skill><add><{folder}"),
        ):
            os.write(terminal, f"ollim-bot {typed}".encode())
            seen(terminal, shown)
    assert not (jobs.home / "here").exists()


@pytest.mark.real_process
def test_a_word_with_signs_of_the_shell_is_escaped_for_bash() -> None:
    words = ["plain-word_1.2/x@y", "Wörk 1", "$(touch here)", "a'b\"c`d`;&|<>~*?[]{}!#\\"]
    for word in words:
        assert shlex.split(escaped(word)) == [word]
        ran = subprocess.run(
            ["bash", "-c", f"printf %s {escaped(word)}"], capture_output=True, text=True, check=True
        )
        assert ran.stdout == word


@pytest.mark.real_process
@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_right_for_its_shell(terminal: Terminal, shell: str) -> None:
    script = terminal.done("completion", shell)
    assert "eval" not in script
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.real_process
def test_a_script_names_the_file_of_its_program(terminal: Terminal) -> None:
    program = shlex.quote(str(PROGRAM))
    assert f"{program} completion ask" in terminal.installed("completion", "bash").out
