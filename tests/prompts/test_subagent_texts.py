"""The texts of the five subagents name commands that exist and that each may use."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.cli.terminal import Terminal

from ollim_bot.domain.permissions import Pattern, is_covered
from ollim_bot.domain.runs import Subagent
from ollim_bot.paths import DataPaths
from ollim_bot.store.data_directory import prepare_data_directory
from ollim_bot.store.owner_files import SubagentFiles
from ollim_bot.tools.registry import MAIN_TOOLS, OWN_TOOLS

NAMES = (
    "gmail-reader",
    "history-reviewer",
    "ollim-bot-guide",
    "responsiveness-reviewer",
    "user-proxy",
)


@pytest.fixture(params=NAMES)
def subagent(request: pytest.FixtureRequest, tmp_path: Path) -> Subagent:
    paths = DataPaths(tmp_path / "data")
    prepare_data_directory(paths)
    return SubagentFiles(paths).read().known[request.param]


def commands(subagent: Subagent) -> list[str]:
    spans = re.findall(r"`([^`]+)`", subagent.instructions)
    return [span for span in spans if span.startswith("ollim-bot ")]


def test_every_command_exists_and_is_allowed_to_it(subagent: Subagent, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    for command in commands(subagent):
        assert subagent.pattern_for("Bash", {"command": command}, "/") is not None, command
        _, noun, *rest = shlex.split(command)
        if rest:
            verb, *arguments = rest
            page = terminal.done("help", noun, verb)
            flags = [word for word in arguments if word.startswith("--")]
            assert [flag for flag in flags if flag not in page] == [], command
        else:
            terminal.done(noun)


def test_every_tool_exists_and_is_allowed_to_it(subagent: Subagent) -> None:
    ours = {tool.name: tool.full_name for tools in OWN_TOOLS.values() for tool in tools}
    named = [name for name in ours if f"`{name}`" in subagent.instructions]
    assert [name for name in named if subagent.pattern_for(ours[name], {}, "/") is None] == []


def test_it_goes_nowhere_beyond_the_conversation(subagent: Subagent) -> None:
    main = [Pattern.of(text) for text in MAIN_TOOLS]
    assert subagent.tools
    assert [str(each) for each in subagent.tools if not is_covered(each, main)] == []


def test_it_is_short_and_says_what_to_answer(subagent: Subagent) -> None:
    assert len(subagent.instructions) < 1800
    assert len(subagent.description) < 220
    assert "Your answer goes to the agent that asked" in subagent.instructions
