"""Commands of ours that a background run calls, with the real engine and the real shell."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from tests.background.scene import routine, scene
from tests.engine.scene import LIMIT, engine_at
from tests.engine.scene import scene as model_scene
from tests.storage.places import DataDirectory, QuickDisk

from ollim_bot.domain.occurrences import OccurrenceState
from ollim_bot.offline.messages import CallTool, Reply
from ollim_bot.ports import SessionSpec

JOB = '---\nid: abc123\ncron: "0 9 * * *"\nbackground: true\n---\nLook at the mail.\n'
PILL = '---\nid: pill\nrun-at: "2099-01-01T09:00"\n---\nTake the pill.\n'
TOOL = "mcp__discord__add_reminder"
ADD = "ollim-bot reminder add -m 'call Ann' --in 20m"


def bash(command: str) -> Reply:
    return Reply((CallTool("Bash", {"command": command}),))


async def test_the_command_knows_the_run_and_its_limits(tmp_path: Path) -> None:
    allowed = ("Bash(ollim-bot reminder *)",)
    async with asyncio.timeout(LIMIT), model_scene(tmp_path) as at:
        data = DataDirectory(tmp_path / "data")
        # The commands have the clock of the machine, so the run has its day too.
        now = datetime.now(UTC).replace(microsecond=0)
        stores = data.open(QuickDisk(), now)
        (data.paths.routines / "mail.md").write_text(JOB)
        (data.paths.reminders / "pill.md").write_text(PILL)
        engine = engine_at(tmp_path, at.url, {"OLLIM_DATA_DIR": str(data.paths.root)})
        at.model.then(
            bash(f"{ADD} --must"),
            bash("ollim-bot reminder edit pill -m 'buy this'"),
            *(Reply((CallTool(TOOL, {"prompt": "Eat.", "delay_minutes": 9}),)) for _ in range(2)),
            bash(ADD),
            bash(ADD),
        )
        async with scene(engine, root=data.paths.root, stores=stores, now=now) as stage:
            stage.base, stage.main = SessionSpec("You help.", data.paths.root), None
            assert await stage.run(routine(allowed_tools=allowed)) is OccurrenceState.DONE
        messages = at.model.requests[-1].messages
        told = [result.text for message in messages for result in message.tool_results]
    must, edit, *added = told
    assert "must: only what the owner asked for" in must
    assert "what the owner asked for cannot be changed" in edit
    assert ["Reminder set" in each for each in added[2:]] == [True, False]
    assert "3 jobs at most" in added[3], "a tool and a command count alike"
    set_by = sorted(str(one.item.spec.set_by) for one in stores.reminders.all())
    assert set_by == ["None", *["routine:abc123"] * 3]
