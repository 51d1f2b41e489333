"""P1: files that were acknowledged survive a power cut, which forgets what was not synced."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from devtools.doubles.disks import PowerCutDisk, SteppedDisk
from tests.examples import examples
from tests.kernel.store.files.data_directory import NOW, DataDirectory

from ollim_bot.kernel.store.codecs.config_codec import MEMORY
from ollim_bot.kernel.store.files import FileLock, OsDisk
from ollim_bot.kernel.store.job_folder import JobFileIndex, MarkdownRepository
from ollim_bot.kernel.store.job_formats import REMINDERS
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.ports import Disk


class PowerCut(BaseException):
    """A `BaseException`, so that the program does not catch it and go on."""


class UnsyncedContentDisk(PowerCutDisk):
    """Loses file content as if the program did not sync its files."""

    def sync(self, path: Path) -> None:
        pass


class UnsyncedNamesDisk(PowerCutDisk):
    """Loses file names as if the program did not sync its folders."""

    def sync_folder(self, folder: Path) -> None:
        pass


class StoredFiles:
    """The values and job files of a data directory, on the given disk."""

    def __init__(self, data: DataDirectory, disk: Disk) -> None:
        self.facts = data.file_store(data.paths.config, MEMORY, disk)
        folder = data.paths.reminders
        lock = FileLock(data.paths.lock_of(folder))
        watch = JobFileIndex(folder, REMINDERS, disk)
        self.reminders = MarkdownRepository(watch, lock, journal=data.journal)


@dataclass
class AcknowledgedWrites:
    """Makes random writes, and knows which of them were acknowledged."""

    count: int = 0
    jobs: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    uncertain: set[str] = field(default_factory=set)

    def random_action(self, files: StoredFiles, rng: random.Random, number: int) -> None:
        action = rng.choice([self.count_up, self.add, self.amend])
        action(files, rng, f"w{number}")

    def count_up(self, files: StoredFiles, _: random.Random, __: str) -> None:
        files.facts.transact(lambda facts: ({"n": int(str(facts.get("n", 0))) + 1}, None))
        self.count += 1

    def add(self, files: StoredFiles, _: random.Random, word: str) -> None:
        spec = JobSpec(id=word, message="the same text", background=True)
        files.reminders.add(Reminder(spec, NOW))
        self.jobs[word] = ""

    def amend(self, files: StoredFiles, rng: random.Random, word: str) -> None:
        if not self.jobs:
            return
        job = rng.choice(sorted(self.jobs))
        self.uncertain.add(job)
        if rng.random() < 0.5:
            files.reminders.amend(job, {"description": word})
            self.jobs[job] = word
        else:
            files.reminders.remove(job)
            del self.jobs[job]
            self.removed.add(job)
        self.uncertain.discard(job)

    def check(self, data: DataDirectory) -> None:
        files = StoredFiles(data, OsDisk())
        assert int(str(files.facts.read().get("n", 0))) in (self.count, self.count + 1)
        self.check_jobs(files)
        assert data.problems == []

    def check_jobs(self, files: StoredFiles) -> None:
        report = files.reminders.report()
        assert not report.problems
        found = {stored.item.spec.id: stored.item.spec.description for stored in report.jobs}
        assert not self.removed & found.keys()
        for job, description in self.jobs.items():
            if job not in self.uncertain:
                assert found[job] == description


@contextmanager
def prepared() -> Iterator[DataDirectory]:
    with tempfile.TemporaryDirectory() as root:
        yield DataDirectory(Path(root) / "data")


def run_until_power_cut(rng: random.Random, kind: type[PowerCutDisk]) -> None:
    """Write until the power cut before a random step of the disk, then check all writes."""
    with prepared() as data:
        disk = kind(OsDisk(), rng)
        left = [rng.randint(1, 150)]

        def before(_: str, __: Path) -> None:
            left[0] -= 1
            if left[0] <= 0:
                raise PowerCut

        writes = AcknowledgedWrites()
        files = StoredFiles(data, SteppedDisk(disk, before))
        with suppress(PowerCut):
            for number in range(200):
                writes.random_action(files, rng, number)
        assert left[0] <= 0
        disk.cut()
        writes.check(data)


def run_rounds(seed: int, kind: type[PowerCutDisk]) -> None:
    for round_number in range(examples(1)):
        run_until_power_cut(random.Random(f"{seed} {round_number}"), kind)


def test_what_was_acknowledged_survives_a_power_cut(pytestconfig: pytest.Config) -> None:
    run_rounds(pytestconfig.option.chaos_seed, PowerCutDisk)


@pytest.mark.parametrize("kind", [UnsyncedContentDisk, UnsyncedNamesDisk])
def test_a_program_that_forgets_to_sync_is_found_out(kind: type[PowerCutDisk]) -> None:
    """Proof that this test can fail: without syncs, acknowledged writes are lost."""
    with pytest.raises((AssertionError, KeyError)):
        run_rounds(0, kind)
