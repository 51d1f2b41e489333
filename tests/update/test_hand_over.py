"""The hand-over switches once, or restores everything if the new version does not start."""

from __future__ import annotations

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from tests.update.fake_installation import NEW, NOW, OLD, FakeInstallation

from ollim_bot.upkeep.hand_over import (
    Phase,
    UpdateRecord,
    asked_to_hand_over,
    confirm_update,
    exchange,
    hand_over,
    read_update,
    settle_update,
    write_update,
)
from ollim_bot.upkeep.releases import (
    InstalledProgram,
    Release,
    installed_record,
    release_source,
    version_of,
)

pytestmark = pytest.mark.real_process


class HandOverScene:
    """The new version is installed beside the old one, and the bot has stopped."""

    def __init__(self, home: Path, behaviour: str = "") -> None:
        self.fake = FakeInstallation(home, behaviour={str(NEW): behaviour})
        self.fake.make_state()
        self.paths = self.fake.paths
        self.installation = self.fake.installation()
        release_source(self.installation, self.fake.environ).build(
            Release(NEW), self.installation.beside
        )
        self.record = UpdateRecord(
            str(OLD),
            str(NEW),
            str(self.installation.environment),
            str(self.installation.beside),
            NOW,
            Phase.READY,
            bot=4711,
        )
        write_update(self.paths, self.record)
        self.before = self.state()

    def hand_over(self, limit: float = 60.0) -> UpdateRecord:
        return hand_over(self.paths, self.record, self.fake.environ, lambda: NOW, limit)

    def in_place(self) -> object:
        return in_place(self.installation)

    def state(self) -> dict[str, object]:
        """The rows of the database, its version, and the files of the state."""
        with closing(sqlite3.connect(self.paths.state / "ollim.db")) as database:
            rows = database.execute("SELECT * FROM meta").fetchall()
            tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            version = database.execute("PRAGMA user_version").fetchone()
        names = sorted(path.name for path in self.paths.state.iterdir())
        known = [name for name in names if name not in ("update.json", "ollim.db-shm")]
        return {"rows": rows, "tables": tables, "version": version, "files": known}


def in_place(installation: InstalledProgram) -> object:
    record = installed_record(installation.environment)
    return None if record is None else version_of(record)


def test_a_version_that_starts_is_put_in_place_and_the_old_one_beside_it(tmp_path: Path) -> None:
    scene = HandOverScene(tmp_path, "migrates")
    assert asked_to_hand_over(scene.paths, 4711) == scene.record
    assert asked_to_hand_over(scene.paths, 4712) is None
    outcome = scene.hand_over()
    assert outcome.phase is Phase.SWITCHED
    assert read_update(scene.paths) == outcome
    assert scene.in_place() == NEW
    assert (scene.installation.beside / "bin/python").exists()
    assert scene.state()["version"] == (99,)
    assert scene.paths.before_update.is_dir(), "until the heartbeat has come"

    settle_update(scene.paths, str(NEW), NOW)
    assert read_update(scene.paths) == outcome, "a start changes nothing of it"
    confirmed = confirm_update(scene.paths)
    assert confirmed is not None
    assert confirmed.phase is Phase.DONE
    assert not scene.paths.before_update.exists()
    assert str(confirmed) == "Updated from 0.12.0 to 0.13.0."


def test_the_bot_and_the_updater_may_confirm_it_at_once(tmp_path: Path) -> None:
    scene = HandOverScene(tmp_path)
    switched = replace(scene.record, phase=Phase.SWITCHED, switched_at=NOW)

    def confirmed(together: Barrier) -> UpdateRecord | None:
        together.wait()
        return confirm_update(scene.paths)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(40):
            write_update(scene.paths, switched)
            found = [*pool.map(confirmed, [Barrier(2)] * 2)]
            assert found == [replace(switched, phase=Phase.DONE)] * 2


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("import", "ModuleNotFoundError: No module named 'nowhere'."),
        ("start", "A fault in the program stopped the bot."),
        ("migration", "sqlite3.OperationalError: no such column: x."),
        ("hang", "it gave no sign of life within 0.5 s."),
    ],
)
def test_a_version_that_does_not_start_leaves_version_and_state_as_they_were(
    tmp_path: Path, behaviour: str, reason: str
) -> None:
    scene = HandOverScene(tmp_path, behaviour)
    outcome = scene.hand_over(0.5 if behaviour == "hang" else 60.0)
    assert outcome.phase is Phase.RETURNED
    goes_on = "so 0.12.0 goes on with all data as it was"
    assert str(outcome) == f"Version 0.13.0 did not start, {goes_on}: {reason}"
    assert scene.in_place() == OLD
    assert scene.state() == scene.before, "no table, no file and no mark of the new version"
    assert scene.paths.config.read_text() == '{"version": 1}'


