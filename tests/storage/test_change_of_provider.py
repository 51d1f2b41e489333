"""Each provider keeps its own session, whenever the power goes while one takes over."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest
from tests.storage.places import NOW, DataDirectory
from tests.storage.test_power_cut import PowerCut

from ollim_bot.domain.facts import Facts
from ollim_bot.domain.sessions import SessionId
from ollim_bot.ports import Disk
from ollim_bot.store.files import OsDisk
from ollim_bot.stores import Stores
from ollim_bot.testing.disks import PowerCutDisk, SteppedDisk
from ollim_bot.testing.memory import memory_stores


class Countdown:
    """Lets so many steps of a disk happen; the next one does not."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.is_over = False

    def __call__(self, _: str, __: Path) -> None:
        if self.left is None:
            return
        self.is_over = self.left == 0
        if self.is_over:
            raise PowerCut
        self.left -= 1


def use(stores: Stores, kind: str, session: str | None) -> None:
    """As the program does: the provider first, then whatever its engine names."""
    stores.change_provider(kind)
    stores.session.transact(lambda _: (SessionId(session) if session else None, None))


def live_through(stores: Stores, before: str) -> None:
    for kind, session in BEFORE[before]:
        use(stores, kind, session)


def sessions(stores: Stores) -> dict[str, SessionId]:
    """Where each provider would go on, if it had one."""
    facts = Facts(stores.memory.read())
    assert facts.moving is None
    assert facts.provider is not None
    current = stores.session.read()
    return {**facts.parked} | ({facts.provider: current} if current else {})


BEFORE: dict[str, list[tuple[str, str | None]]] = {
    "first move": [("claude", "c1")],
    "back to a parked one": [("offline", "o1"), ("claude", "c1")],
    "from a cleared one": [("offline", "o1"), ("claude", None)],
    "from none": [],
}


@pytest.mark.parametrize("after", ["offline", "claude", "ollama"])
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("with_power_cut", [False, True], ids=["kill", "power cut"])
def test_a_crash_before_any_step_is_mended_by_the_next_start(
    tmp_path: Path, before: str, after: str, with_power_cut: bool
) -> None:
    """`after` is the provider of the next start: it need not be the one that was to take over."""
    expected = memory_stores(NOW)
    live_through(expected, before)
    expected.change_provider("offline")
    expected.change_provider(after)
    steps = 0
    while True:
        countdown = Countdown()
        cutting = PowerCutDisk(OsDisk(), random.Random(f"{before} {after} {steps}"))
        disk: Disk = cutting if with_power_cut else OsDisk()
        data = DataDirectory(tmp_path / str(steps))
        stores = data.open(SteppedDisk(disk, countdown))
        live_through(stores, before)
        countdown.left = steps
        with suppress(PowerCut):
            stores.change_provider("offline")
        if with_power_cut:
            cutting.cut()
        again = data.open()
        again.change_provider(after)
        assert Facts(again.memory.read()).provider == after
        assert sessions(again) == sessions(expected)
        assert data.problems == []
        if not countdown.is_over:
            break
        steps += 1
    assert steps >= 4


def test_the_offline_model_never_gets_a_session_of_another() -> None:
    stores = memory_stores(NOW)
    use(stores, "claude", "c1")
    stores.change_provider("offline")
    assert stores.session.read() is None
    use(stores, "offline", "o1")
    stores.change_provider("claude")
    assert stores.session.read() == "c1"
    stores.change_provider("offline")
    assert stores.session.read() == "o1"


def test_only_a_change_is_said_to_be_one() -> None:
    stores = memory_stores(NOW)
    said = [stores.change_provider(kind) for kind in ("claude", "claude", "offline", "claude")]
    assert said == [False, False, True, True]


def test_a_change_that_a_crash_cut_off_is_said_by_the_next_start(data: DataDirectory) -> None:
    stores = data.open()
    use(stores, "claude", "c1")
    begun = Facts(stores.memory.read()).moving_to("offline", SessionId("c1"))
    stores.memory.transact(lambda _: (begun.raw, None))
    assert data.open().change_provider("offline")
    assert not data.open().change_provider("offline")


def test_nothing_is_written_where_nothing_changes(data: DataDirectory) -> None:
    data.open().change_provider("claude")
    steps: list[str] = []
    disk = SteppedDisk(OsDisk(), lambda step, _: steps.append(step))
    data.open(disk).change_provider("claude")
    assert set(steps) == {"read"}
