"""Settings of all tests, with one printed seed for all randomness outside hypothesis."""

from __future__ import annotations

import gc
import os
import secrets
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from tests.cases import CaseTables
from tests.defined_start import begin_in_defined_state, use_folders
from tests.e2e import fork_server
from tests.kernel.engine.cheap_starts import CHEAP_STARTS
from tests.kinds import KindGuard, is_real
from tests.left_behind import nothing_left_behind
from tests.order import first_tests
from tests.patience import measure_patience, wait_for_file
from tests.wheels import build_wheel
from tests.workers import WorkerPool

__all__ = ["nothing_left_behind"]

# A package of its own: an installation may be without it.
collect_ignore = [] if find_spec("ollim_bot_standby") else ["standby", "postgres"]

# No deadlines, since a shared machine may stall at any point. The usual profile tries the same few
# examples each time, so that only a change can make a test fail; HYPOTHESIS_PROFILE=thorough tries
# many new ones.
settings.register_profile("usual", deadline=None, derandomize=True, max_examples=16)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=1000)
_LONG, _USUAL_SEED = 60.0, 1
settings.load_profile(_profile := os.environ.get("HYPOTHESIS_PROFILE", "usual"))
if _profile == "usual":
    # Else each worker reads the constants of all our modules, which takes seconds, and the examples
    # depend on the modules that the tests before have loaded.
    providers._get_local_constants = lambda: providers._local_constants

# Real tests wait for processes and pauses most of the time. There are more where that leaves room.
_REAL_PER_PROCESSOR, _MOST_PER_PROCESSOR = 2, 4

# Tests that mostly wait come first. Half of the workers begin there, half at the other end.
_WAITING = frozenset({"e2e", "browser", "standby"})

# The tests sync many files, which takes no time in memory.
_MEMORY, _ROOM_NEEDED = Path("/dev/shm"), 2 * 1024**3


def _has_room_in_memory() -> bool:
    try:
        may_run = not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC
        return may_run and shutil.disk_usage(_MEMORY).free > _ROOM_NEEDED
    except (AttributeError, OSError):
        return False


if _has_room_in_memory():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


begin_in_defined_state()
os.environ.update(CHEAP_STARTS)

_RARE_COLLECTIONS = (10_000, 20, 20)

# During collection nothing becomes garbage, and looking for it takes a fifth of the time.
gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--chaos-seconds", type=float, default=2, help="how long to inject faults")
    parser.addoption("--workers", type=int, default=0, help="run in this many processes")
    parser.addoption("--cpu", action="store_true", help="print the processor seconds of the tests")
    parser.addoption("--real-after", type=Path, help="begin real tests when this file is there")
    parser.addoption("--each-case", action="store_true", help="make each case of a table a test")
    parser.addoption("--chaos-seed", type=int, default=None, help="repeat the run of a seed")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(KindGuard())
    config.pluginmanager.register(CaseTables())
    config.addinivalue_line("markers", "minutes: takes them; left to `make chaos`")
    if config.option.workers:

        def prepare_phase(phase: str) -> None:
            if phase == "real" and (awaited := config.option.real_after) is not None:
                wait_for_file(awaited)
            measure_patience()

        # `make test` has one worker more than processors.
        size = config.option.workers
        processors = max(1, size - 1)
        workers = WorkerPool(
            size,
            is_real,
            fork_server.prepare,
            prepare_phase,
            _REAL_PER_PROCESSOR * processors,
            _MOST_PER_PROCESSOR * processors,
            first=first_tests,
        )
        config.pluginmanager.register(workers)
    if config.option.chaos_seed is None:
        # Long runs look for new failures; a short run is the same each time.
        config.option.chaos_seed = secrets.randbelow(1_000_000) if _is_long(config) else _USUAL_SEED


def pytest_sessionstart(session: pytest.Session) -> None:
    folders: pytest.TempPathFactory = session.config._tmp_path_factory  # type: ignore[attr-defined]
    use_folders(home=folders.mktemp("home"), temporary=folders.mktemp("temporary"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not _is_long(config):
        left = {each for each in items if each.get_closest_marker("minutes")}
        config.hook.pytest_deselected(items=[*left])
        items[:] = [each for each in items if each not in left]
    items.sort(key=lambda each: _WAITING.isdisjoint(each.path.parts))


def pytest_collection_finish(session: pytest.Session) -> None:
    # Otherwise each garbage collection looks through ten thousand tests. Collections are rare: most
    # objects of a test are freed without them.
    gc.freeze()
    gc.set_threshold(*_RARE_COLLECTIONS)
    gc.enable()
    if not session.config.option.workers:
        fork_server.prepare()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def _is_long(config: pytest.Config) -> bool:
    return float(config.option.chaos_seconds) >= _LONG


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the summaries of the chaos tests and of the hostile tests, from all workers."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name in ("chaos", "hostile"):
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {value}")


def pytest_report_header(config: pytest.Config) -> list[str]:
    seed = config.option.chaos_seed
    left_out = [f"left out, since there is no standby: tests/{name}" for name in collect_ignore]
    return [f"chaos seed: {seed} (repeat with --chaos-seed {seed})", *left_out]
