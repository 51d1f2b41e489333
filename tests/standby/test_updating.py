"""Of machines that share a database, the one that stands by is updated first."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.features.install.fake_installation import NEW, NOW, OLD
from tests.features.install.test_updater import Scene, in_place
from tests.postgres_server import leading, new_url
from tests.standby.beside import commands_answered

from ollim_bot import __version__
from ollim_bot.features.install.updater import Updater
from ollim_bot.kernel.store.connection import Statements
from ollim_bot.kernel.store.schema import tables
from ollim_bot.kernel.upkeep.hand_over import Phase
from ollim_bot_standby.command_server import CommandRows
from ollim_bot_standby.postgres.connection import parse_address
from ollim_bot_standby.postgres.database import PostgresDatabase
from ollim_bot_standby.postgres.lease import Lease
from ollim_bot_standby.postgres.server import look_at

pytestmark = [pytest.mark.real_process, pytest.mark.usefixtures("postgres")]


def updater_of(scene: Scene, url: str) -> Updater:
    say, environ = scene.said.append, {"DATABASE_URL": url}
    return scene.fake.updater(scene.installation, say, now=lambda: NOW, environ=environ)


def all_rows(database: PostgresDatabase) -> dict[str, list[tuple[object, ...]]]:
    def read(rows: Statements) -> dict[str, list[tuple[object, ...]]]:
        return {each.name: rows.rows(f"SELECT * FROM {each.name}") for each in tables()}

    return database.query_rows(read)


def test_a_version_that_does_not_start_on_the_standby_leaves_the_leader_and_all_rows(
    tmp_path: Path,
) -> None:
    url = new_url()
    address, scene = parse_address(url), Scene(tmp_path)
    (scene.paths.state / "ollim.db").unlink()
    with leading(address, lambda: NOW) as (lease, database):
        database.run(lambda tx: tx.meta.put("who", "the leader"))
        before, epoch = all_rows(database), look_at(address).epoch
        for behaviour, phase in (("start", Phase.RETURNED), ("", Phase.DONE)):
            scene.fake.write_plan(behaviour={str(NEW): behaviour})
            outcome = updater_of(scene, url).run()
            assert outcome.phase is phase, outcome
            assert in_place(scene.installation) == (OLD if behaviour else NEW)
            assert all_rows(database) == before
            assert look_at(address).epoch == epoch
            assert lease.renew()
            assert not (scene.paths.state / "ollim.db").exists()


def test_the_leader_is_not_updated_before_the_machine_that_stands_by(tmp_path: Path) -> None:
    url = new_url()
    address, scene = parse_address(url), Scene(tmp_path)
    # Newer than what stands by, which is this program.
    scene.fake.write_plan(newest="99.0.0")
    # Both machines have the same name.
    other = Lease(address, "desk", machine="another")
    with leading(address, lambda: NOW) as (lease, _), closing(other) as waiting:
        assert waiting.take() is None
        assert updater_of(scene, url).check().obstacle == "", "this machine does not lead"
        rows = CommandRows(address, lease, lambda: NOW)
        with commands_answered(scene.paths.commands, rows):
            obstacle = updater_of(scene, url).check().obstacle
            assert obstacle.startswith(f"desk stands by with {__version__}, and is updated first")
            assert "ollim-bot standby hand-over" in obstacle
            waiting.close()
            assert updater_of(scene, url).check().obstacle == ""
