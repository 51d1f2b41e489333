"""The doctor reports the age of the newest backup, and asks for none if backups are off."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.features.doctor.doctor_table import told
from tests.features.keeping.backups import NOW, Home

from ollim_bot.features.keeping.backup import Manifest, Unread, backups, check_backup
from ollim_bot.kernel.base.environment import Location
from ollim_bot.kernel.upkeep.findings import DoctorInput

HOURS = timedelta(hours=1)
FOLDER = Path("/home/ada/.ollim-bot-backups")


def made(hours_ago: float, *gaps: Unread) -> tuple[Path, Manifest]:
    at = NOW - hours_ago * HOURS
    manifest = Manifest(
        "0.12.0", at, "UTC", "here", "/x", 1, with_keys=False, files=(), unread=gaps
    )
    return FOLDER / f"{hours_ago}", manifest


GAP = Unread("data/USER.md", "Permission denied")
NONE = "OFF none yet; `ollim-bot backup` makes one"


@pytest.mark.parametrize(
    ("found", "is_automatic", "lines"),
    [
        ([], False, [NONE]),
        ([], True, [f"WARN auto_backup is on, and there is none in {FOLDER}"]),
        ([made(3)], True, [f"PASS 1 backup in {FOLDER}, the newest of today 6:00"]),
        ([made(3), made(27)], True, [f"PASS 2 backups in {FOLDER}, the newest of today 6:00"]),
        ([made(72)], True, ["WARN auto_backup is on, and the newest is of Fri 13 Nov 09:00"]),
        ([made(72)], False, [f"PASS 1 backup in {FOLDER}, the newest of Fri 13 Nov 09:00"]),
        (
            [made(1, GAP), made(3)],
            False,
            [
                "WARN the newest has gaps: data/USER.md (Permission denied)",
                f"PASS 1 backup in {FOLDER}, the newest of today 6:00",
            ],
        ),
    ],
)
def test_what_is_said_of_the_backups(
    found: list[tuple[Path, Manifest]], is_automatic: bool, lines: list[str]
) -> None:
    findings = told("backup", backups(found, FOLDER, NOW, is_automatic=is_automatic))
    assert [f"{finding.level} {finding.detail}" for finding in findings] == lines
    assert all(bool(finding.next) == (finding.level not in ("PASS", "OFF")) for finding in findings)


def test_they_are_found_where_they_are_made(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").prepare()
    zone = ZoneInfo("UTC")
    given = DoctorInput(None, Location(home.paths, zone), (), home.environment, NOW)
    assert [finding.detail for finding in check_backup(given)] == [NONE.removeprefix("OFF ")]
    database = home.open()
    database.run(lambda tx: tx.config.change(lambda each: each.with_value("auto_backup", "on")))
    database.close()
    assert [finding.level for finding in check_backup(given)] == ["WARN"]
    home.back_up()
    (finding,) = check_backup(given)
    assert finding.detail.startswith("1 backup in ")
