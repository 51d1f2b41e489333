"""The steps of a run, as plain values: made from a seed, written to a file, run again."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

SETTLE = "settle"

_LONGEST_WAIT = 1.2


@dataclass(frozen=True, slots=True)
class Step:
    """An action or a fault, `wait` seconds after the step before.

    `seed` decides all random choices in the step, so that it does the same if others are left out.
    """

    name: str
    wait: float = 0.0
    seed: int = 0


def planned_steps(
    seed: int,
    weights: Mapping[str, int],
    crashes: Sequence[str],
    crash_share: float,
    focus: Collection[str] = (),
) -> Iterator[Step]:
    """Steps without end: some in a row, then a `SETTLE`, and so on.

    `crash_share` is the share of the steps that are one of `crashes`. Each of `crashes` comes
    once before any of them comes again; each other name comes as often as its weight says before
    a new round of them begins. The names of `focus` come before all others.
    """
    rng = random.Random(seed)
    names = _names(rng, weights, crashes, crash_share, focus)
    while True:
        for name in islice(names, rng.randint(4, 9)):
            yield Step(name, round(_wait(rng), 3), rng.randrange(1_000_000))
        yield Step(SETTLE)


def _names(
    rng: random.Random,
    weights: Mapping[str, int],
    crashes: Sequence[str],
    crash_share: float,
    focus: Collection[str],
) -> Iterator[str]:
    others = _rounds(rng, weights, focus)
    crash_points = _rounds(rng, dict.fromkeys(crashes, 1), focus)
    aimed = [others for name in focus for _ in range(weights.get(name, 0))]
    aimed += [crash_points for name in focus if name in crashes]
    rng.shuffle(aimed)
    yield from map(next, aimed)
    while True:
        yield next(crash_points if rng.random() < crash_share else others)


def _rounds(
    rng: random.Random, weights: Mapping[str, int], focus: Collection[str]
) -> Iterator[str]:
    """Rounds without end, in each of which the repetitions of a name are spread evenly.

    A name with the weight three comes once in each third of the round.
    """
    while True:
        places = (
            (name not in focus, (number + rng.random()) / weight, name)
            for name, weight in weights.items()
            for number in range(weight)
        )
        yield from (name for *_, name in sorted(places))


def _wait(rng: random.Random) -> float:
    """Often none or a short one, so that steps overlap."""
    return rng.choice((0.0, rng.uniform(0, 0.2), rng.uniform(0, _LONGEST_WAIT)))


def write_steps(path: Path, steps: Sequence[Step]) -> None:
    path.write_text("".join(f"{json.dumps(asdict(step))}\n" for step in steps))


def read_steps(path: Path) -> list[Step]:
    return [Step(**json.loads(line)) for line in path.read_text().splitlines() if line.strip()]


def described(steps: Sequence[Step]) -> str:
    """One line for each step."""
    return "\n".join(f"  {each.name} (after {each.wait:g} s, seed {each.seed})" for each in steps)
