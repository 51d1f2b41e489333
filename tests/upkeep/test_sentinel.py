"""The sentinel brings what must come while the bot does not run, once."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from tests.scheduling.test_firing import pings
from tests.upkeep.sentinel_scene import (
    MUST,
    PILL,
    Desk,
    DirectDouble,
    Killed,
    Pause,
    Scene,
    SentinelTime,
    killed,
    scene,
)

from ollim_bot.domain.ledger_check import check
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.domain.sentinel import BotState
from ollim_bot.ports import SessionSpec, Toolset
from ollim_bot.store.files import FileLock
from ollim_bot.store.heartbeat import HeartbeatFile, is_beating
from ollim_bot.store.opening import open_database
from ollim_bot.store.reading import DATABASE
from ollim_bot.store.sentinel import SentinelFile
from ollim_bot.testing.engine import ScriptedEngine, ScriptedSession
from ollim_bot.upkeep.instance import single_instance
from ollim_bot.upkeep.sentinel import NOTIFICATION

MINUTE = 60.0


@pytest.fixture
def dead(tmp_path: Path) -> Scene:
    return scene(tmp_path / "data")


def rows_of(at: Scene, job: str = "pill") -> list[LedgerRow]:
    rows = at.ask(lambda tx: tx.ledger.tail(500))
    return [row for row in rows if row.occurrence is not None and row.occurrence.job_id == job]


def is_right(at: Scene) -> bool:
    rows, now = at.ask(lambda tx: tx.ledger.tail(5000)), at.clock.now()
    return check(rows, now, now) == []


async def back(at: Scene) -> list[str]:
    """What is on Discord after the bot has run again for a while."""
    async with at.bot() as bot:
        await bot.advance(90)
        await bot.until(lambda: bot.reminders == [])
    return at.service.texts


async def test_what_is_due_while_the_bot_is_dead_comes_once_with_its_buttons(dead: Scene) -> None:
    await dead.has_died(**MUST, nag="10m x 2")
    dead.clock.jump(9 * MINUTE)
    report = dead.watch()
    assert [each.through for each in report.outcomes] == [("discord",)]
    assert dead.service.texts == [PILL]
    assert [row.state for row in rows_of(dead)] == ["due", "done", "planned", "delivered"]
    (item,) = dead.ask(lambda tx: tx.due_items.open())
    message = dead.ask(lambda tx: tx.messages.get(item.card))
    assert message is not None
    assert message.card is not None
    assert message.card.buttons[0].label == "Done"
    assert message.footer == "The bot does not answer; this came from its watch."
    assert item.again_at is not None
    assert dead.watch().outcomes == []
    async with dead.bot() as bot:
        await bot.until(lambda: bot.reminders == [])
        await bot.until(lambda: bot.told)
        assert "While I was away, my watch brought “Take the blue pill” at 10:25." in bot.told[-1]
        assert dead.service.texts.count(PILL) == 1
        await bot.advance(11 * MINUTE, step=30)
        assert f"{PILL.removesuffix('.')} · 10 min ago" in " ".join(dead.service.texts)
    assert is_right(dead)


async def test_nothing_comes_before_its_moment_and_nothing_waits_for_the_next_run(
    dead: Scene,
) -> None:
    await dead.has_died()
    dead.clock.jump(6 * MINUTE)
    report = dead.watch()
    (outcome,) = report.outcomes
    assert outcome.due <= outcome.at < outcome.due + timedelta(seconds=6)


async def test_what_is_cancelled_or_changed_in_the_last_minutes_is_so(dead: Scene) -> None:
    async with dead.bot() as bot:
        files = [
            bot.remind(name, timedelta(minutes=10), PILL, **MUST) for name in ("gone", "changed")
        ]
        await bot.advance(31)
    dead.clock.jump(6 * MINUTE)
    time = SentinelTime(dead.clock)

    def edit() -> None:
        if time.slept > MINUTE:
            files[0].unlink(missing_ok=True)
            files[1].write_text(files[1].read_text().replace(PILL, "Take the red one."))

    time.meanwhile = edit
    dead.watch(time=time)
    assert dead.service.texts == ["Take the red one."]


async def test_more_than_a_minute_late_is_said(dead: Scene) -> None:
    await dead.has_died()
    dead.clock.jump(12 * MINUTE)
    dead.watch()
    (item,) = dead.ask(lambda tx: tx.due_items.open())
    message = dead.ask(lambda tx: tx.messages.get(item.card))
    assert message is not None
    assert message.footer.startswith("Late: it was due today 10:25.")


async def test_a_bot_that_beats_is_left_alone_and_nothing_is_written(dead: Scene) -> None:
    await dead.has_died()
    before = {path: path.stat().st_mtime_ns for path in dead.paths.state.rglob("*")}
    dead.clock.jump(20)
    assert dead.watch().state is BotState.RUNNING
    assert {path: path.stat().st_mtime_ns for path in dead.paths.state.rglob("*")} == before


async def test_without_anything_that_must_come_a_dead_bot_leaves_no_trace(dead: Scene) -> None:
    await dead.has_died(must="false", plain="true")
    before = {path: path.stat().st_mtime_ns for path in dead.paths.state.rglob("*")}
    dead.clock.jump(12 * MINUTE)
    assert dead.watch().outcomes == []
    assert {path: path.stat().st_mtime_ns for path in dead.paths.state.rglob("*")} == before


async def test_a_sentinel_that_dies_at_any_point_leads_to_one_message(dead: Scene) -> None:
    """The next sentinel, or the bot, finds the claim, and sends or confirms."""
    await dead.has_died()
    dead.clock.jump(9.9 * MINUTE)
    number, is_over = 0, False
    while not is_over:
        number += 1
        at = dead.copied(dead.root.parent / f"{number}")
        try:
            at.watch(time=SentinelTime(at.clock, kill_at=number))
            is_over = True
        except Killed:
            pass
        # The bot is slow to start, so it finds every third death only.
        if number % 3:
            at.clock.jump(5 * MINUTE)
            at.watch()
            assert at.service.texts == [PILL], number
            assert [row.state for row in rows_of(at)] == ["due", "done", "delivered"], number
        else:
            assert (await back(at)).count(PILL) == 1, number
            assert [row.state for row in rows_of(at)] == ["due", "done", "delivered"], number
        assert is_right(at)
    assert number > 15


@pytest.mark.parametrize("point", ["before", "after"])
@pytest.mark.parametrize("heir", ["sentinel", "bot"])
async def test_a_death_beside_the_sending_leads_to_one_message(
    dead: Scene, point: str, heir: str
) -> None:
    await dead.has_died()
    dead.clock.jump(10 * MINUTE)
    with pytest.raises(Killed):
        dead.watch(channel=DirectDouble(dead.service, **{point: killed}))
    # By then Discord has forgotten the nonce.
    dead.clock.jump(5 * MINUTE)
    if heir == "sentinel":
        dead.watch()
        assert dead.service.texts == [PILL]
    assert (await back(dead)).count(PILL) == 1
    assert is_right(dead)


async def test_a_stuck_bot_that_comes_back_does_not_say_it_again(dead: Scene) -> None:
    async with dead.bot() as bot:
        bot.remind("pill", timedelta(minutes=10), PILL, **MUST)
        await bot.advance(31)
        # From here on nothing of the bot runs: the sentinel does not give way to the loop.
        dead.clock.jump(10 * MINUTE)
        with single_instance(dead.paths.bot_pid):
            report = dead.watch()
        assert [each.through for each in report.outcomes] == [("discord",)]
        await bot.advance(3 * MINUTE)
        await bot.until(lambda: bot.reminders == [])
        assert dead.service.texts.count(PILL) == 1
        assert bot.states("pill") == ["due", "done", "delivered"]
    assert is_right(dead)


async def test_a_stuck_bot_knows_the_job_that_the_sentinel_saw_first(dead: Scene) -> None:
    async with dead.bot() as bot:
        await bot.advance(31)
        dead.clock.jump(6 * MINUTE)
        bot.remind("pill", timedelta(minutes=1), PILL, **MUST, nag="10m x 2")
        bot.routine("late", "22 10 * * *", PILL, **MUST)
        with single_instance(dead.paths.bot_pid):
            assert len(dead.watch().outcomes) == 2
        await bot.advance(3 * MINUTE)
        await bot.until(lambda: bot.reminders == [])
    assert dead.service.texts.count(PILL) == 2
    assert is_right(dead)


async def test_a_bot_that_comes_back_in_the_middle_delivers_nothing_twice(dead: Scene) -> None:
    """The sentinel stands still at a call of the clock, or beside the sending, while a bot runs."""
    await dead.has_died()
    dead.clock.jump(9.9 * MINUTE)
    for point in (*range(7, 19, 3), "before", "after"):
        at = dead.copied(dead.root.parent / f"{point}")
        pause, time, channel = Pause(), SentinelTime(at.clock), DirectDouble(at.service)
        if isinstance(point, str):
            setattr(channel, point, pause)
        else:
            time.meanwhile = partial(_pause_from, at, time, point, pause)
        await pause.begin(partial(at.watch, time=time, channel=channel))
        async with at.bot() as bot:
            await bot.advance(20)
            await pause.end()
            await bot.advance(MINUTE)
            await bot.until(lambda bot=bot: bot.reminders == [])  # type: ignore[misc]
        assert at.service.texts.count(PILL) == 1, point
        assert [row.state for row in rows_of(at)] == ["due", "done", "delivered"], point
        assert is_right(at)


def _pause_from(at: Scene, time: SentinelTime, number: int, pause: Pause) -> None:
    """Stand still at this call of the clock, or at the next one outside of a transaction."""
    if time.calls >= number and _is_free(at):
        time.meanwhile = lambda: None
        pause()


def _is_free(at: Scene) -> bool:
    with closing(sqlite3.connect(at.paths.state / DATABASE, timeout=0)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        return True


async def test_a_machine_that_slept_gives_the_bot_a_minute(dead: Scene) -> None:
    await dead.has_died()
    dead.clock.jump(8 * 60 * MINUTE)
    time = SentinelTime(dead.clock)

    def beat() -> None:
        if time.slept >= 25:
            HeartbeatFile(dead.paths).write(dead.clock.now())

    time.meanwhile = beat
    with single_instance(dead.paths.bot_pid):
        report = dead.watch(time=time)
    assert report.came_back
    assert report.outcomes == []
    assert dead.service.texts == []


async def test_a_clock_that_was_set_back_keeps_nothing_from_coming(dead: Scene) -> None:
    await dead.has_died()
    HeartbeatFile(dead.paths).write(dead.clock.now() + timedelta(hours=3))
    dead.clock.jump(9.5 * MINUTE)
    assert len(dead.watch().outcomes) == 1


async def test_a_clean_stop_is_said_and_the_supervisor_is_not_asked(dead: Scene) -> None:
    await dead.has_died()
    dead.stop_cleanly()
    dead.clock.jump(10 * MINUTE)
    asked: list[bool] = []
    report = dead.watch(revive=lambda is_running: asked.append(is_running) is None)  # type: ignore[func-returns-value]
    assert asked == []
    assert report.state is BotState.STOPPED
    (item,) = dead.ask(lambda tx: tx.due_items.open())
    message = dead.ask(lambda tx: tx.messages.get(item.card))
    assert message is not None
    assert message.footer == "The bot is stopped; this came from its watch."


async def test_the_supervisor_is_asked_once_for_each_silence(dead: Scene) -> None:
    async with dead.bot() as bot:
        for minutes in (10, 18):
            bot.remind(f"pill-{minutes}", timedelta(minutes=minutes), PILL, **MUST)
        await bot.advance(31)
    dead.clock.jump(10 * MINUTE)
    asked: list[bool] = []

    def revive(is_running: bool) -> bool:
        asked.append(is_running)
        return True

    assert len(dead.watch(revive=revive).outcomes) == 1
    dead.clock.jump(8 * MINUTE)
    assert len(dead.watch(revive=revive).outcomes) == 1
    assert asked == [False]


async def test_a_revived_bot_is_left_to_deliver(dead: Scene) -> None:
    await dead.has_died()
    dead.clock.jump(10 * MINUTE)

    def revive(_: bool) -> bool:
        HeartbeatFile(dead.paths).write(dead.clock.now())
        return True

    report = dead.watch(revive=revive)
    assert report.is_revived
    assert report.came_back
    assert dead.service.texts == []


async def test_during_an_update_the_database_is_not_touched_and_the_bot_takes_it_over(
    dead: Scene,
) -> None:
    await dead.has_died()
    dead.clock.jump(10 * MINUTE)
    report = dead.watch(maintenance=lambda: "update")
    assert [(each.through, each.kept_in) for each in report.outcomes] == [
        (("discord",), "sentinel.json")
    ]
    assert rows_of(dead) == []
    assert dead.paths.sentinel.stat().st_mode & 0o777 == 0o600
    dead.clock.jump(5 * MINUTE)
    assert dead.watch(maintenance=lambda: "update").outcomes == []
    # When it is over, the next sentinel that acts, or the bot, moves it into the database.
    _given_to_database(dead)
    assert not dead.paths.sentinel.exists()
    assert [row.state for row in rows_of(dead)] == ["due", "done", "delivered"]
    assert (await back(dead)).count(PILL) == 1
    assert is_right(dead)


def _given_to_database(at: Scene, times: int = 1) -> None:
    content = at.paths.sentinel.read_bytes()
    for _ in range(times):
        at.paths.sentinel.write_bytes(content)
        database = open_database(at.paths, at.clock.now, is_holder=True, report=lambda _: None)
        SentinelFile(at.paths, lambda _: None).give_to(database)
        database.close()


async def test_a_file_that_is_taken_over_twice_counts_once(dead: Scene) -> None:
    await dead.has_died()
    dead.clock.jump(10 * MINUTE)
    dead.watch(maintenance=lambda: "restore")
    _given_to_database(dead, times=2)
    assert [row.state for row in rows_of(dead)] == ["due", "done", "delivered"]
    assert len(dead.ask(lambda tx: tx.due_items.open())) == 1
    assert (await back(dead)).count(PILL) == 1


async def test_a_locked_database_keeps_nothing_from_coming(dead: Scene) -> None:
    await dead.has_died()
    dead.clock.jump(10 * MINUTE)
    database = open_database(dead.paths, dead.clock.now, is_holder=True, report=lambda _: None)
    database._connection.execute("BEGIN IMMEDIATE")
    try:
        report = dead.watch()
    finally:
        database._connection.execute("ROLLBACK")
        database.close()
    assert [each.kept_in for each in report.outcomes] == ["sentinel.json"]
    assert dead.service.texts == [PILL]
    # The next run can write again, and knows what the file says.
    dead.clock.jump(5 * MINUTE)
    assert dead.watch().outcomes == []
    assert dead.service.texts == [PILL]


async def test_a_damaged_database_keeps_nothing_from_coming(dead: Scene) -> None:
    await dead.has_died()
    dead.clock.jump(10 * MINUTE)
    for name in ("ollim.db", "ollim.db-wal"):
        (dead.paths.state / name).write_bytes(b"no database" * 1000)
    assert [each.through for each in dead.watch().outcomes] == [("discord",)]
    dead.clock.jump(5 * MINUTE)
    dead.watch()
    assert dead.service.texts == [PILL]


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process can grow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_on_a_full_disk_it_comes_once_although_nothing_can_be_kept(dead: Scene) -> None:
    await dead.has_died()
    dead.clock.jump(10 * MINUTE)
    with full_disk():
        report = dead.watch()
        dead.clock.jump(5 * MINUTE)
        dead.watch()
    assert [(each.through, each.kept_in) for each in report.outcomes] == [(("discord",), "")]
    assert dead.service.texts == [PILL]
    dead.watch()
    assert [row.state for row in rows_of(dead)] == ["due", "done", "delivered"]
    assert (await back(dead)).count(PILL) == 1
    assert is_right(dead)


async def test_on_a_full_disk_without_discord_the_notification_comes_once(dead: Scene) -> None:
    await dead.has_died()
    dead.clock.jump(10 * MINUTE)
    dead.service.is_down, desk = True, Desk()
    with full_disk():
        for _ in range(3):
            dead.watch(has_channel=False, notifier=desk)
            dead.clock.jump(5 * MINUTE)
    assert len(desk.shown) == 1


class HeldEngine(ScriptedEngine):
    """Answers only once it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = asyncio.Event()

    @asynccontextmanager
    async def open(self, spec: SessionSpec, tools: Toolset) -> AsyncIterator[ScriptedSession]:
        await self.may_go_on.wait()
        async with super().open(spec, tools) as session:
            yield session


