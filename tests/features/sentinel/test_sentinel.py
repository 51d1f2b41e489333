"""The sentinel delivers due `must` items once while the bot does not run."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import UTC, timedelta
from functools import partial
from pathlib import Path

import pytest
from devtools.doubles.engine import ScriptedEngine, ScriptedSession
from tests.features.sentinel.sentinel_scene import (
    MUST,
    PILL,
    FakeDesktop,
    FakeDirectChannel,
    FakeSentinelClock,
    Killed,
    Scene,
    ThreadPause,
    kill,
    make_scene,
)
from tests.kernel.schedule.owner_actions import pings
from tests.kernel.schedule.test_nags import click
from tests.kernel.store.scene import without_patience

from ollim_bot.features.sentinel.sentinel_file import BotState, SentinelFile
from ollim_bot.features.sentinel.sentinel_process import NOTIFICATION
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.store.files import FileLock
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.questions import DATABASE
from ollim_bot.kernel.values.ledger_check import check
from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot.kernel.values.ports import SessionSpec, Toolset

MINUTE = 60.0


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return make_scene(tmp_path / "data")


def rows_of(scene: Scene, job: str = "pill") -> list[LedgerRow]:
    rows = scene.ask(lambda tx: tx.ledger.tail(500))
    return [row for row in rows if row.occurrence is not None and row.occurrence.job_id == job]


def is_ledger_valid(scene: Scene) -> bool:
    rows, now = scene.ask(lambda tx: tx.ledger.tail(5000)), scene.clock.now()
    return check(rows, now, now) == []


async def messages_after_restart(scene: Scene) -> list[str]:
    """The messages on Discord after the bot has run again for a while."""
    async with scene.bot() as bot:
        await bot.advance(90)
        await bot.until(lambda: bot.reminders == [])
    return scene.service.texts


async def test_what_is_due_while_the_bot_is_dead_comes_once_with_its_buttons(scene: Scene) -> None:
    await scene.run_bot_and_crash(**MUST, nag="10m x 2")
    scene.clock.jump(9 * MINUTE)
    report = scene.run_sentinel()
    assert [each.through for each in report.outcomes] == [("discord",)]
    assert scene.service.texts == [PILL]
    assert [row.state for row in rows_of(scene)] == ["due", "done", "planned", "delivered"]
    (item,) = scene.ask(lambda tx: tx.due_items.open())
    message = scene.ask(lambda tx: tx.messages.get(item.card))
    assert message is not None
    assert message.card is not None
    assert message.card.buttons[0].label == "Done"
    assert message.footer == "The bot does not answer; this came from its watch."
    assert item.again_at is not None
    assert scene.run_sentinel().outcomes == []
    async with scene.bot() as bot:
        await bot.until(lambda: bot.reminders == [])
        await bot.until(lambda: bot.told)
        assert (
            "While I was away, my watch brought “Take the blue pill” today 10:25." in bot.told[-1]
        )
        assert scene.service.texts.count(PILL) == 1
        await bot.advance(11 * MINUTE, step=30)
        assert f"{PILL.removesuffix('.')} · 10 min ago" in " ".join(scene.service.texts)
    assert is_ledger_valid(scene)


async def test_what_it_has_brought_is_asked_again_as_its_nag_says(scene: Scene) -> None:
    await scene.run_bot_and_crash(**MUST, nag="10m x 2")
    scene.clock.jump(9 * MINUTE)
    for _ in range(9):
        scene.run_sentinel()
        scene.clock.jump(5 * MINUTE)
    assert len(scene.service.texts) == 3
    assert "10 min ago" in scene.service.texts[1]
    (item,) = scene.ask(lambda tx: tx.due_items.open())
    newest = scene.ask(lambda tx: tx.messages.get(item.card))
    assert newest is not None
    assert "this came from its watch" in newest.footer
    assert newest.card is not None
    assert newest.card.buttons[0].label == "Done"
    async with scene.bot() as bot:
        await bot.until(lambda: bot.told)
        await bot.advance(30 * MINUTE, step=30)
        assert len([text for text in bot.told if "my watch" in text]) == 1
        assert len(scene.service.texts) == 3 + len(bot.told)
    assert is_ledger_valid(scene)


async def test_only_what_has_arrived_is_called_brought(scene: Scene) -> None:
    await scene.run_bot_and_crash()
    scene.clock.jump(9 * MINUTE)
    scene.run_sentinel(has_channel=False)
    async with scene.bot() as bot:
        await bot.until(lambda: bot.told)
        assert "brought" not in bot.told[-1]
        assert "was due today 10:25, and my watch may not have reached you." in bot.told[-1]


async def test_what_arrives_in_a_later_run_is_told_once_as_brought(scene: Scene) -> None:
    await scene.run_bot_and_crash()
    scene.clock.jump(9 * MINUTE)
    scene.service.is_down = True
    scene.run_sentinel()
    scene.service.is_down = False
    scene.run_sentinel()
    assert scene.service.texts == [PILL]
    async with scene.bot() as bot:
        await bot.until(lambda: bot.told)
        await bot.advance(11 * MINUTE, step=30)
        (told,) = [text for text in bot.told if "my watch" in text]
        assert "brought" in told
        assert [each for each in bot.pending if "may not" in each] == []


async def test_nothing_comes_before_its_moment_and_nothing_waits_for_the_next_run(
    scene: Scene,
) -> None:
    await scene.run_bot_and_crash()
    scene.clock.jump(6 * MINUTE)
    report = scene.run_sentinel()
    (outcome,) = report.outcomes
    assert outcome.due <= outcome.at < outcome.due + timedelta(seconds=6)


async def test_what_is_cancelled_or_changed_in_the_last_minutes_is_so(scene: Scene) -> None:
    async with scene.bot() as bot:
        files = [
            bot.remind(name, timedelta(minutes=10), PILL, **MUST) for name in ("gone", "changed")
        ]
        await bot.advance(31)
    scene.clock.jump(6 * MINUTE)
    time = FakeSentinelClock(scene.clock)

    def edit() -> None:
        if time.slept > MINUTE:
            files[0].unlink(missing_ok=True)
            files[1].write_text(files[1].read_text().replace(PILL, "Take the red one."))

    time.on_call = edit
    scene.run_sentinel(time=time)
    assert scene.service.texts == ["Take the red one."]


async def test_however_late_it_comes_and_says_so_without_seconds(scene: Scene) -> None:
    async with scene.bot() as at:
        at.remind("pill", timedelta(minutes=10, seconds=7), PILL, **MUST)
        await at.advance(31)
    scene.clock.jump(5 * 60 * MINUTE)
    scene.run_sentinel()
    (item,) = scene.ask(lambda tx: tx.due_items.open())
    message = scene.ask(lambda tx: tx.messages.get(item.card))
    assert message is not None
    assert message.footer.startswith("Late: it was due today 10:25. ")


async def test_a_bot_that_beats_is_left_alone_and_nothing_is_written(scene: Scene) -> None:
    await scene.run_bot_and_crash()
    before = {path: path.stat().st_mtime_ns for path in scene.paths.state.rglob("*")}
    scene.clock.jump(20)
    assert scene.run_sentinel().state is BotState.RUNNING
    assert {path: path.stat().st_mtime_ns for path in scene.paths.state.rglob("*")} == before


async def test_without_anything_that_must_come_a_dead_bot_leaves_no_trace(scene: Scene) -> None:
    await scene.run_bot_and_crash(must="false", plain="true")
    before = {path: path.stat().st_mtime_ns for path in scene.paths.state.rglob("*")}
    scene.clock.jump(12 * MINUTE)
    assert scene.run_sentinel().outcomes == []
    assert {path: path.stat().st_mtime_ns for path in scene.paths.state.rglob("*")} == before


async def test_a_sentinel_that_dies_at_any_point_leads_to_one_message(scene: Scene) -> None:
    """The next sentinel, or the bot, finds the claim, and sends or confirms."""
    await scene.run_bot_and_crash()
    scene.clock.jump(9.9 * MINUTE)
    number, is_over = 0, False
    while not is_over:
        number += 1
        copy = scene.copied(scene.root.parent / f"{number}")
        try:
            copy.run_sentinel(time=FakeSentinelClock(copy.clock, kill_at=number))
            is_over = True
        except Killed:
            pass
        # Starting a bot is slow, so it follows every third crash only, a sentinel the others.
        if number % 3:
            copy.clock.jump(5 * MINUTE)
            copy.run_sentinel()
            assert copy.service.texts == [PILL], number
            assert [row.state for row in rows_of(copy)] == ["due", "done", "delivered"], number
        else:
            assert (await messages_after_restart(copy)).count(PILL) == 1, number
            assert [row.state for row in rows_of(copy)] == ["due", "done", "delivered"], number
        assert is_ledger_valid(copy)
    assert number > 15


@pytest.mark.parametrize("point", ["before", "after"])
async def test_a_bot_after_a_crash_before_or_after_the_sending_brings_one_message(
    scene: Scene, point: str
) -> None:
    await scene.run_bot_and_crash()
    scene.clock.jump(10 * MINUTE)
    with pytest.raises(Killed):
        scene.run_sentinel(channel=FakeDirectChannel(scene.service, **{point: kill}))
    # After five minutes Discord has forgotten the nonce.
    scene.clock.jump(5 * MINUTE)
    assert (await messages_after_restart(scene)).count(PILL) == 1
    assert is_ledger_valid(scene)


async def test_a_stuck_bot_that_comes_back_does_not_say_it_again(scene: Scene) -> None:
    async with scene.bot() as bot:
        bot.remind("pill", timedelta(minutes=10), PILL, **MUST)
        await bot.advance(31)
        # From here on the bot is stuck: the sentinel blocks the event loop.
        scene.clock.jump(10 * MINUTE)
        with single_instance(scene.paths.bot_pid):
            report = scene.run_sentinel()
        assert [each.through for each in report.outcomes] == [("discord",)]
        await bot.advance(3 * MINUTE)
        await bot.until(lambda: bot.reminders == [])
        assert scene.service.texts.count(PILL) == 1
        assert bot.states("pill") == ["due", "done", "delivered"]
    assert is_ledger_valid(scene)


async def test_a_stuck_bot_knows_the_job_that_the_sentinel_saw_first(scene: Scene) -> None:
    async with scene.bot() as bot:
        await bot.advance(31)
        scene.clock.jump(6 * MINUTE)
        bot.remind("pill", timedelta(minutes=1), PILL, **MUST, nag="10m x 2")
        bot.routine("late", "22 10 * * *", PILL, **MUST)
        with single_instance(scene.paths.bot_pid):
            assert len(scene.run_sentinel().outcomes) == 2
        await bot.advance(3 * MINUTE)
        await bot.until(lambda: bot.reminders == [])
    assert scene.service.texts.count(PILL) == 2
    assert is_ledger_valid(scene)


@pytest.mark.real_time
async def test_a_bot_that_comes_back_in_the_middle_delivers_nothing_twice(scene: Scene) -> None:
    """The sentinel is paused at a call of the clock, or next to the sending, while a bot runs."""
    await scene.run_bot_and_crash()
    scene.clock.jump(9.9 * MINUTE)
    for point in (*range(7, 19, 3), "before", "after"):
        copy = scene.copied(scene.root.parent / f"{point}")
        pause, time, channel = (
            ThreadPause(),
            FakeSentinelClock(copy.clock),
            FakeDirectChannel(copy.service),
        )
        if isinstance(point, str):
            setattr(channel, point, pause)
        else:
            time.on_call = partial(_pause_from, copy, time, point, pause)
        await pause.run_until_paused(partial(copy.run_sentinel, time=time, channel=channel))
        async with copy.bot() as bot:
            await bot.advance(20)
            await pause.resume()
            await bot.advance(MINUTE)
            await bot.until(lambda bot=bot: bot.reminders == [])  # type: ignore[misc]
        assert copy.service.texts.count(PILL) == 1, point
        assert [row.state for row in rows_of(copy)] == ["due", "done", "delivered"], point
        assert is_ledger_valid(copy)


def _pause_from(scene: Scene, time: FakeSentinelClock, number: int, pause: ThreadPause) -> None:
    """Pause at this call of the clock, or at the next call outside of a transaction."""
    if time.calls >= number and _is_free(scene):
        time.on_call = lambda: None
        pause()


def _is_free(scene: Scene) -> bool:
    with closing(sqlite3.connect(scene.paths.state / DATABASE, timeout=0)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        return True


async def test_a_machine_that_slept_gives_the_bot_a_minute(scene: Scene) -> None:
    await scene.run_bot_and_crash()
    scene.clock.jump(8 * 60 * MINUTE)
    time = FakeSentinelClock(scene.clock)

    def beat() -> None:
        if time.slept >= 25:
            HeartbeatFile(scene.paths).write(scene.clock.now())

    time.on_call = beat
    with single_instance(scene.paths.bot_pid):
        report = scene.run_sentinel(time=time)
    assert report.came_back
    assert report.outcomes == []
    assert scene.service.texts == []


async def test_a_clock_that_was_set_back_keeps_nothing_from_coming(scene: Scene) -> None:
    await scene.run_bot_and_crash()
    HeartbeatFile(scene.paths).write(scene.clock.now() + timedelta(hours=3))
    scene.clock.jump(9.5 * MINUTE)
    assert len(scene.run_sentinel().outcomes) == 1


async def test_a_clean_stop_is_said_and_the_supervisor_is_not_asked(scene: Scene) -> None:
    await scene.run_bot_and_crash()
    scene.stop_cleanly()
    scene.clock.jump(10 * MINUTE)
    report = scene.run_sentinel(revive=lambda: pytest.fail("It was stopped on purpose."))
    assert report.state is BotState.STOPPED
    (item,) = scene.ask(lambda tx: tx.due_items.open())
    message = scene.ask(lambda tx: tx.messages.get(item.card))
    assert message is not None
    assert message.footer == "The bot is stopped; this came from its watch."


async def test_the_supervisor_is_asked_once_for_each_silence(scene: Scene) -> None:
    async with scene.bot() as bot:
        for minutes in (10, 18):
            bot.remind(f"pill-{minutes}", timedelta(minutes=minutes), PILL, **MUST)
        await bot.advance(31)
    scene.clock.jump(10 * MINUTE)
    asked: list[str] = []

    def revive() -> bool:
        asked.append("start")
        return True

    assert len(scene.run_sentinel(revive=revive).outcomes) == 1
    scene.clock.jump(8 * MINUTE)
    assert len(scene.run_sentinel(revive=revive).outcomes) == 1
    assert asked == ["start"]


async def test_a_revived_bot_is_left_to_deliver(scene: Scene) -> None:
    await scene.run_bot_and_crash()
    scene.clock.jump(10 * MINUTE)

    def revive() -> bool:
        HeartbeatFile(scene.paths).write(scene.clock.now())
        return True

    report = scene.run_sentinel(revive=revive)
    assert report.is_revived
    assert report.came_back
    assert scene.service.texts == []


async def test_during_an_update_the_database_is_not_touched_and_the_bot_takes_it_over(
    scene: Scene,
) -> None:
    await scene.run_bot_and_crash()
    scene.clock.jump(10 * MINUTE)
    report = scene.run_sentinel(maintenance=lambda: "update")
    assert [(each.through, each.kept_in) for each in report.outcomes] == [
        (("discord",), "sentinel.json")
    ]
    assert rows_of(scene) == []
    assert scene.paths.sentinel.stat().st_mode & 0o777 == 0o600
    scene.clock.jump(5 * MINUTE)
    assert scene.run_sentinel(maintenance=lambda: "update").outcomes == []
    # After the update the next sentinel or the bot moves the file into the database.
    given_to_database(scene, times=2)
    assert not scene.paths.sentinel.exists()
    assert [row.state for row in rows_of(scene)] == ["due", "done", "delivered"]
    assert len(scene.ask(lambda tx: tx.due_items.open())) == 1
    assert (await messages_after_restart(scene)).count(PILL) == 1
    assert is_ledger_valid(scene)


def given_to_database(scene: Scene, times: int = 1) -> None:
    content = scene.paths.sentinel.read_bytes()
    for _ in range(times):
        scene.paths.sentinel.write_bytes(content)
        database = open_database(
            scene.paths, scene.clock.now, is_holder=True, report=lambda _: None
        )
        SentinelFile(scene.paths, lambda _: None).give_to(database)
        database.close()


async def test_a_locked_database_keeps_nothing_from_coming(scene: Scene) -> None:
    await scene.run_bot_and_crash()
    scene.clock.jump(10 * MINUTE)
    database = open_database(scene.paths, scene.clock.now, is_holder=True, report=lambda _: None)
    database._connection.execute("BEGIN IMMEDIATE")
    try:
        report = scene.run_sentinel(connection=without_patience)
    finally:
        database._connection.execute("ROLLBACK")
        database.close()
    assert [each.kept_in for each in report.outcomes] == ["sentinel.json"]
    assert scene.service.texts == [PILL]
    # The next run can write again, and knows what the file says.
    scene.clock.jump(5 * MINUTE)
    assert scene.run_sentinel().outcomes == []
    assert scene.service.texts == [PILL]


async def test_a_damaged_database_keeps_nothing_from_coming(scene: Scene) -> None:
    await scene.run_bot_and_crash()
    scene.clock.jump(10 * MINUTE)
    for name in ("ollim.db", "ollim.db-wal"):
        (scene.paths.state / name).write_bytes(b"no database" * 1000)
    assert [each.through for each in scene.run_sentinel().outcomes] == [("discord",)]
    scene.clock.jump(5 * MINUTE)
    scene.run_sentinel()
    assert scene.service.texts == [PILL]


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process can grow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_on_a_full_disk_it_comes_once_although_nothing_can_be_kept(scene: Scene) -> None:
    await scene.run_bot_and_crash()
    scene.clock.jump(10 * MINUTE)
    with full_disk():
        report = scene.run_sentinel()
        scene.clock.jump(5 * MINUTE)
        scene.run_sentinel()
    assert [(each.through, each.kept_in) for each in report.outcomes] == [(("discord",), "")]
    assert scene.service.texts == [PILL]
    scene.run_sentinel()
    assert [row.state for row in rows_of(scene)] == ["due", "done", "delivered"]
    assert (await messages_after_restart(scene)).count(PILL) == 1
    assert is_ledger_valid(scene)


async def test_on_a_full_disk_without_discord_the_notification_comes_once(scene: Scene) -> None:
    await scene.run_bot_and_crash()
    scene.clock.jump(10 * MINUTE)
    scene.service.is_down, desktop = True, FakeDesktop()
    with full_disk():
        for _ in range(3):
            scene.run_sentinel(has_channel=False, notifier=desktop)
            scene.clock.jump(5 * MINUTE)
    assert len(desktop.shown) == 1


class HeldEngine(ScriptedEngine):
    """Opens a session only after `may_go_on` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = asyncio.Event()

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ScriptedSession]:
        await self.may_go_on.wait()
        async with super().open(spec, tools) as session:
            yield session


