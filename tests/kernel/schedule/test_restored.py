"""After a return to a backup or a copy, what was due since is listed once, not repeated."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine
from tests.kernel.schedule.owner_actions import pings
from tests.kernel.schedule.scene import NOW, ScheduleScene, schedule_scene
from tests.kernel.schedule.test_firing import HOUR, MINUTE

from ollim_bot.features.keeping.backup import write_backup
from ollim_bot.features.keeping.restore import restore, take_all
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.copies import AfterReturn, copy_database
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.store.opening import open_for_bot
from ollim_bot.kernel.store.questions import DATABASE
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.ledger_check import check
from ollim_bot.kernel.values.presence import Presence
from ollim_bot.kernel.values.surface_state import DiscordState

FREELY = {"update-main-session": "freely"}
RUN = {"background": "true", "late": "run", **FREELY}


class ReturnScene:
    """A bot with an automatic copy, whose database becomes garbage between a stop and a start."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = DataPaths(root)
        self.clock = ManualClock(NOW)
        self.engine = ScriptedEngine()
        self.problems: list[str] = []

    def run(self) -> AbstractAsyncContextManager[ScheduleScene]:
        return schedule_scene(self.engine, self.root, clock=self.clock)

    def copy(self) -> None:
        copy_database(self.paths.state / DATABASE, self.clock.now())

    def lose_database(self) -> AfterReturn:
        """Overwrite the database, and open it as the next start does."""
        (self.paths.state / DATABASE).write_bytes(b"garbage" * 4096)
        for log in self.paths.state.glob(f"{DATABASE}-*"):
            log.unlink()
        returned = started(self.paths, self.clock)
        assert returned is not None
        return returned


def listed(at: ScheduleScene) -> list[str]:
    return [text for text in at.told if "Since this copy these were due" in text]


def started(paths: DataPaths, clock: ManualClock) -> AfterReturn | None:
    """Open the database as the bot does at its start, after a restore."""
    told: list[AfterReturn] = []

    def tell(_: Transaction, returned: AfterReturn) -> None:
        told.append(returned)

    opened = open_for_bot(paths, clock.now, report=lambda _: None, tell=tell)
    opened.close()
    return told[0] if told else None


async def test_what_was_due_is_listed_and_what_comes_later_runs(tmp_path: Path) -> None:
    engine, clock = ScriptedEngine().then(pings("Once.")), ManualClock(NOW)
    root, environment = tmp_path / "data", {"HOME": str(tmp_path)}
    async with schedule_scene(engine, root, clock=clock) as at:
        at.remind("w1", MINUTE)
        at.remind("w2", 66 * MINUTE, body="Later.")
        at.routine("plan", "17 10 * * *", background="true", late="run")
        await at.advance(20)
    made = write_backup(DataPaths(root), environment, clock.now)
    async with schedule_scene(engine, root, clock=clock) as at:
        await at.advance(60)
        await at.until(lambda: at.pings == ["Once."])
    await clock.advance(3600)
    restore(made.path, DataPaths(root), environment, clock.now(), take_all)
    assert (root / "reminders" / "w1.md").exists(), "the backup has it"
    returned = started(DataPaths(root), clock)
    assert returned is not None
    assert returned.since == made.manifest.made_at
    asked = len(engine.prompts)
    async with schedule_scene(engine, root, clock=clock) as at:
        await at.advance(120)
        await at.until(lambda: at.told)
        assert at.pings == []
        assert len(engine.prompts) == asked
        assert at.reminders == ["w2"]
        listed = [text for text in at.told if "Since this backup" in text]
        assert len(listed) == 1
        assert "“Drink water”, today 10:16" in listed[0]
        assert "“Plan the day”, today 10:17" in listed[0]
        assert [row.state for row in at.ended("w1")] == ["missed"]
        await at.advance(240)
        await at.until(lambda: at.reminders == [])
        assert check(at.rows, clock.now()) == []
    async with schedule_scene(engine, root, clock=clock) as at:
        await at.advance(60)
        assert len([text for text in at.told if "Since this backup" in text]) == 1


