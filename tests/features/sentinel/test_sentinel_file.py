"""The bot moves the sentinel's file into the database before any other step."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock, run_ready_tasks

from ollim_bot.features.sentinel.sentinel_file import (
    ChannelTry,
    DueDelivery,
    SentinelDelivery,
    SentinelFile,
    deliveries_left,
)
from ollim_bot.kernel.base.moments import Nag
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.store.delivery_rows import DeliveryState
from ollim_bot.kernel.store.file_store import StoreProblem
from ollim_bot.kernel.store.opening import open_database
from ollim_bot.kernel.store.store import DatabaseStore
from ollim_bot.kernel.values.jobs import JobSpec, Reminder
from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.schedule import occurrence_at

DISCORD, PHONE = "discord", "ntfy"
NOW = datetime(2026, 11, 15, 14, 30, tzinfo=UTC)
SPEC = JobSpec(
    id="pill",
    message="Take the „blue“ pill.\nNow.",
    nag=Nag(timedelta(minutes=10), 2),
    first_step="Open the box.",
)
PILL = Reminder(SPEC, NOW)


class SentinelFileScene:
    """A data directory with a delivery in the sentinel's file."""

    def __init__(self, root: Path) -> None:
        self.paths = DataPaths(root)
        prepare_data_directory(self.paths)
        self.problems: list[StoreProblem] = []
        self.database = open_database(
            self.paths, lambda: NOW, is_holder=True, report=self.problems.append
        )
        self.file = SentinelFile(self.paths, self.problems.append)

    @property
    def occurrence(self) -> Occurrence:
        return occurrence_at(PILL, NOW)

    def put(self, **more: object) -> SentinelDelivery:
        due = DueDelivery(PILL, self.occurrence, NOW)
        one = SentinelDelivery.of(due, NOW, "It came from the watch.")
        kept = replace(one, **more)  # type: ignore[arg-type]
        self.file.put(kept)
        return kept


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[SentinelFileScene]:
    made = SentinelFileScene(tmp_path)
    yield made
    made.database.close()


def test_what_is_written_is_read_again(scene: SentinelFileScene) -> None:
    first = scene.put()
    assert deliveries_left(scene.paths) == (first,)
    tries = {DISCORD: ChannelTry(ref="77"), PHONE: ChannelTry(NOW)}
    after = scene.put(tries=tries, through=(DISCORD, "notification"))
    assert deliveries_left(scene.paths) == (after,)
    assert scene.paths.sentinel.stat().st_mode & 0o777 == 0o600


async def test_the_claim_counts_before_the_next_step_and_is_announced(
    scene: SentinelFileScene,
) -> None:
    store = DatabaseStore(scene.database, ManualClock(NOW), scene.file.give_to)
    with ExitStack() as stack:
        changes = [
            stack.enter_context(store.changes(each))
            for each in ("notices", "messages", "deliveries")
        ]
        assert await store.transact(lambda tx: tx.ledger.count()) == 0
        scene.put(tries={DISCORD: ChannelTry(ref="77")}, through=(DISCORD,))
        assert not await store.transact(lambda tx: tx.ledger.claim(scene.occurrence, NOW))
        assert not scene.paths.sentinel.exists()
        await run_ready_tasks()
        assert all(each.is_set() for each in changes)
    found = await store.read(lambda tx: tx.deliveries.by_ref(DISCORD, "77"))
    assert found is not None
    assert found.message.text == "Take the „blue“ pill. Now."
    (item,) = await store.read(lambda tx: tx.due_items.open())
    assert item.again_at == NOW + timedelta(minutes=10)
    (notice,) = (await store.read(lambda tx: tx.notices.get())).untold
    assert notice.text.startswith("While I was away, my watch brought “Take the")
    await store.close()


