"""The runner of the tests: who runs where, what is tried again, and who is charged for what."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.order import touched_by
from tests.patience import patience, wait_for_file

pytestmark = pytest.mark.real_process

_ROOT = Path(__file__).parents[1]
_CONFTEST = """
from tests import left_behind
from tests.kinds import KindGuard, is_real
from tests.left_behind import nothing_left_behind
from tests.workers import WorkerPool

left_behind.GRACE = 0.2

def pytest_configure(config):
    config.pluginmanager.register(KindGuard())
    config.pluginmanager.register(WorkerPool(2, is_real))
"""
_SETTINGS = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""


class Runner:
    """Runs tests in a process of its own, with two workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "conftest.py").write_text(_CONFTEST)
        (folder / "pytest.ini").write_text(_SETTINGS)

    def begin(self, tests: str) -> subprocess.Popen[str]:
        (self.folder / "test_some.py").write_text(f"import pytest\n{tests}")
        # Of the plugins only the one that is needed is loaded, which saves half of the time.
        options = ["-p", "no:cacheprovider", "-p", "pytest_asyncio.plugin"]
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        with (self.folder / "output.log").open("w") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "pytest", *options, "--rootdir", self.folder, self.folder],
                env=environment,
                stdout=output,
                stderr=output,
                text=True,
                cwd=_ROOT,
            )

    def run(self, tests: str) -> tuple[int, str]:
        code = self.begin(tests).wait(patience())
        return code, (self.folder / "output.log").read_text()

    def failed(self, tests: str) -> str:
        code, output = self.run(tests)
        assert code == pytest.ExitCode.TESTS_FAILED, output
        return output

    def passed(self, tests: str) -> str:
        code, output = self.run(tests)
        assert code == pytest.ExitCode.OK, output
        return output

    @property
    def second_tries(self) -> str:
        return (self.folder / ".pytest_cache" / "second-tries.txt").read_text()


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_each_test_runs_once_and_a_crash_loses_one_test_only(runner: Runner) -> None:
    output = runner.failed("""
import os

def test_that_fails():
    print("said before")
    assert 1 + 1 == 3

def test_that_ends_its_process():
    os._exit(7)

@pytest.mark.parametrize("number", range(20))
def test_that_passes(number, tmp_path):
    (tmp_path / "file").touch(exist_ok=False)
""")
    assert "2 failed, 20 passed" in output
    assert "assert (1 + 1) == 3" in output
    assert "said before" in output
    assert "has ended with 7 while it ran test_some.py::test_that_ends_its_process" in output


def test_a_test_that_hangs_is_ended_and_fails_and_says_where_it_was(runner: Runner) -> None:
    output = runner.failed("""
import signal
from tests import workers

workers.LONGEST = 3.0

def test_that_hangs():
    signal.pause()

@pytest.mark.parametrize("number", range(20))
def test_that_passes(number):
    pass
""")
    assert "1 failed, 20 passed" in output
    assert "has ended with -6 while it ran test_some.py::test_that_hangs" in output
    assert "in test_that_hangs" in output


def test_a_worker_that_does_not_end_is_ended(runner: Runner) -> None:
    output = runner.failed("""
import threading
from concurrent.futures import ThreadPoolExecutor
from tests import workers

workers.LONGEST_END = 1.0

def test_that_leaves_a_thread():
    ThreadPoolExecutor().submit(threading.Event().wait)
""")
    assert "Worker 0 does not get on, and is ended." in output
    assert "leaves behind the thread" in output


_FAILS_ONCE = """
def {name}(request):
    seen = request.config.rootpath / "{name}"
    is_first = not seen.exists()
    seen.touch()
    assert not is_first, "the first time is the worst"
"""


def test_a_real_test_that_fails_once_passes_at_the_second_try_and_is_reported(
    runner: Runner,
) -> None:
    test = _FAILS_ONCE.format(name="test_real")
    output = runner.passed(f"@pytest.mark.real_process{test}")
    line = "passed at the second try: test_some.py::test_real: AssertionError: the first time is"
    assert line in output
    assert line in runner.second_tries
    assert "1 passed" in output


