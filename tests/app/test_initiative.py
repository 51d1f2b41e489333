"""Job files that the agent writes pass the gate of the whole bot."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import CallsTool, Says, ScriptedEngine
from devtools.doubles.surface import RecordingSurface
from tests.app.test_app import running, settings, until

from ollim_bot.app.app import Adapters, App
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.events import ToolRefused
from ollim_bot.kernel.values.inbox import InputId
from ollim_bot.kernel.values.ports import IncomingMessage, ToolCall
from ollim_bot.kernel.values.taint import Untrusted

pytestmark = pytest.mark.real_process

NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
PLAN = """---
id: plan
cron: "* * * * *"
background: true
allow-ping: {allow_ping}
allowed-tools: ["Write(./reminders/**.md)"]
---
Plan the day.
"""


def reminder(number: int, *lines: str) -> dict[str, object]:
    head = [f"id: r{number}", "run-at: 2026-11-15T09:02", "set-by: routine:plan", *lines]
    content = "\n".join(["---", *head, "---", "Look here!", ""])
    return {"file_path": f"reminders/r{number}.md", "content": content}


async def test_files_are_bounded_marked_and_no_louder_than_the_run(tmp_path: Path) -> None:
    clock, engine = ManualClock(NOW), ScriptedEngine()
    job = tmp_path / "data/routines/plan.md"
    job.parent.mkdir(parents=True)
    job.write_text(PLAN.format(allow_ping="false"))
    app = App(
        settings(tmp_path), Adapters(clock=clock, engine=engine, surfaces=[RecordingSurface()])
    )
    async with running(app):
        for _ in range(1000):
            if engine.prompts:
                break
            await clock.advance(5)
            await asyncio.sleep(0.005)
        run = next(session for session in engine.opened if session.spec.occurrence)
        gate = run.tools.gate

        async def refused(arguments: dict[str, object]) -> str:
            refusal = await gate(ToolCall("Write", arguments))
            return refusal.reason if refusal else ""

        assert "this run may not ping" in await refused(reminder(0))
        silent = [await refused(reminder(n, "allow-ping: false")) for n in range(1, 5)]
        assert silent[:3] == ["", "", ""]
        assert "3 jobs at most" in silent[3]
        assert await refused({"file_path": "notes.md", "content": "x"})


async def test_a_turn_with_a_forward_writes_no_order_and_an_honest_one_does(tmp_path: Path) -> None:
    order = (
        "---\nid: o\nrun-at: 2099-01-01T09:00\nuntrusted: forwarded message\nmust: true\n---\nx\n"
    )
    write = CallsTool("Write", {"file_path": "reminders/o.md", "content": order})
    surface, engine = RecordingSurface(), ScriptedEngine().then(write, Says("No."))
    engine.then(write, Says("Yes."))
    app = App(settings(tmp_path), Adapters(engine=engine, surfaces=[surface]))
    async with running(app):
        await until(lambda: surface.receptions)
        forward = Untrusted("forwarded message", "a message that the owner forwarded")

        async def say(name: str, untrusted: Untrusted | None = None) -> None:
            before = len(surface.posted_by(Author.ASSISTANT))
            message = IncomingMessage(InputId(name), "test", "x", untrusted=untrusted)
            await surface.receptions[0].receive(message)
            await until(lambda: len(surface.posted_by(Author.ASSISTANT)) > before)

        await say("m1", forward)
        await say("m2")
    refused = [
        [each.reason for each in surface.events[start.turn] if isinstance(each, ToolRefused)]
        for start in surface.starts
    ]
    assert refused[1:] == [[]]
    assert "must: you have read a forwarded message" in refused[0][0]
