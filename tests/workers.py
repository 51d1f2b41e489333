"""Tests in several processes: one process collects all tests, and the workers are forks of it.

Collecting takes seconds of CPU time, which each worker would spend if it did not start as a fork.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from types import ModuleType

import pytest
from _pytest.capture import CaptureManager

_FORK = get_context("fork")
_NUMBER = "OLLIM_BOT_TEST_WORKER"

Serialized = dict[str, object]


def worker_number() -> int:
    """The number of the worker that this process is or belongs to; 0 without workers."""
    return int(os.environ.get(_NUMBER, "0"))


class WorkerPool:
    """Hands out whole files, and parts of them when no whole file is left.

    Half of the workers begin at the end of the order. Files that are next to each other share
    expensive fixtures, such as a browser, so fewer workers have to make one. `prepare` is called in
    each worker before its first test.
    """

    def __init__(self, size: int, prepare: Callable[[], None] = lambda: None) -> None:
        self._size = size
        self._prepare = prepare
        self._started = 0
        self._files: deque[deque[int]] = deque()
        self._workers: list[_Worker] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        options = session.config.option
        if options.collectonly or (
            session.testsfailed and not options.continue_on_collection_errors
        ):
            return None
        self._files.extend(_by_file(session.items))
        # The first call empties this folder, so it must be made before the workers start.
        _folders(session.config).getbasetemp()
        with _no_capture(session.config):
            while len(self._workers) < min(self._size, len(session.items)):
                self._start(session)
            while self._workers:
                self._wait(session)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

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
        for ready in wait(list(by_connection)):
            assert isinstance(ready, Connection)
            worker = by_connection[ready]
            reports = _received(ready)
            if reports is None:
                self._replace_crashed(session, worker)
                continue
            worker.running.popleft()
            _log(session.config, reports)
            is_over = session.shouldfail or session.shouldstop
            worker.send(None if is_over else self._next(worker))

    def _replace_crashed(self, session: pytest.Session, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.process.join()
        if not worker.running:
            return
        lost, *others = worker.running
        _log(session.config, [_crash(session, lost, worker.process.exitcode)])
        self._files.append(deque([*others, *worker.file]))
        if not session.shouldfail:
            self._start(session)

    def _next(self, worker: _Worker) -> int | None:
        if not worker.file and self._files:
            is_from_the_front = worker.number % 2 == 0
            worker.file = self._files.popleft() if is_from_the_front else self._files.pop()
        if not worker.file:
            worker.file = _back_half(max((each.file for each in self._workers), key=len))
        return worker.file.popleft() if worker.file else None


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


def _work(
    session: pytest.Session,
    connection: Connection,
    ours: Sequence[Connection],
    number: int,
    prepare: Callable[[], None],
) -> None:
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
    reports = _Reports(session.config)
    session.config.pluginmanager.register(reports)
    try:
        test = connection.recv()
        while test is not None:
            following = connection.recv()
            item, after = session.items[test], following is not None and session.items[following]
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=after or None)
            connection.send(reports.take())
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


def _received(connection: Connection) -> list[Serialized] | None:
    """The reports of one test, or None if the worker has ended."""
    try:
        reports: list[Serialized] = connection.recv()
        return reports
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


def _by_file(items: Sequence[pytest.Item]) -> Iterator[deque[int]]:
    for _, tests in groupby(range(len(items)), key=lambda test: items[test].path):
        yield deque(tests)


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
