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
    seed: int, weights: Mapping[str, int], deck: Sequence[str] = (), share: float = 0.0
) -> Iterator[Step]:
    """Without end: some steps in a row, each more likely by its weight, then a look at all.

    A share of the steps comes from the deck, which is played to its end before it is shuffled anew.
    """
    luck = random.Random(seed)
    names, shares = list(weights), list(weights.values())
    cards: list[str] = []
    while True:
        for name in luck.choices(names, shares, k=luck.randint(4, 9)):
            cards = cards or luck.sample(deck, len(deck))
            chosen = cards.pop() if cards and luck.random() < share else name
            yield Step(chosen, round(_wait(luck), 3), luck.randrange(1_000_000))
        yield Step(SETTLE)


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
