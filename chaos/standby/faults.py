"""The faults of two machines: the leader dies, freezes, sleeps or is cut off; the server dies."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial

from tests.patience import patience

from chaos.standby.invariants import take_over_bar
from chaos.standby.machines import MachineBot, StandbyScene
from chaos.standby.points import (
    BEFORE_SEND,
    BEFORE_STEP,
    FREEZE,
    KILL,
    POINTS,
    SLEEP,
    STEP_POINTS,
    PointFault,
)

Fault = Callable[[StandbyScene, random.Random], Awaitable[None]]

# In seconds of the lease, within which another machine leads, or the same one goes on.
_FREEZES = (5.0, 12.0, 20.0, 45.0, 120.0)
_CUTS = (3.0, 8.0, 25.0)
_LOOK = 0.05
# In seconds: how late the threads that keep the lease may run after a freeze.
_KEEPER_LATE = 0.5
_UNTIL_REPLACED = "until another leads"


async def kill_leader(scene: StandbyScene, rng: random.Random) -> None:
    leader = await scene.until_ready()
    process = leader.process
    await asyncio.sleep(rng.uniform(0, 2))
    leader.signal(signal.SIGKILL)
    scene.hits["kill -9 of the leader"] += 1
    await scene.until_led(is_other_than=process)


async def _kill_at(point: str, scene: StandbyScene, rng: random.Random) -> None:
    leader = await scene.until_ready()
    process = leader.process
    if await _is_met(leader, PointFault(KILL, point, _skipped(point, rng))):
        scene.hits[f"{KILL} {point}"] += 1
        await scene.until_led(is_other_than=process)


async def _freeze_at(point: str, scene: StandbyScene, rng: random.Random) -> None:
    """Freeze the leader for so long that it may lead still, or not."""
    leader = await scene.until_ready()
    process = leader.process
    if await _is_met(leader, PointFault(FREEZE, point, _skipped(point, rng))):
        scene.hits[f"{FREEZE} {point}"] += 1
        await asyncio.sleep(rng.choice(_FREEZES) * scene.pace)
        leader.wake(process)
        await scene.until_led()


async def _replace_at(kind: str, point: str, scene: StandbyScene, rng: random.Random) -> None:
    """Freeze the leader or put it to sleep until another one leads, and wake it then.

    The threads that keep its lease are the last to run.
    """
    leader = await scene.until_ready()
    process = leader.process
    fault = PointFault(kind, point, _skipped(point, rng), _KEEPER_LATE)
    if await _is_met(leader, fault):
        scene.hits[f"{kind} {point} {_UNTIL_REPLACED}"] += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(take_over_bar(scene.pace) + 3):
                await scene.until_led(is_other_than=process)
                await asyncio.sleep(rng.uniform(0, 2))
        leader.wake(process)
        await scene.until_led(is_other_than=process)


def _skipped(point: str, rng: random.Random) -> int:
    return rng.randrange(8 if point in STEP_POINTS else 2)


async def _is_met(leader: MachineBot, fault: PointFault) -> bool:
    """Inject the fault, and wait until it has happened; not each one does."""
    leader.control.inject(fault)
    latest = time.monotonic() + patience() / 2
    while time.monotonic() < latest and leader.is_running:
        if leader.control.has_met:
            return True
        await asyncio.sleep(_LOOK)
    leader.control.withdraw()
    return False


async def cut_off(scene: StandbyScene, rng: random.Random) -> None:
    await _without_network(scene, rng, "the leader's network cut", lambda one: one.network.cut())


async def leave_unanswered(scene: StandbyScene, rng: random.Random) -> None:
    await _without_network(scene, rng, "the leader's network mute", lambda one: one.network.hold())


async def _without_network(
    scene: StandbyScene, rng: random.Random, name: str, begin: Callable[[MachineBot], None]
) -> None:
    leader = await scene.until_ready()
    await asyncio.sleep(rng.uniform(0, 1))
    begin(leader)
    scene.hits[name] += 1
    await asyncio.sleep(rng.choice(_CUTS) * scene.pace)
    leader.network.mend()
    await scene.until_led()


async def kill_server(scene: StandbyScene, rng: random.Random) -> None:
    """Both machines have no database for a while, and none may lose or double anything."""
    await scene.until_ready()
    began = time.time()
    await asyncio.to_thread(scene.server.kill)
    scene.hits["PostgreSQL killed"] += 1
    await asyncio.sleep(rng.choice(_CUTS) * scene.pace)
    await asyncio.to_thread(scene.server.start)
    scene.record.note("outages", {"from": began, "to": time.time()})
    await scene.until_led()


async def end_leader(scene: StandbyScene, rng: random.Random) -> None:
    """Tell the leader to end: it lets go of the lease at once."""
    leader = await scene.until_ready()
    process = leader.process
    await asyncio.sleep(rng.uniform(0, 1))
    leader.signal(signal.SIGTERM)
    scene.hits["the leader told to end"] += 1
    await scene.until_led(is_other_than=process)


async def hand_over(scene: StandbyScene, rng: random.Random) -> None:
    """Ask the leader by the command, on either machine, to let the other one lead."""
    leader = await scene.until_ready()
    process = leader.process
    code = await rng.choice(scene.both).command_line("standby", "hand-over")
    scene.hits["handed over by the command"] += 1
    scene.record.note("hand_overs", {"code": code})
    await scene.until_led(is_other_than=process)


FAULTS: Mapping[str, Fault] = {
    "kill the leader": kill_leader,
    "cut the leader off": cut_off,
    "leave the leader unanswered": leave_unanswered,
    "kill the server": kill_server,
    "end the leader": end_leader,
    "hand over": hand_over,
    **{f"{KILL} {point}": partial(_kill_at, point) for point in POINTS},
    **{f"{FREEZE} {point}": partial(_freeze_at, point) for point in POINTS},
    **{
        f"{kind} {point} {_UNTIL_REPLACED}": partial(_replace_at, kind, point)
        for kind, points in ((FREEZE, POINTS), (SLEEP, (BEFORE_STEP, BEFORE_SEND)))
        for point in points
    },
}
WEIGHTS: Mapping[str, int] = dict.fromkeys(FAULTS, 1) | {"kill the leader": 2}
