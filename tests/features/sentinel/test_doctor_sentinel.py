"""What the doctor says of the sentinel."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ollim_bot.features.sentinel.checks import left_by_sentinel, sentinel_timer
from ollim_bot.features.sentinel.sentinel_file import DueDelivery, SentinelDelivery, SentinelFile
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.upkeep.findings import Level
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.schedule import occurrence_at

NOW = datetime(2026, 11, 15, 14, 30, tzinfo=UTC)


def triggered(ago: timedelta) -> str:
    at = int((NOW - ago).timestamp())
    return f"ActiveState=active\nLastTriggerUSec=@{at}\n"


@pytest.mark.parametrize(
    ("said", "level", "detail"),
    [
        ("", Level.PASS, "its timer is there, every 5 minutes"),
        ("ActiveState=inactive\n", Level.WARN, "its timer does not run"),
        (triggered(timedelta(minutes=4)), Level.PASS, "it looks every 5 minutes, last today 14:26"),
        (triggered(timedelta(hours=2)), Level.WARN, "its timer last ran today 12:30"),
    ],
)
def test_the_timer(said: str, level: Level, detail: str) -> None:
    found = sentinel_timer(said, NOW)
    assert (found.level, found.detail) == (level, detail)


def left(paths: DataPaths, *, is_running: bool = False) -> list[str]:
    return [found.detail for found in left_by_sentinel(paths, is_running=is_running)]


def test_what_the_bot_has_not_read_is_told_and_stays_as_it_is(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    paths.locks.mkdir(parents=True)
    assert left(paths) == []
    job = Reminder(JobSpec(id="pill", message="Take the pill."), NOW)
    one = SentinelDelivery.of(DueDelivery(job, occurrence_at(job, NOW), NOW), NOW)
    SentinelFile(paths, lambda _: None).put(one)
    told = "state/sentinel.json has 1 message that the bot has not read"
    assert left(paths) == [f"{told}, and 1 of them did not reach you"]
    for content, reason in (
        ('{"version": 9}', "is of a newer version"),
        ("{", "cannot be understood: "),
        ('{"version": 1, "deliveries": [{}]}', "cannot be understood: message is missing"),
    ):
        paths.sentinel.write_text(content)
        (found,) = left(paths)
        assert reason in found
        assert paths.sentinel.read_text() == content