async def test_the_run_of_a_stuck_bot_cannot_say_what_the_sentinel_has_said(scene: Scene) -> None:
    engine = HeldEngine()
    engine.then(pings("The blue one, now!"))
    async with scene.bot(engine) as bot:
        bot.remind("pill", timedelta(minutes=2), PILL)
        await bot.advance(2 * MINUTE + 5)
        assert bot.states("pill")[:1] == ["due"]
        scene.clock.jump(6 * MINUTE)
        with single_instance(scene.paths.bot_pid):
            scene.run_sentinel()
        assert scene.service.texts == [PILL]
        engine.may_go_on.set()
        await bot.advance(3 * MINUTE)
        await bot.until(lambda: bot.reminders == [])
        assert bot.pings == [PILL]
        assert bot.states("pill").count("delivered") == 1
    assert scene.service.texts.count(PILL) == 1
    assert is_ledger_valid(scene)


async def test_without_discord_a_notification_comes_once(scene: Scene) -> None:
    await scene.run_bot_and_crash()
    scene.clock.jump(10 * MINUTE)
    scene.service.is_down = True
    desktop = FakeDesktop()
    report = scene.run_sentinel(notifier=desktop)
    assert [each.through for each in report.outcomes] == [(NOTIFICATION,)]
    scene.clock.jump(5 * MINUTE)
    scene.run_sentinel(notifier=desktop)
    assert desktop.shown == [f"{PILL} | The bot does not answer; this came from its watch."]
    scene.service.is_down = False
    scene.clock.jump(5 * MINUTE)
    scene.run_sentinel(notifier=desktop)
    assert scene.service.texts == [PILL]
    assert len(desktop.shown) == 1
    assert (await messages_after_restart(scene)).count(PILL) == 1


