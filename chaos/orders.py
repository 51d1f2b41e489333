"""What a wounded process is told to do to itself, and what it tells to have done."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

DIE, CUT = "die", "cut"
ANY = "anywhere"


@dataclass(frozen=True, slots=True)
class Order:
    """`deed` is to die, to die as in a power cut, or the name of an error.

    To die is done once, at `point` or at the next of all. An error is given for each call that it
    can meet, for the file or folder named `label` or for all, until the order is withdrawn.
    """

    deed: str
    point: str = ""
    label: str = ""
    seed: int = 0


class Orders:
    """One order at a time, in a folder that both processes know."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._order = folder / "order.json"
        self._done = folder / "done.jsonl"
        self._told = 0

    def give(self, order: Order) -> None:
        draft = self._order.with_suffix(".new")
        draft.write_text(json.dumps(asdict(order)))
        draft.replace(self._order)

    def withdraw(self) -> bool:
        """Whether there was one."""
        try:
            self._order.unlink()
        except FileNotFoundError:
            return False
        return True

    @property
    def is_given(self) -> bool:
        return self._order.exists()

    def current(self) -> Order | None:
        try:
            return Order(**json.loads(self._order.read_text()))
        except FileNotFoundError:
            return None

    def tell(self, order: Order, where: str) -> None:
        """It was carried out. What is done once is no order any more."""
        with self._done.open("a") as file:
            file.write(f"{json.dumps({'deed': order.deed, 'where': where})}\n")
        if order.deed in (DIE, CUT):
            self.withdraw()

    def carried_out(self) -> list[tuple[str, str]]:
        """What was told since this was last asked: the deeds, and where."""
        if not self._done.exists():
            return []
        lines = self._done.read_text().splitlines()
        fresh, self._told = lines[self._told :], len(lines)
        return [(row["deed"], row["where"]) for row in map(json.loads, fresh)]

    def saw(self, points: set[str]) -> None:
        """The points that a process has passed."""
        (self.folder / f"passed-{os.getpid()}").write_text("\n".join(sorted(points)))

    @property
    def seen(self) -> set[str]:
        texts = (path.read_text() for path in self.folder.glob("passed-*"))
        return {line for text in texts for line in text.splitlines()}
