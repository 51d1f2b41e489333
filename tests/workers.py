"""Tests in several processes: one process collects all tests, and the workers are forks of it.

Collecting takes seconds of CPU time, which each worker would spend if it did not start as a fork.
There are two phases: the virtual tests, and then the real ones with a number of workers of their
own. What a developer wants to know first comes before both. A real test that fails is run once
more, alone, when all else is over.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from types import ModuleType

import pytest
from _pytest.capture import CaptureManager
from tests.defined_start import use_folders
from tests.processors import Processors, processes_below, seconds_of, table_of_seconds

_FORK = get_context("fork")
_NUMBER = "OLLIM_BOT_TEST_WORKER"
# More failures than these are no accident, so no test is run again then.
MOST_SECOND_TRIES = 20
_SLOWEST_SHOWN = 100
# In seconds: how long a test may take, and the end of a worker, before it is ended.
LONGEST, LONGEST_OF_MINUTES, LONGEST_END = 900.0, 5400.0, 120.0
_LOOK_EVERY, _LAST_WORDS = 1.0, 5.0

Serialized = dict[str, object]


def worker_number() -> int:
    """The number of the worker that this process is or belongs to; 0 without workers."""
    return int(os.environ.get(_NUMBER, "0"))


class WorkerPool:
    """Hands out whole files, and parts of them when no whole file is left.

    Half of the workers begin at the end of the order. Files that are next to each other share
    expensive fixtures, such as a browser, so fewer workers have to make one. `prepare` is called in
    each worker before its first test, and `prepare_phase` with its name before each phase. While
    the machine has room, workers for real tests are added, up to `most_real`. The tests that
    `first` names are run before all others, in its order.
    """

    def __init__(
        self,
        size: int,
        is_real: Callable[[pytest.Item], bool],
        prepare: Callable[[], None] = lambda: None,
        prepare_phase: Callable[[str], None] = lambda _: None,
        real_size: int | None = None,
        most_real: int = 0,
        has_room: Callable[[], bool] | None = None,
        first: Callable[[pytest.Config, Sequence[pytest.Item]], Sequence[int]] = lambda *_: (),
    ) -> None:
        self._size = size
        self._real_size = real_size or min(size, os.cpu_count() or 1)
        self._most_real = most_real
        self._has_room = has_room or Processors().have_room
        self._is_real = is_real
        self._prepare = prepare
        self._prepare_phase = prepare_phase
        self._first = first
        self._began = time.monotonic()
        self._first_red = ""
        self._started = 0
        self._is_in_order = False
        self._files: deque[deque[int]] = deque()
        self._workers: list[_Worker] = []
        self._failed: dict[int, list[Serialized]] = {}
        self._seconds: dict[str, float] = {}
        self.second_tries: dict[str, str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        options = session.config.option
        if options.collectonly or (
            session.testsfailed and not options.continue_on_collection_errors
        ):
            return None
        # The first call empties this folder, so it must be made before the workers start.
        _folders(session.config).getbasetemp()
        first = self._first(session.config, session.items)
        others = sorted(set(range(len(session.items))).difference(first))
        real = [test for test in others if self._is_real(session.items[test])]
        virtual = sorted(set(others).difference(real))
        with _no_capture(session.config), _terminated_as_interrupted(), self._ended_with_all():
            self._run(session, "first", first, self._size)
            self._run(session, "virtual", virtual, self._size)
            self._run(session, "real", real, self._real_size, self._most_real)
            self._run_again(session)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _run(
        self, session: pytest.Session, phase: str, tests: Sequence[int], size: int, most: int = 0
    ) -> None:
        if not tests or _is_over(session):
            return
        self._prepare_phase(phase)
        began, processors, size = time.monotonic(), Processors(), min(size, len(tests))
        self._is_in_order = phase == "first"
        self._files.extend(_by_file(session.items, tests))
        while len(self._workers) < size:
            self._start(session)
        while self._workers:
            self._wait(session)
            if len(self._workers) < most and self._has_more() and self._has_room():
                self._start(session)
                size = max(size, len(self._workers))
        taken = f"{len(tests):,} tests in {time.monotonic() - began:.0f} s"
        _say(session, f"{phase}: {taken}, {size} at a time{processors.words()}")

    def _has_more(self) -> bool:
        return bool(self._files) or any(len(each.file) > 1 for each in self._workers)

    def _run_again(self, session: pytest.Session) -> None:
        """Run each real test that failed once more, alone."""
        failed, self._failed = self._failed, {}
        if len(failed) > MOST_SECOND_TRIES or _is_over(session):
            for reports in failed.values():
                _log(session.config, reports)
            return
        for test, first in failed.items():
            self._run(session, f"again: {session.items[test].nodeid}", [test], 1)
            if test not in self._failed:
                self.second_tries[session.items[test].nodeid] = _error(session.config, first)
        for reports in self._failed.values():
            _log(session.config, reports)

    @contextmanager
    def _ended_with_all(self) -> Iterator[None]:
        """End the workers and all that they have started, such as browsers, if it is cut short."""
        try:
            yield
        finally:
            end_processes(each.process.pid for each in self._workers)

    def _start(self, session: pytest.Session) -> None:
        others = [each.connection for each in self._workers]
        worker = _Worker(session, self._started, others, self._prepare)
        self._started += 1
        self._workers.append(worker)
        # The test to run, and the one after it, which decides which fixtures are kept.
        for _ in range(2):
            worker.send(self._next(worker))

    def _wait(self, session: pytest.Session) -> None:
        by_connection = {each.connection: each for each in self._workers}
        for ready in wait(list(by_connection), timeout=_LOOK_EVERY):
            assert isinstance(ready, Connection)
            worker = by_connection[ready]
            received = _received(ready)
            if received is None:
                self._replace_crashed(session, worker)
                continue
            worker.began = time.monotonic()
            test, (reports, seconds) = worker.running.popleft(), received
            name = session.items[test].nodeid
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds
            self._take(session, test, reports)
            worker.send(None if _is_over(session) else self._next(worker))
        for worker in self._workers:
            if time.monotonic() - worker.began > _longest(session, worker):
                _say(session, f"Worker {worker.number} does not get on, and is ended.")
                worker.end_stuck()

    def _take(self, session: pytest.Session, test: int, reports: list[Serialized]) -> None:
        """Log the reports; those of a real test that failed wait for its second try.

        Chaos looks for rare failures, so one of them counts.
        """
        item = session.items[test]
        has_failed = any(each["outcome"] == "failed" for each in reports)
        if has_failed and not self._first_red:
            seconds = time.monotonic() - self._began
            self._first_red = f"first red after {seconds:.0f} s: {item.nodeid}"
            _say(session, self._first_red)
        if has_failed and self._is_real(item) and not item.get_closest_marker("chaos"):
            self._failed[test] = reports
        else:
            _log(session.config, reports)

    def _replace_crashed(self, session: pytest.Session, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.process.join()
        if not worker.running:
            return
        lost, *others = worker.running
        self._take(session, lost, [_crash(session, lost, worker.process.exitcode)])
        self._files.append(deque([*others, *worker.file]))
        if not session.shouldfail:
            self._start(session)

    def _next(self, worker: _Worker) -> int | None:
        if not worker.file and self._files:
            is_from_the_front = self._is_in_order or worker.number % 2 == 0
            worker.file = self._files.popleft() if is_from_the_front else self._files.pop()
        if not worker.file:
            worker.file = _back_half(max((each.file for each in self._workers), key=len))
        return worker.file.popleft() if worker.file else None

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Keep the list of second tries where a continuous integration can show it."""
        kept = session.config.rootpath / ".pytest_cache" / "second-tries.txt"
        kept.parent.mkdir(exist_ok=True)
        kept.write_text("".join(f"{line}\n" for line in self._second_tries()))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in (*self._second_tries(), *filter(None, [self._first_red])):
            terminalreporter.write_line(line)
        if terminalreporter.config.getoption("cpu", False):
            for line in table_of_seconds(self._seconds, _SLOWEST_SHOWN):
                terminalreporter.write_line(line)

    def _second_tries(self) -> list[str]:
        return [
            f"passed at the second try: {test}: {error}"
            for test, error in self.second_tries.items()
        ]