def test_a_virtual_test_is_never_tried_again(runner: Runner) -> None:
    output = runner.failed(_FAILS_ONCE.format(name="test_virtual"))
    assert "1 failed" in output
    assert "the first time is the worst" in output
    assert runner.second_tries == ""


def test_a_real_test_that_fails_twice_has_failed(runner: Runner) -> None:
    output = runner.failed("@pytest.mark.real_time\ndef test_real():\n    assert False, 'again'")
    assert "1 failed" in output
    assert "second try" not in output


def test_more_failures_than_accidents_are_not_tried_again(runner: Runner) -> None:
    test = _FAILS_ONCE.format(name="test_real").replace("(request)", "(request, number)")
    test = test.replace('"test_real"', 'f"seen{number}"')
    many = f"@pytest.mark.parametrize('number', range(21))\n@pytest.mark.real_process{test}"
    assert "21 failed" in runner.failed(many)


def test_real_tests_run_after_all_virtual_ones(runner: Runner) -> None:
    output = runner.passed("""
@pytest.mark.real_process
def test_real(request):
    assert len(list(request.config.rootpath.glob("virtual*"))) == 30

@pytest.mark.parametrize("number", range(30))
def test_virtual(number, request):
    (request.config.rootpath / f"virtual{number}").touch()
""")
    assert output.index("virtual: 30 tests") < output.index("real: 1 tests")


def test_what_failed_last_and_what_has_changed_is_run_first(runner: Runner) -> None:
    (runner.folder / "conftest.py").write_text(
        _CONFTEST.replace("is_real)", "is_real, first=first)")
    )
    with (runner.folder / "conftest.py").open("a") as conftest:
        conftest.write("\ndef first(config, items):\n    return [len(items) - 1, 3]\n")
    output = runner.failed("""
def note(request):
    with (request.config.rootpath / "order").open("a") as order:
        order.write(f"{request.node.name} ")

@pytest.mark.parametrize("number", range(5))
def test_virtual(number, request):
    note(request)

@pytest.mark.real_process
def test_real(request):
    note(request)
    assert False
""")
    order = (runner.folder / "order").read_text().split()
    assert set(order[:2]) == {"test_real", "test_virtual[3]"}
    assert "first red after" in output


def test_a_change_touches_the_tests_that_import_it(tmp_path: Path) -> None:
    names = {
        "test_own.py": "",
        "test_other.py": "",
        "test_user.py": "from ollim_bot.kernel.base.clock import X",
    }
    for name, text in names.items():
        (tmp_path / name).write_text(text)
    changed = ["src/ollim_bot/kernel/base/clock.py", "test_own.py", "README.md"]
    touched = touched_by(changed, [tmp_path / name for name in names], tmp_path)
    assert {each.name for each in touched} == {"test_own.py", "test_user.py"}


def test_workers_for_real_tests_are_added_while_there_is_room(runner: Runner) -> None:
    conftest = _CONFTEST.replace(
        "WorkerPool(2, is_real)",
        "WorkerPool(2, is_real, real_size=1, most_real=3, has_room=lambda: True)",
    )
    (runner.folder / "conftest.py").write_text(conftest)
    output = runner.passed("""
@pytest.mark.parametrize("number", range(30))
@pytest.mark.real_process
def test_real(number):
    pass
""")
    assert "real: 30 tests" in output
    assert "3 at a time" in output
    assert "30 passed" in output


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_cut_short_leaves_no_process_behind(runner: Runner, how: int) -> None:
    """Not even one in a session of its own, below a test that listens to nothing."""
    process = runner.begin("""
import os, signal, subprocess

@pytest.mark.real_process
def test_that_never_ends(request):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    below = subprocess.Popen(["sleep", "600"], start_new_session=True)
    (request.config.rootpath / "pids.draft").write_text(f"{os.getpid()} {below.pid}")
    (request.config.rootpath / "pids.draft").rename(request.config.rootpath / "pids")
    below.wait()
""")
    wait_for_file(runner.folder / "pids")
    begun = [int(each) for each in (runner.folder / "pids").read_text().split()]
    process.send_signal(how)
    assert process.wait(patience()) == pytest.ExitCode.INTERRUPTED
    assert [pid for pid in begun if is_running(pid)] == []


