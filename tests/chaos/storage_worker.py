"""Run as a program: write to a data directory without end, and print each acknowledged write.

Arguments: data directory, name of the worker, seed, and the number of the disk operation at which
the worker kills itself (0: never). Every line on stdout is a write that has returned, or a removal
that begins.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from devtools.doubles.disks import SteppedDisk
from tests.kernel.store.files.data_directory import NOW, DataDirectory

from ollim_bot.kernel.store.database import Database
from ollim_bot.kernel.store.files import FileLock, OsDisk
from ollim_bot.kernel.store.job_folder import JobFileIndex, MarkdownRepository
from ollim_bot.kernel.store.job_formats import REMINDERS
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.steps import leave_update
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.occurrences import LedgerRow
from ollim_bot.kernel.values.updates import PendingUpdate


@dataclass
class Worker:
    name: str
    database: Database
    reminders: MarkdownRepository[Reminder]
    rng: random.Random
    jobs: list[str] = field(default_factory=list)

    def run(self) -> None:
        number = 0
        while True:
            number += 1
            word = f"{self.name}-{number}"
            action = self.rng.choice(
                [self.count, self.append, self.update, self.add, self.amend, self.remove]
            )
            action(word, number)

    def count(self, _: str, number: int) -> None:
        """Writes two facts in one commit, which must always agree."""

        def step(facts: Mapping[str, object]) -> tuple[Mapping[str, object], None]:
            mine = {**facts, self.name: number}
            total = sum(int(str(value)) for key, value in mine.items() if key != "total")
            return {**mine, "total": total}, None

        self.database.run(lambda tx: tx.memory.take(step))
        self.acknowledge("count", str(number))

    def append(self, word: str, _: int) -> None:
        row = LedgerRow(NOW, "noted", facts={"word": word})
        self.database.run(lambda tx: tx.ledger.append(row))
        self.acknowledge("append", word)

    def update(self, word: str, _: int) -> None:
        update = PendingUpdate(NOW, word, word)
        self.database.run(lambda tx: leave_update(tx, update))
        self.acknowledge("update", word)

    def add(self, word: str, _: int) -> None:
        spec = JobSpec(id=word, message="the same text for all", background=True)
        self.reminders.add(Reminder(spec, NOW))
        self.jobs.append(word)
        self.acknowledge("add", word)

    def amend(self, word: str, _: int) -> None:
        if self.jobs:
            job = self.rng.choice(self.jobs)
            self.reminders.amend(job, {"description": word})
            self.acknowledge("amend", job, word)

    def remove(self, _: str, __: int) -> None:
        # With few jobs a round stays quick.
        while len(self.jobs) > 5:
            job = self.jobs.pop(self.rng.randrange(len(self.jobs)))
            # Printed before: the worker may be killed between the removal and its line.
            self.acknowledge("removing", job)
            self.reminders.remove(job)
            self.acknowledge("remove", job)

    def acknowledge(self, *words: str) -> None:
        os.write(1, f"{' '.join(words)}\n".encode())


def killing_after(steps: int) -> SteppedDisk:
    left = [steps]

    def before(_: str, __: Path) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return SteppedDisk(OsDisk(), before)


def main(root: str, name: str, seed: str, steps: str) -> None:
    data, disk = DataDirectory(Path(root)), killing_after(int(steps))
    database = open_database(
        data.paths, lambda: NOW, is_holder=False, report=data.problems.append, disk=disk
    )
    folder = data.paths.reminders
    lock = FileLock(data.paths.lock_of(folder))
    watch = JobFileIndex(folder, REMINDERS, disk)
    repository = MarkdownRepository(watch, lock, journal=data.journal)
    Worker(name, database, repository, random.Random(seed)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