class _Worker:
    def __init__(
        self,
        session: pytest.Session,
        number: int,
        of_others: Sequence[Connection],
        prepare: Callable[[], None],
    ) -> None:
        self.number = number
        self.connection, theirs = _FORK.Pipe()
        self.file: deque[int] = deque()
        self.running: deque[int] = deque()
        self.began = time.monotonic()
        ours = [*of_others, self.connection]
        self.process = ForkProcess(target=_work, args=(session, theirs, ours, number, prepare))
        self.process.start()
        theirs.close()

    def send(self, test: int | None) -> None:
        if test is not None:
            self.running.append(test)
        # A worker that has crashed or is about to end is found by the next wait.
        with suppress(OSError):
            self.connection.send(test)

    def end_stuck(self) -> None:
        """End the process with all below it; its last words say what its threads did."""
        pid = self.process.pid
        assert pid is not None
        below = [*processes_below(pid)]
        os.kill(pid, signal.SIGABRT)
        self.process.join(_LAST_WORDS)
        end_processes(below)
        self.process.join()


def _work(
    session: pytest.Session,
    connection: Connection,
    ours: Sequence[Connection],
    number: int,
    prepare: Callable[[], None],
) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # Workers see the end of a crashed pool only if no other worker holds their connection open.
    for each in ours:
        each.close()
    os.environ[_NUMBER] = str(number)
    prepare()
    # Processes of `multiprocessing` would import the main module, which is pytest here, again.
    sys.modules["__main__"] = ModuleType("__main__")
    session.config.pluginmanager.unregister(name="terminalreporter")
    _capture(session.config).start_global_capturing()
    folders = _folders(session.config)
    folders._basetemp = folders.mktemp(f"worker{number}", numbered=False)
    use_folders(home=folders.mktemp("home"), temporary=folders.mktemp("temporary"))
    reports = _Reports(session.config)
    session.config.pluginmanager.register(reports)
    measure = partial(seconds_of, os.getpid()) if session.config.getoption("cpu", False) else float
    try:
        test = connection.recv()
        while test is not None:
            following = connection.recv()
            item, after = session.items[test], following is not None and session.items[following]
            before = measure()
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=after or None)
            connection.send((reports.take(), max(0.0, measure() - before)))
            test = following
    except (KeyboardInterrupt, EOFError, OSError):
        pass
    finally:
        session._setupstate.teardown_exact(None)


