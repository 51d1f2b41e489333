"""P1: files that were acknowledged survive a power cut, which forgets what was not synced."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.examples import examples
from tests.storage.places import NOW, DataDirectory

from ollim_bot.domain.jobs import JobSpec, Reminder
from ollim_bot.ports import Disk
from ollim_bot.store.codecs.records import MemoryCodec
from ollim_bot.store.files import FileLock, OsDisk
from ollim_bot.store.job_formats import REMINDERS
from ollim_bot.store.job_shelf import MarkdownShelf
from ollim_bot.testing.disks import PowerCutDisk, SteppedDisk


class PowerCut(BaseException):
    """Not an `Exception`: nothing in the program may catch it and go on."""


class ForgettingContent(PowerCutDisk):
    """As under a program that forgot to sync its files."""

    def sync(self, path: Path) -> None:
        pass


class ForgettingNames(PowerCutDisk):
    """As under a program that forgot to sync its folders."""

    def sync_folder(self, folder: Path) -> None:
        pass


class Files:
    """The values and job files of a data directory, on a disk of the test's choice."""

    def __init__(self, data: DataDirectory, disk: Disk) -> None:
        self.facts = data.file_store(data.paths.memory, MemoryCodec(), disk)
        folder = data.paths.reminders
        lock = FileLock(data.paths.lock_of(folder))
        self.reminders = MarkdownShelf(folder, REMINDERS, lock, disk=disk, journal=data.journal)


@dataclass
class History:
    """What has been acknowledged so far."""

    count: int = 0
    jobs: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    uncertain: set[str] = field(default_factory=set)

    def act(self, files: Files, luck: random.Random, number: int) -> None:
        action = luck.choice([self.count_up, self.add, self.amend])
        action(files, luck, f"w{number}")

    def count_up(self, files: Files, _: random.Random, __: str) -> None:
        files.facts.transact(lambda facts: ({"n": int(str(facts.get("n", 0))) + 1}, None))
        self.count += 1

    def add(self, files: Files, _: random.Random, word: str) -> None:
        spec = JobSpec(id=word, message="the same text", background=True)
        files.reminders.add(Reminder(spec, NOW))
        self.jobs[word] = ""

    def amend(self, files: Files, luck: random.Random, word: str) -> None:
        if not self.jobs:
            return
        job = luck.choice(sorted(self.jobs))
        self.uncertain.add(job)
        if luck.random() < 0.5:
            files.reminders.amend(job, {"description": word})
            self.jobs[job] = word
        else:
            files.reminders.remove(job)
            del self.jobs[job]
            self.removed.add(job)
        self.uncertain.discard(job)

    def check(self, data: DataDirectory) -> None:
        files = Files(data, OsDisk())
        assert int(str(files.facts.read().get("n", 0))) in (self.count, self.count + 1)
        self.check_jobs(files)
        assert data.problems == []

    def check_jobs(self, files: Files) -> None:
        report = files.reminders.report()
        assert not report.problems
        found = {shelved.item.spec.id: shelved.item.spec.description for shelved in report.jobs}
        assert not self.removed & found.keys()
        for job, description in self.jobs.items():
            if job not in self.uncertain:
                assert found[job] == description


@contextmanager
def prepared() -> Iterator[DataDirectory]:
    with tempfile.TemporaryDirectory() as root:
        yield DataDirectory(Path(root) / "data")


def live_through(luck: random.Random, kind: type[PowerCutDisk]) -> None:
    """Some hundred steps of the disk, and the power cut before one of them."""
    with prepared() as data:
        disk = kind(OsDisk(), luck)
        left = [luck.randint(1, 150)]

        def before(_: str, __: Path) -> None:
            left[0] -= 1
            if left[0] <= 0:
                raise PowerCut

        history = History()
        files = Files(data, SteppedDisk(disk, before))
        with suppress(PowerCut):
            for number in range(200):
                history.act(files, luck, number)
        assert left[0] <= 0
        disk.cut()
        history.check(data)


def live_often(seed: int, kind: type[PowerCutDisk]) -> None:
    for round_number in range(examples(1)):
        live_through(random.Random(f"{seed} {round_number}"), kind)


def test_what_was_acknowledged_survives_a_power_cut(pytestconfig: pytest.Config) -> None:
    live_often(pytestconfig.option.chaos_seed, PowerCutDisk)


@pytest.mark.parametrize("kind", [ForgettingContent, ForgettingNames])
def test_a_program_that_forgets_to_sync_is_found_out(kind: type[PowerCutDisk]) -> None:
    """The instrument can fail: without the syncs, acknowledged writes are lost."""
    with pytest.raises((AssertionError, KeyError)):
        live_often(0, kind)
