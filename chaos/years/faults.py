"""The faults: of the machine, its clock, its network and its model."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from devtools.doubles.engine import Fails

from chaos.years.due_times import ZONES
from chaos.years.owner_actions import Action
from chaos.years.scene import YearsScene, uniform_choice
from chaos.years.simulated_engine import Hangs
from ollim_bot.kernel.values.events import FailureKind

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_MOST_STEPS_UNTIL_CRASH = 120
# If the clock is set back during a run, the ledger shows the end of the run before its due time.
_IDLE_BEFORE_SET_BACK = 600.0
_FAILURES = (
    FailureKind.OVERLOADED,
    FailureKind.OVERLOADED,
    FailureKind.UNREACHABLE,
    FailureKind.LOGIN,
    FailureKind.LIMIT,
    FailureKind.ENGINE_DIED,
    FailureKind.OTHER,
)


async def sleep(scene: YearsScene, rng: Random) -> None:
    seconds = uniform_choice(rng, (1, 95), (_MINUTE, 30 * _MINUTE), (_HOUR, 5 * _HOUR))
    scene.host.skip_time(scene.limited_gap(seconds))


async def sleep_through_the_night(scene: YearsScene, rng: Random) -> None:
    scene.host.skip_time(scene.limited_gap(rng.uniform(6 * _HOUR, 14 * _HOUR)))


async def stop(scene: YearsScene, rng: Random) -> None:
    await scene.host.stop()
    await _stay_off_and_start(scene, rng)


async def kill(scene: YearsScene, rng: Random) -> None:
    await scene.host.kill()
    await _stay_off_and_start(scene, rng)


async def kill_at_a_step(scene: YearsScene, rng: Random) -> None:
    """Kill the bot before a change of a file, or around a commit of the database."""
    scene.host.crash_after(rng.randrange(_MOST_STEPS_UNTIL_CRASH))
    await scene.host.run_for(rng.uniform(_MINUTE, 2 * _HOUR))
    await scene.host.kill()
    await _stay_off_and_start(scene, rng)


async def power_cut(scene: YearsScene, rng: Random) -> None:
    scene.host.crash_after(rng.randrange(_MOST_STEPS_UNTIL_CRASH))
    await scene.host.run_for(rng.uniform(_MINUTE, _HOUR))
    await scene.host.kill(power_cut=True)
    await _stay_off_and_start(scene, rng)


async def set_forward(scene: YearsScene, rng: Random) -> None:
    scene.host.skip_time(scene.limited_gap(uniform_choice(rng, (30, 120), (_MINUTE, 4 * _HOUR))))


async def set_back(scene: YearsScene, rng: Random) -> None:
    await scene.host.wait_until_idle(_IDLE_BEFORE_SET_BACK)
    if not scene.host.has_crashed:
        scene.host.skip_time(-uniform_choice(rng, (2, 120), (_MINUTE, 3 * _HOUR)))


async def change_zone(scene: YearsScene, rng: Random) -> None:
    """Change the zone in the settings, which the next start reads."""
    await scene.host.stop()
    scene.host.zone = rng.choice([one for one in ZONES if one is not scene.host.zone])
    for name, version in list(scene.routines.items()):
        if version.follows_bot:
            scene.end_version(name)
            due_times = scene.timetable.due_times(version.line, scene.host.zone)
            scene.add_version(version.with_due_times(due_times))
    await _stay_off_and_start(scene, rng)


async def lose_network(scene: YearsScene, rng: Random) -> None:
    scene.host.chat.is_down = True
    await scene.host.run_for(uniform_choice(rng, (5, 100), (_MINUTE, _HOUR)))
    scene.host.chat.is_down = False


async def lose_responses(scene: YearsScene, rng: Random) -> None:
    scene.host.chat.lost_responses += rng.randint(1, 2)


async def model_fails(scene: YearsScene, rng: Random) -> None:
    kind = rng.choice(_FAILURES)
    scene.model.faults.extend([Fails(kind)] * rng.choice((1, 1, 2, 4)))


async def model_hangs(scene: YearsScene, _: Random) -> None:
    scene.model.faults.append(Hangs())


async def _stay_off_and_start(scene: YearsScene, rng: Random) -> None:
    short, usual, long = (1, 50), (_MINUTE, _HOUR), (_HOUR, 9 * _HOUR)
    seconds = uniform_choice(rng, *(short, usual) * 3, *(long,) * 2, (_DAY / 2, 5 * _DAY))
    scene.host.skip_time(scene.limited_gap(seconds))
    await scene.host.start(scene.engine)


FAULTS: Mapping[str, Action] = {
    "sleep": sleep,
    "sleep through the night": sleep_through_the_night,
    "stop": stop,
    "kill": kill,
    "kill at a step": kill_at_a_step,
    "power cut": power_cut,
    "set the clock forward": set_forward,
    "set the clock back": set_back,
    "change the zone": change_zone,
    "lose the network": lose_network,
    "lose answers": lose_responses,
    "the model fails": model_fails,
    "the model hangs": model_hangs,
}
WEIGHTS: Mapping[str, int] = {
    "sleep": 5,
    "sleep through the night": 7,
    "stop": 3,
    "kill": 2,
    "kill at a step": 5,
    "power cut": 3,
    "set the clock forward": 1,
    "set the clock back": 1,
    "change the zone": 1,
    "lose the network": 2,
    "lose answers": 2,
    "the model fails": 4,
    "the model hangs": 1,
}