async def test_the_run_of_a_stuck_bot_cannot_say_what_the_sentinel_has_said(dead: Scene) -> None:
    engine = HeldEngine()
    engine.then(pings("The blue one, now!"))
    async with dead.bot(engine) as bot:
        bot.remind("pill", timedelta(minutes=2), PILL)
        await bot.advance(2 * MINUTE + 5)
        assert bot.states("pill")[:1] == ["due"]
        dead.clock.jump(6 * MINUTE)
        with single_instance(dead.paths.bot_pid):
            dead.watch()
        assert dead.service.texts == [PILL]
        engine.may_go_on.set()
        await bot.advance(3 * MINUTE)
        await bot.until(lambda: bot.reminders == [])
        assert bot.pings == [PILL]
        assert bot.states("pill").count("delivered") == 1
    assert dead.service.texts.count(PILL) == 1
    assert is_right(dead)


async def test_without_discord_a_notification_comes_once(dead: Scene) -> None:
    await dead.has_died()
    dead.clock.jump(10 * MINUTE)
    dead.service.is_down = True
    desk = Desk()
    report = dead.watch(notifier=desk)
    assert [each.through for each in report.outcomes] == [(NOTIFICATION,)]
    dead.clock.jump(5 * MINUTE)
    dead.watch(notifier=desk)
    assert desk.shown == [f"{PILL} | The bot does not answer; this came from its watch."]
    dead.service.is_down = False
    dead.clock.jump(5 * MINUTE)
    dead.watch(notifier=desk)
    assert dead.service.texts == [PILL]
    assert len(desk.shown) == 1
    assert (await back(dead)).count(PILL) == 1


