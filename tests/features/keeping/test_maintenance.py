"""Only one update or restore runs at a time, even after one was interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.upkeep.hand_over import (
    MaintenanceKind,
    MaintenanceRunning,
    interrupted_maintenance,
    maintenance,
    maintenance_in_progress,
)

NOW = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
HOLD = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.upkeep.hand_over import MaintenanceKind, maintenance
now = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
with maintenance(DataPaths(Path(sys.argv[1])), MaintenanceKind.RESTORE, now):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_what_goes_on_is_known_while_it_goes_on_and_leaves_nothing(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    assert maintenance_in_progress(paths) is None
    with maintenance(paths, MaintenanceKind.UPDATE, NOW):
        running = maintenance_in_progress(paths)
        assert running is not None
        assert (running.kind, running.since, running.pid) == ("update", NOW, os.getpid())
        assert interrupted_maintenance(paths) is None
        with (
            pytest.raises(MaintenanceRunning, match="the update that began at 06:30"),
            maintenance(paths, MaintenanceKind.RESTORE, NOW),
        ):
            pass
    assert maintenance_in_progress(paths) is None
    assert not paths.maintenance.exists()


@pytest.mark.real_process
def test_a_killed_one_stays_known_as_interrupted_and_stops_no_other(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        running = maintenance_in_progress(paths)
        assert running is not None
        assert (running.kind, running.pid) == (MaintenanceKind.RESTORE, holder.pid)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert maintenance_in_progress(paths) is None
    assert interrupted_maintenance(paths) == running
    with maintenance(paths, MaintenanceKind.UPDATE, NOW):
        assert maintenance_in_progress(paths) is not None
    assert interrupted_maintenance(paths) is None


def test_a_record_that_cannot_be_read_still_holds_the_others_off(tmp_path: Path) -> None:
    paths = DataPaths(tmp_path)
    with maintenance(paths, MaintenanceKind.UPDATE, NOW):
        paths.maintenance.write_text("{")
        assert maintenance_in_progress(paths) is None
        with (
            pytest.raises(MaintenanceRunning, match="another update or restore"),
            maintenance(paths, MaintenanceKind.UPDATE, NOW),
        ):
            pass
