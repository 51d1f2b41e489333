"""A process that leads no more ends at once, with all that it has started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ollim_bot
from ollim_bot.store.errors import NOT_LEADING

SOURCE = Path(ollim_bot.__file__).parents[1]
# The program that it starts keeps its output open, and so the test waits for the end of both.
PROCESS = """
import subprocess, sys
from ollim_bot_standby.lease_keeper import end_process
subprocess.Popen(["sleep", "600"], start_new_session=True)
try:
    end_process("Another machine leads.")
finally:
    print("It went on.")
"""


@pytest.mark.real_process
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not list what it started")
def test_what_it_has_started_ends_with_it() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROCESS],
        env={"PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (NOT_LEADING, "")
    assert ended.stderr == "ollim-bot: Another machine leads.\n"
