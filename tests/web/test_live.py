"""The events of a turn amount to what a tab sees of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.web.markdown_texts import TEXTS, chunked

from ollim_bot.domain.chat import TurnId
from ollim_bot.domain.events import (
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
    ToolRefused,
    ToolStarted,
    TurnEnded,
    Usage,
    UsageReported,
)
from ollim_bot.domain.sessions import SessionId
from ollim_bot.surfaces.web.frames import draft_frame
from ollim_bot.surfaces.web.live import Activity, Live, ToolLine, ToolState
from ollim_bot.surfaces.web.markdown import render

READ = ToolStarted("1", "Read", {"file_path": "/a/b/c.md"})
ASK = ToolStarted("2", "mcp__discord__ping_user", {})
SESSION = SessionId("s")
RETRY = Retrying(2, 3, "overloaded", timedelta(seconds=2))


def after(*events: AgentEvent) -> Live:
    live = Live()
    for event in events:
        live = live.after(event)
    return live


def html(live: Live) -> str:
    return "".join([*live.blocks, live.draft.tail()])


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
    assert after(*events).activity.phase == phase


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
    ],
)
def test_a_tool_has_one_line_from_its_start_to_its_end(
    events: list[AgentEvent], line: ToolLine
) -> None:
    assert after(*events).activity.tools == (line,)


def test_the_end_of_an_unknown_tool_changes_nothing() -> None:
    assert after(TextStreamed("a"), ToolEnded("9")).activity.tools == ()


def test_of_a_long_turn_the_last_tools_and_notes_are_shown() -> None:
    calls = [ToolStarted(str(number), "Read") for number in range(500)]
    notes = [Noted(str(number)) for number in range(500)]
    activity = after(*calls, *notes).activity
    assert len(activity.tools) <= 50
    assert activity.tools[-1].id == "499"
    assert len(activity.notes) <= 20
    assert activity.notes[-1] == "499"


def test_a_long_reason_is_cut() -> None:
    [line] = after(READ, ToolFailed("1", "x" * 100_000)).activity.tools
    assert len(line.reason) <= 300


@given(chunked())
def test_what_streams_and_then_is_complete_is_the_text_as_a_whole(chunks: list[str]) -> None:
    live = after(*map(TextStreamed, chunks), TextCompleted("".join(chunks)))
    assert html(live) == render("".join(chunks))
    assert html(after(TextCompleted("".join(chunks)))) == render("".join(chunks))


@given(chunked(), st.lists(st.booleans(), min_size=20, max_size=20))
def test_how_often_it_is_drawn_makes_no_difference(chunks: list[str], draws: list[bool]) -> None:
    live = Live()
    for chunk, is_drawn in zip(chunks, draws, strict=False):
        live = live.after(TextStreamed(chunk))
        live = live.settled() if is_drawn else live
    streamed = "".join(chunk for chunk, _ in zip(chunks, draws, strict=False))
    assert html(live) == render(streamed)


@given(TEXTS, TEXTS, TEXTS)
def test_what_was_withdrawn_leaves_no_trace(whole: str, wrong: str, right: str) -> None:
    start = after(TextStreamed(whole), TextCompleted(whole))
    failed = start.after(TextStreamed(wrong)).settled().after(TextWithdrawn())
    assert html(failed) == html(start)
    assert html(failed.after(TextStreamed(right))) == html(start) + render(right)


def test_a_text_that_ends_otherwise_than_it_streamed_is_taken_as_it_ends() -> None:
    assert html(after(TextStreamed("one"), TextCompleted("two"))) == "<p>two</p>\n"


BLOCKS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=6)


@given(BLOCKS, BLOCKS)
def test_a_draft_leads_from_what_was_shown_to_what_is_to_be_shown(
    before: list[str], now: list[str]
) -> None:
    frame = draft_frame(TurnId("t"), before, now, "tail")
    keep, blocks = frame["keep"], frame["blocks"]
    assert isinstance(keep, int)
    assert isinstance(blocks, list)
    assert [*before[:keep], *blocks] == now
    assert keep <= min(len(before), len(now))
    assert keep == len(before) or keep == len(now) or before[keep] != now[keep]


def test_what_goes_on_is_a_value() -> None:
    assert Activity() == Activity().after(SessionNamed(SESSION))
