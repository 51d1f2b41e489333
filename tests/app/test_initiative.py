"""Job files that a background run writes pass the gate of the whole bot."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.app.test_app import running, settings

from ollim_bot.app.app import Adapters, App
from ollim_bot.ports import ToolCall
from ollim_bot.testing.clock import ManualClock
from ollim_bot.testing.engine import ScriptedEngine
from ollim_bot.testing.surface import RecordingSurface

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
