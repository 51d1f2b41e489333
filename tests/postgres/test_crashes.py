"""The crash matrix holds as well where the rows are in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.crashes import test_conversation as conversation
from tests.crashes import test_delivery as delivery
from tests.crashes import test_schedule as schedule
from tests.crashes.matrix import Scenario, crash_at_every_step, noted
from tests.postgres.crash_stores import ServerRecordingStore, ServerStore, ServerTables

# One of each kind: a card, a turn, a delivery, a job and a call. `make chaos` has all of them.
SHORT = ("a click", "a turn that fails", "answers are lost", "a plain routine", "calls of webhooks")
SCENARIOS: dict[str, Scenario[Any]] = {
    **conversation.SCENARIOS,
    **delivery.SCENARIOS,
    **schedule.SCENARIOS,
}


@pytest.fixture(autouse=True)
def _on_the_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    tables = ServerTables()
    monkeypatch.setattr(ServerStore, "tables", tables, raising=False)
    monkeypatch.setattr("tests.stores.RecordingStore", ServerRecordingStore)
    for module in ("crashes.restarted_schedule", "kernel.conversation.delivery_scene"):
        monkeypatch.setattr(f"tests.{module}.RepeatingStore", ServerStore)
    yield
    tables.connection.close()


async def crash_in(folder: Path, *names: str) -> None:
    for name in names:
        with noted(name):
            (folder / name).mkdir()
            await crash_at_every_step(SCENARIOS[name], folder / name)


@pytest.mark.usefixtures("inline_executor")
async def test_a_crash_at_any_step_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    await crash_in(tmp_path, *SHORT)


@pytest.mark.minutes
@pytest.mark.usefixtures("inline_executor")
async def test_so_do_the_long_ones(tmp_path: Path) -> None:
    await crash_in(tmp_path, *(SCENARIOS.keys() - set(SHORT)))