async def test_an_idle_bot_takes_it_over_within_a_second(scene: SentinelFileScene) -> None:
    clock = ManualClock(NOW)
    store = DatabaseStore(scene.database, clock, scene.file.give_to)
    upkeep = asyncio.create_task(store.run_upkeep())
    with store.changes() as changed:
        scene.put()
        await clock.advance(1)
        async with asyncio.timeout(60):
            await changed.wait()
    assert not scene.paths.sentinel.exists()
    upkeep.cancel()
    await asyncio.gather(upkeep, return_exceptions=True)
    await store.close()


def test_each_channel_sends_or_looks_for_what_did_not_surely_arrive_there(
    scene: SentinelFileScene,
) -> None:
    for name in (DISCORD, PHONE, "other"):
        scene.database.run(lambda tx, on=name: tx.channels.join(on, "1"))  # type: ignore[misc]
    tries = {DISCORD: ChannelTry(ref="77"), PHONE: ChannelTry(NOW), "other": ChannelTry()}
    one = scene.put(tries=tries, through=(DISCORD,))
    scene.file.give_to(scene.database)
    found = scene.database.query(lambda tx: tx.deliveries.of_message(one.message.id))
    assert {each.channel: (each.state, each.refs, each.is_in_doubt) for each in found} == {
        DISCORD: (DeliveryState.CONFIRMED, ("77",), False),
        PHONE: (DeliveryState.OPEN, (), True),
        "other": (DeliveryState.OPEN, (), False),
    }


def test_a_file_of_the_first_version_is_that_of_its_one_channel(scene: SentinelFileScene) -> None:
    tries: dict[str, dict[str, ChannelTry]] = {
        '{"tried_at": null, "ref": "77"}': {DISCORD: ChannelTry(ref="77")},
        f'{{"tried_at": "{NOW.isoformat()}", "ref": ""}}': {DISCORD: ChannelTry(NOW)},
        '{"tried_at": null, "ref": ""}': {},
    }
    one = scene.put(through=("notification",))
    whole = json.loads(scene.paths.sentinel.read_text())
    del whole["deliveries"][0]["tries"]
    for old, new in tries.items():
        entry = {**whole["deliveries"][0], **json.loads(old)}
        scene.paths.sentinel.write_text(json.dumps({"version": 1, "deliveries": [entry]}))
        assert deliveries_left(scene.paths) == (replace(one, tries=new),)


def test_a_newer_file_is_left_and_told_once(scene: SentinelFileScene) -> None:
    scene.paths.sentinel.write_text('{"version": 3, "deliveries": {}}')
    for _ in range(3):
        scene.file.give_to(scene.database)
    assert scene.paths.sentinel.read_text() == '{"version": 3, "deliveries": {}}'
    (problem,) = scene.problems
    assert "state/sentinel.json" in str(problem)


@pytest.mark.parametrize("content", ["", "no", "[]", '{"deliveries": [{"message": 1}]}', "\x00"])
def test_a_file_that_cannot_be_understood_is_set_aside(
    scene: SentinelFileScene, content: str
) -> None:
    scene.paths.sentinel.write_text(content)
    scene.file.give_to(scene.database)
    (problem,) = scene.problems
    assert problem.kept_as is not None
    assert problem.kept_as.read_text() == content
    assert not scene.paths.sentinel.exists()


def test_any_field_that_is_missing_is_a_reason_to_set_it_aside(scene: SentinelFileScene) -> None:
    scene.put()
    whole = json.loads(scene.paths.sentinel.read_text())
    for name in ("message", "item", "claim"):
        broken = {**whole, "deliveries": [{**whole["deliveries"][0], name: {}}]}
        del broken["deliveries"][0][name]
        scene.paths.sentinel.write_text(json.dumps(broken))
        scene.file.give_to(scene.database)
        assert not scene.paths.sentinel.exists()
    assert len(scene.problems) == 3


def test_a_database_that_refuses_leaves_the_file(scene: SentinelFileScene) -> None:
    scene.put()
    scene.database._connection.execute("PRAGMA query_only=1")
    scene.file.give_to(scene.database)
    assert scene.paths.sentinel.exists()
    scene.database._connection.execute("PRAGMA query_only=0")
    scene.file.give_to(scene.database)
    assert not scene.paths.sentinel.exists()
