"""Two processes that write the same files at once: nothing is lost, doubled or spent twice."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

from tests.chaos.rival import WRITERS
from tests.storage.places import DataDirectory

from ollim_bot.domain.outgoing import Outbox
from ollim_bot.domain.updates import MAX_PENDING_UPDATES
from ollim_bot.stores import Stores

ROUNDS = 30
PATIENCE = 60.0


class Rival:
    def __init__(self, root: Path, name: str, deed: str, program: str) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", program, str(root), name, deed],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, word: str) -> None:
        stdin = _pipe(self.process.stdin)
        stdin.write(f"{word}\n")
        stdin.flush()

    def answer(self) -> str:
        """An empty one if it has died."""
        stdout = _pipe(self.process.stdout)
        assert select.select([stdout], [], [], PATIENCE)[0], f"{self.name} does not answer"
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
def rivals(root: Path, deed: str, program: str = "tests.chaos.rival") -> Iterator[list[Rival]]:
    both = [Rival(root, name, deed, program) for name in ("a", "b")]
    try:
        assert [each.answer() for each in both] == ["ready", "ready"]
        yield both
    finally:
        for each in both:
            each.end()


def test_fifty_writers_in_two_processes_lose_no_update_and_double_none(
    data: DataDirectory,
) -> None:
    with rivals(data.paths.root, "leave updates") as both:
        for each in both:
            each.tell("go")
        assert [each.answer() for each in both] == ["done", "done"]
    stores = data.open()
    pending, ledger = stores.updates.read(), stores.ledger.read()
    waiting = [update.message for update in pending.entries]
    dropped = [str(row.facts["message"]) for row in ledger.entries if row.state == "update_dropped"]
    everything = [f"{name}-{number}" for name in "ab" for number in range(WRITERS)]
    assert sorted([*waiting, *dropped]) == sorted(everything)
    assert len(waiting) == MAX_PENDING_UPDATES - 1
    assert pending.omitted == len(dropped) == len(ledger.entries)
    assert len({update.id for update in pending.entries}) == len(waiting)
    assert (ledger.skipped, data.problems) == (0, [])


def leave_one_token(stores: Stores) -> None:
    stores.pings.transact(lambda budget: (replace(budget, available=1.0), None))


def test_of_two_processes_that_want_the_last_token_exactly_one_sends(data: DataDirectory) -> None:
    stores, winners = data.open(), []
    with rivals(data.paths.root, "send a ping") as both:
        for number in range(ROUNDS):
            leave_one_token(stores)
            for side, each in enumerate(both):
                each.tell(str(2 * number + side))
            answers = {each.name: each.answer() for each in both}
            assert sorted(answers.values()) == ["refused", "sent"]
            winners += [name for name, answer in answers.items() if answer == "sent"]
            assert stores.pings.read().available == 0
    assert [message.text for message in stores.messages.read().entries] == winners
    assert [record.fork_session_id for record in stores.fork_messages.read()] == winners
    assert stores.pings.read().payments == stores.pings.read().daily_used == ROUNDS
    assert Outbox.of(stores.outbox.read().entries) == Outbox()
    assert data.problems == []
