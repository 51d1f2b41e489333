"""P1: what was acknowledged survives a power cut, which forgets everything that was not synced."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.storage.places import NOW, DataDirectory
from tests.stores import Stores

from ollim_bot.domain.inbox import Accepted, Inbox
from ollim_bot.domain.inputs import InputId, OwnerMessage
from ollim_bot.domain.jobs import JobSpec, Reminder
from ollim_bot.domain.occurrences import LedgerRow
from ollim_bot.store.files import OsDisk
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


@dataclass
class History:
    """What has been acknowledged so far."""

    count: int = 0
    words: list[str] = field(default_factory=list)
    updates: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    jobs: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    uncertain: set[str] = field(default_factory=set)

    def act(self, stores: Stores, luck: random.Random, number: int) -> None:
        word = f"w{number}"
        actions = [self.count_up, self.append, self.update, self.add, self.amend, self.say]
        action = luck.choice([*actions, self.make_short])
        action(stores, luck, word)

    def count_up(self, stores: Stores, _: random.Random, __: str) -> None:
        stores.memory.transact(lambda facts: ({"n": int(str(facts.get("n", 0))) + 1}, None))
        self.count += 1

    def append(self, stores: Stores, _: random.Random, word: str) -> None:
        stores.ledger.append(LedgerRow(NOW, "noted", facts={"word": word}))
        self.words.append(word)

    def update(self, stores: Stores, _: random.Random, word: str) -> None:
        stores.leave_update(word, NOW)
        self.updates.append(word)

    def say(self, stores: Stores, _: random.Random, word: str) -> None:
        said = OwnerMessage(InputId(word), "web", NOW, word)
        stores.inbox.append(Accepted(NOW, said))
        self.said.append(word)

    def make_short(self, stores: Stores, _: random.Random, __: str) -> None:
        stores.inbox.compact(lambda rows: Inbox.of(rows).rows())

    def add(self, stores: Stores, _: random.Random, word: str) -> None:
        spec = JobSpec(id=word, message="the same text", background=True)
        stores.reminders.add(Reminder(spec, NOW))
        self.jobs[word] = ""

    def amend(self, stores: Stores, luck: random.Random, word: str) -> None:
        if not self.jobs:
            return
        job = luck.choice(sorted(self.jobs))
        self.uncertain.add(job)
        if luck.random() < 0.5:
            stores.reminders.amend(job, {"description": word})
            self.jobs[job] = word
        else:
            stores.reminders.remove(job)
            del self.jobs[job]
            self.removed.add(job)
        self.uncertain.discard(job)

    def check(self, data: DataDirectory) -> None:
        stores = data.open()
        assert int(str(stores.memory.read().get("n", 0))) in (self.count, self.count + 1)
        rows = stores.ledger.read().entries
        assert set(self.words) <= {row.facts.get("word") for row in rows}
        dropped = {row.facts.get("message") for row in rows}
        waiting = {update.message for update in stores.updates.read().entries}
        assert set(self.updates) <= waiting | dropped
        self.check_messages(stores)
        self.check_jobs(stores)
        assert data.problems == []

    def check_messages(self, stores: Stores) -> None:
        inbox = Inbox.of(stores.inbox.read().entries)
        # The last one may be there without having been acknowledged.
        assert [each.id for each in inbox.waiting][: len(self.said)] == self.said

    def check_jobs(self, stores: Stores) -> None:
        report = stores.reminders.report()
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
        stores = data.open(SteppedDisk(disk, before))
        with suppress(PowerCut):
            for number in range(200):
                history.act(stores, luck, number)
        assert left[0] <= 0
        disk.cut()
        history.check(data)


def live_often(seed: int, kind: type[PowerCutDisk]) -> None:
    for round_number in range(150):
        live_through(random.Random(f"{seed} {round_number}"), kind)


def test_what_was_acknowledged_survives_a_power_cut(pytestconfig: pytest.Config) -> None:
    live_often(pytestconfig.option.chaos_seed, PowerCutDisk)


@pytest.mark.parametrize("kind", [ForgettingContent, ForgettingNames])
def test_a_program_that_forgets_to_sync_is_found_out(kind: type[PowerCutDisk]) -> None:
    """The instrument can fail: without the syncs, acknowledged writes are lost."""
    with pytest.raises((AssertionError, KeyError)):
        live_often(0, kind)