async def test_without_any_way_it_is_in_the_log_and_the_run_fails(scene: Scene) -> None:
    await scene.run_bot_and_crash()
    scene.clock.jump(10 * MINUTE)
    scene.service.is_down = True
    report = scene.run_sentinel(notifier=FakeDesktop(is_available=False))
    assert report.has_failed
    scene.service.is_down = False
    assert (await messages_after_restart(scene)).count(PILL) == 1


async def test_what_the_bot_had_committed_and_not_sent_is_sent(scene: Scene) -> None:
    scene.service.is_down = True
    async with scene.bot() as bot:
        bot.remind("pill", timedelta(minutes=1), PILL, **MUST)
        await bot.advance(2 * MINUTE)
        assert bot.pings == [PILL]
    scene.service.is_down = False
    scene.clock.jump(6 * MINUTE)
    scene.run_sentinel()
    assert scene.service.texts.count(PILL) == 1
    assert (await messages_after_restart(scene)).count(PILL) == 1


async def test_what_the_bot_had_claimed_and_not_said_comes_first(scene: Scene) -> None:
    engine = HeldEngine()
    async with scene.bot(engine) as bot:
        bot.routine("old", "17 10 * * *", "Old words.", must="true", background="true")
        bot.remind("pill", timedelta(minutes=8), PILL, **MUST)
        await bot.advance(125)
        assert bot.states("old")[:1] == ["due"]
        assert scene.service.texts == []
    scene.clock.jump(5 * MINUTE)
    scene.run_sentinel()
    assert scene.service.texts == ["Old words.", PILL]


