"""If a running bot fails during an update, one version runs at the end, with a reason."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.features.install.fake_installation import NEW, NOW, OLD, FakeInstallation
from tests.patience import patience

from ollim_bot.features.install.releases import version_in
from ollim_bot.features.install.service import SYSTEMD, ServiceDefinition, Supervisor
from ollim_bot.kernel.base.instance import running_pid
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.upkeep.hand_over import Phase, UpdateRecord, read_update, resume_update
from ollim_bot.kernel.values.presence import Version

pytestmark = pytest.mark.real_process

# A fake bot: stops when it is asked to, and then goes on as the version in place or just ends.
BOT = """
import os, signal, sys, time
from pathlib import Path
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.upkeep.hand_over import wait_for_switch
from ollim_bot.kernel.base.instance import single_instance
paths, python, how = DataPaths(Path(sys.argv[1])), *sys.argv[2:]
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
with single_instance(paths.bot_pid):
    print("up", flush=True)
    while not asked:
        time.sleep(0.02)
if how == "goes on":
    wait_for_switch(paths)
    os.execv(python, [python, "-P", "-m", "ollim_bot"])
"""
# An updater that is killed as soon as it says that it begins with a step.
UPDATER = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.features.install.releases import find_installation, release_source
from ollim_bot.features.install.updater import Updater
root, environment, step = sys.argv[1:]
def say(text):
    if text.startswith(step):
        os.kill(os.getpid(), signal.SIGKILL)
installation, now = find_installation(environment, "/usr"), lambda: datetime.now(UTC)
source = release_source(installation, os.environ)
Updater(DataPaths(Path(root)), installation, source, os.environ, now, say).run()
"""


class RunningBotScene:
    """A running bot with the given behaviour, and an updater."""

    def __init__(self, home: Path, how: str = "goes on", *, heartbeat_limit: float) -> None:
        self.fake = FakeInstallation(home)
        self.paths = DataPaths(self.fake.paths.root)
        self.paths.state.mkdir(parents=True, mode=0o700)
        open_database(self.paths, lambda: NOW, is_holder=True, report=print).close()
        self.installation = self.fake.installation()
        self.said: list[str] = []
        self._limit = heartbeat_limit
        words = (str(self.paths.root), str(self.installation.python), how)
        self.bot = subprocess.Popen(
            (sys.executable, "-c", BOT, *words), env=self.fake.environ, stdout=subprocess.PIPE
        )
        assert self.bot.stdout is not None
        assert self.bot.stdout.readline() == b"up\n"

    def update(self) -> UpdateRecord:
        return self.fake.updater(self.installation, self.said.append, limit=self._limit).run()

    def content(self) -> list[str]:
        with closing(sqlite3.connect(self.paths.state / "ollim.db")) as database:
            return [*database.iterdump()]

    def behaves(self, how: str) -> None:
        self.fake.behaviour[str(NEW)] = how
        self.fake.write_plan()

    @property
    def in_place(self) -> Version | None:
        return version_in(self.installation.environment)

    @property
    def started(self) -> list[str]:
        """The environments whose bot was started, by name."""
        return [words[0] for words in self.fake.calls() if words[-1] == "ollim_bot"]

    def close(self) -> None:
        if (pid := running_pid(self.paths.bot_pid)) is not None:
            os.kill(pid, signal.SIGKILL)
        if self.bot.poll() is None:
            self.bot.kill()
        self.bot.wait()
        assert self.bot.stdout is not None
        self.bot.stdout.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[..., RunningBotScene]]:
    made: list[RunningBotScene] = []

    def start(how: str = "goes on", *, heartbeat_limit: float = patience()) -> RunningBotScene:
        made.append(RunningBotScene(tmp_path, how, heartbeat_limit=heartbeat_limit))
        return made[-1]

    yield start
    for each in made:
        each.close()


Start = Callable[..., RunningBotScene]


def test_the_bot_goes_on_as_the_new_version_in_the_same_process(running: Start) -> None:
    scene = running()
    assert scene.update().phase is Phase.DONE
    assert scene.in_place == NEW
    assert running_pid(scene.paths.bot_pid) == scene.bot.pid
    assert not scene.installation.beside.exists()


