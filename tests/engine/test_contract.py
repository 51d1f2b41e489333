"""What every engine promises, held by the real one and by its doubles."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.engine.cases import PING, Case, chat, new_name
from tests.engine.scene import ask, end_of, texts

from ollim_bot.domain.events import (
    EndCause,
    FailureKind,
    SessionNamed,
    ToolEnded,
    ToolFailed,
    ToolRefused,
    ToolStarted,
    TurnEnded,
)
from ollim_bot.domain.sessions import SessionId
from ollim_bot.errors import SessionLost
from ollim_bot.ports import Refusal, ToolAnswer, ToolCall, Toolset, Trace


async def test_a_turn_names_its_session_first_and_ends_once(case: Case) -> None:
    case.script.says("Hello.")
    async with case.engine.open(case.spec, Toolset()) as session:
        assert session.id is None
        events = await ask(session, "hi")

    assert events[0] == SessionNamed(SessionId(str(session.id)))
    assert texts(events) == ["Hello."]
    assert [type(event) for event in events].count(TurnEnded) == 1
    assert isinstance(events[-1], TurnEnded)
    assert (events[-1].cause, events[-1].text) == (EndCause.COMPLETED, "Hello.")


async def test_a_session_can_be_resumed_and_an_unknown_one_is_lost(case: Case) -> None:
    async with case.engine.open(case.spec, Toolset()) as session:
        await ask(session, "hi")
    first = session.id
    async with case.engine.open(replace(case.spec, resume=first), Toolset()) as session:
        await ask(session, "hi again")
        assert session.id == first

    unknown = SessionId("11111111-2222-3333-4444-555555555555")
    with pytest.raises(SessionLost):
        async with case.engine.open(replace(case.spec, resume=unknown), Toolset()):
            pass


async def test_a_new_session_has_the_name_that_it_was_given(case: Case) -> None:
    name = new_name()
    spec = replace(case.spec, begin=name)
    async with case.engine.open(spec, Toolset()) as session:
        assert session.id is None
        named = (await ask(session, "hi"))[0]
    assert named == SessionNamed(name)
    assert session.id == name

    async with case.engine.open(replace(spec, resume=name), Toolset()) as session:
        await ask(session, "the name to begin with counts no more")
        assert session.id == name


async def test_a_name_that_is_in_use_goes_on_with_its_session(case: Case) -> None:
    name, prompt = new_name(), new_name()
    for text in ("hi", "hi again"):
        async with case.engine.open(replace(case.spec, begin=name), Toolset()) as session:
            await ask(session, text, prompt if text == "hi" else None)
            assert session.id == name
    assert (await case.engine.trace(name, prompt)).is_complete


async def test_a_session_is_reconfigured_from_the_next_turn_on(case: Case) -> None:
    async with case.engine.open(case.spec, Toolset()) as session:
        await ask(session, "one")
        named = session.id
        await session.reconfigure(model="haiku", thinking="adaptive", system_prompt="Be brief.")
        case.script.says("Two.")
        assert (await end_of(session, "two")).text == "Two."
        assert session.id == named


async def test_calls_go_through_the_gate_and_results_are_noted(case: Case) -> None:
    verdicts = [None, Refusal("not now"), None]

    async def gate(call: ToolCall) -> Refusal | None:
        assert call.tool == PING
        return verdicts.pop(0)

    async def after_call(call: ToolCall, result: str) -> None:
        assert call.tool == PING
        results.append(result)

    ends = []
    results: list[str] = []
    tools = chat(ToolAnswer("sent"), ToolAnswer("the line is dead", is_error=True))
    toolset = Toolset(tools, gate=gate, after_call=after_call)
    async with case.engine.open(case.spec, toolset) as session:
        for _ in range(3):
            case.script.calls_ping_and_says("done")
            events = await ask(session, "ping")
            started = next(event for event in events if isinstance(event, ToolStarted))
            ends += [event for event in events if getattr(event, "call_id", "") == started.call_id]

    kinds = [type(event) for event in ends if not isinstance(event, ToolStarted)]
    assert kinds == [ToolEnded, ToolRefused, ToolFailed]
    assert "sent" in results[0]
    assert "the line is dead" in results[1]
    assert len(results) == 2


async def test_a_turn_that_may_not_end_goes_on(case: Case) -> None:
    reasons = ["Report first."]

    async def may_end() -> str | None:
        return reasons.pop() if reasons else None

    case.script.says("Done.")
    case.script.says("Reported.")
    async with case.engine.open(case.spec, Toolset(may_end=may_end)) as session:
        events = await ask(session, "do it")

    assert texts(events) == ["Done.", "Reported."]


async def test_an_interrupt_ends_the_turn_and_the_next_one_works(case: Case) -> None:
    case.script.waits()
    prompt = new_name()
    async with case.engine.open(case.spec, Toolset()) as session:
        await session.interrupt()
        turn = asyncio.create_task(end_of(session, "wait", prompt))
        await case.script.is_waiting()
        assert session.id is not None
        assert await case.engine.trace(session.id, prompt) == Trace(is_taken=True)
        await session.interrupt()
        assert (await turn).cause is EndCause.INTERRUPTED
        assert await case.engine.trace(session.id, prompt) == Trace(is_taken=True)
        case.script.says("I am back.")
        assert (await end_of(session, "again")).text == "I am back."


async def test_a_failure_has_its_kind_and_the_next_turn_works(case: Case) -> None:
    case.script.is_refused_at_the_door()
    case.script.says("I am back.")
    prompt = new_name()
    async with case.engine.open(case.spec, Toolset()) as session:
        failed = await end_of(session, "hi", prompt)
        assert failed.failure is not None
        assert failed.failure.kind is FailureKind.LOGIN
        assert session.id is not None
        assert await case.engine.trace(session.id, prompt) == Trace(is_taken=True)
        assert (await end_of(session, "again")).text == "I am back."


async def test_a_branch_has_the_history_and_leaves_its_origin_alone(case: Case) -> None:
    async with case.engine.open(case.spec, Toolset()) as main:
        await ask(main, "my cat is called Miso")
        begin = SessionId("99999999-2222-4333-8444-555555555555")
        spec = replace(case.spec, begin=begin, branch_of=main.id)
        async with case.engine.open(spec, Toolset()) as branch:
            await ask(branch, "in the branch")
            assert branch.id == begin
            await ask(branch, "and again")
            assert branch.id == begin
        await ask(main, "in main")
        assert main.id not in (None, begin)