async def test_without_any_way_it_is_in_the_log_and_the_run_fails(dead: Scene) -> None:
    await dead.has_died()
    dead.clock.jump(10 * MINUTE)
    dead.service.is_down = True
    report = dead.watch(notifier=Desk(is_there=False))
    assert report.has_failed
    dead.service.is_down = False
    assert (await back(dead)).count(PILL) == 1


async def test_what_the_bot_had_committed_and_not_sent_is_sent(dead: Scene) -> None:
    dead.service.is_down = True
    async with dead.bot() as bot:
        bot.remind("pill", timedelta(minutes=1), PILL, **MUST)
        await bot.advance(2 * MINUTE)
        assert bot.pings == [PILL]
    dead.service.is_down = False
    dead.clock.jump(6 * MINUTE)
    dead.watch()
    assert dead.service.texts.count(PILL) == 1
    assert (await back(dead)).count(PILL) == 1


async def test_what_the_bot_had_claimed_and_not_said_comes_first(dead: Scene) -> None:
    engine = HeldEngine()
    async with dead.bot(engine) as bot:
        bot.routine("old", "17 10 * * *", "Old words.", must="true", background="true")
        bot.remind("pill", timedelta(minutes=8), PILL, **MUST)
        await bot.advance(125)
        assert bot.states("old")[:1] == ["due"]
        assert dead.service.texts == []
    dead.clock.jump(5 * MINUTE)
    dead.watch()
    assert dead.service.texts == ["Old words.", PILL]