def test_a_new_version_without_a_heartbeat_is_ended_and_the_old_one_runs_again(
    running: Start,
) -> None:
    # Time enough for Python to start: only what has begun can be ended.
    limit = patience() // 60
    scene = running(heartbeat_limit=limit)
    scene.behaves("no heartbeat")
    threading.Thread(target=scene.bot.wait, daemon=True).start()
    outcome = scene.update()
    assert str(outcome) == (
        "Version 0.13.0 did not start, so 0.12.0 goes on with all data as it was: "
        f"its heartbeat did not come within {limit:g} s."
    )
    assert scene.in_place == OLD
    assert not scene.installation.beside.exists()
    until(lambda: running_pid(scene.paths.bot_pid) not in (None, scene.bot.pid))
    assert scene.started == ["env", "env"], "the new one in its place, then the old one"


def test_a_service_does_not_start_the_version_without_a_heartbeat_again(running: Start) -> None:
    scene = running(heartbeat_limit=patience() // 60)
    scene.behaves("no heartbeat")
    command = (str(scene.installation.python), "-P", "-m", "ollim_bot")
    unit = Supervisor(SYSTEMD, scene.fake.environ).file
    unit.parent.mkdir(parents=True)
    definition = ServiceDefinition(command, scene.paths.root, {})
    unit.write_text(SYSTEMD.texts(definition, Path())[unit.name])
    asked = scene.fake.home / "systemctl.log"
    (systemctl := scene.fake.programs / "systemctl").write_text(f'#!/bin/sh\necho "$@" >>{asked}\n')
    systemctl.chmod(0o755)
    threading.Thread(target=scene.bot.wait, daemon=True).start()
    assert scene.update().phase is Phase.RETURNED
    words = [word for word in asked.read_text().split() if word in ("stop", "start")]
    assert words == ["stop", "stop", "start"]
    assert scene.in_place == OLD
    assert scene.started == ["env"], "what it starts is up to the service"


def test_a_bot_that_ends_meanwhile_is_started_as_the_new_version(running: Start) -> None:
    scene = running("ends")
    threading.Thread(target=scene.bot.wait, daemon=True).start()
    assert scene.update().phase is Phase.DONE
    assert scene.in_place == NEW
    assert running_pid(scene.paths.bot_pid) is not None
    assert "The bot runs in the background now." in scene.said


def test_a_migration_in_progress_is_a_sign_of_life(running: Start) -> None:
    limit = patience() // 60
    scene = running(heartbeat_limit=limit)
    scene.behaves("migrates long")

    def let_it_end() -> None:
        until(lambda: bool(scene.started))
        over = time.monotonic() + 2 * limit
        until(lambda: time.monotonic() > over)
        scene.fake.let_go_on()

    thread = threading.Thread(target=let_it_end)
    thread.start()
    assert scene.update().phase is Phase.DONE
    thread.join()


@pytest.mark.parametrize("step", ["Installing", "Backing up", "Starting", "switched"])
def test_one_bot_goes_on_when_the_updater_is_killed_at_any_step(running: Start, step: str) -> None:
    scene = running()
    scene.behaves("no heartbeat" if step == "switched" else "")
    before = scene.content()
    words = (str(scene.paths.root), str(scene.installation.environment), step)
    with subprocess.Popen(
        (sys.executable, "-c", UPDATER, *words), env=scene.fake.environ
    ) as updater:
        if step == "switched":
            until(lambda: scene.started == ["env"])
            updater.kill()
    is_new = step == "switched"
    assert scene.in_place == (NEW if is_new else OLD)
    if step != "Installing":
        until(lambda: scene.started == ["env"])
    until(lambda: running_pid(scene.paths.bot_pid) == scene.bot.pid)
    awaits_heartbeat = resume_update(scene.paths, str(NEW if is_new else OLD))
    assert awaits_heartbeat is is_new
    record = read_update(scene.paths)
    assert record is not None
    expected = {"Starting": Phase.RETURNED, "switched": Phase.SWITCHED}
    assert record.phase is expected.get(step, Phase.FAILED)
    assert scene.content() == before


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + patience()
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
