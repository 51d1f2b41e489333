"""The steps of a run, as plain values: made from a seed, written to a file, run again."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
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
    seed: int, weights: Mapping[str, int], crashes: Sequence[str], crash_share: float
) -> Iterator[Step]:
    """Steps without end: some in a row, then a `SETTLE`, and so on.

    `crash_share` is the share of the steps that are one of `crashes`. Each of `crashes` comes
    once before any of them comes again; each other name comes as often as its weight says before
    a new round of them begins.
    """
    rng = random.Random(seed)
    other_names = _rounds(rng, weights)
    crash_names = _rounds(rng, dict.fromkeys(crashes, 1))
    while True:
        for _ in range(rng.randint(4, 9)):
            name = next(crash_names if rng.random() < crash_share else other_names)
            yield Step(name, round(_wait(rng), 3), rng.randrange(1_000_000))
        yield Step(SETTLE)


def _rounds(rng: random.Random, weights: Mapping[str, int]) -> Iterator[str]:
    """Rounds without end, in each of which the repetitions of a name are spread evenly.

    A name with the weight three comes once in each third of the round.
    """
    while True:
        places = (
            ((number + rng.random()) / weight, name)
            for name, weight in weights.items()
            for number in range(weight)
        )
        yield from (name for _, name in sorted(places))


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
