"""Background runs beside each other, in one process and in two."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.e2e import fork_server
from tests.kernel.conversation.background.pinging_process import main
from tests.kernel.conversation.background.real_scene import PING, RealScene, calls
from tests.kernel.conversation.background.scene import Scene, routine
from tests.kernel.store.files.data_directory import DataDirectory, QuickDisk
from tests.patience import patience

from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.jobs import ReportMode
from ollim_bot.kernel.values.occurrences import OccurrenceState

ROUNDS = 5


def lines_of(output: Path) -> int:
    return output.read_text().count("\n") if output.exists() else 0


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
async def test_of_two_processes_whose_runs_want_the_last_token_exactly_one_speaks(
    tmp_path: Path,
) -> None:
    data = DataDirectory(tmp_path / "data")
    stores, root = data.open(QuickDisk()), data.paths.root
    said_by = {name: tmp_path / f"{name}.out" for name in ("a", "b")}
    processes = [
        await fork_server.start_bot(tmp_path, {}, output, partial(main, root, name, ROUNDS))
        for name, output in said_by.items()
    ]
    try:
        async with asyncio.timeout(patience()):
            for number in range(ROUNDS):
                stores.state.run(leave_one_token)
                (tmp_path / f"go-{number}").touch()
                while any(lines_of(each) <= number for each in said_by.values()):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                assert stores.state.query(lambda tx: tx.budget.get()).available < 1
            assert [await each.wait() for each in processes] == [0, 0]
    finally:
        for each in processes:
            each.send_signal(signal.SIGKILL)
            await each.wait()
    assert [each.read_text() for each in said_by.values()] == ["done\n" * ROUNDS] * 2
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
