"""P1: every acknowledged write is on disk, whenever and wherever the writer is killed."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.kernel.store.files.data_directory import DataDirectory

from ollim_bot.kernel.store.files import FileLock, OsDisk
from ollim_bot.kernel.store.job_folder import JobFileIndex, MarkdownRepository
from ollim_bot.kernel.store.job_formats import REMINDERS

pytestmark = [pytest.mark.chaos, pytest.mark.minutes, pytest.mark.real_process]

# Bounds for a slow machine: rounds are added until there are enough writes.
FEWEST_WRITES, MOST_ROUNDS = 50, 20


@dataclass
class Acknowledged:
    """The writes that the workers have printed, one line per write that returned."""

    counts: dict[str, int] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)
    updates: set[str] = field(default_factory=set)
    jobs: dict[str, str] = field(default_factory=dict)
    being_removed: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    total: int = 0

    def take(self, worker: str, line: str) -> None:
        self.total += 1
        match line.split():
            case ["count", number]:
                self.counts[worker] = int(number)
            case ["append", word]:
                self.words.add(word)
            case ["update", word]:
                self.updates.add(word)
            case ["add", job]:
                self.jobs[job] = ""
            case ["amend", job, word]:
                self.jobs[job] = word
            case ["removing", job]:
                self.being_removed.add(job)
            case ["remove", job]:
                del self.jobs[job]
                self.removed.add(job)
            case other:
                raise AssertionError(other)


def check(data: DataDirectory, said: Acknowledged) -> None:
    """Every file can be read, and every acknowledged write is there."""
    facts = data.run(lambda tx: tx.memory.get(), is_holder=True)
    counts = {name: int(str(value)) for name, value in facts.items() if name != "total"}
    assert facts.get("total", 0) == sum(counts.values())
    assert all(counts[worker] >= number for worker, number in said.counts.items())
    rows, _ = data.run(lambda tx: tx.ledger.page(0, 1_000_000))
    noted = Counter(str(row.facts["word"]) for row in rows if row.state == "noted")
    assert said.words <= noted.keys()
    assert set(noted.values()) <= {1}, "an entry stands twice"
    dropped = {str(row.facts["message"]) for row in rows if row.state == "update_dropped"}
    waiting = [update.message for update in data.run(lambda tx: tx.updates.get()).entries]
    assert said.updates <= {*waiting, *dropped}
    assert len(waiting) == len(set(waiting))
    check_jobs(data, said)
    assert data.problems == []
    for path in data.paths.state.glob("*.json"):
        json.loads(path.read_bytes())


def check_jobs(data: DataDirectory, said: Acknowledged) -> None:
    """A job has its last acknowledged change, or a later one that was not acknowledged."""
    folder = data.paths.reminders
    lock = FileLock(data.paths.lock_of(folder))
    watch = JobFileIndex(folder, REMINDERS, OsDisk())
    repository = MarkdownRepository(watch, lock, journal=data.journal)
    report = repository.report()
    assert not report.problems
    found = {stored.item.spec.id: stored.item.spec.description for stored in report.jobs}
    assert said.jobs.keys() - said.being_removed <= found.keys()
    assert not said.removed & found.keys()
    for job, description in found.items():
        last = said.jobs.get(job, "")
        assert number_of(description) >= number_of(last)


def number_of(word: str) -> int:
    return int(word.rpartition("-")[2] or 0)


class CrashingWorkers:
    """Two workers on one data directory, killed from outside or by themselves in a write."""

    def __init__(self, root: Path, rng: random.Random, round_number: int) -> None:
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        for letter in "ab":
            name = f"{letter}{round_number}"
            steps = rng.choice([0, rng.randint(1, 3000)])
            seed = str(rng.random())
            command = [sys.executable, "-m", "tests.chaos.storage_worker"]
            self._workers[name] = subprocess.Popen(
                [*command, str(root), name, seed, str(steps)], stdout=subprocess.PIPE
            )
        self._seconds = rng.uniform(0.1, 0.6)

    def run_until_killed(self, said: Acknowledged) -> None:
        buffers = dict.fromkeys(self._workers, b"")
        streams = {worker.stdout: name for name, worker in self._workers.items() if worker.stdout}
        deadline: float | None = None
        while streams:
            ready, _, _ = select.select(list(streams), [], [], 0.02)
            for stream in ready:
                assert stream is not None
                name = streams[stream]
                chunk = os.read(stream.fileno(), 65536)
                buffers[name] += chunk
                if not chunk:
                    del streams[stream]
            if deadline is None and any(buffers.values()):
                deadline = time.monotonic() + self._seconds
            if deadline is not None and time.monotonic() > deadline:
                self.kill()
        self.kill()
        for name, text in buffers.items():
            for line in text.decode().splitlines():
                said.take(name, line)

    def kill(self) -> None:
        for worker in self._workers.values():
            worker.send_signal(signal.SIGKILL)

    def end(self) -> None:
        self.kill()
        for worker in self._workers.values():
            worker.wait(10)
            if worker.stdout:
                worker.stdout.close()


def test_every_acknowledged_write_survives_kill_9(
    data: DataDirectory, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    seed: int = pytestconfig.option.chaos_seed
    rng = random.Random(seed)
    said = Acknowledged()
    check(data, said)
    rounds = 0
    ends = time.monotonic() + float(pytestconfig.option.chaos_seconds)
    while time.monotonic() < ends or (said.total <= FEWEST_WRITES and rounds < MOST_ROUNDS):
        rounds += 1
        workers = CrashingWorkers(data.paths.root, rng, rounds)
        try:
            workers.run_until_killed(said)
        finally:
            workers.end()
        check(data, said)
    record_property("chaos", f"{2 * rounds} kills among {said.total} acknowledged writes")
    assert said.total > FEWEST_WRITES