def test_a_power_cut_in_the_trial_is_undone_by_the_next_start_of_the_old_version(
    tmp_path: Path,
) -> None:
    scene = HandOverScene(tmp_path, "migrates")
    switched = scene.hand_over()
    # The state just before the switch: the data is migrated, the old version is installed.
    exchange(scene.installation.environment, scene.installation.beside)
    write_update(scene.paths, replace(switched, phase=Phase.TRIAL, switched_at=None))
    settle_update(scene.paths, str(OLD), NOW)
    assert scene.state() == scene.before
    record = read_update(scene.paths)
    assert record is not None
    assert (record.phase, record.reason) == (Phase.RETURNED, "the update was cut off")
    settle_update(scene.paths, str(OLD), NOW)
    assert scene.state() == scene.before


def test_a_power_cut_just_after_the_switch_is_finished_by_the_new_version(tmp_path: Path) -> None:
    scene = HandOverScene(tmp_path, "migrates")
    write_update(scene.paths, replace(scene.hand_over(), phase=Phase.TRIAL, switched_at=None))
    settle_update(scene.paths, str(NEW), NOW)
    record = read_update(scene.paths)
    assert record is not None
    assert (record.phase, record.switched_at) == (Phase.SWITCHED, NOW)
    assert scene.state()["version"] == (99,)


def test_a_power_cut_before_the_trial_leaves_nothing_to_undo(tmp_path: Path) -> None:
    scene = HandOverScene(tmp_path)
    settle_update(scene.paths, str(OLD), NOW)
    record = read_update(scene.paths)
    assert record is not None
    assert str(record) == "No update to 0.13.0; 0.12.0 goes on: the update was cut off."
    assert scene.state() == scene.before


@pytest.mark.parametrize("behaviour", ["migrates", ""])
def test_a_return_after_the_switch_keeps_what_came_in_if_the_old_version_can_read_it(
    tmp_path: Path, behaviour: str
) -> None:
    scene = HandOverScene(tmp_path, behaviour)
    switched = scene.hand_over()
    with closing(sqlite3.connect(scene.paths.state / "ollim.db")) as database:
        database.execute("INSERT INTO meta VALUES ('said', 'meanwhile')")
        database.commit()
    write_update(scene.paths, replace(switched, phase=Phase.RETURNING, reason="no heartbeat"))
    settle_update(scene.paths, str(OLD), NOW)
    names = [row[0] for row in scene.state()["rows"]]  # type: ignore[attr-defined]
    if behaviour:
        # The schema differs: the copy is restored, and the next start reports what was lost.
        assert names == ["who", "restored"]
    else:
        assert names == ["who", "said"]
    record = read_update(scene.paths)
    assert record is not None
    assert str(record) == "Version 0.13.0 did not start, so 0.12.0 goes on: no heartbeat."
    assert not scene.paths.before_update.exists()


def test_a_state_that_cannot_be_kept_ends_the_update_before_the_trial(tmp_path: Path) -> None:
    scene = HandOverScene(tmp_path, "migrates")
    (scene.paths.state / "ollim.db").write_bytes(b"no database" * 100)
    outcome = scene.hand_over()
    assert outcome.phase is Phase.FAILED
    assert scene.in_place() == OLD
    assert not any("--trial" in words for words in scene.fake.calls())


def test_folders_are_exchanged_in_one_step(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / folder.name).touch()
    exchange(one, other)
    assert os.listdir(one) == ["other"]
    assert os.listdir(other) == ["one"]
    assert sorted(os.listdir(tmp_path)) == ["one", "other"]
