"""Which subagents can be started, and what their calls are limited to."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ollim_bot.domain.jobs import JobSpec, Reminder
from ollim_bot.domain.permissions import Pattern
from ollim_bot.domain.runs import Run, RunPolicy, Subagent, Subagents
from ollim_bot.ports import Gate, ToolCall
from ollim_bot.tools import texts
from ollim_bot.tools.gates import Abilities, BackgroundTools, main_gate
from ollim_bot.tools.guards import SubagentGuard
from ollim_bot.tools.path_rules import PathPolicy
from ollim_bot.tools.registry import DEFAULT_BG_TOOLS

NOW = datetime(2026, 2, 24, 10, 15, tzinfo=UTC)
MAIL = "Bash(ollim-bot gmail *)"


def subagent(name: str, *tools: str) -> Subagent:
    limits = tuple(map(Pattern.of, tools)) if tools else None
    return Subagent(name, "Does it.", "You do it.", tools=limits)


KNOWN = Subagents(
    {
        one.name: one
        for one in (
            subagent("helper"),
            subagent("mail", MAIL, "Read(./**.md)"),
            subagent("house", "mcp__home__*"),
            subagent("user-proxy", "Read(./**.md)"),
        )
    }
)


@pytest.fixture
def in_main(path_policy: PathPolicy) -> Gate:
    return main_gate(path_policy, subagents=SubagentGuard(lambda: KNOWN))


def in_background(path_policy: PathPolicy, *allowed: str) -> Gate:
    tools = BackgroundTools(
        path_policy, lambda: DEFAULT_BG_TOOLS, abilities=Abilities(lambda: KNOWN)
    )
    job = Reminder(JobSpec(id="abc", message="Look.", allowed_tools=allowed), NOW)
    return tools.gate(Run(RunPolicy.of_job(job, (*DEFAULT_BG_TOOLS, *allowed)), NOW, job=job))


async def refused(gate: Gate, tool: str, by: str = "", /, **arguments: object) -> str:
    refusal = await gate(ToolCall(tool, arguments, by))
    return refusal.reason if refusal else ""


async def started(gate: Gate, name: str, tool: str = "Agent", **more: object) -> str:
    return await refused(gate, tool, prompt="x", subagent_type=name, **more)


@pytest.mark.parametrize("tool", ["Agent", "Task"])
async def test_known_subagents_can_be_started_everywhere(
    path_policy: PathPolicy, in_main: Gate, tool: str
) -> None:
    for gate in (in_main, in_background(path_policy)):
        assert await started(gate, "mail", tool) == ""


async def test_no_other_can(path_policy: PathPolicy, in_main: Gate) -> None:
    assert await started(in_main, "general-purpose") == (
        "There is no subagent `general-purpose`. There are `helper`, `mail`, `house`."
    )
    assert "There is no subagent ``." in await refused(in_main, "Agent", prompt="x")
    assert "`user-proxy`" in await started(in_background(path_policy), "fork")
    nothing_known = main_gate(path_policy)
    assert "Do it yourself" in await started(nothing_known, "mail")


async def test_the_owner_is_asked_rather_than_guessed_at_where_that_is_possible(
    path_policy: PathPolicy, in_main: Gate
) -> None:
    assert "ask the owner" in await started(in_main, "user-proxy")
    assert await started(in_background(path_policy), "user-proxy") == ""


async def test_a_subagent_gets_no_copy_of_the_folder(in_main: Gate) -> None:
    for isolation in ("worktree", "remote", ["worktree"]):
        assert await started(in_main, "mail", isolation=isolation) == texts.SAME_FOLDER


async def test_a_subagent_starts_no_other(path_policy: PathPolicy, in_main: Gate) -> None:
    for gate in (in_main, in_background(path_policy)):
        reason = await refused(gate, "Agent", "helper", subagent_type="mail", prompt="x")
        assert reason == texts.ONE_BELOW_ANOTHER


async def test_a_subagent_does_what_its_file_allows_and_no_more(in_main: Gate) -> None:
    assert await refused(in_main, "Bash", "mail", command="ollim-bot gmail unread") == ""
    assert await refused(in_main, "Read", "mail", file_path="note.md") == ""
    assert await refused(in_main, "Bash", "mail", command="ollim-bot reminder list") == (
        f"`Bash` with these arguments is not for `mail`. What it may use: `{MAIL}`, "
        "`Read(./**.md)`."
    )
    assert "is not for `mail`" in await refused(
        in_main, "WebFetch", "mail", url="https://a.example"
    )
    assert "is not for `mail`" in await refused(in_main, "mcp__discord__add_reminder", "mail")


async def test_without_a_limit_of_its_own_it_is_judged_like_its_caller(
    path_policy: PathPolicy, in_main: Gate
) -> None:
    note, secret = "note.md", ".env"
    assert await refused(in_main, "Write", "helper", file_path=note, content="x") == ""
    assert ".env is protected" in await refused(in_main, "Read", "helper", file_path=secret)
    silent = in_background(path_policy)
    assert await refused(silent, "Read", "helper", file_path=note) == ""
    assert "not available in background" in await refused(silent, "Write", "helper", file_path=note)


async def test_it_has_no_more_than_the_run_that_started_it(path_policy: PathPolicy) -> None:
    unread = {"command": "ollim-bot gmail unread"}
    reason = await refused(in_background(path_policy), "Bash", "mail", **unread)
    assert f"the job needs `{MAIL}` in its `allowed-tools`" in reason
    assert await refused(in_background(path_policy, MAIL), "Bash", "mail", **unread) == ""


async def test_what_the_job_needs_for_it_is_the_whole_name_of_a_servers_tool(
    path_policy: PathPolicy,
) -> None:
    reason = await refused(in_background(path_policy), "mcp__home__lamp", "house")
    assert "the job needs `mcp__home__lamp` in its `allowed-tools`" in reason
    silent = in_background(path_policy, "mcp__home__lamp")
    assert await refused(silent, "mcp__home__lamp", "house") == ""


async def test_the_pings_of_a_run_are_not_for_a_subagent_with_limits(
    path_policy: PathPolicy,
) -> None:
    gate = in_background(path_policy)
    assert "is not for `mail`" in await refused(gate, "mcp__discord__ping_user", "mail")
    assert await refused(gate, "mcp__discord__ping_user", "helper") == ""


async def test_an_unknown_caller_may_do_nothing(path_policy: PathPolicy, in_main: Gate) -> None:
    for gate in (in_main, in_background(path_policy)):
        reason = await refused(gate, "Read", "stranger", file_path="note.md")
        assert reason == "There is no subagent `stranger`. Do it yourself."
