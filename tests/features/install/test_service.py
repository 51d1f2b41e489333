"""Installing the service succeeds with a heartbeat, or leaves everything as it was."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.features.install.supervisors import FakeLaunchd, FakeSupervisor, FakeSystemd, write_bot

from ollim_bot.features.install.checks import check_service, service
from ollim_bot.features.install.service import (
    LABEL,
    TIMER,
    UNIT,
    InstalledService,
    ServiceDefinition,
    ServiceHealth,
    ServiceNotStarted,
    Supervisor,
    SupervisorStatus,
    find_supervisor,
    install_with_proof,
    installed_command,
    service_definition,
    service_health,
    service_of,
    unseen_settings,
    wait_for_heartbeat,
    worse_inside,
)
from ollim_bot.kernel.base.environment import Location
from ollim_bot.kernel.base.errors import SupervisorFailed, WrongInput
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.upkeep.findings import DoctorFinding, DoctorInput, Level

pytestmark = pytest.mark.real_process

SHORT, LONG = 0.3, 120.0
LINGER = "sudo loginctl enable-linger"


class ServiceScene:
    """A home with a data directory, a fake bot program, and a fake supervisor."""

    def __init__(self, root: Path, fake_supervisor: FakeSupervisor) -> None:
        self.fake_supervisor = fake_supervisor
        self.program = write_bot(root / "pro grams")
        self.paths = DataPaths(root / "home" / "da%ta \"dir'")
        self.paths.state.mkdir(parents=True)
        self.set_bot_behaviour("alive")
        self.environ = fake_supervisor.environ

    def set_bot_behaviour(self, *words: str) -> None:
        """How the fake bot behaves from its next start on."""
        (self.paths.root / "how").write_text(" ".join(words))

    @property
    def supervisor(self) -> Supervisor:
        found = find_supervisor(self.environ)
        assert found is not None
        return found

    def definition(self, program: Path | None = None) -> ServiceDefinition:
        return service_definition((str(program or self.program),), self.paths, self.environ)

    def install(
        self, definition: ServiceDefinition | None = None, seconds: float = LONG
    ) -> tuple[list[Path], str]:
        wanted = definition or self.definition()
        return install_with_proof(self.supervisor, wanted, seconds=seconds)

    def refusal(
        self, definition: ServiceDefinition | None = None, seconds: float = LONG
    ) -> list[str]:
        with pytest.raises(ServiceNotStarted) as refused:
            self.install(definition, seconds)
        return str(refused.value).splitlines()

    def health(self) -> ServiceHealth:
        return service_health(self.supervisor, self.paths, datetime.now(UTC))

    @contextmanager
    def next_heartbeat(self) -> Iterator[None]:
        """Wait at the end for the heartbeat of a bot that was started inside the context."""
        since = datetime.now(UTC)
        yield
        assert wait_for_heartbeat(self.paths, since, LONG)

    def files(self) -> dict[Path, str]:
        """The content of all files in the supervisor's folder."""
        there = self.supervisor.file.parent
        found = [Path(folder) / name for folder, _, names in os.walk(there) for name in names]
        return {
            path: os.readlink(path) if path.is_symlink() else path.read_text() for path in found
        }

    def doctor(self) -> DoctorFinding:
        place = Location(self.paths, ZoneInfo("UTC"))
        (found,) = check_service(DoctorInput(None, place, (), self.environ, datetime.now(UTC)))
        return found


def opened(root: Path, kind: type[FakeSupervisor]) -> Iterator[ServiceScene]:
    home = root / "home"
    home.mkdir()
    fake_supervisor = kind(root / "stand-in", home)
    with fake_supervisor.open():
        yield ServiceScene(root, fake_supervisor)


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[ServiceScene]:
    yield from opened(tmp_path, FakeSystemd)


@pytest.fixture
def manager(systemd: ServiceScene) -> FakeSystemd:
    assert isinstance(systemd.fake_supervisor, FakeSystemd)
    return systemd.fake_supervisor


@pytest.fixture
def launchd(tmp_path: Path) -> Iterator[ServiceScene]:
    yield from opened(tmp_path, FakeLaunchd)


