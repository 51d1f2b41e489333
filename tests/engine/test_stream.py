"""Messages of the engine read as events, without any engine."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    ConversationResetMessage,
    Message,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
    TaskUpdatedMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.domain.events import (
    AgentEvent,
    EndCause,
    FailureKind,
    Retrying,
    SessionNamed,
    SubagentProgressed,
    TextCompleted,
    TextStreamed,
    TextWithdrawn,
    ToolEnded,
    ToolFailed,
    ToolRefused,
    ToolStarted,
    TurnEnded,
    Usage,
)
from ollim_bot.domain.provider import CLAUDE, OFFLINE, ModelAccess, Price, Provider
from ollim_bot.domain.sessions import SessionId
from ollim_bot.engine.stream import CostCounter, TurnReader


def system(subtype: str, **data: object) -> SystemMessage:
    return SystemMessage(subtype, {"type": "system", "subtype": subtype, **data})


RUNNING = system("session_state_changed", state="running")
IDLE = system("session_state_changed", state="idle")
START = StreamEvent("u", "s", {"type": "message_start", "message": {}})


def delta(text: str, parent: str | None = None) -> StreamEvent:
    event = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    return StreamEvent("u", "s", event, parent)


def says(*blocks: Any, **changes: Any) -> AssistantMessage:
    return AssistantMessage(content=list(blocks), model="m", **changes)


def answers(*blocks: ToolResultBlock) -> UserMessage:
    return UserMessage(content=list(blocks))


def result(**changes: Any) -> ResultMessage:
    usual: dict[str, Any] = {
        "subtype": "success",
        "is_error": False,
        "result": "done",
        "session_id": "s",
    }
    times = {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 1}
    return ResultMessage(**(usual | times | changes))


def read(*messages: Message, refused: dict[str, str] | None = None) -> list[AgentEvent]:
    reader = TurnReader(refused or {})
    return [event for message in messages for event in reader.read(message)]


def test_a_turn_is_over_when_its_result_has_come_and_the_engine_is_idle() -> None:
    reader = TurnReader({})
    assert list(reader.read(result())) == []
    assert not reader.is_over
    assert list(reader.read(IDLE)) == [TurnEnded(EndCause.COMPLETED, "done")]
    assert reader.is_over


def test_the_end_may_be_told_in_the_other_order() -> None:
    assert read(RUNNING, IDLE, result()) == [TurnEnded(EndCause.COMPLETED, "done")]


def test_an_engine_that_took_up_work_again_is_not_idle() -> None:
    assert read(RUNNING, IDLE, RUNNING, result()) == []


def test_an_engine_that_stays_idle_has_not_taken_the_prompt() -> None:
    (ended,) = read(IDLE)
    assert isinstance(ended, TurnEnded)
    assert ended.cause is EndCause.FAILED


def test_what_the_engine_goes_on_with_by_itself_belongs_to_the_turn() -> None:
    again = result(result="and more", origin={"kind": "task-notification"})
    events = read(result(), says(TextBlock("and more")), again, IDLE)
    assert events == [TextCompleted("and more"), TurnEnded(EndCause.COMPLETED, "and more")]


def test_the_end_is_judged_by_what_it_says_and_not_by_its_name() -> None:
    (ended,) = read(result(subtype="success", is_error=True, api_error_status=529), IDLE)
    assert isinstance(ended, TurnEnded)
    assert ended.cause is EndCause.FAILED


@pytest.mark.parametrize("reason", ["aborted_streaming", "aborted_tools"])
def test_an_interrupted_turn_is_no_failure(reason: str) -> None:
    stopped = result(subtype="error_during_execution", is_error=True, terminal_reason=reason)
    assert read(stopped, IDLE) == [TurnEnded(EndCause.INTERRUPTED)]


def test_text_of_a_failed_attempt_is_withdrawn_once() -> None:
    retry = system("api_retry", attempt=1, max_retries=2, retry_delay_ms=500, error="overloaded")
    assert read(START, delta("half"), retry, START, delta("whole"), says(TextBlock("whole"))) == [
        TextStreamed("half"),
        TextWithdrawn(),
        Retrying(1, 2, "overloaded", timedelta(milliseconds=500)),
        TextStreamed("whole"),
        TextCompleted("whole"),
    ]


def test_text_that_comes_back_different_without_a_stream_is_withdrawn_first() -> None:
    assert read(delta("half"), says(TextBlock("whole"))) == [
        TextStreamed("half"),
        TextWithdrawn(),
        TextCompleted("whole"),
    ]


def test_text_before_a_failure_is_withdrawn_and_the_failure_is_no_text() -> None:
    sorry = says(TextBlock("API Error: 529"), error="server_error")
    events = read(delta("half"), sorry, result(is_error=True, api_error_status=529), IDLE)
    assert events[:2] == [TextStreamed("half"), TextWithdrawn()]
    assert isinstance(events[2], TurnEnded)
    assert events[2].failure is not None
    assert events[2].failure.kind is FailureKind.OVERLOADED


@given(st.lists(st.text(min_size=1), min_size=1))
def test_what_was_streamed_is_what_is_completed(pieces: list[str]) -> None:
    whole = "".join(pieces)
    *streamed, completed = read(START, *map(delta, pieces), says(TextBlock(whole)))
    assert streamed == [TextStreamed(piece) for piece in pieces]
    assert completed == TextCompleted(whole)


def test_what_a_subagent_says_and_does_is_not_told() -> None:
    nested = says(TextBlock("mine"), ToolUseBlock("c", "Read", {}), parent_tool_use_id="p")
    assert read(delta("mine", "p"), nested) == []


def test_but_what_it_was_refused_is() -> None:
    call = says(ToolUseBlock("c", "Bash", {}), parent_tool_use_id="p")
    end = UserMessage([ToolResultBlock("c", "no", is_error=True)], parent_tool_use_id="p")
    assert read(call, end, refused={"c": "not here"}) == [ToolRefused("c", "Bash", "not here")]


def test_each_call_starts_and_then_ends_fails_or_is_refused() -> None:
    calls = says(*(ToolUseBlock(name, "Read", {"n": name}) for name in "abc"))
    ends = answers(
        ToolResultBlock("a", "fine"),
        ToolResultBlock("b", [{"type": "text", "text": "no file"}], is_error=True),
        ToolResultBlock("c", "hook error", is_error=True),
    )
    assert read(calls, ends, refused={"c": "not allowed"}) == [
        *(ToolStarted(name, "Read", {"n": name}) for name in "abc"),
        ToolEnded("a"),
        ToolFailed("b", "no file"),
        ToolRefused("c", "Read", "not allowed"),
    ]


def _task(task_id: str, *, in_background: bool) -> TaskStartedMessage:
    return TaskStartedMessage(
        "task_started",
        {"is_backgrounded": in_background},
        task_id=task_id,
        description="count",
        uuid="u",
        session_id="s",
        tool_use_id="call",
        task_type="local_agent",
    )


def test_a_subagent_is_over_when_its_call_is() -> None:
    events = read(_task("t", in_background=False), answers(ToolResultBlock("call", "7")))
    assert events == [
        SubagentProgressed("t", "count"),
        SubagentProgressed("t", "count", is_over=True),
        ToolEnded("call"),
    ]


def test_a_subagent_in_the_background_is_over_once_when_it_says_so() -> None:
    over = TaskUpdatedMessage("task_updated", {}, task_id="t", patch={}, status="completed")
    told = TaskNotificationMessage(
        "task_notification",
        {},
        task_id="t",
        status="completed",
        output_file="",
        summary="",
        uuid="u",
        session_id="s",
    )
    launched = answers(ToolResultBlock("call", "launched"))
    assert read(_task("t", in_background=True), launched, over, told) == [
        SubagentProgressed("t", "count"),
        ToolEnded("call"),
        SubagentProgressed("t", "count", is_over=True),
    ]


def test_a_session_is_named_again_only_when_it_changed() -> None:
    init = system("init", session_id="one")
    reset = ConversationResetMessage(new_conversation_id="two", uuid="u", session_id="one")
    assert read(init, init, reset) == [
        SessionNamed(SessionId("one")),
        SessionNamed(SessionId("two")),
    ]


def test_the_size_of_the_last_request_counts_with_what_was_cached() -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 300}
    windows: Any = {"m": {"contextWindow": 200_000}}
    ended = read(
        says(TextBlock("hi"), usage=usage | {"output_tokens": 1}),
        StreamEvent("u", "s", {"type": "message_delta", "usage": {"output_tokens": 9}}),
        result(total_cost_usd=0.5, model_usage=windows, usage={"input_tokens": 9999}),
        IDLE,
    )[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.usage == Usage(context=375, output=9, cost_usd=0.5, window=200_000)


def test_the_cost_goes_on_when_the_process_is_another() -> None:
    reader = TurnReader({}, cost=CostCounter(before=1.0))
    list(reader.read(result(total_cost_usd=0.5)))
    list(reader.read(IDLE))
    assert reader.usage.cost_usd == 1.5


@pytest.mark.parametrize(
    ("total", "own"),
    [
        pytest.param(7.5, 0.5, id="counted-on"),
        pytest.param(7.0, 0.0, id="no-request"),
        pytest.param(0.5, 0.5, id="counted-from-zero"),
        pytest.param(None, 0.0, id="not-said"),
    ],
)
def test_what_an_earlier_session_had_cost_is_not_counted(total: float | None, own: float) -> None:
    reader = TurnReader({}, cost=CostCounter(restored=7.0))
    list(reader.read(result(total_cost_usd=total)))
    list(reader.read(IDLE))
    assert reader.usage.cost_usd == own


def test_an_engine_that_is_gone_ends_the_turn() -> None:
    reader = TurnReader({})
    list(reader.read(delta("half")))
    withdrawn, ended = reader.died(interrupted=False)
    assert withdrawn == TextWithdrawn()
    assert isinstance(ended, TurnEnded)
    assert ended.failure is not None
    assert ended.failure.kind is FailureKind.ENGINE_DIED


def test_an_engine_that_had_to_go_was_interrupted() -> None:
    reader = TurnReader({})
    list(reader.read(delta("half")))
    assert list(reader.died(interrupted=True)) == [TurnEnded(EndCause.INTERRUPTED)]


def test_what_nobody_knows_is_passed_over() -> None:
    assert read(system("brand_new", anything=1), system("api_retry")) == [
        Retrying(1, 1, "unknown", timedelta())
    ]


@pytest.mark.parametrize(
    ("provider", "cost", "price"),
    [
        (CLAUDE, 0.5, Price.LISTED),
        (OFFLINE, 0.0, Price.FREE),
        (replace(CLAUDE, access=ModelAccess.OWN_SERVER), 0.0, Price.UNKNOWN),
    ],
)
def test_the_price_list_counts_only_where_it_is_paid(
    provider: Provider, cost: float, price: Price
) -> None:
    reader = TurnReader({}, provider=provider)
    list(reader.read(result(total_cost_usd=0.5)))
    (ended,) = reader.read(IDLE)
    assert isinstance(ended, TurnEnded)
    assert (ended.usage.cost_usd, ended.usage.price) == (cost, price)