async def test_what_an_answer_has_planned_is_brought(scene: Scene) -> None:
    async with scene.bot() as bot:
        head = {"id": "pill", "after-done": "1 day", "at": '"10:17"', "from": "2026-02-24"}
        bot.write("routines/pill.md", {**head, **MUST}, PILL)
        await bot.advance(4 * MINUTE)
        await click(bot, "Done")
        await bot.advance(31)
    scene.clock.jump(24 * 60 * MINUTE)
    (outcome,) = scene.run_sentinel().outcomes
    assert outcome.through
    async with scene.bot() as bot:
        await bot.advance(MINUTE)
        assert bot.states("pill")[-4:] == ["planned", "due", "done", "delivered"]
    assert is_ledger_valid(scene)


async def test_a_routine_that_must_come_has_a_dose_with_its_own_words(scene: Scene) -> None:
    async with scene.bot() as bot:
        bot.routine("pill", "25 10 * * *", PILL, kind="dose")
        await bot.advance(31)
    scene.clock.jump(10 * MINUTE)
    scene.run_sentinel()
    (item,) = scene.ask(lambda tx: tx.due_items.open())
    message = scene.ask(lambda tx: tx.messages.get(item.card))
    assert message is not None
    assert message.card is not None
    assert [each.label for each in message.card.buttons[:2]] == ["Taken", "Skipped"]
    async with scene.bot() as bot:
        await bot.advance(MINUTE)
        assert bot.states("pill") == ["due", "done", "delivered"]
    assert is_ledger_valid(scene)


