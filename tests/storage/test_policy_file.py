"""A change of the policy file takes effect at once; a wrong file changes nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ollim_bot.domain.permissions import ToolPolicy
from ollim_bot.paths import DataPaths
from ollim_bot.store.files import OsDisk
from ollim_bot.store.owner_files import PolicyFile
from ollim_bot.tools.registry import DEFAULT_BG_TOOLS, MAIN_TOOLS


class PolicyFileScene:
    """Writes the policy file, each time with a later time stamp, and records the problems."""

    def __init__(self, root: Path) -> None:
        self.paths = DataPaths(root)
        self.problems: list[str] = []
        self.file = PolicyFile(self.paths, self.problems.append)
        self._modified_ns = 1_800_000_000_000_000_000

    def write(self, text: str) -> ToolPolicy:
        self.paths.tool_policy.write_text(text)
        self._modified_ns += 1_000_000
        os.utime(self.paths.tool_policy, ns=(self._modified_ns, self._modified_ns))
        return self.file.read()


@pytest.fixture
def scene(tmp_path: Path) -> PolicyFileScene:
    return PolicyFileScene(tmp_path)


def test_without_a_file_the_defaults_count(scene: PolicyFileScene) -> None:
    policy = scene.file.read()
    assert policy.main(MAIN_TOOLS) == MAIN_TOOLS
    assert policy.background(DEFAULT_BG_TOOLS) == DEFAULT_BG_TOOLS
    assert scene.problems == []


def test_what_the_owner_adds_counts_at_once(scene: PolicyFileScene) -> None:
    policy = scene.write(
        'main_session:\n  additional_allowed: ["Bash(git status)"]\n'
        "bg_forks:\n  additional_allowed:\n    - WebFetch(https://example.com/*)\n"
    )
    assert policy.main(MAIN_TOOLS) == (*MAIN_TOOLS, "Bash(git status)")
    assert policy.background(DEFAULT_BG_TOOLS) == (
        *DEFAULT_BG_TOOLS,
        "WebFetch(https://example.com/*)",
    )
    assert scene.write("").main(MAIN_TOOLS) == MAIN_TOOLS


class SlowDisk(OsDisk):
    """Reads only after the test allows it."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.may_read = threading.Event()

    def read(self, path: Path, most: int) -> bytes:
        self.is_asked.set()
        assert self.may_read.wait(60)
        return super().read(path, most)


@pytest.mark.real_time
def test_a_call_beside_the_one_that_reads_a_change_is_judged_by_it_too(tmp_path: Path) -> None:
    paths, disk = DataPaths(tmp_path), SlowDisk()
    paths.tool_policy.write_text('main_session:\n  additional_allowed: ["Bash(git status)"]\n')
    file = PolicyFile(paths, lambda _: None, disk)
    with ThreadPoolExecutor(2) as calls:
        first = calls.submit(file.read)
        assert disk.is_asked.wait(60)
        second = calls.submit(file.read)
        with pytest.raises(TimeoutError):
            second.result(0.1)
        disk.may_read.set()
        allowed = [each.result(60).main(()) for each in (first, second)]
    assert allowed == [("Bash(git status)",)] * 2


def test_background_tools_can_be_replaced(scene: PolicyFileScene) -> None:
    policy = scene.write('bg_forks:\n  override: ["Read(./notes/**.md)"]\n')
    assert policy.background(DEFAULT_BG_TOOLS) == ("Read(./notes/**.md)",)
    assert scene.write("bg_forks:\n  override: []\n").background(DEFAULT_BG_TOOLS) == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("main_session: all", "tool-policy.yaml:1: main_session takes lists"),
        ("\nmain: {}", "tool-policy.yaml:2: main is not known"),
        ("main_session:\n  allowed: []", "allowed is not known"),
        ("main_session:\n  additional_allowed: Bash", "takes a list of patterns"),
        ('main_session:\n  additional_allowed: ["Bash(*)"]', "Bash(*)"),
        ('main_session:\n  additional_allowed: ["Bash(ls; rm x)"]', "Bash(ls; rm x)"),
        ('main_session:\n  additional_allowed: ["Write(state/x)"]', "Write(state/x)"),
        ("main_session: [", "not YAML"),
    ],
)
def test_a_wrong_file_is_named_once_and_the_last_good_one_counts(
    scene: PolicyFileScene, text: str, words: str
) -> None:
    good = scene.write('main_session:\n  additional_allowed: ["Bash(git status)"]\n')
    assert scene.write(text) == good
    assert scene.file.read() == good
    (problems,) = scene.problems
    assert words in problems
    assert problems.startswith("tool-policy.yaml")
    assert problems.endswith("what was allowed before counts.")


def make_huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1_500_000_000)


@pytest.mark.parametrize(
    ("make", "words"),
    [(Path.mkdir, "not a file"), (os.mkfifo, "not a file"), (make_huge, "larger than 1 MB")],
)
def test_a_file_that_is_none_is_named(
    scene: PolicyFileScene, make: Callable[[Path], None], words: str
) -> None:
    make(scene.paths.tool_policy)
    assert scene.file.read() == ToolPolicy()
    assert words in scene.problems[0]