def test_systemd_keeps_the_bot_alive_from_installation_to_removal(
    systemd: ServiceScene, manager: FakeSystemd
) -> None:
    systemd.environ |= {"DISCORD_TOKEN": "secret-token", "TZ": "Europe/Berlin"}
    assert systemd.install() == ([], "")
    assert systemd.health().is_alive
    assert manager.is_enabled(UNIT)
    assert manager.is_enabled(TIMER)
    assert manager.is_active(TIMER)
    assert manager.lingers
    assert "secret-token" not in "".join(systemd.files().values())
    seen = json.loads((systemd.paths.root / "environment").read_text())
    assert "DISCORD_TOKEN" not in seen
    assert seen["OLLIM_DATA_DIR"] == str(systemd.paths.root)
    assert seen["TZ"] == "Europe/Berlin"
    assert seen["PATH"] == str(manager.bin)

    first = systemd.health().pid
    assert first is not None
    with systemd.next_heartbeat():
        os.kill(first, signal.SIGKILL)
    restarted = systemd.supervisor.status()
    assert (restarted.is_running, restarted.pid != first, restarted.restarts) == (True, True, 1)

    manager.log_out()
    assert manager.is_active(UNIT), "it lingers"
    systemd.supervisor.stop()
    assert running_pid(systemd.paths.bot_pid) is None
    assert "stopped cleanly" in systemd.supervisor.last_lines(1)
    manager.boot()
    assert manager.is_active(UNIT)

    assert systemd.supervisor.uninstall() == []
    assert systemd.files() == {}
    assert not manager.is_active(UNIT)
    assert not manager.is_active(TIMER)
    assert (systemd.paths.root / "how").exists()
    assert systemd.supervisor.uninstall() == []


def test_launchd_keeps_the_bot_alive_from_installation_to_removal(launchd: ServiceScene) -> None:
    assert launchd.install() == ([], "")
    health = launchd.health()
    assert health.is_alive
    assert health.pid is not None
    assert len(launchd.files()) == 2
    supervisor, services = launchd.supervisor, launchd.fake_supervisor.services
    with launchd.next_heartbeat():
        os.kill(health.pid, signal.SIGKILL)
    assert services.starts(LABEL) == 2
    with launchd.next_heartbeat():
        supervisor.start()
    supervisor.stop()
    assert not supervisor.status().is_running
    with launchd.next_heartbeat():
        supervisor.start()
    assert any(line.startswith("hello") for line in supervisor.last_lines(3))
    assert supervisor.uninstall() == []
    assert launchd.files() == {}
    assert not supervisor.status().is_running
    assert supervisor.uninstall() == []


def test_a_start_that_fails_leaves_nothing(systemd: ServiceScene, manager: FakeSystemd) -> None:
    systemd.set_bot_behaviour("exit", "2")
    told = systemd.refusal()
    assert told[0] == "The bot ended before its first heartbeat; systemd says: failed (failed)."
    assert told[1] == "Everything is put back."
    assert told[2:] == ["Its last lines:", "  hello from ['exit', '2']"]
    assert manager.services.starts(UNIT) <= 1, "wrong settings do not mend themselves"
    systemd.set_bot_behaviour("exit", "1")
    told = systemd.refusal()
    assert told[0].startswith("The bot ended before its first heartbeat")
    assert told[1] == "Everything is put back."
    gone = systemd.definition(systemd.program.with_name("gone"))
    assert "failed" in systemd.refusal(gone)[0]
    assert systemd.files() == {}
    assert not manager.lingers
    assert not manager.is_active(TIMER)


@pytest.mark.parametrize("name", ["systemd", "launchd"])
def test_a_heartbeat_that_never_comes_leaves_nothing(
    name: str, request: pytest.FixtureRequest
) -> None:
    scene: ServiceScene = request.getfixturevalue(name)
    scene.set_bot_behaviour("silent")
    told, after, *_ = scene.refusal(seconds=SHORT)
    assert told.startswith(f"No heartbeat of the bot came within 0.3 s; {name} says: ")
    assert after == "Everything is put back."
    assert scene.files() == {}
    assert running_pid(scene.paths.bot_pid) is None


def test_launchd_runs_the_new_program_and_else_the_old_one_again(
    launchd: ServiceScene, tmp_path: Path
) -> None:
    launchd.install()
    before = launchd.files()
    gone = launchd.definition(tmp_path / "gone")
    assert launchd.refusal(gone, SHORT)[1].endswith("was there before runs again.")
    assert launchd.files() == before
    moved = write_bot(tmp_path / "new place")
    launchd.install(launchd.definition(moved))
    assert launchd.health().is_alive
    assert isinstance(launchd.fake_supervisor, FakeLaunchd)
    assert launchd.fake_supervisor.loaded[LABEL].command == [str(moved)]


def test_launchd_stops_a_bot_that_dies_before_it_listens_to_signals(launchd: ServiceScene) -> None:
    launchd.set_bot_behaviour("young")
    launchd.install()
    launchd.supervisor.stop()
    services = launchd.fake_supervisor.services
    assert (services.pid(LABEL), services.starts(LABEL)) == (0, 1)
    assert launchd.supervisor.status().is_enabled


