"""Values in files: changes are atomic, an unreadable file is never overwritten."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from devtools.doubles.contracts import JobRepositoryContract
from devtools.doubles.disks import failing_at
from hypothesis import example, given
from hypothesis import strategies as st
from tests.kernel.store.files.chat_strategies import forks
from tests.kernel.store.files.data_directory import NOW, DataDirectory
from tests.kernel.values.strategies import json_values
from tests.stores import memory_stores

from ollim_bot.kernel.base.errors import NewerFormat, WriteFailed
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.codecs.config_codec import MEMORY, RuntimeConfigCodec
from ollim_bot.kernel.store.codecs.record_codecs import FORK as CODEC
from ollim_bot.kernel.store.file_store import FileStore, FormatIsNewer, Malformed, parse_json
from ollim_bot.kernel.store.files import OsDisk
from ollim_bot.kernel.store.owner_files import PolicyFile
from ollim_bot.kernel.tools.registry import DEFAULT_BG_TOOLS, MAIN_TOOLS
from ollim_bot.kernel.values.forks import Fork
from ollim_bot.kernel.values.jobs import Reminder
from ollim_bot.kernel.values.permissions import ToolPolicy
from ollim_bot.kernel.values.ports import Disk, JobRepository
from ollim_bot.kernel.values.runtime_config import RuntimeConfig


def config_file(data: DataDirectory, disk: Disk | None = None) -> FileStore[RuntimeConfig]:
    return data.file_store(data.paths.config, RuntimeConfigCodec(), disk)


def set_concurrency(store: FileStore[RuntimeConfig], number: int) -> None:
    store.transact(lambda config: (config.with_value("bg_concurrency", number), None))


def set_aside(data: DataDirectory) -> list[Path]:
    return sorted(data.paths.state.glob("*.corrupt-*"))


def test_what_cannot_be_understood_is_set_aside_with_its_bytes_and_told(
    data: DataDirectory,
) -> None:
    garbage = b'\xff\x00{"ts": [tr\n'
    data.paths.config.write_bytes(garbage)
    assert config_file(data).read() == RuntimeConfig()
    (kept,) = set_aside(data)
    assert kept.name.startswith("config.json.corrupt-")
    assert kept.read_bytes() == garbage
    assert [problem.kept_as for problem in data.problems] == [kept]
    data.paths.config.write_bytes(b"[")
    set_concurrency(config_file(data), 2)
    assert config_file(data).read().bg_concurrency == 2, "work goes on"


@pytest.mark.real_process
def test_a_file_that_may_not_be_read_is_never_taken_for_empty() -> None:
    """Run as an ordinary account, since root may read everything."""
    child = [sys.executable, "-m", "tests.kernel.store.files.unreadable_file"]
    ran = subprocess.run(child, capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines() == ["read refused", "transact refused", "bytes kept"], ran.stderr


def test_a_newer_format_is_left_untouched_and_told(data: DataDirectory) -> None:
    newer = b'{"version": 2, "what": "ever"}'
    data.paths.config.write_bytes(newer)
    store = config_file(data)
    store.read()
    store.read()
    assert len(data.problems) == 1
    assert "newer ollim-bot (format 2; this one knows 1)" in str(data.problems[0])
    with pytest.raises(NewerFormat):
        set_concurrency(store, 2)
    assert data.paths.config.read_bytes() == newer


@pytest.mark.parametrize("step", ["write", "sync", "replace", "sync_folder"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_failing_step_leaves_a_whole_value_and_no_temporary_file(
    data: DataDirectory, step: str, code: int
) -> None:
    set_concurrency(config_file(data), 2)
    store = config_file(data, failing_at(step, code=code))
    with pytest.raises(WriteFailed, match=os.strerror(code)):
        set_concurrency(store, 4)
    left = config_file(data).read().bg_concurrency
    assert left == (4 if step == "sync_folder" else 2)
    assert list(data.paths.state.glob(".*.tmp")) == []


def test_a_step_gives_its_result_and_one_that_raises_changes_nothing(data: DataDirectory) -> None:
    def fail(_: RuntimeConfig) -> tuple[RuntimeConfig, None]:
        raise ZeroDivisionError

    store = config_file(data)
    assert store.transact(lambda now: (now.with_value("bg_concurrency", 2), "result")) == "result"
    with pytest.raises(ZeroDivisionError):
        store.transact(fail)
    assert store.read().bg_concurrency == 2


def test_steps_of_many_threads_follow_each_other(data: DataDirectory) -> None:
    store = data.file_store(data.paths.config, MEMORY)

    def count_up(_: int) -> None:
        store.transact(lambda facts: ({"n": int(str(facts.get("n", 0))) + 1}, None))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count_up, range(400)))
    assert store.read() == {"n": 400}


@pytest.mark.parametrize(
    "raw", [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000, b"NaN", b"\xff"], ids=range(5)
)
def test_hostile_json_is_malformed_and_nothing_else(raw: bytes) -> None:
    with pytest.raises(Malformed):
        parse_json(raw)


AT = datetime(2026, 2, 24, 10, 15, tzinfo=timezone(timedelta(hours=-8)))

STAMP = "2026-02-24T10:15:00-08:00"

FORK = Fork("f1", SessionId("fork-1"), SessionId("main-1"), "taxes", timedelta(minutes=10), AT, AT)


def written(fork: Fork) -> bytes:
    encoded = CODEC.encode(fork)
    assert encoded is not None
    return encoded


def test_a_person_can_read_it() -> None:
    assert json.loads(written(FORK)) == {
        "version": 1,
        "id": "f1",
        "session": "fork-1",
        "main": "main-1",
        "topic": "taxes",
        "idle_seconds": 600,
        "last_activity": STAMP,
        "began": STAMP,
        "resumed_from": None,
        "is_prompted": False,
        "has_answered": False,
        "last_answer": "",
        "resumed_at": None,
        "model": None,
        "seen": [],
    }


@given(st.timedeltas(timedelta(microseconds=1), timedelta.max))
def test_a_fork_is_never_written_so_that_it_cannot_be_read(limit: timedelta) -> None:
    fork, _ = CODEC.decode(written(replace(FORK, idle_limit=limit)))
    assert fork is not None
    assert abs(fork.idle_limit - limit) < timedelta(seconds=1)


@given(forks, json_values)
def test_keys_of_a_later_version_are_passed_over(fork: Fork, value: object) -> None:
    stored = json.loads(written(fork)) | {"mood": value}
    assert CODEC.decode(json.dumps(stored).encode()) == (fork, ())


@given(forks, st.sampled_from(sorted(json.loads(written(FORK)))), st.just("") | json_values)
@example(FORK, "idle_seconds", 2**63)
@example(FORK, "idle_seconds", 0)
def test_a_damaged_field_makes_a_malformed_file_or_a_right_one(
    fork: Fork, name: str, value: object
) -> None:
    stored = json.loads(written(fork)) | {name: value}
    try:
        found, _ = CODEC.decode(json.dumps(stored).encode())
    except (Malformed, FormatIsNewer):
        return
    assert found is not None
    assert CODEC.decode(written(found)) == (found, ())


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


class TestMarkdownRepository(JobRepositoryContract):
    data: DataDirectory

    @pytest.fixture(autouse=True)
    def _in(self, data: DataDirectory) -> None:
        self.data = data

    def make(self) -> JobRepository[Reminder]:
        return self.data.open().reminders


class TestMemoryRepository(JobRepositoryContract):
    def make(self) -> JobRepository[Reminder]:
        return memory_stores(NOW).reminders
