"""What the doctor says of the machine: disk, clock, folders, the bot on it, and its model."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.features.doctor.doctor_table import NOTHING, look, told
from tests.kernel.store.files.data_directory import DataDirectory

from ollim_bot.features.doctor.data_checks import data_directory, leftovers
from ollim_bot.features.doctor.machine_checks import (
    check_time_zone,
    claude_program,
    disk_space,
    memory,
    memory_of,
)
from ollim_bot.kernel.base.environment import Location
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.engine.launcher import cli_path
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.heartbeat import HeartbeatFile
from ollim_bot.kernel.upkeep.findings import DoctorFinding, DoctorInput, Level
from ollim_bot.kernel.values.provider import NO_LOGIN, OFFLINE, Provider, choose_provider
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.travel import PlannedZone

MB = 1000**2
NOW = datetime(2026, 11, 15, 14, 30, tzinfo=ZoneInfo("Europe/Berlin"))


@pytest.fixture
def paths(tmp_path: Path) -> DataPaths:
    paths = DataPaths(tmp_path / "data")
    prepare_data_directory(paths)
    return paths


@pytest.fixture
def there(tmp_path: Path) -> DataDirectory:
    return DataDirectory(tmp_path / "there")


@pytest.mark.parametrize(
    ("free", "level", "detail"),
    [
        (0, Level.FAIL, "0 kB left"),
        (50 * MB - 1, Level.FAIL, "50 MB left"),
        (50 * MB, Level.WARN, "50 MB left"),
        (500 * MB - 1, Level.WARN, "500 MB left"),
        (500 * MB, Level.PASS, "500 MB left"),
        (2345 * MB, Level.PASS, "2.35 GB left"),
        (3_000_000 * MB, Level.PASS, "3000 GB left"),
    ],
)
def test_little_disk_space_is_a_warning_and_hardly_any_a_failure(
    free: int, level: Level, detail: str
) -> None:
    (finding,) = told("disk space", [disk_space(free)])
    assert (finding.level, finding.detail) == (level, detail)


def test_the_memory_of_the_running_bot_is_told() -> None:
    own = memory_of(os.getpid())
    assert own is not None
    assert 5 * MB < own < 50_000 * MB
    usual, unknown, much = memory(12, 80 * MB), memory(12, None), memory(12, 1500 * MB)
    assert usual.detail == "the bot (process 12) uses 80 MB"
    assert unknown.detail == "the bot runs as process 12"
    assert (usual.level, unknown.level, much.level) == (Level.PASS, Level.PASS, Level.WARN)


@pytest.mark.real_process
def test_the_memory_of_nobody_is_unknown() -> None:
    assert memory_of(2**31 - 5) is None


def clock(paths: DataPaths, now: datetime, last_seen: datetime | None) -> DoctorFinding:
    if last_seen is not None:
        HeartbeatFile(paths).write(last_seen)
    place = Location(paths, ZoneInfo("Europe/Berlin"))
    (finding,) = look(DoctorInput(None, place, (), {}, now), "clock")
    return finding


def test_a_clock_that_can_be_right_is_shown_with_its_zone(paths: DataPaths) -> None:
    finding = clock(paths, NOW, NOW - timedelta(days=3))
    assert (finding.level, finding.detail) == (Level.PASS, "Sun 15 Nov 2026 14:30, Europe/Berlin")


def test_a_clock_that_went_back_is_a_warning(paths: DataPaths) -> None:
    near = clock(paths, NOW, (NOW + timedelta(minutes=1)).astimezone(UTC))
    far = clock(paths, NOW, (NOW + timedelta(hours=3)).astimezone(UTC))
    assert near.level is Level.PASS
    assert far.level is Level.WARN
    assert "3 h less" in far.detail


def test_a_clock_of_before_this_program_is_a_failure(paths: DataPaths) -> None:
    finding = clock(paths, datetime(1970, 1, 1, 0, 5, tzinfo=UTC), None)
    assert (finding.level, finding.detail) == (Level.FAIL, "it shows 1970-01-01, which cannot be")


def test_a_right_data_directory_is_one_line(paths: DataPaths) -> None:
    (finding,) = told("data directory", data_directory(paths))
    assert (finding.level, finding.detail) == (Level.PASS, f"{paths.root} can be written")


def test_one_that_is_not_there_yet_is_no_failure_if_it_can_be_made(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path / "some" / "where")
    (finding,) = told("data directory", data_directory(paths))
    assert finding.level is Level.PASS
    assert "the first start makes it" in finding.detail
    (finding,) = told("data directory", data_directory(paths, lambda *_: False))
    assert finding.level is Level.FAIL
    assert str(tmp_path) in finding.next
    assert list(tmp_path.iterdir()) == []


def test_each_folder_that_cannot_be_written_is_named(paths: DataPaths) -> None:
    """The permission check is a fake one, since root may write everything."""
    closed = {paths.state, paths.routines}
    found = told("data directory", data_directory(paths, lambda folder, _: folder not in closed))
    assert [finding.level for finding in found] == [Level.FAIL, Level.FAIL]
    assert [str(paths.state) in found[0].detail, str(paths.routines) in found[1].detail] == [
        True,
        True,
    ]


@pytest.mark.parametrize("name", ["root", "state"])
def test_a_folder_that_others_can_look_into_is_a_warning(paths: DataPaths, name: str) -> None:
    folder = getattr(paths, name)
    folder.chmod(0o750)
    warning, right = told("data directory", data_directory(paths))
    assert (warning.level, right.level) == (Level.WARN, Level.PASS)
    assert warning.next == f"Run `chmod 700 {folder}`. `ollim-bot doctor --fix` does that."


def test_files_that_others_can_get_to_are_a_warning(paths: DataPaths) -> None:
    for folder in (paths.root, paths.state):
        folder.chmod(0o755)
    paths.web_token.write_text("x")
    paths.web_token.chmod(0o644)
    paths.config.write_text("{}")
    paths.config.chmod(0o600)
    *_, warning, right = told("data directory", data_directory(paths))
    assert (warning.level, right.level) == (Level.WARN, Level.PASS)
    assert warning.detail == f"others may read {paths.web_token}"
    assert warning.next == f"Run `chmod -R go= {paths.state}`. `ollim-bot doctor --fix` does that."


def test_a_data_directory_of_another_account_is_a_warning(paths: DataPaths) -> None:
    try:
        os.chown(paths.root, os.geteuid() + 1, -1)
    except PermissionError:
        pytest.skip("only the superuser gives folders away")
    warning, right = told("data directory", data_directory(paths))
    assert (warning.level, right.level) == (Level.WARN, Level.PASS)
    assert "belongs to another account" in warning.detail


def test_what_was_set_aside_is_named_and_left_there(paths: DataPaths) -> None:
    left = paths.state / "memory.json.corrupt-20261115T090000.000000Z"
    left.write_text("{torn")
    (warning,) = told("leftovers", leftovers(paths, NOW))
    assert warning.level is Level.WARN
    assert warning.detail == (
        f"state/{left.name} could not be understood and was set aside 4 h 30 min ago"
    )
    assert warning.next.endswith(f"run `rm -r {left}`.")
    assert left.read_text() == "{torn"


def test_the_time_zone_is_told_with_where_it_comes_from(there: DataDirectory) -> None:
    environ = {"TZ": "Europe/Berlin"}
    assert time_zone(there, "Asia/Tokyo", environ).detail == (
        "Asia/Tokyo, from the settings; this machine is on Europe/Berlin"
    )
    chosen = RuntimeConfig().with_value("timezone", "Asia/Tokyo")
    there.run(lambda tx: tx.config.put(chosen), is_holder=True)
    finding = time_zone(there, "Europe/Berlin", environ)
    assert (finding.level, finding.detail) == (
        Level.PASS,
        "Asia/Tokyo, set with `config`; this machine is on Europe/Berlin",
    )


def test_a_bot_that_plans_in_another_time_zone_is_told_with_what_to_do(
    there: DataDirectory,
) -> None:
    there.run(lambda tx: tx.zone.put(PlannedZone("Europe/Berlin")), is_holder=True)
    assert time_zone(there, "Asia/Tokyo", {}).level is Level.PASS
    with single_instance(there.paths.bot_pid):
        finding = time_zone(there, "Asia/Tokyo", {})
    assert finding.level is Level.WARN
    assert finding.detail == "the bot plans in Europe/Berlin, but this terminal reads Asia/Tokyo"
    assert finding.next == "Run `ollim-bot config set timezone Asia/Tokyo`, or restart the bot."


def time_zone(there: DataDirectory, zone: str, environ: dict[str, str]) -> DoctorFinding:
    place = Location(there.paths, ZoneInfo(zone))
    (finding,) = look(DoctorInput(None, place, (), environ, NOW), "time zone")
    return finding


def test_a_zone_that_nobody_set_is_the_machines(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)

    def told(**environ: str) -> str:
        place = Location(paths, ZoneInfo("Europe/Berlin"))
        environ["TZ"] = "Europe/Berlin"
        now = datetime(2026, 11, 15, tzinfo=UTC)
        (finding,) = check_time_zone(DoctorInput(None, place, (), environ, now))
        return finding.detail

    unset = "Europe/Berlin, this machine's; `ollim-bot setup timezone` sets yours"
    assert told() == unset
    assert told(OLLIM_TIMEZONE="Europe/Berlin") == "Europe/Berlin, from the settings"
    paths.env_file.write_text("OLLIM_TIMEZONE=Europe/Berlin\n")
    assert told() == "Europe/Berlin, from the settings"


def model(provider: Provider) -> list[DoctorFinding]:
    return look(replace(NOTHING, provider=provider), "model")


def script(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "claude"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return path


@pytest.mark.real_engine
def test_the_bundled_program_says_its_version(tmp_path: Path) -> None:
    finding = claude_program(cli_path(), {"HOME": str(tmp_path)})
    assert finding.level is Level.PASS
    assert finding.detail.endswith("(Claude Code)")


def test_a_missing_program_is_a_failure() -> None:
    finding = claude_program(None, {})
    (finding,) = told("Claude program", [finding])
    again = "Install ollim-bot again, for example with `pipx reinstall ollim-bot`."
    assert finding == DoctorFinding(Level.FAIL, "Claude program", "it is missing", again)


@pytest.mark.real_engine
@pytest.mark.parametrize("text", ["exit 3", "kill -9 $$"])
def test_a_program_that_does_not_work_is_a_failure(tmp_path: Path, text: str) -> None:
    cli = script(tmp_path, text)
    finding = claude_program(cli, {})
    assert (finding.level, finding.detail) == (
        Level.FAIL,
        f"{cli} cannot be run: it gave no answer",
    )


@pytest.mark.real_engine
def test_a_program_that_is_none_is_a_failure(tmp_path: Path) -> None:
    cli = tmp_path / "claude"
    cli.write_bytes(b"\0\1\2")
    finding = claude_program(cli, {})
    assert (finding.level, finding.detail) == (
        Level.FAIL,
        f"{cli} cannot be run: Permission denied",
    )


def test_the_model_is_told_in_words() -> None:
    (offline,) = model(OFFLINE)
    assert offline.level is Level.PASS
    assert offline.detail.startswith("offline model")
    key = choose_provider(
        {"ANTHROPIC_API_KEY": "x"}, wants_offline=False, is_logged_in=False, last_used=None
    )
    assert model(key) == [DoctorFinding(Level.PASS, "model", "Claude (API key)")]


def test_a_lost_login_is_a_failure_with_the_way_back() -> None:
    (finding,) = model(NO_LOGIN)
    assert (finding.level, finding.detail) == (Level.FAIL, "Claude (not signed in)")
    assert "`ollim-bot auth login`" in finding.next