def test_the_service_before_runs_again_if_the_new_one_does_not_live(
    systemd: ServiceScene, manager: FakeSystemd, tmp_path: Path
) -> None:
    systemd.install()
    before = systemd.files()
    manager.lingers = True
    broken = tmp_path / "moved" / "ollim-bot"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 2\n")
    broken.chmod(0o755)
    told = systemd.refusal(systemd.definition(broken))
    assert told[1].endswith("the service that was there before runs again.")
    assert systemd.files() == before
    assert manager.lingers
    assert manager.is_active(TIMER)
    assert manager.is_active(UNIT)

    moved = write_bot(tmp_path / "new place")
    assert systemd.install(systemd.definition(moved)) == ([], "")
    installed = systemd.supervisor.installed()
    assert installed is not None
    assert installed.definition == systemd.definition(moved)
    assert systemd.health().is_alive


def test_an_interruption_puts_everything_back(systemd: ServiceScene, manager: FakeSystemd) -> None:
    def interrupted() -> datetime:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install_with_proof(systemd.supervisor, systemd.definition(), now=interrupted)
    assert systemd.files() == {}
    assert not manager.lingers


def test_what_another_hand_wrote_is_kept(systemd: ServiceScene) -> None:
    systemd.install()
    unit = systemd.supervisor.file
    edited = unit.read_text().replace("TimeoutStopSec=60", "TimeoutStopSec=90")
    unit.write_text(edited)
    before = systemd.files()
    systemd.set_bot_behaviour("exit", "2")
    systemd.refusal()
    assert systemd.files() == before, "also the name of the copy is free again"
    systemd.set_bot_behaviour("alive")
    ((kept,), _) = systemd.install()
    assert kept.name == f"{UNIT}.bak"
    assert kept.read_text() == edited
    unit.write_text(edited)
    assert [path.name for path in systemd.supervisor.uninstall()] == [f"{UNIT}.bak2"]
    assert not unit.exists()
    assert kept.exists()

    unit.write_text("[Service]\nExecStart=/bin/true\n")
    assert systemd.supervisor.uninstall() == []
    installed = systemd.supervisor.installed()
    assert installed is not None
    assert not installed.is_ours
    assert unit.exists(), "a unit of the person's own"


def test_without_lingering_the_bot_ends_at_log_out_and_that_is_said(
    systemd: ServiceScene, manager: FakeSystemd
) -> None:
    manager.may_linger = False
    _, left_to_do = systemd.install()
    assert left_to_do.startswith(LINGER)
    warning = systemd.doctor()
    assert (warning.level, warning.detail) == (
        Level.WARN,
        "the bot is running, but ends when you log out",
    )
    manager.log_out()
    assert running_pid(systemd.paths.bot_pid) is None
    assert not systemd.health().is_alive


def test_nothing_is_written_if_systemd_does_not_answer(
    systemd: ServiceScene, manager: FakeSystemd
) -> None:
    manager.is_reachable = False
    with pytest.raises(SupervisorFailed, match="log in as this user"):
        systemd.install()
    assert systemd.files() == {}
    manager.is_reachable, manager.reads_folder = True, False
    with pytest.raises(ServiceNotStarted, match=r"enable ollim-bot\.service` failed"):
        systemd.install()
    assert systemd.files() == {}


def test_the_doctor_tells_the_state_of_the_service(systemd: ServiceScene) -> None:
    assert systemd.doctor().level is Level.OFF
    assert "not installed" in systemd.doctor().detail
    systemd.install()
    assert "systemd runs the bot" in systemd.doctor().detail
    supervisor = systemd.supervisor
    assert service_of(systemd.paths, systemd.environ) is not None
    other = DataPaths(systemd.paths.root / "other")
    assert service_of(other, systemd.environ) is None
    supervisor.stop()
    stopped = systemd.doctor()
    assert (stopped.level, "inactive (dead)" in stopped.detail) == (Level.WARN, True)
    systemd.program.rename(systemd.program.with_name("moved"))
    gone = systemd.doctor()
    assert (gone.level, "is gone" in gone.detail) == (Level.FAIL, True)
    systemd.paths, mine = other, systemd.paths
    assert (systemd.doctor().level, str(mine.root) in systemd.doctor().detail) == (Level.PASS, True)
    supervisor.file.write_text("[Service]\n")
    assert "cannot be understood" in systemd.doctor().detail


NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
INSTALLED = InstalledService(Path("/u"), None, is_ours=True, is_edited=False)
ALIVE = SupervisorStatus("active (running)", is_running=True, is_enabled=True, pid=7, lingers=True)
FAILED = SupervisorStatus("failed (failed)", is_running=False, is_enabled=True, has_given_up=True)


