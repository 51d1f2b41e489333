"""Run now: one run for each request, besides the scheduled ones, also through a crash."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.engine import ScriptedEngine, Waits
from tests.kernel.conversation.failing_stores import LedgerRefusingStore
from tests.kernel.schedule.owner_actions import asks, card_of, pings, press
from tests.kernel.schedule.scene import NOW, ScheduleScene, schedule_scene
from tests.stores import Stores, on_store

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.base.job_kinds import JobKind
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence
from ollim_bot.kernel.values.run_history import claiming_row

MINUTE = timedelta(minutes=1)


def requests(at: ScheduleScene) -> list[str]:
    return sorted(path.name for path in (at.paths.state / "run_requests").glob("*"))


def keys(at: ScheduleScene, job: str) -> list[str]:
    return [row.occurrence.id for row in at.ended(job) if row.occurrence]


async def test_a_request_is_taken_within_a_second_and_goes(tmp_path: Path) -> None:
    async with schedule_scene(engine := ScriptedEngine(), tmp_path) as at:
        at.routine("plan", "0 8 * * *", background="true")
        asks(at, JobKind.ROUTINE, "plan")
        await at.advance(1.1, step=1.1)
        await at.until(lambda: at.ended("plan"))
        assert keys(at, "plan") == ["routine:plan:2026-02-24T10:15:00Z:manual"]
        assert at.states("plan") == ["due", "running", "done"]
        await at.until(lambda: requests(at) == [])
        assert len(engine.prompts) == 1


async def test_a_run_by_hand_does_not_consume_a_reminder(tmp_path: Path) -> None:
    engine = ScriptedEngine().then(pings("By hand.")).then(pings("At its moment."))
    async with schedule_scene(engine, tmp_path) as at:
        at.remind("w1", 5 * MINUTE, **{"update-main-session": "freely"})
        asks(at, JobKind.REMINDER, "w1")
        await at.advance(2, step=1)
        await at.until(lambda: at.states("w1")[-1:] == ["delivered"])
        assert (at.pings, at.reminders) == (["By hand."], ["w1"])
        await at.advance(300)
        await at.until(lambda: at.reminders == [])
        assert at.pings == ["By hand.", "At its moment."]


async def test_what_runs_already_is_not_run_beside_itself(tmp_path: Path) -> None:
    async with schedule_scene(engine := ScriptedEngine().then(Waits()), tmp_path) as at:
        at.remind("w1", 60 * MINUTE, must="false")
        asks(at, JobKind.REMINDER, "w1")
        await at.advance(2, step=1)
        await at.until(lambda: len(engine.prompts) == 1)
        message = await card_of(at, "/reminders")
        assert await press(at, message, "Run now") == "“Drink water” is running already."
        asks(at, JobKind.REMINDER, "w1", at.clock.now())
        await at.advance(2, step=1)
        await at.until(lambda: at.ended("w1"))
        (second,) = at.ended("w1")
        assert (second.state, second.facts["reason"]) == ("skipped", "overlap")
        assert at.reminders == ["w1"]


@pytest.mark.parametrize("suffix", [".json", ".taken"])
async def test_a_request_that_a_crash_left_after_its_claim_runs_nothing_twice(
    tmp_path: Path, suffix: str
) -> None:
    async with schedule_scene(engine := ScriptedEngine(), tmp_path, runs=False) as at:
        at.remind("w1", 60 * MINUTE)
        occurrence = Occurrence.by_hand(JobKind.REMINDER, "w1", NOW)
        ended = LedgerRow(NOW, "skipped", occurrence, {"reason": "overlap"})
        at.stores.ledger.append(claiming_row(occurrence, NOW), ended)
        asks(at, JobKind.REMINDER, "w1")
        (path,) = (at.paths.state / "run_requests").iterdir()
        path.rename(path.with_suffix(suffix))
    async with schedule_scene(engine, tmp_path, clock=ManualClock(NOW + MINUTE / 2)) as at:
        await at.advance(3, step=1)
        await at.until(lambda: requests(at) == [])
        await at.advance(3, step=1)
        assert at.states("w1") == ["due", "skipped"]
        assert (engine.prompts, at.pings, at.reminders) == ([], [], ["w1"])


@pytest.mark.parametrize(
    ("age", "suffix", "fields"),
    [
        (0 * MINUTE, ".json", {"enabled": "false"}),
        (-10 * MINUTE, ".json", {}),
        (10 * MINUTE, ".taken", {}),
    ],
    ids=["of a paused job", "after a clock was set back", "taken before a crash"],
)
async def test_a_request_is_run_and_goes_whatever_was_before(
    tmp_path: Path, age: timedelta, suffix: str, fields: dict[str, str]
) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path, runs=False) as at:
        at.routine("plan", "0 8 * * *", background="true", **fields)
        asks(at, JobKind.ROUTINE, "plan", NOW - age)
        (path,) = (at.paths.state / "run_requests").iterdir()
        path.rename(path.with_suffix(suffix))
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        await at.advance(3, step=1)
        await at.until(lambda: requests(at) == [] and at.ended("plan"))
        assert [row.state for row in at.ended("plan")] == ["done"]


async def test_a_request_stays_until_its_run_is_on_record(tmp_path: Path) -> None:
    def without_claims(stores: Stores) -> Stores:
        refused = WriteFailed(Path("ollim.db"), "could not be written.")
        return on_store(
            stores, LedgerRefusingStore(stores.state, lambda row: row.state == "due", refused)
        )

    async with schedule_scene(ScriptedEngine(), tmp_path, seen=without_claims) as at:
        at.routine("plan", "0 8 * * *", background="true")
        asks(at, JobKind.ROUTINE, "plan")
        await at.advance(8, step=1)
        await at.clock.advance(2)
        await at.until(lambda: any("could not be written" in text for text in at.told))
        assert [Path(name).suffix for name in requests(at)] == [".taken"]
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        await at.advance(3, step=1)
        await at.until(lambda: at.ended("plan"))
        await at.until(lambda: requests(at) == [])


async def test_a_request_that_nobody_waits_for_any_more_is_not_run(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path, runs=False) as at:
        at.routine("plan", "0 8 * * *", background="true")
        asks(at, JobKind.ROUTINE, "plan", NOW - 2 * MINUTE)
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        await at.advance(3, step=1)
        await at.until(lambda: requests(at) == [])
        assert at.states("plan") == []


async def test_what_is_no_request_stops_nobody(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.routine("plan", "0 8 * * *", background="true")
        asks(at, JobKind.ROUTINE, "gone")
        (at.paths.state / "run_requests" / "odd.json").write_text("{")
        (at.paths.state / "run_requests" / "old.json").write_text('{"version": 1, "at": 3}')
        asks(at, JobKind.ROUTINE, "plan")
        await at.advance(3, step=1)
        await at.until(lambda: at.ended("plan"))
        await at.until(lambda: requests(at) == [])


async def test_the_button_runs_a_job_now(tmp_path: Path) -> None:
    async with schedule_scene(engine := ScriptedEngine(), tmp_path) as at:
        at.routine("plan", "0 8 * * *", background="true")
        message = await card_of(at, "/routines")
        said = await press(at, message, "Run now")
        assert said == "Running now: Plan the day. `/runs` shows what comes of it."
        await at.until(lambda: at.ended("plan"))
        assert keys(at, "plan") == ["routine:plan:2026-02-24T10:15:00Z:manual"]
        assert len(engine.prompts) == 1


DOSE = {"plain": "true", "kind": "dose", "nag": "10m x 3"}


def cards(at: ScheduleScene) -> list[tuple[str, int]]:
    """The titles of the cards, and how many buttons each has."""
    return [(each.card.title, len(each.card.buttons)) for each in at.log if each.card]


async def test_a_dose_has_one_card_and_one_series_whoever_runs_it(tmp_path: Path) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.routine("pill", "16 10 * * *", "Take the pill.", **DOSE)
        await at.advance(120, step=30)
        asks(at, JobKind.ROUTINE, "pill", at.clock.now())
        await at.advance(2, step=1)
        assert cards(at) == [("Take the pill · asked at 10:16", 0), ("Take the pill.", 5)]
        await at.advance(15 * 60, step=60)
        assert len(cards(at)) == 3
        await press(at, at.log[-1], "Taken")
        asks(at, JobKind.ROUTINE, "pill", at.clock.now())
        await at.advance(2, step=1)
        assert cards(at)[-1] == ("✓ Take the pill · 10:32", 1)
        assert [count for _, count in cards(at)[:-1]] == [0, 0, 0]
        await press(at, at.log[-1], "Undo")
        await at.advance(60 * 60, step=60)
        assert [count for _, count in cards(at)] == [0] * (len(cards(at)) - 1) + [4]
        assert at.store.query(lambda tx: [each.shown for each in tx.due_items.open()]) == [4]


async def test_a_dose_that_was_run_by_hand_before_its_moment_is_asked_in_its_place(
    tmp_path: Path,
) -> None:
    async with schedule_scene(ScriptedEngine(), tmp_path) as at:
        at.remind("pill", 5 * MINUTE, "Take the pill.", **DOSE)
        asks(at, JobKind.REMINDER, "pill")
        await at.advance(6 * 60, step=30)
        assert cards(at) == [("Take the pill · asked at 10:15", 0), ("Take the pill.", 5)]
        await at.advance(60 * 60, step=60)
        assert len(cards(at)) == 5
        assert len(at.items) == 1
