"""Real pip and real uv, asked by the updater, take from an index what the lock file names only."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.features.install.fake_installation import NEW, OLD, run
from tests.features.install.package_index import PackageIndex, locked
from tests.patience import patience
from tests.wheels import ROOT

from ollim_bot.features.install.releases import (
    LOCK_FILE,
    PIPX_RECORD,
    POSTGRES_LOCK,
    UV_RECORD,
    InstalledProgram,
    InstallKind,
    UpdateFailed,
    find_installation,
    release_source,
)
from ollim_bot.features.install.updater import Updater
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.upkeep.hand_over import Phase, UpdateRecord, read_update
from ollim_bot.kernel.values.presence import Version

pytestmark = pytest.mark.real_process

NOW = datetime(2026, 11, 16, 6, 7, 8, 91011, tzinfo=UTC)
SITE = "lib/python*/site-packages"
# Starts on any data, if what it needs is there.
PROGRAM = """
import sys
import needed
if sys.argv[1:] == ["doctor", "--json"]:
    print('{"findings": []}')
"""


class Supply:
    """An index with two versions of a small bot, and the older one installed from it.

    The lock of each names `needed` 1.0 and a builder that the bot does not need when it runs; that
    of its extra names `psycopg` 3.0.
    """

    def __init__(self, home: Path, index: PackageIndex) -> None:
        self.home, self.index = home, index
        self._released = 0
        self.paths = DataPaths(home / "données")
        self.lock = locked(index.publish("needed", "1.0"), index.publish("builder", "2.0"))
        self.extra = locked(index.publish("psycopg", "3.0"))
        self.release(OLD)
        self.release(NEW)

    def release(self, version: Version, *, without: str = "") -> None:
        self._released += 1
        files = {
            "ollim_bot/__init__.py": f'__version__ = "{version}"\n',
            "ollim_bot/__main__.py": PROGRAM,
            f"ollim_bot/{LOCK_FILE}": self.lock,
            f"ollim_bot/{POSTGRES_LOCK}": self.extra,
        }
        files.pop(f"ollim_bot/{without}", None)
        needs = ("needed>=1.0", 'psycopg>=3.0; extra == "postgres"')
        self.index.publish("ollim-bot", str(version), files, needs)

    @property
    def environ(self) -> dict[str, str]:
        """The settings of pip and of uv, without any that this machine has."""
        programs = os.path.dirname(sys.executable)
        return {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": self.index.address,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_COMPILE": "1",
            "UV_NO_CONFIG": "1",
            "UV_DEFAULT_INDEX": self.index.address,
            # What is put anew under the same name is in no cache.
            "UV_CACHE_DIR": str(self.home / f"uv-cache-{self._released}"),
            "UV_PYTHON_DOWNLOADS": "never",
        }

    def run(self, *command: str) -> None:
        subprocess.run(command, env=self.environ, cwd=self.home, check=True, capture_output=True)

    def install(self, kind: InstallKind, *, extra: bool = False) -> InstalledProgram:
        """The older version, as this installer leaves it; uv is the quickest that makes it."""
        place = self.home / "env"
        python = str(place / "bin" / "python")
        name = f"ollim-bot[postgres]=={OLD}" if extra else f"ollim-bot=={OLD}"
        self.run("uv", "venv", "--quiet", "--python", sys.executable, str(place))
        self.run("uv", "pip", "install", "--quiet", "--python", python, name)
        if kind is InstallKind.UV_TOOL:
            (place / UV_RECORD).write_text("[tool]\n")
        else:
            for record in site_of(place).glob("*.dist-info/INSTALLER"):
                record.write_text("pip\n")
            self._give_pip(place, is_shared=kind is InstallKind.PIPX)
        if kind is InstallKind.PIPX:
            main = {"package_version": str(OLD), "pip_args": ["--index-url", self.index.address]}
            (place / PIPX_RECORD).write_text(json.dumps({"main_package": main}))
        return find_installation(str(place), "/usr")

    def _give_pip(self, place: Path, *, is_shared: bool) -> None:
        """Put pip there, or lead to one for all environments, as pipx does."""
        folder = self.home / "shared" if is_shared else site_of(place)
        folder.mkdir(exist_ok=True)
        (folder / "pip").symlink_to(run(sys.executable, "-c", "import pip; print(*pip.__path__)"))
        if is_shared:
            (site_of(place) / "pipx_shared.pth").write_text(f"{folder}\n")

    def updater(self, installation: InstalledProgram) -> Updater:
        if not self.paths.locks.exists():
            self.paths.locks.mkdir(parents=True, mode=0o700)
            open_database(self.paths, lambda: NOW, is_holder=True, report=print).close()
        source = release_source(installation, self.environ)
        environ, now = self.environ, lambda: NOW
        return Updater(
            self.paths, installation, source, environ, now, lambda _: None, limit=patience()
        )

    def update(self, installation: InstalledProgram) -> UpdateRecord:
        return self.updater(installation).run()

    def refused(self, installation: InstalledProgram) -> str:
        """Why an update that must fail does so; it leaves every file of the program as it was."""
        before = contents(installation.environment)
        with pytest.raises(UpdateFailed) as refused:
            self.update(installation)
        assert contents(installation.environment) == before
        assert not installation.beside.exists()
        record = read_update(self.paths)
        assert record is not None
        assert (record.phase, record.reason) == (Phase.FAILED, str(refused.value))
        return str(refused.value)


@pytest.fixture
def supply(tmp_path: Path) -> Iterator[Supply]:
    index = PackageIndex(tmp_path / "index")
    with index.served():
        yield Supply(tmp_path, index)


def site_of(environment: Path) -> Path:
    (site,) = environment.glob(SITE)
    return site


def contents(folder: Path) -> Mapping[str, bytes]:
    """Every file of an environment but byte code, which any start may write."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def version_in(environment: Path, package: str) -> str:
    """The version of a package in an environment; empty if it is not there."""
    found = [path.name for path in site_of(environment).glob(f"{package}-*.dist-info")]
    return found[0].removesuffix(".dist-info").partition("-")[2] if found else ""


