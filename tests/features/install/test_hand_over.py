"""Whatever an update that was cut off has left, the next start of either version finishes it."""

from __future__ import annotations

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from tests.features.install.fake_installation import NEW, NOW, OLD, FakeInstallation

from ollim_bot.kernel.store.database_errors import Damaged
from ollim_bot.kernel.store.snapshot import keep_state
from ollim_bot.kernel.upkeep.hand_over import (
    MaintenanceKind,
    Phase,
    UpdateRecord,
    confirm_update,
    exchange,
    maintenance,
    note_failed_start,
    read_update,
    resume_update,
    wait_for_switch,
    write_update,
)
from ollim_bot.kernel.values.presence import Version


class CutOffScene:
    """An update that was cut off in a phase. From `Phase.KEPT` on, the data are migrated."""

    def __init__(self, home: Path, phase: Phase) -> None:
        fake = FakeInstallation(home)
        fake.make_state()
        self.paths = fake.paths
        self.record = UpdateRecord(str(OLD), str(NEW), "env", "env.next", NOW, phase)
        write_update(self.paths, self.record)
        self.before = self.state()
        keep_state(self.paths)
        if phase not in (Phase.PREPARING, Phase.READY):
            with closing(sqlite3.connect(self.paths.state / "ollim.db")) as database:
                database.executescript("PRAGMA user_version = 99; DROP TABLE meta")
            self.paths.config.write_text("of the new version")
            (self.paths.state / "fork.json").write_text("of the new version")

    def start(self, version: Version) -> bool:
        return resume_update(self.paths, str(version))

    @property
    def left(self) -> UpdateRecord:
        record = read_update(self.paths)
        assert record is not None
        return record

    def state(self) -> dict[str, object]:
        """The rows of the database, its version, and the files of the state."""
        with closing(sqlite3.connect(self.paths.state / "ollim.db")) as database:
            rows = [*database.iterdump()]
            version = database.execute("PRAGMA user_version").fetchone()
        names = {path.name for path in self.paths.state.iterdir()} - {"update.json", "ollim.db-shm"}
        return {
            "rows": rows,
            "version": version,
            "files": names,
            "c": self.paths.config.read_text(),
        }


@pytest.mark.parametrize("phase", [Phase.KEPT, Phase.SWITCHED])
def test_the_old_version_puts_the_state_back(tmp_path: Path, phase: Phase) -> None:
    scene = CutOffScene(tmp_path, phase)
    for _ in range(2):
        assert not scene.start(OLD)
        assert scene.state() == scene.before, "no table, no file and no mark of the new version"
        assert str(scene.left) == (
            "Version 0.13.0 did not start, so 0.12.0 goes on with all data as it was: "
            "the update was cut off."
        )


@pytest.mark.parametrize("phase", [Phase.KEPT, Phase.SWITCHED])
def test_the_new_version_that_is_in_place_goes_on_and_is_confirmed_by_its_heartbeat(
    tmp_path: Path, phase: Phase
) -> None:
    scene = CutOffScene(tmp_path, phase)
    assert scene.start(NEW), "it takes nothing before its heartbeat"
    assert scene.left.phase is Phase.SWITCHED
    assert scene.paths.before_update.is_dir(), "until the heartbeat has come"
    confirm_update(scene.paths)
    assert str(scene.left) == "Updated from 0.12.0 to 0.13.0."
    assert not scene.paths.before_update.exists()
    assert not scene.start(NEW)
    assert scene.state()["version"] == (99,)


@pytest.mark.parametrize("phase", [Phase.PREPARING, Phase.READY])
def test_what_had_not_begun_leaves_nothing_to_undo(tmp_path: Path, phase: Phase) -> None:
    scene = CutOffScene(tmp_path, phase)
    with maintenance(scene.paths, MaintenanceKind.UPDATE, NOW):
        assert not scene.start(OLD)
        assert scene.left == scene.record, "it goes on beside the bot"
    assert not scene.start(OLD)
    assert str(scene.left) == "No update to 0.13.0; 0.12.0 goes on: the update was cut off."
    assert scene.state() == scene.before


def test_what_the_sentinel_delivered_meanwhile_is_known_to_the_version_that_goes_on(
    tmp_path: Path,
) -> None:
    scene = CutOffScene(tmp_path, Phase.SWITCHED)
    scene.paths.sentinel.write_text("delivered")
    scene.start(NEW)
    scene.paths.sentinel.unlink()  # the new version has taken it in
    scene.start(OLD)
    assert scene.paths.sentinel.read_text() == "delivered"


def test_a_third_version_leaves_it_alone(tmp_path: Path) -> None:
    scene = CutOffScene(tmp_path, Phase.KEPT)
    assert not scene.start(Version(0, 14, 0))
    assert scene.left == scene.record


def test_a_version_that_fails_after_a_power_cut_puts_the_old_one_in_place(tmp_path: Path) -> None:
    scene = CutOffScene(tmp_path / "home", Phase.SWITCHED)
    environment, beside = tmp_path / "env", tmp_path / "env.next"
    for folder, version in ((environment, NEW), (beside, OLD)):
        folder.mkdir()
        (folder / str(version)).touch()
    record = replace(scene.record, environment=str(environment), beside=str(beside))
    write_update(scene.paths, record)
    assert scene.start(NEW)
    assert note_failed_start(scene.paths, "no such column: x")
    wait_for_switch(scene.paths)
    assert os.listdir(environment) == [str(OLD)]
    assert not scene.start(NEW), "one of another installation does not try it again and again"
    assert not note_failed_start(scene.paths, "no such column: x")
    assert not scene.start(OLD)
    assert scene.state() == scene.before
    assert str(scene.left).endswith("goes on with all data as it was: no such column: x.")


def test_the_bot_and_the_updater_may_confirm_it_at_once(tmp_path: Path) -> None:
    scene = CutOffScene(tmp_path, Phase.SWITCHED)

    def confirmed(together: Barrier) -> UpdateRecord | None:
        together.wait()
        return confirm_update(scene.paths)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(40):
            write_update(scene.paths, scene.record)
            found = [*pool.map(confirmed, [Barrier(2)] * 2)]
            assert found == [replace(scene.record, phase=Phase.DONE)] * 2


def test_a_damaged_database_is_not_kept(tmp_path: Path) -> None:
    scene = CutOffScene(tmp_path, Phase.READY)
    (scene.paths.state / "ollim.db").write_bytes(b"no database" * 100)
    with pytest.raises(Damaged):
        keep_state(scene.paths)
    assert not scene.paths.before_update.exists()


def test_folders_are_exchanged_in_one_step(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / folder.name).touch()
    exchange(one, other)
    assert os.listdir(one) == ["other"]
    assert os.listdir(other) == ["one"]
    assert sorted(os.listdir(tmp_path)) == ["one", "other"]
