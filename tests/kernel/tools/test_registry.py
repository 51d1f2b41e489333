"""What follows from the declarations of the tools: policies, effects, places of use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.terminal import Terminal

from ollim_bot.kernel.tools.registry import (
    DEFAULT_BG_TOOLS,
    MAIN_TOOLS,
    OWN_TOOLS,
    TOOL_LINES,
    TOOLS,
    changes_something,
)
from ollim_bot.kernel.tools.tool_context import EVERYWHERE, EngineTool

OWN = [tool for tools in OWN_TOOLS.values() for tool in tools]


def test_the_conversation_may_use_these_tools_without_being_asked() -> None:
    assert set(MAIN_TOOLS) == {
        "Bash(ollim-bot tasks *)", "Bash(ollim-bot cal *)", "Bash(ollim-bot gmail *)",
        "Bash(ollim-bot reminder *)", "Bash(ollim-bot routine *)", "Bash(ollim-bot runs *)",
        "Bash(ollim-bot history *)", "Bash(ollim-bot rehearse *)", "Bash(ollim-bot doctor)",
        "Bash(ollim-bot skill list)", "Bash(ollim-bot webhook list)", "Bash(ollim-bot help)",
        "Read(./**.md)", "Write(./**.md)",
        "Edit(./**.md)", "Glob(./**.md)", "Grep(./**.md)", "Read(./downloads/**)", "WebFetch",
        "WebSearch", "Task", "Agent", "Skill", "mcp__discord__*", "mcp__docs__*",
    }  # fmt: skip


def test_background_runs_may_use_these_tools_by_default() -> None:
    assert set(DEFAULT_BG_TOOLS) == {
        "Read(./**.md)", "Glob(./**.md)", "Grep(./**.md)", "Bash(ollim-bot help)",
        "Bash(ollim-bot tasks *)", "mcp__discord__add_reminder", "mcp__discord__list_reminders",
        "mcp__discord__cancel_reminder", "mcp__docs__*",
    }  # fmt: skip


@pytest.mark.parametrize(
    "tool",
    [
        "Read", "Glob", "Grep", "WebFetch", "WebSearch", "Skill", "Agent", "mcp__docs__search_docs",
        "mcp__docs__read_doc", "mcp__discord__list_reminders",
    ],
)  # fmt: skip
def test_reading_leaves_no_effect(tool: str) -> None:
    assert not changes_something(tool)


@pytest.mark.parametrize(
    "tool",
    [
        "Write", "Edit", "Bash", "mcp__discord__ping_user", "mcp__discord__add_reminder",
        "mcp__discord__cancel_reminder", "mcp__discord__update_names", "mcp__other__read", "Other",
    ],
)  # fmt: skip
def test_every_other_call_counts_as_an_effect(tool: str) -> None:
    assert changes_something(tool)


def test_a_tool_that_is_not_for_every_run_says_so_elsewhere() -> None:
    assert [tool.name for tool in OWN if (tool.where == EVERYWHERE) is bool(tool.elsewhere)] == []


def test_no_two_tools_have_one_name() -> None:
    names = [tool.full_name for tool in TOOLS]
    assert len(names) == len(set(names))


def test_a_line_of_the_prompt_names_only_tools_that_are_offered() -> None:
    hidden = {tool.name for tool in TOOLS if isinstance(tool, EngineTool) and not tool.is_offered}
    assert [name for name in hidden for line in TOOL_LINES if f"`{name}`" in line] == []


def test_every_command_that_the_agent_may_run_exists(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    for pattern in MAIN_TOOLS:
        if command := re.match(r"Bash\(ollim-bot (\w+) \*\)", pattern):
            assert terminal.run("help", command[1]).code == 0, pattern
