"""The contract of every engine, checked for the real one and for its fakes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kernel.engine.cases import Case, ModelScript, OpenCase, chat, new_name
from tests.kernel.engine.scene import ask, end_of, spoken, texts
from tests.kernel.engine.shared import PING, PING_SCHEMA, in_shared_loop

from ollim_bot.kernel.base.errors import SessionLost
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.values.events import (
    EndCause,
    FailureKind,
    SessionNamed,
    ToolEnded,
    ToolFailed,
    ToolRefused,
    ToolStarted,
    TurnEnded,
)
from ollim_bot.kernel.values.ports import (
    AgentSession,
    Refusal,
    Tool,
    ToolAnswer,
    ToolCall,
    Toolset,
    Trace,
)

NOT_TAKEN, TAKEN = Trace(is_taken=False), Trace(is_taken=True)


class SlowPing:
    """A tool that ends when the test sets `may_end`."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.tools = Toolset({"chat": (Tool("ping", "Sends a message", PING_SCHEMA, self._run),)})

    async def _run(self, _: Mapping[str, object]) -> ToolAnswer:
        self.has_begun.set()
        await self.may_end.wait()
        return ToolAnswer("Sent.")


async def test_sessions_are_named_at_their_first_turn_branched_off_from_resumed_and_listed(
    case: Case, tmp_path: Path
) -> None:
    name, prompt, fork, ping = new_name(), new_name(), new_name(), SlowPing()

    # The engine chooses the name of a session that was given none.
    async with case.engine.open(case.spec, Toolset()) as session:
        assert session.id is None
        events = await ask(session, "I am the first")
    first = session.id
    assert first is not None
    assert events[0] == SessionNamed(first)
    assert [type(event) for event in events].count(TurnEnded) == 1

    # A session has the name that it was given.
    assert await case.engine.trace(name, prompt) == NOT_TAKEN
    async with case.engine.open(replace(case.spec, begin=name), ping.tools) as session:
        assert session.id is None
        assert await case.engine.trace(name, prompt) == NOT_TAKEN
        assert (await ask(session, "I am the second", prompt))[0] == SessionNamed(name)
        assert session.id == name
        await check_that_it_can_be_branched_off_from_while_its_tool_runs(case, session, fork, ping)

    # The name to begin with counts no more when a session is resumed.
    resumed = replace(case.spec, resume=first, begin=new_name())
    async with case.engine.open(resumed, Toolset()) as session:
        await ask(session, "and I am back")
        assert session.id == first

    # A name that is in use goes on with its session.
    async with case.engine.open(replace(case.spec, begin=name), Toolset()) as session:
        assert (await end_of(session, "again", prompt)).cause is EndCause.FAILED, "taken once"
        case.script.says("Still here.")
        assert (await end_of(session, "me too", new_name())).text == "Still here."
        assert session.id == name
    assert await case.engine.trace(name, prompt) == Trace(True, True, "ok")
    assert await case.engine.trace(first, prompt) == NOT_TAKEN

    stored = await case.engine.sessions(case.spec.working_directory, 10)
    assert [one.id for one in stored] == [name, first, fork]
    assert [one.first_prompt for one in stored[:2]] == ["I am the second", "I am the first"]
    assert all(one.size > 0 and one.changed_at.tzinfo for one in stored)
    assert list(await case.engine.sessions(case.spec.working_directory, 1)) == list(stored[:1])
    assert list(await case.engine.sessions(tmp_path / "nowhere", 5)) == []


async def check_that_it_can_be_branched_off_from_while_its_tool_runs(
    case: Case, main: AgentSession, fork: SessionId, ping: SlowPing
) -> None:
    """The case of a reply to a ping: the branch has the history, and does not change its origin."""
    name = main.id
    case.script.calls_ping()
    going = asyncio.ensure_future(end_of(main, "check the mail"))
    await ping.has_begun.wait()
    spec = replace(case.spec, begin=fork, branch_of=name)
    async with case.engine.open(spec, ping.tools) as branch:
        case.script.says("The bank wrote.")
        assert (await end_of(branch, "which ones?")).text == "The bank wrote."
        assert branch.id == fork
        assert (await end_of(branch, "and again")).cause is EndCause.COMPLETED
        assert branch.id == fork
    if isinstance(case.script, ModelScript):
        heard = spoken(case.script.model.requests[-1])
        assert "check the mail" in "\n".join(heard)
        assert heard[-3:] == ["which ones?", "The bank wrote.", "and again"]
    ping.may_end.set()
    assert (await going).cause is EndCause.COMPLETED
    assert main.id == name
    if isinstance(case.script, ModelScript):
        assert "which ones?" not in "\n".join(spoken(case.script.model.requests[-1]))