def is_running(pid: int) -> bool:
    """Whether it has not ended; who has lost its parent may wait for a while to be collected."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


_NOT_VIRTUAL = {
    "subprocess.run(['true'])": "real_process",
    "os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)": "real_process",
    "time.sleep(0.01)": "real_time",
    "threading.Event().wait(0.01)": "real_time",
}
_IMPORTS = "import asyncio, os, signal, socket, subprocess, tempfile, threading, time"


def test_a_virtual_test_that_is_none_fails_and_is_told_its_mark(runner: Runner) -> None:
    tests = _IMPORTS
    for number, (body, mark) in enumerate(_NOT_VIRTUAL.items()):
        tests += f"\ndef test_{number}():\n    {body}\n"
        tests += f"\n@pytest.mark.{mark}\ndef test_marked_{number}():\n    {body}\n"
    output = runner.failed(tests)
    for number, mark in enumerate(_NOT_VIRTUAL.values()):
        _, _, failure = output.partition(f"ERROR at teardown of test_{number} ")
        assert f"Mark it with `{mark}`." in failure.split("\n")[1]
    assert f"{2 * len(_NOT_VIRTUAL)} passed, {len(_NOT_VIRTUAL)} errors" in output


def test_in_a_virtual_test_hours_pass_at_once(runner: Runner) -> None:
    runner.passed("""
import asyncio, time

async def test_hours():
    began, loop = time.monotonic(), asyncio.get_running_loop()
    start = loop.time()
    async with asyncio.timeout(7200):
        await asyncio.sleep(3600)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3600):
            await asyncio.Event().wait()
    assert 7200 <= loop.time() - start < 7201

async def test_work_in_a_thread_takes_no_time_of_the_loop():
    start = asyncio.get_running_loop().time()
    async with asyncio.timeout(0.01):
        assert await asyncio.to_thread(sum, range(3_000_000)) > 0
    assert asyncio.get_running_loop().time() - start < 0.01
""")


_LEFT_BEHIND = {
    "keep.append(subprocess.Popen(['sleep', '60']))": "the process",
    "threading.Thread(target=stop.wait, daemon=True).start()": "the thread",
    "os.environ['LEFT'] = 'behind'": "changes of the environment (LEFT)",
    "os.chdir('/')": "/ as working directory",
    "signal.signal(signal.SIGTERM, lambda *_: None)": "another handler of SIGTERM",
    "keep.append(socket.socket())": "an open file (socket:",
    "tempfile.mkdtemp(prefix='left')": "in the folder for temporary files",
    "keep.append(asyncio.create_task(asyncio.Event().wait()))": "the task Event.wait",
}


def test_what_a_test_leaves_behind_is_its_own_failure_and_no_others(runner: Runner) -> None:
    tests = f"{_IMPORTS}\nkeep, stop = [], threading.Event()\n"
    for number, body in enumerate(_LEFT_BEHIND):
        tests += f"\n@pytest.mark.real_process\nasync def test_{number}():\n    {body}\n"
        tests += f"\nasync def test_after_{number}():\n    assert 'LEFT' not in os.environ\n"
    output = runner.failed(tests)
    for number, left in enumerate(_LEFT_BEHIND.values()):
        _, _, failure = output.partition(f"ERROR at teardown of test_{number} ")
        assert failure.split("\n")[1].startswith(f"The test leaves behind {left}"[:23])
        assert left in failure.split("\n")[1]
    assert f"{2 * len(_LEFT_BEHIND)} passed, {len(_LEFT_BEHIND)} errors" in output
