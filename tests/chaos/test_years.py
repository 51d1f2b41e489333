"""The harness for long times: the same bot for weeks, in virtual time.

`make chaos` runs it for months and for a year.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from chaos.planted_bugs import PACKAGE, PlantedBug
from chaos.years.crashing_disk import CrashingDisk, ProcessKilled
from chaos.years.due_times import BERLIN, LORD_HOWE, NEW_YORK, clock_changes, utc_instant
from chaos.years.planted_bugs import NIGHT_BUGS, PLANTED_BUGS, run_with_bug
from chaos.years.resource_growth import ResourceUsage, growth_problems
from chaos.years.runner import Outcome, plan, plan_nights, play
from chaos.years.virtual_time import VirtualTimeLoop, VirtualWallClock

# The start and the seed of runs through all clock changes of half a year, in all zones.
SPRING = datetime(2025, 2, 25, tzinfo=UTC), 1
AUTUMN = datetime(2025, 9, 20, tzinfo=UTC), 2
DAYS = 60
# Settings of `plan` that let the machine sleep most of the time, which makes the tests quick.
NIGHT_WEIGHT, LONGEST_WAIT = 160, 2000.0


def bug(name: str) -> PlantedBug:
    return next(each for each in PLANTED_BUGS if each.name == name)


def description(seed: int, outcome: Outcome) -> str:
    return "\n".join([f"seed {seed}", *outcome.broken, *map(str, outcome.steps)])


def test_the_source_contains_the_text_of_every_planted_bug() -> None:
    for each in (*PLANTED_BUGS, *NIGHT_BUGS):
        assert each.applied((PACKAGE / each.file).read_text()), each.name


def test_the_nights_of_all_clock_changes_are_known() -> None:
    year = clock_changes(datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))
    assert [f"{each:%m-%d}" for each in year] == [
        "03-09",
        "03-30",
        "04-05",
        "10-04",
        "10-26",
        "11-02",
    ]


def test_a_local_time_is_one_instant() -> None:
    assert utc_instant(datetime(2025, 3, 9, 2, 30), NEW_YORK) == datetime(2025, 3, 9, 7, tzinfo=UTC)
    assert utc_instant(datetime(2025, 10, 26, 2, 30), BERLIN) == datetime(
        2025, 10, 26, 0, 30, tzinfo=UTC
    )
    assert utc_instant(datetime(2025, 4, 6, 1, 45), LORD_HOWE) == datetime(
        2025, 4, 5, 14, 45, tzinfo=UTC
    )


def test_a_power_cut_keeps_what_was_synced_and_invents_nothing(tmp_path: Path) -> None:
    kept, lines = tmp_path / "kept", tmp_path / "lines"
    seen = set()
    for seed in range(40):
        disk = CrashingDisk(random.Random(seed))
        disk.write(tmp_path / "draft", b"old", 0o600)
        disk.sync(tmp_path / "draft")
        disk.replace(tmp_path / "draft", kept)
        disk.append(lines, b"one\n", 0o600, sync=True)
        disk.sync_folder(tmp_path)
        disk.write(tmp_path / "draft", b"new", 0o600)
        disk.sync(tmp_path / "draft")
        disk.replace(tmp_path / "draft", kept)
        disk.append(lines, b"two\n", 0o600, sync=False)
        disk.cut_power()
        assert lines.read_bytes() in (b"one\n", b"one\nt", b"one\ntw", b"one\ntwo", b"one\ntwo\n")
        seen.add(kept.read_bytes())
        with pytest.raises(ProcessKilled):
            disk.read(kept, 100)
        lines.unlink()
    assert seen == {b"old", b"new"}


def test_what_grows_from_month_to_month_is_named() -> None:
    months = [ResourceUsage(Counter(Row=1000 * month), 20, Counter()) for month in range(4)]
    assert growth_problems(months) == [
        "there are more and more of Row in memory: [0, 1000, 2000, 3000]"
    ]
    large = ResourceUsage(Counter(), 20, Counter({"memory.json": 10**6}))
    assert growth_problems([large]) == ["memory.json has grown to 1000000 bytes"]
    steady = [ResourceUsage(Counter(Row=500), files, Counter()) for files in (20, 25)]
    assert growth_problems(steady) == []
    leaking = [ResourceUsage(Counter(), files, Counter()) for files in (20, 90)]
    assert growth_problems(leaking) == ["more and more files are open: [20, 90]"]


def test_in_virtual_time_sleeps_take_no_time_and_end_in_order() -> None:
    woken: list[tuple[float, str]] = []

    async def sleep(clock: VirtualWallClock, seconds: float, name: str) -> None:
        await clock.sleep(seconds)
        woken.append((clock.monotonic(), name))

    async def let_time_pass() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        clock = VirtualWallClock(loop, SPRING[0], NEW_YORK)
        clock.jump(3600)
        await asyncio.gather(sleep(clock, 9000, "late"), sleep(clock, 10, "early"))
        assert clock.utc() == SPRING[0] + timedelta(seconds=9000 + 3600)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(let_time_pass())
    assert woken == [(10, "early"), (9000, "late")]


def unbroken_run(start: datetime, seed: int, days: int) -> Outcome:
    steps = plan(seed, night_weight=NIGHT_WEIGHT, longest_wait=LONGEST_WAIT)
    outcome = play(steps, seed=seed, start=start, days=days)
    assert outcome.broken == [], description(seed, outcome)
    return outcome


@pytest.mark.chaos
@pytest.mark.minutes
@pytest.mark.parametrize(("start", "seed"), [SPRING, AUTUMN], ids=["spring", "autumn"])
def test_for_two_months_every_invariant_holds(
    start: datetime, seed: int, record_property: Callable[[str, object], None]
) -> None:
    outcome = unbroken_run(start, seed, DAYS)
    assert outcome.counts["starts"] > 8
    assert outcome.counts["occurrences done"] > 20
    assert outcome.counts["occurrences missed"] > 20
    assert outcome.counts["requests that cost"] > 25
    record_property("chaos", summary(seed, DAYS, outcome))


NEW_YEAR = datetime(2025, 1, 1, tzinfo=UTC)


def quiet_nights(seed: int, days: int) -> Outcome:
    outcome = play(plan_nights(seed), seed=seed, start=NEW_YEAR, days=days)
    assert outcome.broken == [], description(seed, outcome)
    return outcome


@pytest.mark.chaos
@pytest.mark.minutes
@pytest.mark.parametrize("seed", range(1, 11))
def test_after_a_week_of_quiet_nights_all_that_waited_came_once_in_one_message(
    seed: int, record_property: Callable[[str, object], None]
) -> None:
    outcome = quiet_nights(seed, 7)
    assert outcome.counts["pings held"] > 8
    assert outcome.counts["digests"] > 1
    record_property("chaos", summary(seed, 7, outcome))


@pytest.mark.chaos
@pytest.mark.minutes
@pytest.mark.parametrize("chosen", NIGHT_BUGS, ids=lambda each: each.name)
def test_every_bug_of_the_quiet_is_found_within_a_week(chosen: PlantedBug) -> None:
    done = run_with_bug(chosen, "--nights", "--seed", "1", "--days", "7")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Broken:" in done.stdout


def summary(seed: int, days: int, outcome: Outcome) -> str:
    return f"seed {seed}: {days} days, {len(outcome.steps)} steps, nothing broken"


@pytest.mark.chaos
@pytest.mark.minutes
def test_a_planted_bug_is_found_within_a_week() -> None:
    chosen = bug("what was missed twice is noted once")
    done = run_with_bug(chosen, "--seed", "1", "--days", "7")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "was due" in done.stdout


@pytest.mark.chaos
@pytest.mark.minutes
@pytest.mark.parametrize("chosen", PLANTED_BUGS, ids=lambda each: each.name)
def test_every_planted_bug_is_found_within_months(chosen: PlantedBug) -> None:
    done = run_with_bug(chosen, "--seed", "1", "--days", "120")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Broken:" in done.stdout
