"""What happens to the machine, its clock, its network and its model."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from chaos.years.acts import Act
from chaos.years.mind import Hangs
from chaos.years.moments import ZONES
from chaos.years.world import World, choice
from ollim_bot.domain.events import FailureKind
from ollim_bot.testing.engine import Fails

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_MOST_STEPS = 120
# Set back while something is on its way, a clock would show it as done before it was due.
_CALM = 600.0
_FAILURES = (
    FailureKind.OVERLOADED,
    FailureKind.OVERLOADED,
    FailureKind.UNREACHABLE,
    FailureKind.LOGIN,
    FailureKind.LIMIT,
    FailureKind.ENGINE_DIED,
    FailureKind.OTHER,
)


async def sleep(world: World, luck: Random) -> None:
    seconds = choice(luck, (1, 95), (_MINUTE, 30 * _MINUTE), (_HOUR, 5 * _HOUR))
    world.machine.passes(world.longest_gap(seconds))


async def sleep_through_the_night(world: World, luck: Random) -> None:
    world.machine.passes(world.longest_gap(luck.uniform(6 * _HOUR, 14 * _HOUR)))


async def stop(world: World, luck: Random) -> None:
    await world.machine.stop()
    await _is_off(world, luck)


async def kill(world: World, luck: Random) -> None:
    await world.machine.kill()
    await _is_off(world, luck)


async def kill_at_a_step(world: World, luck: Random) -> None:
    """Where something is to be written."""
    world.machine.dies_in(luck.randrange(_MOST_STEPS))
    await world.machine.runs(luck.uniform(_MINUTE, 2 * _HOUR))
    await world.machine.kill()
    await _is_off(world, luck)


async def power_cut(world: World, luck: Random) -> None:
    world.machine.dies_in(luck.randrange(_MOST_STEPS))
    await world.machine.runs(luck.uniform(_MINUTE, _HOUR))
    await world.machine.kill(power_goes=True)
    await _is_off(world, luck)


async def set_forward(world: World, luck: Random) -> None:
    world.machine.passes(world.longest_gap(choice(luck, (30, 120), (_MINUTE, 4 * _HOUR))))


async def set_back(world: World, luck: Random) -> None:
    await world.machine.is_calm(_CALM)
    if not world.machine.has_died:
        world.machine.passes(-choice(luck, (2, 120), (_MINUTE, 3 * _HOUR)))


async def change_zone(world: World, luck: Random) -> None:
    """In the settings, so that it holds from the next start on."""
    await world.machine.stop()
    world.machine.zone = luck.choice([one for one in ZONES if one is not world.machine.zone])
    for name, version in list(world.routines.items()):
        if version.follows_bot:
            world.drop_version(name)
            moments = world.calendar.moments(version.line, world.machine.zone)
            world.keep_version(version.moved(moments))
    await _is_off(world, luck)


async def lose_network(world: World, luck: Random) -> None:
    world.machine.letters.is_down = True
    await world.machine.runs(choice(luck, (5, 100), (_MINUTE, _HOUR)))
    world.machine.letters.is_down = False


async def lose_answers(world: World, luck: Random) -> None:
    world.machine.letters.lost_answers += luck.randint(1, 2)


async def model_fails(world: World, luck: Random) -> None:
    kind = luck.choice(_FAILURES)
    world.model.faults.extend([Fails(kind)] * luck.choice((1, 1, 2, 4)))


async def model_hangs(world: World, _: Random) -> None:
    world.model.faults.append(Hangs())


async def _is_off(world: World, luck: Random) -> None:
    short, usual, long = (1, 50), (_MINUTE, _HOUR), (_HOUR, 9 * _HOUR)
    seconds = choice(luck, *(short, usual) * 3, *(long,) * 2, (_DAY / 2, 5 * _DAY))
    world.machine.passes(world.longest_gap(seconds))
    await world.machine.start(world.mind)


FAULTS: Mapping[str, Act] = {
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
    "lose answers": lose_answers,
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
