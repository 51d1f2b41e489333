"""`ollim-bot tasks` with lists and with parts of tasks."""

from __future__ import annotations

import pytest
from tests.cli.terminal import Terminal
from tests.tasks.test_sections import FILE

from ollim_bot.domain.agent_caller import CALLED_BY

pytestmark = pytest.mark.real_process


def test_lists_and_parts_in_the_terminal(terminal: Terminal) -> None:
    terminal.make_directory()
    terminal.write("tasks.md", FILE)
    said = terminal.done("tasks", "add", "milk", "--list", "shopping")
    assert said.startswith("Task added: milk, on the list Shopping.\n")
    (milk,) = terminal.json("tasks", "list", "--list", "Shopping")["tasks"]
    assert (milk["title"], milk["list"]) == ("milk", "Shopping")
    assert terminal.done("tasks", "lists").splitlines() == ["tasks.md", "Home", "Shopping"]
    party, cake, kind = terminal.done("tasks", "list").splitlines()[:3]
    assert party.endswith("  plan the party · due Fri 20 Nov, with notes")
    assert cake.endswith("    buy a cake")
    assert kind.endswith("      ask what kind")
    said = terminal.done("completion", "ask", "zsh", "tasks", "list", "--list", "S")
    assert said.split() == ["words", "Shopping"]


def test_the_agent_may_make_a_list(terminal: Terminal) -> None:
    terminal.make_directory()
    terminal.environ[CALLED_BY] = "conversation"
    terminal.done("tasks", "add", "milk", "--list", "shopping")
    assert terminal.done("tasks", "lists").splitlines() == ["tasks.md", "shopping"]
