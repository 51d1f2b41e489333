"""Run as a program: write to a data directory without end, and say what was acknowledged.

Arguments: data directory, name of the worker, seed, and after how many steps of the disk to be
killed in the middle (0: by somebody else). Every line on stdout is a write that has returned, or a
removal that begins.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.storage.places import NOW, DataDirectory
from tests.stores import Stores

from ollim_bot.domain.jobs import JobSpec, Reminder
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.store.files import OsDisk
from ollim_bot.testing.disks import SteppedDisk


@dataclass
class Worker:
    name: str
    stores: Stores
    luck: random.Random
    jobs: list[str] = field(default_factory=list)

    def run(self) -> None:
        number = 0
        while True:
            number += 1
            word = f"{self.name}-{number}"
            action = self.luck.choice(
                [self.count, self.append, self.update, self.add, self.amend, self.remove]
            )
            action(word, number)

    def count(self, _: str, number: int) -> None:
        """Two facts in one file that must always agree."""

        def step(facts: Mapping[str, object]) -> tuple[Mapping[str, object], None]:
            mine = {**facts, self.name: number}
            total = sum(int(str(value)) for key, value in mine.items() if key != "total")
            return {**mine, "total": total}, None

        self.stores.memory.transact(step)
        self.acknowledge("count", str(number))

    def append(self, word: str, _: int) -> None:
        self.stores.ledger.append(LedgerRow(NOW, "noted", facts={"word": word}))
        self.acknowledge("append", word)

    def update(self, word: str, _: int) -> None:
        self.stores.leave_update(word, NOW)
        self.acknowledge("update", word)

    def add(self, word: str, _: int) -> None:
        spec = JobSpec(id=word, message="the same text for all", background=True)
        self.stores.reminders.add(Reminder(spec, NOW))
        self.jobs.append(word)
        self.acknowledge("add", word)

    def amend(self, word: str, _: int) -> None:
        if self.jobs:
            job = self.luck.choice(self.jobs)
            self.stores.reminders.amend(job, {"description": word})
            self.acknowledge("amend", job, word)

    def remove(self, _: str, __: int) -> None:
        # Few enough stay that a round remains quick.
        while len(self.jobs) > 5:
            job = self.jobs.pop(self.luck.randrange(len(self.jobs)))
            # Killed after the file is gone and before it can say so, it must have said so before.
            self.acknowledge("removing", job)
            self.stores.reminders.remove(job)
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
    stores = DataDirectory(Path(root)).open(killing_after(int(steps)))
    Worker(name, stores, random.Random(seed)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