async def test_an_unknown_session_is_lost(case: Case) -> None:
    unknown = SessionId("11111111-2222-3333-4444-555555555555")
    with pytest.raises(SessionLost):
        async with case.engine.open(replace(case.spec, resume=unknown), Toolset()):
            pass


@in_shared_loop
async def test_a_session_is_reconfigured_from_the_next_turn_on(open_case: OpenCase) -> None:
    session = open_case.session
    await ask(session, "one")
    named = open_case.id
    await session.reconfigure(
        model="haiku", thinking="adaptive", system_prompt="Be brief.", skills=()
    )
    open_case.script.says("Two.")
    assert (await end_of(session, "two")).text == "Two."
    assert session.id == named


@in_shared_loop
async def test_calls_go_through_the_gate_and_results_are_noted(open_case: OpenCase) -> None:
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
    open_case.use(Toolset(tools, gate=gate, after_call=after_call))
    for _ in range(3):
        open_case.script.calls_ping_and_says("done")
        events = await ask(open_case.session, "ping")
        started = next(event for event in events if isinstance(event, ToolStarted))
        ends += [event for event in events if getattr(event, "call_id", "") == started.call_id]

    kinds = [type(event) for event in ends if not isinstance(event, ToolStarted)]
    assert kinds == [ToolEnded, ToolRefused, ToolFailed]
    assert "sent" in results[0]
    assert "the line is dead" in results[1]
    assert len(results) == 2


@in_shared_loop
async def test_a_turn_that_may_not_end_goes_on_and_is_traced_to_its_last_word(
    open_case: OpenCase,
) -> None:
    reasons, prompt = ["Report first."], new_name()

    async def may_end() -> str | None:
        return reasons.pop() if reasons else None

    open_case.script.says("Done.")
    open_case.script.says("Reported.")
    open_case.use(Toolset(may_end=may_end))
    events = await ask(open_case.session, "do it", prompt)

    assert texts(events) == ["Done.", "Reported."]
    if isinstance(open_case.script, ModelScript):
        assert "Report first." in open_case.script.model.requests[-1].last_user_text
    trace = await open_case.engine.trace(open_case.id, prompt)
    assert trace == Trace(True, True, "Done.\n\nReported.")


@in_shared_loop
async def test_the_trace_of_a_prompt_is_what_was_said_to_it(open_case: OpenCase) -> None:
    first, second = new_name(), new_name()
    open_case.script.says("Hello.")
    open_case.script.calls_ping_and_says("I pinged you.")
    open_case.use(Toolset(chat(ToolAnswer("sent"))))
    await ask(open_case.session, "hi", first)
    await ask(open_case.session, "ping", second)
    await ask(open_case.session, "without a name")

    trace = open_case.engine.trace
    assert await trace(open_case.id, first) == Trace(True, True, "Hello.")
    pinged = Trace(True, True, "I pinged you.", ("chat: ping",))
    assert await trace(open_case.id, second) == pinged
    assert await trace(new_name(), first) == NOT_TAKEN


@in_shared_loop
async def test_a_prompt_is_taken_once(open_case: OpenCase) -> None:
    prompt = new_name()
    open_case.script.says("Yes.")
    await ask(open_case.session, "once", prompt)
    again = await end_of(open_case.session, "twice", prompt)
    assert again.cause is EndCause.FAILED
    assert await open_case.engine.trace(open_case.id, prompt) == Trace(True, True, "Yes.")


@in_shared_loop
async def test_an_interrupt_ends_the_turn_and_the_next_one_works(open_case: OpenCase) -> None:
    session, prompt = open_case.session, new_name()
    open_case.script.waits()
    await session.interrupt()
    turn = asyncio.create_task(end_of(session, "wait", prompt))
    await open_case.script.is_waiting()
    assert await open_case.engine.trace(open_case.id, prompt) == TAKEN
    await session.interrupt()
    assert (await turn).cause is EndCause.INTERRUPTED
    assert await open_case.engine.trace(open_case.id, prompt) == TAKEN
    open_case.script.says("I am back.")
    assert (await end_of(session, "again")).text == "I am back."


@in_shared_loop
async def test_a_failure_has_its_kind_and_the_next_turn_works(open_case: OpenCase) -> None:
    session, prompt = open_case.session, new_name()
    open_case.script.is_refused_by_provider()
    open_case.script.says("I am back.")
    failed = await end_of(session, "hi", prompt)
    assert failed.failure is not None
    assert failed.failure.kind is FailureKind.LOGIN
    assert await open_case.engine.trace(open_case.id, prompt) == TAKEN
    assert (await end_of(session, "again")).text == "I am back."
