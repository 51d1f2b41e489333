"""The faults of two machines: the leader dies, freezes, sleeps or is cut off; the server dies."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from tests.patience import patience

from chaos.standby.machines import MachineBot, StandbyScene
from chaos.standby.points import BEFORE_SEND, FREEZE, KILL, POINTS, SLEEP, STEP_POINTS, PointFault

Fault = Callable[[StandbyScene, random.Random], Awaitable[None]]

# In seconds of the lease, within which another machine leads, or the same one goes on.
_FREEZES = (5.0, 12.0, 20.0, 45.0, 120.0)
_CUTS = (3.0, 8.0, 25.0)
_LOOK = 0.05
# In seconds: how late the threads that keep the lease may run after a freeze.
_KEEPER_LATE = (0.0, 0.5)


async def kill_leader(scene: StandbyScene, rng: random.Random) -> None:
    leader = await scene.until_ready()
    process = leader.process
    await asyncio.sleep(rng.uniform(0, 2))
    leader.signal(signal.SIGKILL)
    scene.hits["kill -9 of the leader"] += 1
    await scene.until_led(is_other_than=process)


async def _at_point(kind: str, point: str, scene: StandbyScene, rng: random.Random) -> None:
    leader = await scene.until_ready()
    process = leader.process
    skip = rng.randrange(8 if point in STEP_POINTS else 2)
    late = rng.choice(_KEEPER_LATE)
    seconds = rng.choice(_FREEZES) * scene.pace
    leader.control.inject(PointFault(kind, point, skip, late))
    if not await _is_met(leader):
        return
    scene.hits[f"{kind} {point}"] += 1
    if kind == KILL:
        await scene.until_led(is_other_than=process)
        return
    await asyncio.sleep(seconds)
    if leader.process == process and leader.is_running:
        leader.signal(signal.SIGCONT)
    await scene.until_led()


async def _is_met(leader: MachineBot) -> bool:
    """Wait until the fault has happened; not each one does."""
    latest = time.monotonic() + patience() / 2
    while time.monotonic() < latest and leader.is_running:
        if leader.control.has_met:
            return True
        await asyncio.sleep(_LOOK)
    leader.control.withdraw()
    return False


async def cut_off(scene: StandbyScene, rng: random.Random) -> None:
    await _without_network(scene, rng, "the leader's network cut", lambda one: one.socket.cut())


async def leave_unanswered(scene: StandbyScene, rng: random.Random) -> None:
    await _without_network(scene, rng, "the leader's network mute", lambda one: one.socket.hold())


async def _without_network(
    scene: StandbyScene, rng: random.Random, name: str, begin: Callable[[MachineBot], None]
) -> None:
    leader = await scene.until_ready()
    await asyncio.sleep(rng.uniform(0, 1))
    begin(leader)
    scene.hits[name] += 1
    await asyncio.sleep(rng.choice(_CUTS) * scene.pace)
    leader.socket.mend()
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


async def hand_over(scene: StandbyScene, _: random.Random) -> None:
    """End the leader as an update does: it lets go at once."""
    leader = await scene.until_ready()
    process = leader.process
    leader.signal(signal.SIGTERM)
    scene.hits["the leader ended, and handed over"] += 1
    await scene.until_led(is_other_than=process)


FAULTS: Mapping[str, Fault] = {
    "kill the leader": kill_leader,
    "cut the leader off": cut_off,
    "leave the leader unanswered": leave_unanswered,
    "kill the server": kill_server,
    "hand over": hand_over,
    **{
        f"{kind} {point}": partial(_at_point, kind, point)
        for kind in (KILL, FREEZE)
        for point in POINTS
    },
    f"{SLEEP} {BEFORE_SEND}": partial(_at_point, SLEEP, BEFORE_SEND),
}
WEIGHTS: Mapping[str, int] = dict.fromkeys(FAULTS, 1) | {"kill the leader": 2}
