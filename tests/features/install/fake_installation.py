"""A fake installed program: an environment whose `python` and `uv` are scripts of the test.

A plan file says which versions can be installed, and how each version behaves.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.defined_start import PYTHON
from tests.patience import patience

from ollim_bot.features.install.releases import (
    InstalledProgram,
    InstallKind,
    find_installation,
    release_source,
)
from ollim_bot.features.install.updater import Updater
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.values.presence import Version

OLD, NEW = Version(0, 12, 0), Version(0, 13, 0)
NOW = datetime(2026, 11, 16, 6, 0, tzinfo=UTC)

# Acts as the `python` of an environment, and as `uv`. Each call is logged. It is started often, so
# it imports almost nothing.
_STAND_IN = """#!{python} -SE
import os, sys
index = {index!r}
with open(index) as file:
    plan = eval(file.read())
me, words, parent = sys.argv[0], sys.argv[1:], os.getppid()
environment = os.path.dirname(os.path.dirname(me))
with open(os.path.dirname(index) + "/asked.log", "a") as log:
    log.write(repr([os.path.basename(environment), *words]) + "\\n")

def fail(reason):
    print("some words before", reason, sep="\\n", file=sys.stderr)
    sys.exit(1)

def write(path, text):
    with open(path, "w") as file:
        file.write(text)

def site_of(environment):
    return environment + "/lib/python3.11/site-packages"

def make(folder):
    if plan.get("full"):
        fail("No space left on device")
    os.makedirs(folder + "/bin")
    os.makedirs(site_of(folder))
    python = folder + "/bin/python"
    with open({stand_in!r}) as file:
        write(python, file.read())
    os.chmod(python, 0o755)
    write(folder + "/bin/ollim-bot", "#!" + python + "\\n")
    write(folder + "/pyvenv.cfg", "command = venv " + folder + "\\n")

def put(site, version, source=None):
    record = site + "/ollim_bot-" + version + ".dist-info"
    os.makedirs(record)
    write(record + "/INSTALLER", "pip")
    if source:
        origin = '{{"url": "file://' + source + '", "dir_info": {{"editable": true}}}}'
        write(record + "/direct_url.json", origin)
    os.makedirs(site + "/ollim_bot", exist_ok=True)
    write(site + "/ollim_bot/CHANGELOG.md", plan.get("changelog", ""))
    write(site + "/ollim_bot/requirements.lock", "")

def install(site):
    if plan.get("offline"):
        fail("ERROR: No matching distribution found for ollim-bot")
    if "--editable" in words:
        source = words[-1]
        with open(source + "/src/ollim_bot/__init__.py") as file:
            version = file.read().split('"')[1]
        put(site, version, source)
        write(site + "/_editable_impl_ollim_bot.pth", source + "/src")
    elif "-r" not in words:
        version = words[-1].partition("==")[2] or plan["newest"]
        put(words[words.index("--target") + 1] if "--target" in words else site, version)

def version():
    names = os.listdir(site_of(environment))
    return next(name for name in names if name.startswith("ollim_bot-")).split("-")[1][:-5]

def fail_on_data(reason):
    path = os.environ["OLLIM_DATA_DIR"] + "/state/update.json"
    with open(path) as file:
        text = file.read()
    write(path, text.replace('"reason": ""', '"reason": "' + reason + '"'))
    sys.exit(1)

