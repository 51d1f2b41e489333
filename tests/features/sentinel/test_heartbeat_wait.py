"""A bot counts as started when this bot, not an earlier one, writes a heartbeat."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ollim_bot.features.install.service import find_supervisor, service_of, wait_for_heartbeat
from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.heartbeat import HeartbeatFile

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
FOR_EVER = 600.0


def test_only_a_later_heartbeat_of_a_running_bot_counts(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    paths.state.mkdir()
    heartbeat = HeartbeatFile(paths)
    assert not wait_for_heartbeat(paths, NOW, 0.0), "there is none"
    with single_instance(paths.bot_pid):
        heartbeat.write(NOW)
        assert not wait_for_heartbeat(paths, NOW, 0.0), "an earlier process wrote it"
        heartbeat.write(NOW + timedelta(seconds=1))
        assert wait_for_heartbeat(paths, NOW, 0.0)
    assert not wait_for_heartbeat(paths, NOW, 0.0), "the process that wrote it is gone"


@pytest.mark.real_time
def test_the_wait_ends_when_the_supervisor_gives_up(tmp_path: Path) -> None:
    assert not wait_for_heartbeat(DataPaths(tmp_path), NOW, FOR_EVER, lambda: True)


def test_the_supervisor_is_found_by_its_program(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PATH": str(tmp_path)}
    assert find_supervisor(environ) is None
    for program, name in (("launchctl", "launchd"), ("systemctl", "systemd")):
        (tmp_path / program).write_text("#!/bin/false\n")
        (tmp_path / program).chmod(0o755)
        found = find_supervisor(environ)
        assert found is not None
        assert found.name == name
        assert found.installed() is None
    assert service_of(DataPaths(tmp_path), environ) is None
