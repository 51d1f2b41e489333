"""The doctor finds the rows of the server on each machine, and says what each machine does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.features.doctor.doctor_table import COMMAND, look, with_commands
from tests.features.doctor.test_doctor_findings import Findings, given, steps_in, write
from tests.kernel.store.files.data_directory import DataDirectory
from tests.standby.beside import bot_leading
from tests.standby.scene import StandbyScene
from tests.terminal import Terminal

from ollim_bot import __version__
from ollim_bot.features.doctor import data_checks as data
from ollim_bot.features.doctor import machine_checks as machine
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.base.settings import Settings
from ollim_bot.kernel.store.schema import SCHEMA
from ollim_bot.kernel.upkeep.findings import DoctorInput, Level
from ollim_bot_standby import checks
from ollim_bot_standby.file_layout import WaitingFile, WaitingFiles
from ollim_bot_standby.machines import OUR_TABLES, FoundServer, Leader


def findings(terminal: Terminal) -> dict[str, str]:
    """What the checks of rows and machines find right, by their names."""
    settings = Settings.from_env(terminal.environ, cwd=terminal.home)
    here = DoctorInput(settings, settings, (), terminal.environ, terminal.now)
    found = look(here, "bot", "database", "copies", "standby", "ledger")
    assert [each for each in found if not each.level.is_right] == []
    return {each.name: each.detail for each in found}


def test_the_doctor_reads_the_rows_of_the_server_on_each_machine(
    scene: StandbyScene, shelf: Terminal
) -> None:
    desk = scene.desk
    with (
        bot_leading(scene, desk, "desk"),
        single_instance(desk.paths.bot_pid),
        single_instance(shelf.paths.bot_pid),
    ):
        on_desk, on_shelf = findings(desk), findings(shelf)
    assert "runs as process" in on_desk["bot"]
    assert "stands by as process" in on_shelf["bot"]
    for found in (on_desk, on_shelf):
        assert found["standby"].startswith("desk has led for")
        assert found["database"].startswith("on the server, with ")
        assert "`ollim-bot backup` saves the rows too" in found["copies"]
        assert found["ledger"] == "no runs yet"


def test_the_doctor_says_what_keeps_a_machine_from_leading(shelf: Terminal) -> None:
    settings = Settings.from_env(shelf.environ, cwd=shelf.home)
    given = DoctorInput(settings, settings, (), shelf.environ, shelf.now)
    (alone,) = checks.check_standby(given)
    assert (alone.level, alone.detail) == (Level.WARN, "no machine leads, so nothing comes")
    nowhere = {**shelf.environ, "DATABASE_URL": "postgresql:///ollim?host=/nowhere"}
    lost = replace(given, settings=Settings.from_env(nowhere, cwd=shelf.home), environ=nowhere)
    for check in (checks.check_standby, data.check_database):
        (found,) = check(lost)
        assert found.level is Level.FAIL
        assert "ollim-bot standby status" in found.next
    assert next(iter(machine.check_bot(lost))).level is Level.OFF


def of_the_standby(there: DataDirectory) -> Findings:
    environ = {"OLLIM_DATA_DIR": str(there.paths.root), "DATABASE_URL": "postgresql:///x?host=/no"}
    settings = Settings.from_env(environ, cwd=there.paths.root)
    here = replace(given(there.paths), settings=settings, environ=environ)
    for check in (checks.check_standby, machine.check_bot):
        yield from check(here)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "find_spec", lambda _: None)
        yield from checks.check_standby(here)
    write(there.paths, "state/set-aside/20261118T090000.000000Z/USER.md", "Likes coffee.")
    yield from checks.files_set_aside(there.paths)
    WaitingFiles(there.paths).write({"tool-policy.yaml": WaitingFile("a", "b")})
    yield from checks.files_waiting(there.paths)
    write(there.paths, "state/settings.env", "OLLIM_BOT_NAME=Otto")
    unlike = {**environ, "OLLIM_BOT_NAME": "Mühle"}
    yield from checks.settings_unlike(Settings.from_env(unlike, cwd=there.paths.root))
    led = Leader("desk", 3, 9.0, SCHEMA, __version__, 60.0, 1.0)
    right = FoundServer(
        170_000, "17", "UTF8", False, "ollim", True, frozenset(OUR_TABLES), led, SCHEMA
    )
    wrong = (
        replace(right, tables=frozenset()),
        replace(right, closed="x"),
        replace(right, is_replica=True),
        replace(right, schema=SCHEMA + 1),
        replace(right, schema=SCHEMA - 1),
        replace(right, leader=replace(led, version="0.1.0")),
        replace(right, leader=replace(led, seconds_left=0.0), key_names=("DISCORD_TOKEN",)),
    )
    for each in wrong:
        yield from checks.standby(each, ())
    (found,) = checks.standby(right, ())
    assert found.level is Level.PASS
    assert found.detail.startswith("desk has led for 1 min, and renewed its lease 1 s ago")


def test_every_finding_has_a_command(tmp_path: Path) -> None:
    assert len(with_commands(of_the_standby(DataDirectory(tmp_path)))) > 14
    assert all(COMMAND.search(words) for _, words in steps_in(checks))