class _Reports:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reports: list[Serialized] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook.pytest_report_to_serializable
        self._reports.append(hook(config=self._config, report=report))

    def take(self) -> list[Serialized]:
        taken, self._reports = self._reports, []
        return taken


def _received(connection: Connection) -> tuple[list[Serialized], float] | None:
    """The reports of one test and its processor seconds, or None if the worker has ended."""
    try:
        received: tuple[list[Serialized], float] = connection.recv()
        return received
    except (EOFError, OSError):
        return None


def _log(config: pytest.Config, reports: Sequence[Serialized]) -> None:
    for data in reports:
        report = config.hook.pytest_report_from_serializable(config=config, data=data)
        config.hook.pytest_runtest_logreport(report=report)


def _crash(session: pytest.Session, test: int, code: int | None) -> Serialized:
    item = session.items[test]
    words = f"The worker has ended with {code} while it ran {item.nodeid}"
    report = pytest.TestReport(item.nodeid, item.location, {}, "failed", words, "call")
    hook = session.config.hook.pytest_report_to_serializable
    made: Serialized = hook(config=session.config, report=report)
    return made


def _error(config: pytest.Config, reports: Sequence[Serialized]) -> str:
    """The last line of the first error, which says what was wrong."""
    for data in reports:
        report = config.hook.pytest_report_from_serializable(config=config, data=data)
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = str(report.longrepr) if crash is None else str(crash.message)
            return " ".join(text.split())[:300]
    return "no error"


def _longest(session: pytest.Session, worker: _Worker) -> float:
    if not worker.running:
        return LONGEST_END
    item = session.items[worker.running[0]]
    takes_minutes = any(item.get_closest_marker(mark) for mark in ("minutes", "chaos"))
    return LONGEST_OF_MINUTES if takes_minutes else LONGEST


def _is_over(session: pytest.Session) -> bool:
    return bool(session.shouldfail or session.shouldstop)


def _say(session: pytest.Session, line: str) -> None:
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        reporter.ensure_newline()
        reporter.write_line(line)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM end the run as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def end_processes(pids: Iterable[int | None]) -> None:
    """Kill these processes and all below them, whatever group or session they are in."""
    for root in pids:
        if root is None:
            continue
        tree = []
        for pid in processes_below(root):
            # Stopped first, so that it can start no other while its children are read.
            with suppress(OSError):
                os.kill(pid, signal.SIGSTOP)
            tree.append(pid)
        for pid in tree:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _by_file(items: Sequence[pytest.Item], tests: Sequence[int]) -> Iterator[deque[int]]:
    for _, found in groupby(tests, key=lambda test: items[test].path):
        yield deque(found)


def _back_half(tests: deque[int]) -> deque[int]:
    taken: deque[int] = deque()
    while len(tests) > len(taken):
        taken.appendleft(tests.pop())
    return taken


@contextmanager
def _no_capture(config: pytest.Config) -> Iterator[None]:
    """Stop capturing, since forks would share the files that hold captured output."""
    capture = _capture(config)
    capture.stop_global_capturing()
    yield
    capture.start_global_capturing()


def _capture(config: pytest.Config) -> CaptureManager:
    found = config.pluginmanager.getplugin("capturemanager")
    assert isinstance(found, CaptureManager)
    return found


def _folders(config: pytest.Config) -> pytest.TempPathFactory:
    found = config._tmp_path_factory  # type: ignore[attr-defined]
    assert isinstance(found, pytest.TempPathFactory)
    return found
