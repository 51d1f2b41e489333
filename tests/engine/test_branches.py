"""A branch of a session that is in the middle of something, as a reply to a ping makes one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from uuid import uuid4

from tests.engine.scene import Scene, ask, spoken

from ollim_bot.domain.events import EndCause, TextCompleted, TurnEnded
from ollim_bot.domain.sessions import SessionId
from ollim_bot.offline.messages import CallTool, Reply, Say
from ollim_bot.ports import Tool, ToolAnswer, Toolset

NO_ARGUMENTS: Mapping[str, object] = {"type": "object", "properties": {}}


async def test_a_session_whose_tool_still_runs_can_be_branched_off_from(stage: Scene) -> None:
    has_pinged, may_end = asyncio.Event(), asyncio.Event()

    async def ping(_: Mapping[str, object]) -> ToolAnswer:
        has_pinged.set()
        await may_end.wait()
        return ToolAnswer("Sent.")

    tools = Toolset({"discord": [Tool("ping", "Says something.", NO_ARGUMENTS, ping)]})
    run, fork = SessionId(str(uuid4())), SessionId(str(uuid4()))
    stage.model.then(Reply((Say("I will ping."), CallTool("mcp__discord__ping", {}))))
    async with stage.session(tools, begin=run) as background:
        going = asyncio.ensure_future(ask(background, "check the mail"))
        await asyncio.wait_for(has_pinged.wait(), 30)
        stage.model.answers("The bank wrote.")
        async with stage.session(tools, begin=fork, branch_of=run) as reply:
            events = await ask(reply, "which ones?")
        assert isinstance(events[-1], TurnEnded)
        assert events[-1].cause is EndCause.COMPLETED
        assert TextCompleted("The bank wrote.") in events
        asked = spoken(stage.model.requests[-1])
        assert "check the mail" in "\n".join(asked)
        assert asked[-1] == "which ones?"

        stage.model.answers("All done.")
        may_end.set()
        (*_, end) = await going
    assert isinstance(end, TurnEnded)
    assert end.cause is EndCause.COMPLETED
    assert "which ones?" not in "\n".join(spoken(stage.model.requests[-1]))