@pytest.mark.parametrize(
    ("status", "pid", "age", "level", "part"),
    [
        (ALIVE, 7, 10, Level.PASS, "heartbeat 10 s ago"),
        (ALIVE, 7, 300, Level.FAIL, "the last heartbeat is 5 min old"),
        (ALIVE, 7, None, Level.FAIL, "there was no heartbeat yet"),
        (ALIVE, 8, 10, Level.WARN, "outside it (process 8)"),
        (FAILED, None, 10, Level.FAIL, "systemd says: failed (failed)"),
        (FAILED, 8, 10, Level.WARN, "outside it (process 8)"),
    ],
)
def test_alive_is_what_both_the_supervisor_and_the_heartbeat_say(
    status: SupervisorStatus, pid: int | None, age: int | None, level: Level, part: str
) -> None:
    beat = None if age is None else NOW - timedelta(seconds=age)
    health = ServiceHealth(INSTALLED, status, pid, beat, NOW)
    found = service("systemd", health)
    assert (found.level, part in found.detail) == (level, True), found
    assert health.is_alive == (level is Level.PASS)


def test_the_service_holds_no_keys_and_says_which_settings_it_would_not_see(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path / "data")
    here = tmp_path / "clone"
    for folder in (paths.root, here, tmp_path / "bin"):
        folder.mkdir()
    (here / ".env").write_text("OLLIM_USER_NAME=Ada\n")
    paths.env_file.write_text("OLLIM_BOT_NAME=Otto\nANTHROPIC_API_KEY=kept\n")
    environ = {
        "HOME": str(tmp_path),
        "PATH": f"{tmp_path}/bin:relative:{tmp_path}/gone:{tmp_path}/bin",
        "OLLIM_DATA_DIR": str(paths.root),
        "DISCORD_TOKEN": "secret",
        "ANTHROPIC_API_KEY": "kept",
        "CLAUDE_CONFIG_DIR": "/home/ada/.claude",
        "HTTPS_PROXY": "http://ada:secret@proxy.example.org",
        "NO_PROXY": "localhost",
    }
    definition = service_definition(("/usr/bin/ollim-bot",), paths, environ)
    assert dict(definition.environment) == {
        "OLLIM_DATA_DIR": str(paths.root),
        "PATH": f"{tmp_path}/bin:/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin",
        "CLAUDE_CONFIG_DIR": "/home/ada/.claude",
        "NO_PROXY": "localhost",
    }
    assert unseen_settings(definition, environ, here) == {
        "DISCORD_TOKEN": ("secret", "environment"),
        "OLLIM_USER_NAME": ("Ada", f"{here}/.env:1"),
    }
    for root in ("/a\nb", "/a\\", "/a "):
        with pytest.raises(WrongInput):
            service_definition(("/x",), DataPaths(Path(root)), environ)


def test_the_program_is_the_installed_command(tmp_path: Path) -> None:
    beside, script = tmp_path / "venv" / "ollim-bot", tmp_path / "bin" / "ollim-bot"
    for path in (beside, script):
        path.parent.mkdir()
        path.touch()
        path.chmod(0o755)
    python, cwd = str(beside.with_name("python")), str(tmp_path)
    module = "/lib/ollim_bot/__main__.py"
    assert installed_command("bin/ollim-bot", python, cwd) == (str(script),)
    assert installed_command(str(script), python, cwd) == (str(script),)
    assert installed_command(module, python, cwd) == (str(beside),)
    beside.unlink()
    assert installed_command(module, python, cwd) == (python, "-P", "-m", "ollim_bot")


def test_what_is_worse_in_the_environment_of_the_service_is_found(systemd: ServiceScene) -> None:
    outside = {**systemd.environ, "OLLIM_DATA_DIR": str(systemd.paths.root), "OUTSIDE": "yes"}
    definition = systemd.definition()
    assert worse_inside(definition, outside, systemd.paths.root) == []
    systemd.set_bot_behaviour("forgets")
    (failure,) = worse_inside(definition, outside, systemd.paths.root)
    assert (failure.name, failure.detail) == ("model", "broken")
    systemd.set_bot_behaviour("dumb")
    (failure,) = worse_inside(definition, outside, systemd.paths.root)
    assert failure.detail == "here it is Claude, there it would be offline model"
    broken = systemd.definition(systemd.program.with_name("gone"))
    with pytest.raises(SupervisorFailed, match="does not work: No such file"):
        worse_inside(broken, outside, systemd.paths.root)
