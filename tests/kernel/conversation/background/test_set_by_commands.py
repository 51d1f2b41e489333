"""Commands of ours that a background run calls, as its engine calls them."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from devtools.scripted_model import ScriptedModel
from tests.hostile.calling_engine import CallingEngine
from tests.hostile.canary_home import CanaryHome
from tests.kernel.conversation.background.real_scene import calls
from tests.kernel.conversation.background.scene import Scene, background_scene, reminder, routine
from tests.kernel.store.files.data_directory import DataDirectory, QuickDisk
from tests.patience import patience
from tests.stores import Stores

from ollim_bot.kernel.engine.launcher import engine_variables
from ollim_bot.kernel.values.occurrences import OccurrenceState
from ollim_bot.kernel.values.ports import SessionSpec

pytestmark = pytest.mark.real_process

JOB = '---\nid: abc123\ncron: "0 9 * * *"\nbackground: true\n---\nLook at the mail.\n'
PILL = '---\nid: pill\nrun-at: "2099-01-01T09:00"\n---\nTake the pill.\n'
ADD = "ollim-bot reminder add -m 'call Ann' --in 20m"


DAILY = 'ollim-bot routine add --id daily -m "Plan the day." --cron "30 8 * * 1-5" --background'
ALLOWED = ("Bash(ollim-bot reminder *)", "Bash(ollim-bot routine *)")
CALLS = (
    calls("Bash", command=f"{ADD} --must"),
    calls("Bash", command="ollim-bot reminder edit pill -m 'buy this'"),
    # Refused: else a run could write to the owner for free, by setting and cancelling reminders.
    calls("mcp__discord__cancel_reminder", reminder_id="own"),
    calls("Bash", command=DAILY),
    calls("mcp__discord__cancel_reminder", reminder_id="bo"),
    calls("mcp__discord__add_reminder", prompt="Call Eve.", delay_minutes=20),
    calls("Bash", command=ADD),
    calls("Bash", command=ADD),
)
OWN = reminder("own", message="Look at me!", description="", set_by="routine:abc123")


async def test_the_command_knows_the_run_and_its_limits_and_changes_are_shown_with_undo(
    tmp_path: Path,
) -> None:
    async with asyncio.timeout(patience()):
        data, model = DataDirectory(tmp_path / "data"), ScriptedModel()
        # The commands use the real clock, so the run must have the same day.
        now = datetime.now(UTC).replace(microsecond=0)
        stores = data.open(QuickDisk(), now)
        (data.paths.routines / "mail.md").write_text(JOB)
        (data.paths.reminders / "pill.md").write_text(PILL)
        path = stores.reminders.add(reminder("bo", message="Call Bo.", description=""))
        stores.reminders.add(OWN)
        given = {"HOME": str(tmp_path), "OLLIM_DATA_DIR": str(data.paths.root)}
        environment = engine_variables(given, os.environ, Path(sys.executable).parent)
        engine = CallingEngine(model, environment, CanaryHome(tmp_path))
        model.then(*CALLS)
        async with background_scene(engine, root=data.paths.root, stores=stores, now=now) as scene:
            scene.base, scene.main = SessionSpec("You help.", data.paths.root), None
            job = routine(allowed_tools=ALLOWED, description="Mail")
            assert await scene.run(job) is OccurrenceState.DONE
            messages = model.requests[-1].messages
            told = [result.text for message in messages for result in message.tool_results]
            assert_the_command_knew_its_limits(told, stores)
            assert not path.exists()
            await check_that_changes_are_shown_and_undone(scene)


def assert_the_command_knew_its_limits(told: list[str], stores: Stores) -> None:
    must, edit, *_, added, refused = told
    assert "must: only what the owner asked for" in must
    assert "what the owner asked for cannot be changed" in edit
    assert ["Reminder set" in each for each in (added, refused)] == [True, False]
    assert "3 jobs at most" in refused, "a tool and a command count alike"
    by_run = [str(one.item.spec.set_by) for one in stores.routines.all()]
    by_run += [str(one.item.spec.set_by) for one in stores.reminders.all()]
    assert sorted(by_run) == ["None", "None", *["routine:abc123"] * 3]


async def check_that_changes_are_shown_and_undone(scene: Scene) -> None:
    posts = [post for post in scene.surface.posts if post.card is not None]
    titles = [post.card.title for post in posts if post.card]
    assert titles == [
        "Routine added: Plan the day.",
        "Reminder cancelled: Call Bo.",
        "Reminder added: call Ann",
    ]
    assert {post.job for post in posts} == {"Mail"}
    card = posts[1].card
    assert card is not None
    assert not (await scene.echo.undo("web", posts[1], card.buttons[0])).is_error
    assert scene.stores.reminders.get("bo").item.spec.message == "Call Bo."
