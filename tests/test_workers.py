"""The tests run in workers; a worker that crashes loses only the test that it ran."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.real_process

_POOL = """
from tests.workers import WorkerPool

def pytest_configure(config):
    config.pluginmanager.register(WorkerPool(2))
"""
_TESTS = """
import os, pytest

def test_that_fails():
    print("said before")
    assert 1 + 1 == 3

def test_that_ends_its_process():
    os._exit(7)

@pytest.mark.parametrize("number", range(20))
def test_that_passes(number, tmp_path):
    (tmp_path / "file").touch(exist_ok=False)
"""


@pytest.fixture
def output(tmp_path: Path) -> str:
    (tmp_path / "conftest.py").write_text(_POOL)
    (tmp_path / "test_some.py").write_text(_TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:hypothesispytest",
    ]
    run = subprocess.run(
        [*command, "-c", "/dev/null", "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        check=False,
    )
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout + run.stderr
    return run.stdout


def test_each_test_runs_once_and_is_reported_with_its_reason(output: str) -> None:
    assert "2 failed, 20 passed" in output
    assert "assert (1 + 1) == 3" in output
    assert "said before" in output
    assert "The worker has ended with 7 while it ran test_some.py::test_that_ends_it" in output
