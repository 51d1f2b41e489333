"""All tools of a run: who judges a call, what is noted of it, and when the run may end."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tools.server.tool_scene import EVERYWHERE, NOW, MakeToolScene, ToolScene, make_tool_scene

from ollim_bot.domain.ids import MessageId
from ollim_bot.domain.jobs import ReportMode
from ollim_bot.domain.runs import Run, RunKind, RunPolicy
from ollim_bot.ports import Refusal, Tool, ToolCall, Toolset
from ollim_bot.tools.toolset import toolset

DISCORD = (
    "add_reminder", "list_reminders", "cancel_reminder", "follow_up_chain", "settle_reminder",
    "break_down", "discord_embed", "send_file", "ping_user", "report_updates", "enter_fork",
    "exit_fork", "save_context", "update_names",
)  # fmt: skip
PARAMETERS = {
    "discord_embed": ["title*", "description", "color", "fields", "buttons", "job", "critical"],
    "ping_user": ["message*", "critical"],
    "send_file": ["file_path*", "message", "critical"],
    "report_updates": ["message*"],
    "enter_fork": ["topic", "idle_timeout"],
    "exit_fork": [],
    "save_context": [],
    "follow_up_chain": ["minutes_from_now*"],
    "settle_reminder": ["item*", "action*", "until"],
    "break_down": ["thing*", "steps*"],
    "add_reminder": [
        "prompt*", "delay_minutes", "timer", "run_at", "description", "foreground", "max_chain",
        "must", "plain", "nag", "first_step", "before", "kind",
    ],
    "list_reminders": [],
    "cancel_reminder": ["reminder_id*"],
    "update_names": ["user_name", "bot_name"],
    "search_docs": ["query*"],
    "read_doc": ["page*"],
}  # fmt: skip


async def nothing(_: ToolCall) -> Refusal | None:
    return Refusal("not available")


async def everything(_: ToolCall) -> Refusal | None:
    return None


def parameters(tool: Tool) -> list[str]:
    properties, required = tool.schema["properties"], tool.schema["required"]
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    assert tool.schema["additionalProperties"] is False
    return [f"{name}*" if name in required else name for name in properties]


async def let_through(tools: Toolset) -> set[str]:
    names = {f"mcp__discord__{name}": name for name in DISCORD}
    return {name for full, name in names.items() if await tools.gate(ToolCall(full, {})) is None}


def shown(scene: ToolScene) -> object:
    tools = toolset(scene.context, everything)
    servers = {
        name: [(tool.name, tool.description, tool.schema) for tool in some]
        for name, some in tools.servers.items()
    }
    return servers, tools.builtin


def test_the_tools_and_their_parameters_are_these(tool_scene: MakeToolScene) -> None:
    servers = toolset(tool_scene().context, everything).servers
    assert [tool.name for tool in servers["discord"]] == list(DISCORD)
    assert [tool.name for tool in servers["docs"]] == ["search_docs", "read_doc"]
    tools = (tool for some in servers.values() for tool in some)
    assert {tool.name: parameters(tool) for tool in tools} == PARAMETERS


def test_they_are_shown_alike_in_every_kind_of_run(tmp_path: Path) -> None:
    first, *others = [shown(make_tool_scene(tmp_path, kind)) for kind in EVERYWHERE]
    assert all(other == first for other in others)


@pytest.mark.parametrize("kind", EVERYWHERE)
async def test_the_policy_judges_every_call(tool_scene: MakeToolScene, kind: RunKind) -> None:
    assert await let_through(toolset(tool_scene(kind).context, nothing)) == set()
    assert await let_through(toolset(tool_scene(kind).context, everything)) == set(DISCORD)


async def test_the_tools_of_the_engine_are_always_judged(tool_scene: MakeToolScene) -> None:
    tools = toolset(tool_scene().context, nothing)
    for name in tools.builtin:
        assert await tools.gate(ToolCall(name, {})) == Refusal("not available")


async def test_calls_that_were_let_through_are_noted_in_the_run_of_the_turn(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene()
    first, tools = at.run, toolset(at.context, everything)
    await tools.gate(ToolCall("mcp__discord__ping_user", {}))
    await toolset(at.context, nothing).gate(ToolCall("Read", {}))
    at.context.run = Run(first.policy, NOW)
    await tools.gate(ToolCall("mcp__discord__send_file", {}))
    assert first.tools_used == ["mcp__discord__ping_user"]
    assert at.run.tools_used == ["mcp__discord__send_file"]


@pytest.mark.parametrize(
    ("tool", "has_effects"), [("Read", False), ("mcp__docs__read_doc", False), ("Write", True)]
)
async def test_a_run_that_changed_something_has_effects(
    tool_scene: MakeToolScene, tool: str, has_effects: bool
) -> None:
    at = tool_scene()
    assert await toolset(at.context, nothing).gate(ToolCall(tool, {})) is not None
    assert not at.run.has_effects
    assert await toolset(at.context, everything).gate(ToolCall(tool, {})) is None
    assert at.run.has_effects is has_effects


async def test_a_run_that_owes_a_report_is_sent_back_twice_at_most(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene(report=ReportMode.ALWAYS)
    tools = toolset(at.context, nothing)
    said = [await tools.may_end() for _ in range(4)]
    assert said[2:] == [None, None]
    assert all("report_updates" in (reason or "") for reason in said[:2])
    assert at.run.times_sent_back == 2
    assert at.run.owes_report


async def test_a_run_that_has_reported_may_end(tool_scene: MakeToolScene) -> None:
    at = tool_scene(report=ReportMode.ON_PING)
    tools = toolset(at.context, nothing)
    assert await tools.may_end() is None
    await at.works("ping_user", message="hi")
    assert await tools.may_end() is not None
    await at.works("report_updates", message="Pinged.")
    assert await tools.may_end() is None


async def test_whether_a_turn_may_end_is_a_matter_of_its_own_run(tool_scene: MakeToolScene) -> None:
    at = tool_scene(report=ReportMode.ALWAYS)
    tools = toolset(at.context, nothing)
    at.context.run = Run(RunPolicy(RunKind.MAIN, ()), NOW, pings=[MessageId("1")])
    assert await tools.may_end() is None
