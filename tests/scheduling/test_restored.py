"""After a restore, what was due since the backup is listed once and does not run again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.scheduling.scene import NOW, schedule_scene
from tests.scheduling.test_firing import HOUR, MINUTE, pings

from ollim_bot.domain.chat import Author, ChatMessage, MessageId
from ollim_bot.domain.ledger_check import check
from ollim_bot.domain.presence import Presence
from ollim_bot.domain.surface_state import DiscordState
from ollim_bot.paths import DataPaths
from ollim_bot.store.copies import AfterReturn
from ollim_bot.store.opening import open_for_bot
from ollim_bot.testing.clock import ManualClock
from ollim_bot.testing.engine import ScriptedEngine
from ollim_bot.upkeep.backup import write_backup
from ollim_bot.upkeep.powers import take_all
from ollim_bot.upkeep.restore import restore


def started(paths: DataPaths, clock: ManualClock) -> AfterReturn | None:
    """Open the database as the bot does at its start, after a restore."""
    told: list[AfterReturn] = []
    opened = open_for_bot(paths, clock.now, report=lambda _: None, told=told.append)
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


async def test_a_way_back_on_which_nothing_happened_catches_up(tmp_path: Path) -> None:
    engine, clock = ScriptedEngine().then(pings("Late.")), ManualClock(NOW)
    root, environment = tmp_path / "data", {"HOME": str(tmp_path)}
    async with schedule_scene(engine, root, clock=clock) as at:
        at.remind("w1", HOUR)
        await at.advance(20)
    made = write_backup(DataPaths(root), environment, clock.now)
    await clock.advance(2 * 3600)
    restore(made.path, DataPaths(root), environment, clock.now(), take_all, is_return=True)
    assert started(DataPaths(root), clock) is None
    async with schedule_scene(engine, root, clock=clock) as at:
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["Late."]


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
        assert milliseconds == clock.now().timestamp() * 1000
        presence = at.store.query(lambda tx: tx.presence.get())
        assert presence.running_since is None, "else the next greeting tells of a crash"
    assert started(DataPaths(root), clock) is None
