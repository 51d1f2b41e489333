"""The whole bot on doubles: no background run pings the owner during an answer."""

from __future__ import annotations

from pathlib import Path

from devtools.doubles.engine import ScriptedEngine, Waits
from tests.kernel.conversation.background.scene import ping
from tests.kernel.schedule.scene import schedule_scene

from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import IncomingMessage


async def test_a_routine_cannot_ping_while_an_answer_is_under_way(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(Waits())
    async with schedule_scene(engine, tmp_path) as at:
        at.routine("plan", "16,18 10 * * *", background="true")
        await at.chat.receive(IncomingMessage(InputId("m1"), "test", "hello"))
        await at.until(lambda: len(engine.prompts) == 1)
        engine.then(ping("The bank wrote."))
        await at.advance(70)
        await at.until(lambda: at.ended("plan"))
        (end,) = at.ended("plan")
        assert "in the middle of a conversation" in str(end.facts.get("refused_pings"))
        assert at.pings == []

        await at.chat.command("test", "/interrupt")
        await at.until(lambda: at.talk.state.is_quiet)
        engine.then(ping("The bank wrote."))
        await at.advance(120)
        await at.until(lambda: len(at.ended("plan")) == 2)
        assert at.pings == ["The bank wrote."]
