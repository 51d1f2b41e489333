"""Only one bot runs at a time, whatever the pid file says."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ollim_bot.kernel.base.errors import AlreadyRunning
from ollim_bot.kernel.base.instance import running_pid, single_instance

RUN = """
import sys
from pathlib import Path
from ollim_bot.kernel.base.instance import single_instance
with single_instance(Path(sys.argv[1])):
    print("running", flush=True)
    sys.stdin.read()
"""


@contextmanager
def running(pid_file: Path, program: str = RUN) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(pid_file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "running\n"
    try:
        yield child
    finally:
        child.communicate("")


@pytest.mark.real_process
def test_a_second_start_is_told_who_runs(tmp_path: Path) -> None:
    pid_file = tmp_path / "bot.pid"
    with running(pid_file) as child:
        assert pid_file.read_text() == f"{child.pid}\n"
        assert running_pid(pid_file) == child.pid
        with pytest.raises(AlreadyRunning, match=f"process {child.pid}"), single_instance(pid_file):
            pass
    assert not pid_file.exists()


@pytest.mark.real_process
def test_a_start_waits_for_the_sentinel_which_is_no_bot_that_runs(tmp_path: Path) -> None:
    pid_file = tmp_path / "bot.pid"
    with single_instance(pid_file, is_sentinel=True):
        assert running_pid(pid_file) is None
        program = RUN.replace("[1])", "[1]), patience=0.0")
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(pid_file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        opened = Path(f"/proc/{child.pid}/fd")
        while child.poll() is None and str(pid_file) not in map(os.path.realpath, opened.iterdir()):
            pass
    assert child.communicate("")[0] == "running\n"


@pytest.mark.real_process
def test_a_killed_bot_does_not_stand_in_the_way(tmp_path: Path) -> None:
    pid_file = tmp_path / "bot.pid"
    with running(pid_file) as child:
        child.send_signal(signal.SIGKILL)
        child.wait(10)
    assert pid_file.exists()
    assert running_pid(pid_file) is None
    with single_instance(pid_file):
        assert pid_file.read_text() == f"{os.getpid()}\n"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(str(os.getpid()), id="a living process that is not the bot"),
        pytest.param("1", id="the first process"),
        pytest.param("", id="nothing"),
        pytest.param("\x00\xff garbage \n" * 50, id="garbage"),
        pytest.param("99999999999999999999", id="a number that is no process"),
    ],
)
def test_what_the_file_says_does_not_matter_only_the_lock(tmp_path: Path, content: str) -> None:
    pid_file = tmp_path / "bot.pid"
    pid_file.write_text(content)
    assert running_pid(pid_file) is None
    with single_instance(pid_file):
        assert running_pid(pid_file) == os.getpid()
    assert not pid_file.exists()


@pytest.mark.real_process
def test_garbage_written_into_a_held_file_does_not_free_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "bot.pid"
    with running(pid_file):
        pid_file.write_text("no number")
        with pytest.raises(AlreadyRunning, match="process id unknown"), single_instance(pid_file):
            pass


def test_a_removed_file_does_not_let_two_bots_wait_on_different_ones(tmp_path: Path) -> None:
    """The second bot locks the file that has the name now, not a deleted one."""
    pid_file = tmp_path / "bot.pid"
    for _ in range(20):
        with single_instance(pid_file), running_or_refused(pid_file) as refused:
            assert refused


@contextmanager
def running_or_refused(pid_file: Path) -> Iterator[bool]:
    try:
        with single_instance(pid_file, patience=0):
            yield False
    except AlreadyRunning:
        yield True


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def make_link(path: Path) -> None:
    path.with_name("owned.txt").write_text("mine")
    path.symlink_to("owned.txt")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, make_socket, make_link])
def test_what_is_no_file_is_neither_waited_at_nor_written_to_but_set_aside_and_said(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    pid_file = tmp_path / "bot.pid"
    make(pid_file)
    assert running_pid(pid_file) is None
    said: list[str] = []
    with single_instance(pid_file, report=said.append):
        assert running_pid(pid_file) == os.getpid()
    (sentence,) = said
    assert sentence.startswith(f"{tmp_path.name}/bot.pid was not a file. It was set aside as ")
    assert len(list(tmp_path.glob("bot.pid.corrupt-*"))) == 1
    assert all(path.read_text() == "mine" for path in tmp_path.glob("owned.txt"))


@pytest.mark.real_process
def test_on_a_full_disk_one_bot_runs_and_only_its_number_is_unknown(tmp_path: Path) -> None:
    """A file size limit refuses each write, as a full disk does."""
    pid_file = tmp_path / "bot.pid"
    limited = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n{RUN}"
    with (
        running(pid_file, limited),
        pytest.raises(AlreadyRunning, match="process id unknown"),
        single_instance(pid_file, patience=0),
    ):
        pass
    assert not pid_file.exists()