async def test_a_moment_that_is_skipped_or_too_late_stays_away(dead: Scene) -> None:
    async with dead.bot() as bot:
        bot.routine("pill", "25 10 * * *", PILL, **MUST)
        await bot.advance(31)
    dead.clock.jump(5 * 60 * MINUTE)
    assert dead.watch().outcomes == []


async def test_a_routine_that_must_come_has_a_dose_with_its_own_words(dead: Scene) -> None:
    async with dead.bot() as bot:
        bot.routine("pill", "25 10 * * *", PILL, kind="dose")
        await bot.advance(31)
    dead.clock.jump(10 * MINUTE)
    dead.watch()
    (item,) = dead.ask(lambda tx: tx.due_items.open())
    message = dead.ask(lambda tx: tx.messages.get(item.card))
    assert message is not None
    assert message.card is not None
    assert [each.label for each in message.card.buttons[:2]] == ["Taken", "Skipped"]
    async with dead.bot() as bot:
        await bot.advance(MINUTE)
        assert bot.states("pill") == ["due", "done", "delivered"]
    assert is_right(dead)


async def test_a_reminder_that_was_written_while_the_bot_was_dead_comes_too(dead: Scene) -> None:
    async with dead.bot() as bot:
        await bot.advance(31)
    at = (dead.clock.now() + timedelta(minutes=8)).astimezone(UTC).isoformat()
    head = f'---\nid: pill\nrun-at: "{at}"\n---\n'
    (dead.paths.reminders / "pill.md").write_text(f"{head}{PILL}\n")
    dead.clock.jump(8 * MINUTE)
    dead.watch()
    assert (await back(dead)).count(PILL) == 1
    assert is_right(dead)


