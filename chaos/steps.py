"""What is done to the bot, as plain steps: made from a seed, kept in a file, played again."""

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
    """`seed` decides all that is left to chance in it, so that it stays the same without others."""

    name: str
    wait: float = 0.0
    seed: int = 0


def planned(
    seed: int, weights: Mapping[str, int], deaths: Sequence[str], share: float
) -> Iterator[Step]:
    """Without end: some steps in a row, then a look at all; a share of the steps are `deaths`.

    Each name comes as often as its weight says, and each death once, before any comes again.
    """
    luck = random.Random(seed)
    names = _dealt(luck, [name for name, weight in weights.items() for _ in range(weight)])
    ends = _dealt(luck, deaths)
    while True:
        for _ in range(luck.randint(4, 9)):
            name = next(ends if luck.random() < share else names)
            yield Step(name, round(_wait(luck), 3), luck.randrange(1_000_000))
        yield Step(SETTLE)


def _dealt(luck: random.Random, cards: Sequence[str]) -> Iterator[str]:
    """From a deck that is played to its end before it is shuffled anew."""
    while True:
        yield from luck.sample(cards, len(cards))


def _wait(luck: random.Random) -> float:
    """Often hardly any, so that things meet."""
    return luck.choice((0.0, luck.uniform(0, 0.2), luck.uniform(0, _LONGEST_WAIT)))


def written(path: Path, steps: Sequence[Step]) -> None:
    path.write_text("".join(f"{json.dumps(asdict(step))}\n" for step in steps))


def read(path: Path) -> list[Step]:
    return [Step(**json.loads(line)) for line in path.read_text().splitlines() if line.strip()]


def told(steps: Sequence[Step]) -> str:
    """One line for each."""
    return "\n".join(f"  {each.name} (after {each.wait:g} s, seed {each.seed})" for each in steps)