async def test_a_reminder_that_was_written_while_the_bot_was_dead_comes_too(scene: Scene) -> None:
    async with scene.bot() as bot:
        await bot.advance(31)
    at = (scene.clock.now() + timedelta(minutes=8)).astimezone(UTC).isoformat()
    head = f'---\nid: pill\nrun-at: "{at}"\n---\n'
    (scene.paths.reminders / "pill.md").write_text(f"{head}{PILL}\n")
    scene.clock.jump(8 * MINUTE)
    scene.run_sentinel()
    assert (await messages_after_restart(scene)).count(PILL) == 1
    assert is_ledger_valid(scene)


async def test_of_a_file_that_became_wrong_the_last_right_version_comes(scene: Scene) -> None:
    async with scene.bot() as bot:
        file = bot.remind("pill", timedelta(minutes=10), PILL, **MUST)
        await bot.advance(12)
        file.write_text("---\nid: pill\nrun-at: never\n---\nno\n")
        await bot.advance(31)
    scene.clock.jump(10 * MINUTE)
    scene.run_sentinel()
    assert scene.service.texts[1:] == [PILL]


def test_where_no_bot_ever_ran_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert make_scene(tmp_path).run_sentinel().state is BotState.UNUSED


async def test_a_second_run_beside_the_first_does_nothing(scene: Scene) -> None:
    await scene.run_bot_and_crash()
    scene.clock.jump(10 * MINUTE)
    with FileLock(scene.paths.locks / "sentinel").held():
        assert scene.run_sentinel().is_second
    assert scene.service.texts == []


async def test_two_runs_without_a_lock_send_one_message(scene: Scene) -> None:
    await scene.run_bot_and_crash()
    scene.clock.jump(10 * MINUTE)
    time = FakeSentinelClock(scene.clock)
    reports: list[None] = []

    def second() -> None:
        if not reports:
            reports.append(None)
            (scene.paths.locks / "sentinel").unlink(missing_ok=True)
            scene.run_sentinel()

    for number in (8, 12, 16, 20, 24):
        reports.clear()
        time.on_call = lambda at=number: second() if time.calls == at else None  # type: ignore[misc]
        scene.run_sentinel(time=time)
    assert scene.service.texts == [PILL]
    assert [row.state for row in rows_of(scene)] == ["due", "done", "delivered"]