def trial():
    behaviour = plan["behaviour"].get(version(), "")
    state = os.environ["OLLIM_DATA_DIR"] + "/state"
    if behaviour == "import in place":
        fail("ModuleNotFoundError: No module named 'nowhere'")
    if behaviour == "start":
        fail_on_data("A fault in the program stopped the bot.")
    if behaviour.startswith("migrat"):
        import sqlite3
        connection = sqlite3.connect(state + "/ollim.db", isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("PRAGMA user_version = 99")
        connection.execute("CREATE TABLE of_the_new (it)")
        if behaviour.endswith("long"):
            wait_while(lambda: not os.path.exists(index + ".go"))
        connection.execute("COMMIT")
        connection.close()
        write(state + "/config.json", "of the new version")
        write(state + "/fork.json", "of the new version")
        if behaviour.startswith("migration"):
            fail_on_data("sqlite3.OperationalError: no such column: x")

def wait_while(condition):
    import time
    # Ends too if the process that started it is killed.
    while condition() and os.getppid() == parent:
        time.sleep(0.02)

def bot():
    import fcntl, signal
    from datetime import datetime, timezone
    state = os.environ["OLLIM_DATA_DIR"] + "/state"
    with open(state + "/bot.pid", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(str(os.getpid()))
        lock.flush()
        behaviour = plan["behaviour"].get(version(), "")
        if behaviour.startswith("migrates"):
            trial()
        if behaviour != "no heartbeat":
            write(state + "/heartbeat", datetime.now(timezone.utc).isoformat())
        signal.pause()

def doctor():
    if os.path.exists(os.environ["OLLIM_DATA_DIR"]) or "DATABASE_URL" in os.environ:
        fail("It would open the data.")
    def finding(level, name, detail):
        row = '{{"level": "%s", "name": "%s", "detail": "%s", "next": ""}}'
        return row % (level, name, detail)
    names = plan["doctor"].get(version(), [])
    findings = [finding("FAIL", name, "is wrong") for name in names]
    findings.append(finding("PASS", "git", ""))
    print('{{"findings": [' + ", ".join(findings) + "]}}")
    sys.exit(bool(names))

if os.path.basename(me) == "uv" and words[0] == "venv":
    make(words[-1])
elif os.path.basename(me) == "uv":
    install(site_of(os.path.dirname(os.path.dirname(words[words.index("--python") + 1]))))
elif words[:2] == ["-m", "venv"]:
    make(words[-1])
elif words[:2] == ["-m", "pip"]:
    other = words[3] if words[2] == "--python" else me
    install(site_of(os.path.dirname(os.path.dirname(other))))
elif words[-1] == "version":
    if plan["behaviour"].get(version()) == "import":
        fail("ModuleNotFoundError: No module named 'nowhere'")
    print("ollim-bot", version())
elif words[-1] == "--trial":
    trial()
elif words[-2:] == ["doctor", "--json"]:
    doctor()
elif words[-1] == "ollim_bot":
    bot()
"""


@dataclass
class FakeInstallation:
    """An installed program in `home`. Only its files and git are real."""

    home: Path
    newest: str = str(NEW)
    changelog: str = "# Changelog\n\n## 0.13.0\n\n- new\n\n## 0.12.0\n\n- old\n"
    behaviour: dict[str, str] = field(default_factory=dict)
    doctor: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.paths = DataPaths(self.home / "data")
        self.stand_in = self.home / "stand-in"
        self.index = self.home / "index"
        self.programs = self.home / "programs"
        self.programs.mkdir(parents=True)
        text = _STAND_IN.format(python=PYTHON, index=str(self.index), stand_in=str(self.stand_in))
        for path in (self.stand_in, self.programs / "uv"):
            path.write_text(text)
            path.chmod(0o755)
        self.write_plan()

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "OLLIM_DATA_DIR": str(self.paths.root),
            "DISCORD_TOKEN": "a-token",
        }

    def write_plan(self, **more: object) -> None:
        """Set how the fake programs behave from now on."""
        plan = {
            "newest": self.newest,
            "changelog": self.changelog,
            "behaviour": self.behaviour,
            "doctor": self.doctor,
            "data": str(self.paths.root),
            **more,
        }
        self.index.write_text(repr(plan))

    def let_go_on(self) -> None:
        """End the wait of a migration that takes long."""
        self.index.with_name("index.go").touch()

    def calls(self) -> list[list[str]]:
        """The command lines of the fake programs, each with the name of its environment first."""
        log = self.index.with_name("asked.log")
        return [literal_eval(line) for line in log.read_text().splitlines()] if log.exists() else []

    def environment(
        self,
        name: str = "env",
        *,
        origin: Mapping[str, object] | None = None,
        files: Sequence[str] = (),
        installer: str = "pip",
    ) -> Path:
        """An environment with the old version, as an installer leaves it."""
        folder = self.home / name
        run(str(self.stand_in), "-m", "venv", str(folder))
        record = folder / "lib/python3.11/site-packages" / f"ollim_bot-{OLD}.dist-info"
        record.mkdir()
        (record / "INSTALLER").write_text(installer)
        (record / "METADATA").write_text("Metadata-Version: 2.1\nName: ollim-bot\nVersion: 0\n")
        if origin is not None:
            (record / "direct_url.json").write_text(json.dumps(origin))
        for each in files:
            (folder / each).write_text("{}")
        return folder

    def installation(self, kind: InstallKind = InstallKind.PIP) -> InstalledProgram:
        return InstalledProgram(kind, self.environment(), OLD)

    def updater(
        self,
        installation: InstalledProgram,
        say: Callable[[str], None],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        limit: float | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Updater:
        settings = {**self.environ, **(environ or {})}
        source = release_source(installation, settings)
        return Updater(
            self.paths, installation, source, settings, now, say, limit=limit or patience()
        )

    def make_state(self) -> None:
        """A data directory with a database and mirrors."""
        self.paths.state.mkdir(parents=True, mode=0o700)
        with closing(sqlite3.connect(self.paths.state / "ollim.db")) as database:
            database.execute("PRAGMA user_version = 11")
            database.execute("CREATE TABLE meta (name TEXT, value TEXT)")
            database.execute("INSERT INTO meta VALUES ('who', 'the old version')")
            database.commit()
        self.paths.config.write_text('{"version": 1}')


class Checkout:
    """A bare repository, and a clone of it in which the old version is installed."""

    def __init__(self, fake: FakeInstallation) -> None:
        self._fake = fake
        self.remote, self.work, self.path = (
            fake.home / name for name in ("remote.git", "work", "checkout")
        )
        run("git", "init", "--quiet", "--bare", "--initial-branch=main", str(self.remote))
        run("git", "clone", "--quiet", str(self.remote), str(self.work))
        self.release(OLD)
        run("git", "clone", "--quiet", str(self.remote), str(self.path))
        origin = {"url": self.path.as_uri(), "dir_info": {"editable": True}}
        self.environment = fake.environment("checkout/.venv", origin=origin)
        self.site = self.environment / "lib/python3.11/site-packages"
        (self.site / "_editable_impl_ollim_bot.pth").write_text(str(self.path / "src"))

    def release(self, version: Version, *, tag: str | None = None) -> None:
        """Publish a version under its tag."""
        package = self.work / "src" / "ollim_bot"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text(f'__version__ = "{version}"\n')
        (self.work / "CHANGELOG.md").write_text(self._fake.changelog)
        (self.work / "requirements.lock").write_text(f"a==1 # for {version}\n")
        (self.work / ".gitignore").write_text(".venv*/\n")
        git(self.work, "add", "--all")
        git(self.work, "commit", "--quiet", "-m", f"Version {version}")
        git(self.work, "tag", tag or version.tag)
        git(self.work, "push", "--quiet", "--tags", "origin", "HEAD:main")

    def installation(self) -> InstalledProgram:
        return find_installation(str(self.environment), "/usr")

    def version(self) -> str:
        return (self.path / "src/ollim_bot/__init__.py").read_text()


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false")
    return run("git", *who, *words, cwd=folder)


def run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()
