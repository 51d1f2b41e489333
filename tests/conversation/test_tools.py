"""Tools of the main session: each call that is let through is on disk before it is made."""

from __future__ import annotations

import pytest
from devtools.doubles.engine import CallsTool, Says, ScriptedEngine, Waits
from tests.conversation.scene import scene
from tests.conversation.slow_engine import half_way

from ollim_bot.domain.events import ToolRefused
from ollim_bot.domain.inbox import ToolCalled
from ollim_bot.ports import Refusal, ToolCall


@pytest.mark.parametrize("is_refused", [False, True])
async def test_a_call_is_written_down_with_its_turn_unless_it_is_refused(is_refused: bool) -> None:
    asked: list[ToolCall] = []

    async def gate(call: ToolCall) -> Refusal | None:
        asked.append(call)
        return Refusal("Not this one.") if is_refused else None

    engine = ScriptedEngine().then(
        CallsTool("Write", {"file_path": "/data/notes/today.md"}), Says("ok")
    )
    async with scene(engine, gate=gate) as at:
        await at.ask("note it")

        turn = at.surface.starts[0].turn
        rows = [row for row in at.rows if isinstance(row, ToolCalled)]
        written = [(row.turn, row.tool, row.summary) for row in rows]
        assert written == ([] if is_refused else [(turn, "Write", "Write(notes/today.md)")])
        assert [call.tool for call in asked] == ["Write"]
        shown = [each for each in at.surface.events[turn] if isinstance(each, ToolRefused)]
        assert len(shown) == is_refused
        trace = "Refused: Write(notes/today.md)." if is_refused else ""
        assert at.answers[-1].footer == trace


async def test_the_row_is_there_when_the_call_is_let_through() -> None:
    engine = ScriptedEngine().then(Says("Half"), Waits())
    async with scene(engine) as at:
        await at.send("one")
        await half_way(at)
        gate = engine.opened[0].tools.gate
        assert await gate(ToolCall("Bash", {"command": "ls"})) is None
        row = at.rows[-1]
        assert isinstance(row, ToolCalled)
        assert (row.tool, row.summary) == ("Bash", "Bash(ls)")


async def test_outside_a_turn_there_is_no_call_that_a_crash_could_repeat() -> None:
    engine = ScriptedEngine()
    async with scene(engine) as at:
        await at.ask("hello")
        before = len(at.rows)
        assert await engine.opened[0].tools.gate(ToolCall("Bash", {})) is None
        assert len(at.rows) == before
