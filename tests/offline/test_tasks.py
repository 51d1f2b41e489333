"""The built-in model adds tasks, lists them and ticks them off, or changes nothing."""

from __future__ import annotations

import shlex

import pytest
from tests.offline.test_actions import TOOLS, did
from tests.offline.test_rules import answer, said

from ollim_bot.offline.actions import LIST_TASKS
from ollim_bot.offline.server import CallTool, Message, Say

STAMP = "[2026-11-16 Mon 10:15 AM UTC]\n\n"
LISTED = (
    "0a0a0a0a  pay the rent · overdue since yesterday\n"
    "1b1b1b1b  buy a card · due Fri 20 Nov, with notes\n"
    "2c2c2c2c  buy milk\n"
)


def conversation(text: str, listed: str = LISTED) -> tuple[list[list[str]], str]:
    """The commands of a turn, without the listing, and its final text."""
    messages: list[Message] = [said(f"{STAMP}{text}")]
    commands: list[list[str]] = []
    while True:
        (part,) = answer(*messages, tools=TOOLS)
        if isinstance(part, Say):
            return commands, part.text
        assert isinstance(part, CallTool)
        words = shlex.split(str(part.arguments["command"]))[1:]
        if part != LIST_TASKS:
            commands.append(words)
        messages += did(part, listed if part == LIST_TASKS else "Task ended: it.\nid 3d3d3d3d")


@pytest.mark.parametrize(
    ("text", "title", "due"),
    [
        ("add a task: buy a card", "buy a card", ""),
        ("Add a task to call the dentist", "call the dentist", ""),
        ("new task: water the ferns", "water the ferns", ""),
        ("todo: water the ferns", "water the ferns", ""),
        ("can you add a task to buy milk, due friday?", "buy milk", "friday"),
        ("add a task: pay the rent (due 2026-11-20)", "pay the rent", "2026-11-20"),
        ("add a task: send the form by tomorrow", "send the form", "tomorrow"),
        ("add a task to call mum tomorrow", "call mum", "tomorrow"),
        ("put buy stamps on my to-do list", "buy stamps", ""),
        ("add milk to my tasks, due fri", "milk", "fri"),
        ("add a task: read the book by Ursula", "read the book by Ursula", ""),
        ("add a task: -f is a flag", "-f is a flag", ""),
    ],
)
def test_a_task_is_added_in_the_owners_words(text: str, title: str, due: str) -> None:
    commands, words = conversation(text)
    flags = [f"--due={due}"] if due else []
    assert commands == [["tasks", "add", *flags, "--", title]]
    assert words == "Task ended: it."


@pytest.mark.parametrize(
    ("text", "title", "flags"),
    [
        ("add milk to the shopping list", "milk", ["--list=shopping"]),
        (
            "put sun cream on my packing list, due friday",
            "sun cream",
            ["--due=friday", "--list=packing"],
        ),
        ("add milk to my to-do list", "milk", []),
        ("add milk to the list", "milk", []),
        ("put cleaning on my list of things to do", "cleaning", []),
    ],
)
def test_a_list_is_chosen_by_its_name(text: str, title: str, flags: list[str]) -> None:
    assert conversation(text)[0] == [["tasks", "add", *flags, "--", title]]


TWO_IN_ONE = "0a0a0a0a  eggs and bread\n1b1b1b1b  buy a card\n"


@pytest.mark.parametrize("words", ["I've bought the eggs", "done with the eggs", "tick off bread"])
def test_a_task_of_two_things_is_not_done_when_one_of_them_is(words: str) -> None:
    commands, asked = conversation(words, TWO_IN_ONE)
    assert commands == []
    assert "“eggs and bread”. Is all of it done?" in asked


@pytest.mark.parametrize(
    "words",
    ["done with 0a0a0a0a", "I've bought the eggs and bread", "done with the bread and eggs"],
)
def test_a_task_of_two_things_is_done_when_both_are(words: str) -> None:
    assert conversation(words, TWO_IN_ONE)[0] == [["tasks", "done", "0a0a0a0a"]]


@pytest.mark.parametrize(
    "words", ["add eggs and remove cheese to my list", "add a task: eggs, and cancel the gym"]
)
def test_a_task_and_an_order_are_asked_about(words: str) -> None:
    commands, asked = conversation(words)
    assert commands == []
    assert "more than one thing" in asked


def test_a_named_list_is_shown_alone() -> None:
    commands, words = conversation("show me my shopping list")
    assert commands == [["tasks", "list", "--list", "shopping"]]
    assert words == "No task is open. Write `add a task: buy a card`."


def test_a_part_of_a_task_can_be_ticked_off() -> None:
    commands, _ = conversation("done with the cake", "0a0a0a0a  party\n1b1b1b1b    buy a cake\n")
    assert commands == [["tasks", "done", "1b1b1b1b"]]


@pytest.mark.parametrize(
    "text", ["what are my tasks", "list my tasks", "show me my to-do list", "what do I have to do?"]
)
def test_open_tasks_are_listed_without_ids(text: str) -> None:
    commands, words = conversation(text)
    assert commands == []
    assert words == (
        "Tasks:\n- pay the rent · overdue since yesterday\n"
        "- buy a card · due Fri 20 Nov, with notes\n- buy milk"
    )
    empty = "No open tasks. Add one: ollim-bot tasks add x"
    assert conversation(text, empty)[1].startswith("No task is open.")


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("done with the rent", ["done", "0a0a0a0a"]),
        ("I'm done with the card task", ["done", "1b1b1b1b"]),
        ("tick off buy milk", ["done", "2c2c2c2c"]),
        ("mark the rent as done", ["done", "0a0a0a0a"]),
        ("done with 2c2c2c2c", ["done", "2c2c2c2c"]),
        ("delete the milk task", ["delete", "2c2c2c2c"]),
        ("remove milk from my to-do list", ["delete", "2c2c2c2c"]),
    ],
)
def test_the_one_task_that_is_meant_is_settled(text: str, command: list[str]) -> None:
    commands, words = conversation(text)
    assert commands == [["tasks", *command]]
    assert words.startswith("Task ended")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("done with buy", "Several could be meant. Nothing was done."),
        ("done with the laundry", "There is no open task about laundry. Nothing was done."),
        ("add a task", "What is the task? Nothing was done."),
        ("add a task: it", "What is the task? Nothing was done."),
        ("add a task: pay the rent due sometime", "is not exact"),
        ("add a task: buy milk\nadd a task: buy eggs", "That may be more than one thing."),
    ],
)
def test_what_is_not_clear_changes_nothing_and_says_why(text: str, words: str) -> None:
    commands, said_words = conversation(text)
    assert commands == []
    assert words in said_words
