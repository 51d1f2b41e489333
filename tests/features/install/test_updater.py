"""Without a running bot, each failed update leaves the old version and gives one sentence."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.features.install.fake_installation import NEW, NOW, OLD, Checkout, FakeInstallation, run
from tests.patience import patience

from ollim_bot.features.install.releases import InstalledProgram, version_in
from ollim_bot.features.install.updater import Updater
from ollim_bot.kernel.base.errors import OllimError
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.data_directory import TEXTS
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.upkeep.hand_over import (
    MaintenanceKind,
    Phase,
    UpdateRecord,
    maintenance,
    maintenance_in_progress,
    read_update,
    write_update,
)

pytestmark = pytest.mark.real_process


class Scene:
    """An installation by pip, or a checkout, with a data directory of the bot."""

    def __init__(self, home: Path, *, is_checkout: bool = False) -> None:
        self.fake = FakeInstallation(home)
        self.paths = DataPaths(self.fake.paths.root)
        self.paths.locks.mkdir(parents=True, mode=0o700)
        open_database(self.paths, lambda: NOW, is_holder=True, report=print).close()
        self.checkout = Checkout(self.fake) if is_checkout else None
        self.installation = (
            self.checkout.installation() if self.checkout else self.fake.installation()
        )
        self.said: list[str] = []

    def updater(self) -> Updater:
        return self.fake.updater(self.installation, self.said.append, now=lambda: NOW)

    def update(self) -> UpdateRecord:
        return self.updater().run()

    def refused(self) -> str:
        """Run an update that must fail, and return its error sentence, which the record has too."""
        with pytest.raises(OllimError) as refused:
            self.update()
        sentence = str(refused.value)
        assert "\n" not in sentence
        record = read_update(self.paths)
        assert record is not None
        assert (record.phase, record.reason) == (Phase.FAILED, sentence)
        self.is_as_before()
        return sentence

    def is_as_before(self) -> None:
        assert in_place(self.installation) == OLD
        assert not self.installation.beside.exists()
        assert maintenance_in_progress(self.paths) is None
        assert not self.paths.before_update.exists()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + patience()
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def content(paths: DataPaths) -> list[str]:
    with closing(sqlite3.connect(paths.state / "ollim.db")) as database:
        version = str(database.execute("PRAGMA user_version").fetchone())
        return [version, *database.iterdump()]


def in_place(installation: InstalledProgram) -> object:
    return version_in(installation.environment)


def test_a_good_update_backs_up_starts_on_the_data_and_takes_over(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    release = scene.updater().check()
    assert (release.version, release.changelog) == (NEW, "## 0.13.0\n\n- new")
    assert not scene.paths.backups().exists(), "a check changes nothing"
    outcome = scene.update()
    assert outcome.phase is Phase.DONE
    assert read_update(scene.paths) == outcome
    assert in_place(scene.installation) == NEW
    assert not scene.installation.beside.exists()
    assert not scene.paths.before_update.exists()
    assert len([*scene.paths.backups().glob("*.tar.gz")]) == 1
    assert scene.said == [
        "Installing 0.13.0 beside 0.12.0 …",
        "Backing up …",
        "Starting 0.13.0 on your data …",
    ]
    asked = [(words[0], words[-1]) for words in scene.fake.calls() if "ollim_bot" in words]
    assert asked == [("env.next", "version"), ("env.next", "--json"), ("env", "--trial")]


def test_a_good_update_of_a_checkout_moves_it_to_the_tag(tmp_path: Path) -> None:
    scene = Scene(tmp_path, is_checkout=True)
    assert scene.checkout is not None
    assert scene.refused() == "Version 0.12.0 is the newest one."
    scene.checkout.release(NEW)
    link = scene.paths.routine_spec_link
    link.symlink_to(scene.installation.environment / "source/src/ollim_bot/texts" / link.name)
    outcome = scene.update()
    assert outcome.phase is Phase.DONE
    assert "This version's tag is not signed; it is trusted because" in str(outcome)
    assert link.readlink() == TEXTS / link.name, "it leads to where the checkout runs from"
    assert str(NEW) in scene.checkout.version()
    assert in_place(scene.installation) == NEW


def test_a_checkout_with_changes_ends_before_the_backup(tmp_path: Path) -> None:
    scene = Scene(tmp_path, is_checkout=True)
    assert scene.checkout is not None
    scene.checkout.release(NEW)
    (scene.checkout.path / "CHANGELOG.md").write_text("mine")
    assert "has changes of its own" in scene.refused()
    assert not scene.paths.backups().exists()


def _no_network(scene: Scene) -> None:
    scene.fake.write_plan(offline=True)


def _nothing_newer(scene: Scene) -> None:
    scene.fake.newest = str(OLD)
    scene.fake.write_plan()


def _older(scene: Scene) -> None:
    scene.fake.newest = "0.11.9"
    scene.fake.write_plan()


def _full_disk(scene: Scene) -> None:
    scene.fake.write_plan(full=True)


def _behaves(how: str) -> Callable[[Scene], None]:
    def behave(scene: Scene) -> None:
        scene.fake.behaviour[str(NEW)] = how
        scene.fake.write_plan()

    return behave


def _failing_doctor(scene: Scene) -> None:
    scene.fake.doctor.update({str(OLD): ["git"], str(NEW): ["git", "clock"]})
    scene.fake.write_plan()


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        pytest.param(_no_network, "could not be looked up: no ready package", id="net"),
        pytest.param(_nothing_newer, "Version 0.12.0 is the newest one.", id="nothing newer"),
        pytest.param(_older, "Version 0.12.0 is the newest one.", id="no downgrade"),
        pytest.param(_full_disk, "could not be installed: No space left on device.", id="full"),
        pytest.param(_behaves("import"), "It does not start: ModuleNotFoundError", id="import"),
        pytest.param(_failing_doctor, "Its doctor fails: clock: is wrong", id="doctor"),
    ],
)
def test_what_fails_beforehand_changes_nothing(
    tmp_path: Path, prepare: Callable[[Scene], None], sentence: str
) -> None:
    scene = Scene(tmp_path)
    prepare(scene)
    assert sentence in scene.refused()


def test_a_backup_with_a_gap_ends_the_update_before_the_new_version_sees_the_data(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    run("git", "init", "--quiet", str(scene.paths.root))
    (scene.paths.root / ".git" / "config").write_text("[what")
    assert "lacks what could not be read, so nothing was changed" in scene.refused()
    assert not any("--trial" in words for words in scene.fake.calls())


def test_a_backup_that_fails_ends_the_update_before_the_new_version_sees_the_data(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    scene.paths.backups().write_text("in the way")
    assert "could not be written" in scene.refused()
    assert not any("--trial" in words for words in scene.fake.calls())


@pytest.mark.parametrize("how", ["import in place", "start", "migration"])
def test_what_breaks_on_the_data_brings_the_old_version_back(tmp_path: Path, how: str) -> None:
    scene = Scene(tmp_path)
    _behaves(how)(scene)
    before = content(scene.paths)
    outcome = scene.update()
    assert outcome.phase is Phase.RETURNED
    assert "so 0.12.0 goes on with all data as it was: " in str(outcome)
    assert content(scene.paths) == before
    scene.is_as_before()


def test_by_itself_it_tries_no_version_again_that_did_not_start(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    _behaves("import in place")(scene)
    returned = scene.update()
    _behaves("")(scene)
    with pytest.raises(OllimError, match="did not start before; `ollim-bot update` tries it again"):
        scene.updater().run(when_idle=True)
    assert read_update(scene.paths) == returned, "it is still known tomorrow"
    assert scene.update().phase is Phase.DONE


def test_one_that_was_cut_off_is_settled_by_the_next_one_and_two_at_once_do_not_run(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    installation = scene.installation
    record = UpdateRecord(
        str(OLD), str(NEW), str(installation.environment), str(installation.beside), NOW
    )
    write_update(scene.paths, record)
    shutil.copytree(installation.environment, installation.beside)
    with (
        maintenance(scene.paths, MaintenanceKind.RESTORE, NOW),
        pytest.raises(OllimError, match="Wait for the restore that began at"),
    ):
        scene.update()
    assert scene.update().phase is Phase.DONE
    assert in_place(installation) == NEW
