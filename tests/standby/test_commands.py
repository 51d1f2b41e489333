"""Commands on machines that share a database: every one reads, only where the bot leads changes."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tests.standby.beside import bot_leading
from tests.standby.scene import StandbyScene
from tests.terminal import SUNDAY, Terminal

from ollim_bot.kernel.store.schema import SCHEMA
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot_standby.postgres import commands
from ollim_bot_standby.postgres.commands import CommandDatabase
from ollim_bot_standby.postgres.connection import Address, Connection, connect_to
from ollim_bot_standby.postgres.server import look_at
from ollim_bot_standby.stored_files import adds_power


def config_on_server(scene: StandbyScene) -> RuntimeConfig:
    return scene.on_server(lambda tx: tx.config.get())


def database_files(*terminals: Terminal) -> list[Path]:
    return [
        file
        for each in terminals
        for file in each.paths.state.glob("ollim.db*")
        if "before-standby" not in file.name
    ]


def epoch_of(scene: StandbyScene) -> int:
    leader = look_at(scene.address).leader
    return 0 if leader is None else leader.epoch


def test_a_command_reads_everywhere_and_changes_only_beside_the_bot_that_leads(
    scene: StandbyScene, shelf: Terminal
) -> None:
    desk = scene.desk
    with bot_leading(scene, desk, "desk"):
        before = epoch_of(scene)
        desk.done("config", "set", "timezone", "Europe/Paris")
        assert config_on_server(scene).timezone == "Europe/Paris"
        assert "Europe/Paris" in desk.paths.config.read_text()
        assert "Europe/Paris" in shelf.done("config")
        said = shelf.done("history", "search", "dentist")
        assert "dentist" in said
        assert said == desk.done("history", "search", "dentist")
        changed = desk.json("changes")["changes"]
        assert shelf.json("changes")["changes"] == changed != []
        refusals = [
            shelf.refused("config", "set", "timezone", "Europe/Rome", code=1),
            shelf.refused("reminder", "add", "Feed the cat", "--in", "2h", code=1),
            shelf.refused("undo", changed[0]["id"], code=1),
        ]
        assert [each for each in refusals if "is led by desk" not in each] == []
        assert scene.url not in "".join(refusals)
        assert epoch_of(scene) == before
    assert config_on_server(scene).timezone == "Europe/Paris"
    assert not list(shelf.paths.reminders.glob("*.md"))
    assert database_files(desk, shelf) == []


def test_where_no_machine_leads_a_command_leads_for_the_length_of_its_step(
    scene: StandbyScene, shelf: Terminal
) -> None:
    before = epoch_of(scene)
    shelf.done("config", "set", "timezone", "Europe/Rome")
    leader = look_at(scene.address).leader
    assert leader is not None
    # The machine whose bot led last is still the one that can take the rows back.
    assert (leader.name, leader.is_leading) == ("desk", False)
    assert leader.epoch > before
    assert config_on_server(scene).timezone == "Europe/Rome"
    with scene.leading("desk") as lease:
        assert "is led by desk" in shelf.refused("config", "set", "timezone", "UTC", code=1)
        assert lease.renew()
    with closing(connect_to(scene.address)) as connection:
        connection.execute(f"UPDATE lease SET schema = {SCHEMA + 1}")
    assert "newer version" in shelf.refused("config", "set", "timezone", "UTC", code=1)
    assert config_on_server(scene).timezone == "Europe/Rome"
    assert database_files(shelf, scene.desk) == []


def rows_of(scene: StandbyScene, terminal: Terminal) -> CommandDatabase:
    return CommandDatabase(
        scene.address,
        terminal.paths,
        lambda: SUNDAY,
        partial(adds_power, terminal.paths),
        lambda _: None,
    )


class Killed(BaseException):
    pass


class DoomedProcess:
    """Connects for a command, until it is killed: then all its connections are cut at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._opened: list[Connection] = []
        self._is_dead = False
        monkeypatch.setattr(commands, "connect_to", self._connect)

    def _connect(self, address: Address, idle_in_step: float) -> Connection:
        if self._is_dead:
            raise Killed
        self._opened.append(connect_to(address, idle_in_step))
        return self._opened[-1]

    def die(self, tx: Transaction) -> None:
        """Die inside of a step that has changed a row."""
        tx.meta.put("half", "done")
        self._is_dead = True
        for connection in self._opened:
            if not connection.closed:
                with socket.socket(fileno=os.dup(connection.fileno())) as cut:
                    cut.shutdown(socket.SHUT_RDWR)
        raise Killed


def test_a_command_that_is_killed_inside_of_its_step_leaves_no_trace(
    scene: StandbyScene, shelf: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    doomed = DoomedProcess(monkeypatch)
    with closing(rows_of(scene, shelf)) as rows, pytest.raises(Killed):
        rows.run(doomed.die)
    monkeypatch.undo()
    # Its lease stays until it expires.
    found = look_at(scene.address)
    assert found.leader is not None
    assert found.leader.is_leading
    with closing(connect_to(scene.address)) as connection:
        connection.execute("UPDATE lease SET until = clock_timestamp() - interval '1 second'")
    with scene.leading("desk") as lease:
        assert lease.renew()
    assert scene.on_server(lambda tx: tx.meta.get("half")) is None
