"""The gate of the main session lets through what the policy allows and no guard objects to."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from tests.tools.house import House

from ollim_bot.agent import ToolCall
from ollim_bot.domain.tool_policy import Pattern
from ollim_bot.tools.main_gate import main_gate
from ollim_bot.tools.reach import Reach


def known(_: str) -> Sequence[str]:
    return ["93.184.215.14"]


async def refused(reach: Reach, tool: str, /, **arguments: object) -> str:
    refusal = await main_gate(reach, resolver=known)(ToolCall(tool, arguments))
    return refusal.reason if refusal else ""


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"file_path": "note.md"}),
        ("Read", {"file_path": "spec.md"}),
        ("Write", {"file_path": "notes/new.md", "content": "x"}),
        ("Edit", {"file_path": "routines/daily.md", "old_string": "a", "new_string": "b"}),
        ("Glob", {"pattern": "**/*.md"}),
        ("Grep", {"pattern": "x", "glob": "*.md"}),
        ("Bash", {"command": "ollim-bot reminder list"}),
        ("Bash", {"command": "ollim-bot routine add -m 'x; y' --cron '0 9 * * *'"}),
        ("Bash", {"command": "ollim-bot help"}),
        ("WebFetch", {"url": "https://example.com/", "prompt": "x"}),
        ("WebSearch", {"query": "x"}),
        ("Agent", {"prompt": "x"}),
        ("Skill", {"skill": "mail"}),
        ("mcp__discord__add_reminder", {"prompt": "x"}),
        ("mcp__docs__search_docs", {"query": "x"}),
    ],
)
async def test_what_the_main_session_is_for_passes(
    reach: Reach, tool: str, arguments: dict[str, object]
) -> None:
    assert await refused(reach, tool, **arguments) == ""


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("Read", {"file_path": "state/token.json"}, "state/ is protected."),
        ("Read", {"file_path": "/etc/passwd"}, "outside the data directory"),
        ("Read", {"file_path": "notes.txt"}, "allowed: `Read(./**.md)`, `Read(./downloads/**)`."),
        ("Write", {"file_path": "notes/x.py"}, "allowed: `Write(./**.md)`."),
        ("Write", {"file_path": ".claude/agents/x.md"}, ".claude/ is protected."),
        ("Grep", {"pattern": "x"}, "protected files"),
        ("Grep", {"pattern": "x", "path": "routines"}, "allowed: `Grep(./**.md)`."),
        ("Bash", {"command": "ls notes"}, "`Bash(ollim-bot reminder *)`"),
        ("Bash", {"command": "ollim-bot config"}, "`Bash` is not allowed here"),
        ("Bash", {"command": "ollim-bot help; ls"}, "one plain command"),
        ("WebFetch", {"url": "http://localhost:8421"}, "on this machine"),
        ("TodoWrite", {}, "`TodoWrite` is not allowed here."),
        ("mcp__other__x", {}, "`mcp__other__x` is not allowed here."),
        ("MultiEdit", {"file_path": "note.md"}, "`MultiEdit` is not allowed here."),
    ],
)
async def test_a_refusal_says_why_and_what_to_do(
    reach: Reach, tool: str, arguments: dict[str, object], words: str
) -> None:
    assert words in await refused(reach, tool, **arguments)


async def test_a_subagent_is_judged_like_everybody(reach: Reach) -> None:
    gate = main_gate(reach)
    assert await gate(ToolCall("Read", {"file_path": ".env"}, by_subagent=True)) is not None
    assert await gate(ToolCall("Read", {"file_path": "note.md"}, by_subagent=True)) is None


async def test_no_pattern_opens_what_is_protected(reach: Reach) -> None:
    names = ("Read", "Write", "Grep", "Glob", "LS", "Bash(cat *)", "WebFetch")
    gate = main_gate(reach, allowed=lambda: [Pattern.of(name) for name in names])
    for tool, arguments in (
        ("Read", {"file_path": "state/token.json"}),
        ("Write", {"file_path": "tool-policy.yaml"}),
        ("Grep", {"pattern": "x"}),
        ("Glob", {"pattern": "**/*"}),
        ("LS", {"path": "state"}),
        ("Bash", {"command": "cat state/token.json"}),
        ("WebFetch", {"url": "http://127.0.0.1"}),
    ):
        assert await gate(ToolCall(tool, arguments)) is not None
    assert await gate(ToolCall("Bash", {"command": "cat note.md"})) is None
    assert await gate(ToolCall("Grep", {"pattern": "x", "path": "notes"})) is None


async def test_a_change_of_the_policy_counts_at_once(reach: Reach) -> None:
    allowed = [Pattern.of("WebSearch")]
    gate = main_gate(reach, allowed=lambda: allowed)
    assert await gate(ToolCall("Skill", {"skill": "x"})) is not None
    allowed.append(Pattern.of("Skill"))
    assert await gate(ToolCall("Skill", {"skill": "x"})) is None


async def test_a_data_directory_behind_a_link_has_the_same_paths(house: House) -> None:
    (house.home / "linked").symlink_to("data")
    gate = main_gate(Reach(house.home / "linked"))
    for place in (house.data, house.home / "linked"):
        assert await gate(ToolCall("Read", {"file_path": str(place / "note.md")})) is None


async def test_nothing_waits_for_the_disk_or_the_network(reach: Reach) -> None:
    """On the event loop, that is."""
    threads: list[int] = []

    def resolver(_: str) -> Sequence[str]:
        threads.append(threading.get_ident())
        return []

    gate = main_gate(reach, resolver=resolver)
    assert await gate(ToolCall("WebFetch", {"url": "https://example.com/"})) is None
    assert threads != [threading.get_ident()]
