"""Locks hold between threads and between processes, and end with the process that holds them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.kernel.store.files.data_directory import DataDirectory

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.store.codecs.config_codec import MEMORY
from ollim_bot.kernel.store.file_store import FileStore
from ollim_bot.kernel.store.files import FileLock

pytestmark = pytest.mark.real_process

HOLD = """
import sys
from pathlib import Path
from ollim_bot.kernel.store.files import FileLock
with FileLock(Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.read()
"""


def facts_file(data: DataDirectory) -> FileStore[Mapping[str, object]]:
    return data.file_store(data.paths.config, MEMORY)


def holder(lock: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def test_a_step_waits_for_another_process_and_then_sees_its_work(data: DataDirectory) -> None:
    data.paths.config.write_text('{"there": 1}')
    child = holder(data.paths.locks / data.paths.config.name)
    assert facts_file(data).read() == {"there": 1}, "reading needs no lock"
    done = threading.Event()

    def transact() -> None:
        facts_file(data).transact(lambda facts: ({**facts, "mine": 1}, None))
        done.set()

    waiting = threading.Thread(target=transact)
    waiting.start()
    assert not done.wait(0.2)
    data.paths.config.write_text('{"theirs": 1}')
    child.communicate("")
    waiting.join(10)
    assert facts_file(data).read() == {"theirs": 1, "mine": 1}


def test_a_killed_holder_leaves_no_lock_behind(data: DataDirectory) -> None:
    child = holder(data.paths.locks / data.paths.config.name)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    facts_file(data).transact(lambda _: ({"free": True}, None))
    assert facts_file(data).read() == {"free": True}


def test_a_lock_that_cannot_be_made_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(WriteFailed, match="could not be locked"), FileLock(tmp_path / "x/y").held():
        pass
