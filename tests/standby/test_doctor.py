"""The doctor finds the rows of the server on each machine, and says what each machine does."""

from __future__ import annotations

from dataclasses import replace

from tests.cli.terminal import Terminal
from tests.standby.beside import bot_leading
from tests.standby.scene import StandbyScene

from ollim_bot.settings import Settings
from ollim_bot.upkeep.checks import data, jobs, service, standby
from ollim_bot.upkeep.doctor import DoctorInput, Level
from ollim_bot.upkeep.instance import single_instance


def findings(terminal: Terminal) -> dict[str, str]:
    """What the checks of rows and machines find right, by their names."""
    settings = Settings.from_env(terminal.environ, cwd=terminal.home)
    given = DoctorInput(settings, settings, (), terminal.environ, terminal.now)
    checks = (service.check_bot, data.check_database, data.check_copies, standby.check_standby)
    found = [each for check in (*checks, jobs.check_ledger) for each in check(given)]
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
    (alone,) = standby.check_standby(given)
    assert (alone.level, alone.detail) == (Level.WARN, "no machine leads, so nothing comes")
    nowhere = {**shelf.environ, "DATABASE_URL": "postgresql:///ollim?host=/nowhere"}
    lost = replace(given, settings=Settings.from_env(nowhere, cwd=shelf.home), environ=nowhere)
    for check in (standby.check_standby, data.check_database):
        (found,) = check(lost)
        assert found.level is Level.FAIL
        assert "ollim-bot standby status" in found.next
    assert next(iter(service.check_bot(lost))).level is Level.OFF
