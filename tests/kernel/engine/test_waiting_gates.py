"""A gate may wait for a person: the engine waits too, and can still be interrupted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.kernel.engine.scene import SOON, ask, texts
from tests.kernel.engine.shared import SharedSession, in_shared_loop

from ollim_bot.kernel.values.events import EndCause, ToolEnded, ToolRefused, TurnEnded
from ollim_bot.kernel.values.ports import Refusal, ToolCall, Toolset
from ollim_bot.offline.server import CallTool, Reply

A_WHILE = 0.5


class WaitingGate:
    """A gate that waits until the test sets `answer`."""

    def __init__(self) -> None:
        self.asked: list[ToolCall] = []
        self.is_given_up = asyncio.Event()
        self.is_asked = asyncio.Event()
        self.answer: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()

    async def gate(self, call: ToolCall) -> Refusal | None:
        self.asked.append(call)
        self.is_asked.set()
        try:
            return await asyncio.shield(self.answer)
        except asyncio.CancelledError:
            self.is_given_up.set()
            raise


def write(file: Path) -> CallTool:
    return CallTool("Write", {"file_path": str(file), "content": "hello"})


@in_shared_loop
@pytest.mark.parametrize("says", [None, Refusal("The owner said no.")], ids=["yes", "no"])
async def test_the_answer_of_a_person_counts_though_it_takes_a_while(
    shared: SharedSession, tmp_path: Path, says: Refusal | None
) -> None:
    waiting_gate = WaitingGate()
    first, second = (shared.data / f"{tmp_path.name}-{name}.txt" for name in "ab")
    shared.model.then(Reply((write(first), write(second)))).answers("Done.")
    shared.tools = Toolset(gate=waiting_gate.gate)
    async with shared.limited() as session:
        turn = asyncio.create_task(ask(session, "write them"))
        await waiting_gate.is_asked.wait()
        await asyncio.wait({turn}, timeout=A_WHILE)
        assert not turn.done()
        waiting_gate.answer.set_result(says)
        events = await turn

    expected = ToolEnded if says is None else ToolRefused
    ends = [event for event in events if isinstance(event, ToolEnded | ToolRefused)]
    assert [type(event) for event in ends] == [expected] * 2
    assert first.exists() is (says is None)
    assert texts(events)[-1] == "Done."
    assert not waiting_gate.is_given_up.is_set()


@in_shared_loop
async def test_an_interrupted_turn_waits_for_no_answer_and_makes_no_call(
    shared: SharedSession,
) -> None:
    waiting_gate, file = WaitingGate(), shared.data / "interrupted.txt"
    shared.model.then(Reply((write(file),))).answers("Again.")
    shared.tools = Toolset(gate=waiting_gate.gate)
    async with shared.limited() as session:
        turn = asyncio.create_task(ask(session, "write it"))
        await waiting_gate.is_asked.wait()
        began = asyncio.get_running_loop().time()
        await session.interrupt()
        end = (await turn)[-1]
        assert asyncio.get_running_loop().time() - began < SOON
        assert isinstance(end, TurnEnded)
        assert end.cause is EndCause.INTERRUPTED
        await waiting_gate.is_given_up.wait()

        waiting_gate.answer.set_result(None)
        assert texts(await ask(session, "and now?")) == ["Again."]
    assert not file.exists()