@pytest.mark.parametrize(
    ("kind", "extra"),
    [
        pytest.param(InstallKind.PIP, False, marks=pytest.mark.minutes, id="pip"),
        pytest.param(InstallKind.UV_TOOL, True, id="uv"),
    ],
)
def test_an_update_takes_the_versions_of_the_lock_and_not_the_newest(
    supply: Supply, kind: InstallKind, extra: bool
) -> None:
    installation = supply.install(kind, extra=extra)
    for name, newer in (("needed", "1.1"), ("psycopg", "3.1")):
        supply.index.publish(name, newer)
    assert supply.update(installation).phase is Phase.DONE
    environment = installation.environment
    assert version_in(environment, "needed") == "1.0"
    assert version_in(environment, "psycopg") == ("3.0" if extra else ""), "only if it was there"
    assert version_in(environment, "builder") == "2.0"
    found = find_installation(str(environment), "/usr")
    assert (found.kind, found.version) == (kind, NEW), "the builder is not somebody else's package"


@pytest.mark.parametrize(
    ("kind", "package"), [(InstallKind.PIPX, "needed==1.0"), (InstallKind.UV_TOOL, "psycopg==3.0")]
)
def test_other_bytes_under_the_same_version_are_refused(
    supply: Supply, kind: InstallKind, package: str
) -> None:
    """The index itself vouches for them: only the lock file tells them apart."""
    installation = supply.install(kind, extra=True)
    name, _, version = package.partition("==")
    supply.index.publish(name, version, {f"{name}/more.py": "steal = True\n"})
    assert supply.refused(installation) == (
        f"The new version could not be installed: {package} has another hash than it must have. It "
        "may come from somebody else, so nothing was changed."
    )
    (wheel,) = (supply.index.folder / "simple" / "ollim-bot").glob(f"*-{NEW}-*.whl")
    wheel.write_bytes(wheel.read_bytes() + b"\x00")
    assert "ollim-bot" in (said := supply.refused(installation)), "the program itself"
    assert "has another hash" in said


def test_a_lock_has_to_name_all_with_hashes(supply: Supply) -> None:
    installation = supply.install(InstallKind.UV_TOOL, extra=True)
    supply.lock = "needed==1.0\n"
    supply.release(NEW)
    assert "hash" in supply.refused(installation)
    supply.lock = locked(supply.index.publish("needed", "1.0", needs=["unnamed"]))
    supply.index.publish("unnamed", "9")
    supply.release(NEW)
    assert "unnamed" in supply.refused(installation)
    supply.lock = locked(supply.index.publish("needed", "1.0"))
    supply.release(NEW, without=LOCK_FILE)
    assert supply.refused(installation) == (
        f"Version {NEW} does not bring {LOCK_FILE}, the list of what it needs with the hash of "
        "each package, so nothing was changed."
    )
    supply.release(NEW, without=POSTGRES_LOCK)
    assert supply.update(installation).phase is Phase.DONE
    assert version_in(installation.environment, "psycopg") == "", "it has no such extra"


def test_the_careful_way_of_the_docs_installs_from_a_clone_by_hashes() -> None:
    from_clone, _ = careful_ways()
    image = " ".join((ROOT / "docs" / "Dockerfile").read_text().split())
    for words in (
        "--require-hashes --requirement requirements.lock",
        "--no-deps --no-build-isolation .",
    ):
        assert words in from_clone
        assert words in image, "where it is built like this"


@pytest.mark.minutes
def test_the_careful_way_of_the_docs_installs_the_locked_versions(supply: Supply) -> None:
    supply.index.publish("needed", "1.1")
    _, from_index = careful_ways()
    supply.run("sh", "-euc", from_index)
    (environment,) = {path.parent for path in supply.home.rglob("pyvenv.cfg")}
    assert version_in(environment, "ollim_bot") == str(NEW)
    assert version_in(environment, "needed") == "1.0"
    assert find_installation(str(environment), "/usr").kind is InstallKind.PIP


def careful_ways() -> list[str]:
    page = (ROOT / "docs" / "install.md").read_text()
    return re.findall(r"^```sh\n(python3 -m venv .*?)^```$", page, re.MULTILINE | re.DOTALL)
