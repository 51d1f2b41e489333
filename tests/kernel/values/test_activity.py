"""One value says what a turn is doing, and what became of each tool."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.values.events import (
    Activity,
    AgentEvent,
    Compacted,
    CompactionStarted,
    EndCause,
    Noted,
    Retrying,
    SessionNamed,
    SubagentProgressed,
    TextCompleted,
    TextStreamed,
    TextWithdrawn,
    ThinkingStreamed,
    ToolEnded,
    ToolFailed,
    ToolLine,
    ToolRefused,
    ToolStarted,
    ToolState,
    TurnEnded,
    UsageReported,
)
from ollim_bot.kernel.values.usage import Usage

READ = ToolStarted("1", "Read", {"file_path": "/a/b/c.md"})
ASK = ToolStarted("2", "mcp__discord__ping_user", {})
SESSION = SessionId("s")
RETRY = Retrying(2, 3, "overloaded", timedelta(seconds=2))


def after(*events: AgentEvent) -> Activity:
    activity = Activity()
    for event in events:
        activity = activity.after(event)
    return activity


@pytest.mark.parametrize(
    ("events", "phase"),
    [
        ([], "Thinking…"),
        ([SessionNamed(SESSION)], "Thinking…"),
        ([TextStreamed("a")], ""),
        ([TextCompleted("a")], ""),
        ([TextStreamed("a"), ThinkingStreamed("hm")], "Thinking…"),
        ([READ], ""),
        ([READ, ToolEnded("1")], "Thinking…"),
        ([READ, ASK, ToolEnded("1")], ""),
        ([READ, ASK, ToolEnded("1"), ToolFailed("2", "no")], "Thinking…"),
        ([CompactionStarted()], "Compacting…"),
        ([CompactionStarted(), Compacted(SESSION)], "Thinking…"),
        ([RETRY], "Retrying (2 of 3)…"),
        ([TextStreamed("a"), TextWithdrawn()], "Thinking…"),
        ([TextStreamed("a"), TextWithdrawn(), RETRY], "Retrying (2 of 3)…"),
        ([RETRY, TextStreamed("a")], ""),
        ([RETRY, ThinkingStreamed("a")], "Thinking…"),
        ([TextStreamed("a"), UsageReported(Usage())], ""),
        ([TextStreamed("a"), Noted("n")], ""),
        ([TextStreamed("a"), TurnEnded(EndCause.COMPLETED)], ""),
    ],
)
def test_one_line_says_what_goes_on(events: list[AgentEvent], phase: str) -> None:
    assert after(*events).phase == phase


@pytest.mark.parametrize(
    ("events", "line"),
    [
        ([READ], ToolLine("1", "Read(b/c.md)")),
        ([ASK], ToolLine("2", "ping_user")),
        ([READ, ToolEnded("1")], ToolLine("1", "Read(b/c.md)", ToolState.DONE)),
        ([READ, ToolFailed("1", "gone")], ToolLine("1", "Read(b/c.md)", ToolState.FAILED, "gone")),
        (
            [READ, ToolRefused("1", "Read", "not here")],
            ToolLine("1", "Read(b/c.md)", ToolState.REFUSED, "not here"),
        ),
        (
            [ToolRefused("1", "Read", "not here")],
            ToolLine("1", "Read", ToolState.REFUSED, "not here"),
        ),
        (
            [READ, ToolRefused("1", "Read", "not here"), ToolFailed("1", "denied")],
            ToolLine("1", "Read(b/c.md)", ToolState.REFUSED, "not here"),
        ),
        ([SubagentProgressed("t", "looks about")], ToolLine("t", "looks about")),
        (
            [SubagentProgressed("t", "looks"), SubagentProgressed("t", "looks", is_over=True)],
            ToolLine("t", "looks", ToolState.DONE),
        ),
        (
            [SubagentProgressed("t", "mail: triage"), SubagentProgressed("t", "mail: Running x")],
            ToolLine("t", "mail: Running x"),
        ),
        (
            [ToolStarted("1", "Agent", {"description": "triage", "subagent_type": "mail"})],
            ToolLine("1", "Agent(mail)"),
        ),
    ],
)
def test_a_tool_has_one_line_from_its_start_to_its_end(
    events: list[AgentEvent], line: ToolLine
) -> None:
    assert after(*events).tools == (line,)


def test_the_end_of_an_unknown_tool_changes_nothing() -> None:
    assert after(TextStreamed("a"), ToolEnded("9")).tools == ()


def test_of_a_long_turn_the_last_tools_and_notes_are_shown() -> None:
    calls = [ToolStarted(str(number), "Read") for number in range(500)]
    notes = [Noted(str(number)) for number in range(500)]
    activity = after(*calls, *notes)
    assert len(activity.tools) <= 50
    assert activity.tools[-1].id == "499"
    assert len(activity.notes) <= 20
    assert activity.notes[-1] == "499"


def test_a_long_reason_is_cut() -> None:
    [line] = after(READ, ToolFailed("1", "x" * 100_000)).tools
    assert len(line.reason) <= 300


def test_what_goes_on_is_a_value() -> None:
    assert Activity() == Activity().after(SessionNamed(SESSION))


def test_refused_calls_are_named_in_one_sentence() -> None:
    refused = [ToolRefused(str(number), f"Tool{number}", "no") for number in range(5)]
    assert after(READ, ToolEnded("1")).refused == ""
    assert after(READ, ToolRefused("1", "Read", "not here")).refused == "Refused: Read(b/c.md)."
    assert after(*refused).refused == "Refused: Tool0, Tool1, Tool2 and 2 more."
