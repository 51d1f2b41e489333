"""A kill at any moment between a request and its answer loses no call and repeats none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.features.webhooks.calls import bearer
from tests.features.webhooks.killed_server import CALLERS
from tests.features.webhooks.scene import DATA, SECRET, HookScene, new_scene, serving
from tests.kernel.store.scene import StoreScene
from tests.stores import on_store

from ollim_bot.kernel.store.store import DatabaseStore

pytestmark = pytest.mark.real_process

ROOT = Path(__file__).resolve().parents[3]
MOMENTS = 6


@pytest.fixture
def killed(tmp_path: Path) -> list[StoreScene]:
    """The data directories of servers that were killed, each at another moment."""
    module = "tests.features.webhooks.killed_server"
    command = [sys.executable, "-m", module, str(tmp_path), str(MOMENTS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [StoreScene(tmp_path / str(moment)) for moment in range(1, MOMENTS + 1)]


async def test_an_acknowledged_call_is_there_after_a_kill_and_no_call_is_there_twice(
    killed: list[StoreScene],
) -> None:
    for place in killed:
        await check_after_a_kill(place)


async def check_after_a_kill(place: StoreScene) -> None:
    acknowledged = (place.root / "acknowledged").read_text().split()
    scene = new_scene()
    store = DatabaseStore(place.open(), scene.clock)
    scene.stores = on_store(scene.stores, store)
    kept = dict(scene.accepted)
    runs = {f"webhook:rain:{key}" for key in acknowledged}
    assert runs <= kept.keys()
    assert len(kept) <= len(runs) + CALLERS
    assert all(fields == DATA for fields in kept.values())
    assert rows_of(scene) == sorted((run, "due") for run in kept)
    keys = [f"key-{caller}-{number}" for caller in range(CALLERS) for number in range(MOMENTS)]
    async with serving(scene):
        for key in keys:
            answer = await scene.call(headers=bearer(SECRET, key))
            run = f"webhook:rain:{key}"
            assert answer.body["run"] == run
            assert answer.status == (200 if run in kept else 202)
    every = kept.keys() | {f"webhook:rain:{key}" for key in keys}
    assert rows_of(scene) == sorted((run, "due") for run in every)
    await store.close()
    assert place.problems == []


def rows_of(scene: HookScene) -> list[tuple[str, str]]:
    rows = scene.stores.ledger.read().entries
    return sorted((row.occurrence.id, row.state) for row in rows if row.occurrence)