async def test_of_a_file_that_became_wrong_the_last_right_version_comes(dead: Scene) -> None:
    async with dead.bot() as bot:
        file = bot.remind("pill", timedelta(minutes=10), PILL, **MUST)
        await bot.advance(12)
        file.write_text("---\nid: pill\nrun-at: never\n---\nno\n")
        await bot.advance(31)
    dead.clock.jump(10 * MINUTE)
    dead.watch()
    assert dead.service.texts[1:] == [PILL]


def test_where_no_bot_ever_ran_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert scene(tmp_path).watch().state is BotState.UNUSED


async def test_a_second_run_beside_the_first_does_nothing(dead: Scene) -> None:
    await dead.has_died()
    dead.clock.jump(10 * MINUTE)
    with FileLock(dead.paths.locks / "sentinel").held():
        assert dead.watch().is_second
    assert dead.service.texts == []


async def test_two_runs_without_a_lock_send_one_message(dead: Scene) -> None:
    await dead.has_died()
    dead.clock.jump(10 * MINUTE)
    time = SentinelTime(dead.clock)
    reports: list[None] = []

    def second() -> None:
        if not reports:
            reports.append(None)
            (dead.paths.locks / "sentinel").unlink(missing_ok=True)
            dead.watch()

    for number in (8, 12, 16, 20, 24):
        reports.clear()
        time.meanwhile = lambda at=number: second() if time.calls == at else None  # type: ignore[misc]
        dead.watch(time=time)
    assert dead.service.texts == [PILL]
    assert [row.state for row in rows_of(dead)] == ["due", "done", "delivered"]


def test_a_heartbeat_of_now_is_one() -> None:
    now = datetime(2026, 2, 24, 10, tzinfo=UTC)
    assert is_beating(now - timedelta(seconds=89), now)
    assert not is_beating(now - timedelta(seconds=91), now)
