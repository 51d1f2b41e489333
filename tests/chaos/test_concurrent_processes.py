"""Two processes that write the same files at once: no update is lost, and no token spent twice."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest
from tests.chaos.concurrent_process import WRITERS
from tests.storage.data_directory import NOW, DataDirectory

from ollim_bot.domain.updates import MAX_PENDING_UPDATES
from ollim_bot.store.opening import open_database
from ollim_bot.store.transaction import Transaction

pytestmark = pytest.mark.real_process

ROUNDS = 30
TIMEOUT = 180.0


class ConcurrentProcess:
    def __init__(self, root: Path, name: str, action: str, program: str) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", program, str(root), name, action],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, word: str) -> None:
        stdin = _pipe(self.process.stdin)
        stdin.write(f"{word}\n")
        stdin.flush()

    def answer(self) -> str:
        """The next line of its output; empty if the process has ended."""
        stdout = _pipe(self.process.stdout)
        assert select.select([stdout], [], [], TIMEOUT)[0], f"{self.name} does not answer"
        return stdout.readline().strip()

    def end(self) -> None:
        self.process.kill()
        self.process.wait(10)
        _pipe(self.process.stdout).close()
        _pipe(self.process.stdin).close()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


@contextmanager
def two_processes(
    root: Path, action: str, program: str = "tests.chaos.concurrent_process"
) -> Iterator[list[ConcurrentProcess]]:
    both = [ConcurrentProcess(root, name, action, program) for name in ("a", "b")]
    try:
        assert [each.answer() for each in both] == ["ready", "ready"]
        yield both
    finally:
        for each in both:
            each.end()


def test_fifty_writers_in_two_processes_lose_no_update_and_double_none(data: DataDirectory) -> None:
    data.run(lambda tx: tx.updates.get(), is_holder=True)
    with two_processes(data.paths.root, "leave updates") as both:
        for each in both:
            each.tell("go")
        assert [each.answer() for each in both] == ["done", "done"]
    pending = data.run(lambda tx: tx.updates.get())
    rows, _ = data.run(lambda tx: tx.ledger.page(0, 1000))
    waiting = [update.message for update in pending.entries]
    dropped = [str(row.facts["message"]) for row in rows if row.state == "update_dropped"]
    everything = [f"{name}-{number}" for name in "ab" for number in range(WRITERS)]
    assert sorted([*waiting, *dropped]) == sorted(everything)
    assert len(waiting) == MAX_PENDING_UPDATES - 1
    assert pending.omitted == len(dropped) == len(rows)
    assert len({update.id for update in pending.entries}) == len(waiting)
    assert data.problems == []


def leave_one_token(tx: Transaction) -> None:
    tx.budget.change(lambda budget: replace(budget, available=1.0))


def test_of_two_processes_that_want_the_last_token_exactly_one_sends(data: DataDirectory) -> None:
    database = open_database(data.paths, lambda: NOW, is_holder=True, report=data.problems.append)
    winners: list[str] = []
    with two_processes(data.paths.root, "send a ping") as both:
        for number in range(ROUNDS):
            database.run(leave_one_token)
            for side, each in enumerate(both):
                each.tell(str(2 * number + side))
            answers = {each.name: each.answer() for each in both}
            assert sorted(answers.values()) == ["refused", "sent"]
            winners += [name for name, answer in answers.items() if answer == "sent"]
            assert database.run(lambda tx: tx.budget.get()).available == 0
    log = database.run(lambda tx: tx.messages.page(1000))
    assert [each.message.text for each in log] == winners
    records = database.run(lambda tx: tx.fork_messages.get())
    assert [record.fork_session_id for record in records] == winners
    assert database.run(lambda tx: tx.budget.get()).daily_used == ROUNDS
    database.close()
    assert data.problems == []