async def test_the_first_step_notes_what_need_not_be_read_again(tmp_path: Path) -> None:
    engine, clock = ScriptedEngine(), ManualClock(NOW)
    root, environment = tmp_path / "data", {"HOME": str(tmp_path)}
    async with schedule_scene(engine, root, clock=clock, runs=False) as at:
        at.store.run(lambda tx: tx.discord.put(DiscordState(last_seen="1300000000000000000")))
        at.store.run(lambda tx: tx.presence.put(Presence(NOW)))
    made = write_backup(DataPaths(root), environment, clock.now)
    async with schedule_scene(engine, root, clock=clock, runs=False) as at:
        said = NOW + timedelta(minutes=5)
        mine = ChatMessage(MessageId("1"), said, Author.OWNER, "water the plants")
        answer = ChatMessage(MessageId("2"), said, Author.ASSISTANT, "I will")
        at.store.run(lambda tx: (tx.messages.add(mine), tx.messages.add(answer)))
    await clock.advance(3600)
    report = restore(made.path, DataPaths(root), environment, clock.now(), take_all)
    assert report.said == ("water the plants",)
    returned = started(DataPaths(root), clock)
    assert returned is not None
    assert returned.since_backup is not None
    assert returned.since_backup.said == ("water the plants",)
    async with schedule_scene(engine, root, clock=clock, runs=False) as at:
        seen = at.store.query(lambda tx: tx.discord.get()).last_seen
        milliseconds = (int(seen or 0) >> 22) + 1420070400000
        assert milliseconds == int(clock.now().timestamp() * 1000)
        presence = at.store.query(lambda tx: tx.presence.get())
        assert presence.running_since is None, "else the next greeting tells of a crash"
    assert started(DataPaths(root), clock) is None


@pytest.mark.parametrize("is_killed", [False, True])
async def test_after_a_return_to_a_copy_what_was_due_since_is_listed_and_not_repeated(
    tmp_path: Path, *, is_killed: bool
) -> None:
    scene = ReturnScene(tmp_path)
    scene.engine.then(pings("Plan.")).then(pings("Water.")).then(pings("Walk.")).then(pings("Hot."))
    async with scene.run() as at:
        at.routine("plan", "17 10 * * *", "Plan the day.", **RUN)
        at.routine(
            "pill", "18 10 * * *", "Take the pill.", must="true", plain="true", before="[1m]"
        )
        at.remind("water", 4 * MINUTE, **FREELY)
        at.remind("hot", 2 * HOUR, body="Turn the heating up.", **FREELY)
        await at.advance(20)
        scene.copy()
        at.routine("walk", "20 10 * * *", "Go for a walk.", **RUN)
        await at.advance(7 * 60)
        await at.until(lambda: at.reminders == ["hot"])
        assert sorted(at.pings) == [
            "Plan.",
            "Take the pill.",
            "Walk.",
            "Water.",
            "in 1 min: Take the pill",
        ]
    if is_killed:
        # The last heartbeat was before the last run.
        HeartbeatFile(scene.paths).write(NOW + timedelta(minutes=4, seconds=45))
    returned = scene.lose_database()
    assert returned.since == NOW + timedelta(seconds=20)
    asked = len(scene.engine.prompts)
    async with scene.run() as at:
        await at.advance(120)
        await at.until(lambda: listed(at))
        assert at.pings == [], "the log is that of the copy"
        assert len(scene.engine.prompts) == asked
        (text,) = listed(at)
        assert "“Take the pill”, today 10:18; “Plan the day”, today 10:17" in text
        assert "“Go for a walk”, today 10:20" in text, "a job that the copy does not know"
        assert "water" not in text, "its file is gone, so it has come"
        assert check(at.rows, scene.clock.now()) == []
        await at.advance(2 * 3600, step=30)
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["Hot."], "what is still ahead comes"
    async with scene.run() as at:
        await at.advance(60)
        assert len(listed(at)) == 1
        assert check(at.rows, scene.clock.now()) == []


async def test_what_the_bot_cannot_have_done_before_it_lost_its_state_is_caught_up_on(
    tmp_path: Path,
) -> None:
    scene = ReturnScene(tmp_path)
    scene.engine.then(pings("Late plan.")).then(pings("Late water."))
    async with scene.run() as at:
        at.routine("plan", "0 12 * * *", **RUN)
        at.remind("water", 2 * HOUR, **FREELY)
        at.remind("undelivered", MINUTE, body="Call the plumber.", must="true")
        await at.advance(20)
        scene.copy()
    # A kill: the reminder was due, and may have been begun, but its file says that it is not over.
    await scene.clock.advance(50)
    HeartbeatFile(scene.paths).write(scene.clock.now())
    await scene.clock.advance(3 * 3600)
    scene.lose_database()
    async with scene.run() as at:
        await at.advance(30)
        await at.until(lambda: at.reminders == [] and at.ended("plan"))
        assert sorted(at.pings) == ["Call the plumber.", "Late plan.", "Late water."]
        assert listed(at) == []
        assert len(scene.engine.prompts) == 2
        assert check(at.rows, scene.clock.now()) == []
