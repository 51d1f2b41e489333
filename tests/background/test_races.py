"""Background runs beside each other, in one process and in two."""

from __future__ import annotations

import asyncio
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest
from tests.background.real_scene import PING, RealScene, calls
from tests.background.scene import Scene, routine
from tests.storage.data_directory import DataDirectory, QuickDisk

from ollim_bot.domain.jobs import ReportMode
from ollim_bot.domain.occurrences import OccurrenceState
from ollim_bot.store.transaction import Transaction

ROUNDS = 5
TIMEOUT = 180.0


class PingingProcess:
    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.background.pinging_process", str(root), name],
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
def two_processes(root: Path) -> Iterator[list[PingingProcess]]:
    both = [PingingProcess(root, name) for name in ("a", "b")]
    try:
        assert [each.answer() for each in both] == ["ready", "ready"]
        yield both
    finally:
        for each in both:
            each.end()


def leave_one_token(tx: Transaction) -> None:
    tx.budget.change(lambda budget: replace(budget, available=1.0))


def ends(scene: Scene) -> list[dict[str, object]]:
    return [dict(row.facts) for row in scene.rows if row.state == "done"]


async def test_of_two_runs_at_once_exactly_one_gets_the_last_token(in_process: RealScene) -> None:
    scene = in_process.scene
    scene.store.run(leave_one_token)
    in_process.model.when("YOUR TASK", calls(PING, message="The bank wrote."))
    runs = [
        scene.start(routine(name, description=name, update_main_session=ReportMode.FREELY))
        for name in ("first", "second")
    ]
    assert await asyncio.gather(*runs) == [OccurrenceState.DONE] * 2
    assert scene.said == ["The bank wrote."]
    one, other = sorted(ends(scene), key=lambda facts: "pings" not in facts)
    assert one["pings"] == [scene.surface.posts[0].id]
    assert "The ping budget is used up (budget: 0/5" in str(other["refused_pings"])
    assert str(other["silent_because"]).startswith("its ping was refused: the ping budget is used")
    budget = scene.store.run(lambda tx: tx.budget.get())
    assert (budget.tokens, budget.daily_used) == (0, 1)


@pytest.mark.real_process
def test_of_two_processes_whose_runs_want_the_last_token_exactly_one_speaks(tmp_path: Path) -> None:
    data = DataDirectory(tmp_path / "data")
    stores = data.open(QuickDisk())
    with two_processes(data.paths.root) as both:
        for number in range(ROUNDS):
            stores.state.run(leave_one_token)
            for each in both:
                each.tell(f"{each.name}-{number}")
            assert [each.answer() for each in both] == ["done", "done"]
            assert stores.state.query(lambda tx: tx.budget.get()).available < 1
    rows = [row for row in stores.ledger.read().entries if row.state == "done"]
    pinged = [row.facts["job"] for row in rows if "pings" in row.facts]
    refused = [row.facts["job"] for row in rows if "refused_pings" in row.facts]
    said = [each.message.job for each in stores.state.query(lambda tx: tx.messages.page(1000))]
    assert (len(pinged), len(refused), said) == (ROUNDS, ROUNDS, pinged)
    assert {str(name).rpartition("-")[2] for name in pinged} == {str(n) for n in range(ROUNDS)}
    sessions = [row.facts["session"] for row in rows if "pings" in row.facts]
    assert [
        record.fork_session_id for record in stores.state.query(lambda tx: tx.fork_messages.get())
    ] == sessions
    assert data.problems == []
