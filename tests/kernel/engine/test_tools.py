"""Calls of tools: the gate decides each of them, and nothing else does."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.kernel.engine.scene import texts
from tests.kernel.engine.shared import PING, PING_SCHEMA, SharedSession, in_shared_loop

from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.values.events import (
    AgentEvent,
    SubagentProgressed,
    ToolEnded,
    ToolFailed,
    ToolRefused,
    ToolStarted,
)
from ollim_bot.kernel.values.ports import Refusal, Tool, ToolAnswer, ToolCall, Toolset
from ollim_bot.offline.server import CallTool, Reply


async def _pong(arguments: Mapping[str, object]) -> ToolAnswer:
    return ToolAnswer(f"pong {arguments['message']}")


async def _fails(_: Mapping[str, object]) -> ToolAnswer:
    raise OllimError("The chat is closed. Try again tomorrow.")


async def _breaks(_: Mapping[str, object]) -> ToolAnswer:
    raise KeyError("secret detail")


async def _says_no(_: Mapping[str, object]) -> ToolAnswer:
    return ToolAnswer("not now", is_error=True)


def chat(run: object = _pong) -> Mapping[str, tuple[Tool, ...]]:
    return {"chat": (Tool("ping", "Sends a message", PING_SCHEMA, run),)}  # type: ignore[arg-type]


def of_tools(events: list[AgentEvent]) -> list[AgentEvent]:
    kinds = (ToolStarted, ToolEnded, ToolRefused, ToolFailed)
    return [event for event in events if isinstance(event, kinds)]


@in_shared_loop
async def test_a_call_that_the_gate_lets_through_is_made(shared: SharedSession) -> None:
    asked: list[ToolCall] = []

    async def gate(call: ToolCall) -> Refusal | None:
        asked.append(call)
        return None

    shared.model.then(Reply((CallTool(PING, {"message": "hi"}),))).answers("Sent.")
    shared.tools = Toolset(chat(), gate=gate)
    events = await shared.ask("ping me")

    started, ended = of_tools(events)
    assert isinstance(started, ToolStarted)
    assert (started.tool, started.arguments) == (PING, {"message": "hi"})
    assert ended == ToolEnded(started.call_id)
    assert asked == [ToolCall(PING, {"message": "hi"})]
    assert [one.text for one in shared.model.requests[-1].tool_results] == ["pong hi"]
    assert texts(events) == ["Sent."]


@in_shared_loop
async def test_a_refused_call_is_not_made_and_the_model_is_told_why(shared: SharedSession) -> None:
    async def gate(_: ToolCall) -> Refusal:
        return Refusal("Pings are used up until tomorrow.")

    shared.model.then(Reply((CallTool(PING, {"message": "hi"}),)))
    shared.tools = Toolset(chat(_breaks), gate=gate)
    started, refused = of_tools(await shared.ask("ping me"))

    (told,) = shared.model.requests[-1].tool_results
    assert isinstance(started, ToolStarted)
    assert refused == ToolRefused(started.call_id, PING, "Pings are used up until tomorrow.")
    assert told.is_error
    assert "Pings are used up until tomorrow." in told.text


@in_shared_loop
async def test_a_gate_that_breaks_refuses(shared: SharedSession) -> None:
    async def gate(_: ToolCall) -> Refusal | None:
        raise KeyError("broken")

    shared.model.then(Reply((CallTool(PING, {"message": "hi"}),)))
    shared.tools = Toolset(chat(_breaks), gate=gate)
    _, refused = of_tools(await shared.ask("ping me"))

    assert isinstance(refused, ToolRefused)
    assert "could not be checked" in refused.reason


@in_shared_loop
async def test_a_result_that_cannot_be_noted_ends_the_turn_before_it_is_read(
    shared: SharedSession,
) -> None:
    async def after_call(_: ToolCall, __: str) -> None:
        raise KeyError("broken")

    shared.model.then(Reply((CallTool(PING, {"message": "hi"}),))).answers("I have read it.")
    shared.tools = Toolset(chat(), after_call=after_call)
    assert texts(await shared.ask("ping me")) == []
    assert len(shared.model.requests) == 1


@in_shared_loop
@pytest.mark.parametrize("is_allowed", [True, False])
async def test_the_gate_decides_about_the_tools_of_the_engine_too(
    shared: SharedSession, is_allowed: bool
) -> None:
    async def gate(_: ToolCall) -> Refusal | None:
        return None if is_allowed else Refusal("no")

    file = shared.data / f"note-{is_allowed}.md"
    written = {"file_path": str(file), "content": "hello"}
    shared.model.then(Reply((CallTool("Write", written), CallTool("Bash", {"command": "echo hi"}))))
    shared.tools = Toolset(gate=gate)
    events = of_tools(await shared.ask("write it"))

    kind = ToolEnded if is_allowed else ToolRefused
    assert [type(event) for event in events].count(kind) == 2
    assert file.exists() is is_allowed


@in_shared_loop
@pytest.mark.parametrize(
    ("run", "reason"),
    [
        pytest.param(_fails, "The chat is closed. Try again tomorrow.", id="says why"),
        pytest.param(_breaks, "ping failed. Do not try it again now.", id="breaks"),
        pytest.param(_says_no, "not now", id="answers with an error"),
    ],
)
async def test_a_tool_that_fails_tells_the_model(
    shared: SharedSession, run: object, reason: str
) -> None:
    shared.model.then(Reply((CallTool(PING, {"message": "hi"}),)))
    shared.tools = Toolset(chat(run))
    started, failed = of_tools(await shared.ask("ping me"))

    assert isinstance(started, ToolStarted)
    assert failed == ToolFailed(started.call_id, reason)
    assert [one.text for one in shared.model.requests[-1].tool_results] == [reason]


@in_shared_loop
async def test_a_question_that_breaks_does_not_keep_a_turn(shared: SharedSession) -> None:
    async def may_end() -> str | None:
        raise KeyError("broken")

    shared.tools = Toolset(may_end=may_end)
    assert texts(await shared.ask("do it")) == ["ok"]


@in_shared_loop
async def test_a_subagent_works_within_the_turn_and_under_the_same_gate(
    shared: SharedSession,
) -> None:
    asked: list[ToolCall] = []

    async def gate(call: ToolCall) -> Refusal | None:
        asked.append(call)
        return None

    async def after_call(call: ToolCall, result: str) -> None:
        noted.append((call.tool, call.subagent, "pong one" in result))

    noted: list[tuple[str, str, bool]] = []
    task = {"description": "count", "prompt": "COUNT", "subagent_type": "counter"}
    shared.model.then(
        Reply((CallTool("Agent", task),)), Reply((CallTool(PING, {"message": "one"}),))
    ).answers("counted", "All counted.")
    shared.tools = Toolset(chat(), gate=gate, after_call=after_call)
    events = await shared.ask("count")

    progress = [event for event in events if isinstance(event, SubagentProgressed)]
    assert [(call.tool, call.subagent) for call in asked] == [("Agent", ""), (PING, "counter")]
    assert noted == [(PING, "counter", True), ("Agent", "", False)]
    assert [type(event) for event in of_tools(events)] == [ToolStarted, ToolEnded]
    assert (progress[0].is_over, progress[-1].is_over) == (False, True)
    assert progress[-1].description == "counter: count"
    assert texts(events) == ["All counted."]


@in_shared_loop
@pytest.mark.parametrize("path", ["state/web_token.md", ".env"])
async def test_what_is_secret_stays_out_of_reach_though_a_gate_lets_everything_through(
    shared: SharedSession, path: str
) -> None:
    file = shared.data / path
    file.parent.mkdir(exist_ok=True)
    file.write_text("the-secret-itself")
    shared.model.then(Reply((CallTool("Read", {"file_path": str(file)}),)))
    await shared.ask("read it")

    (result,) = shared.model.requests[-1].tool_results
    assert result.is_error
    assert "the-secret-itself" not in result.text
