"""How the harness tells a machine at which point it dies, freezes or sleeps."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from chaos.fault_control import PendingFault

KILL, FREEZE, SLEEP = "kill", "freeze", "sleep"
BEFORE_STEP, IN_STEP = "before a step", "inside a step"
BEFORE_COMMIT, AFTER_COMMIT = "before the commit", "after the commit"
BEFORE_SEND, IN_SEND = "between claim and send", "inside the send"
AFTER_SEND = "after the send"
STEP_POINTS = (BEFORE_STEP, IN_STEP, BEFORE_COMMIT, AFTER_COMMIT)
POINTS = (*STEP_POINTS, BEFORE_SEND, IN_SEND, AFTER_SEND)


@dataclass(frozen=True)
class PointFault:
    """Happens once, at the point, after it was passed `skip` times.

    A process that freezes is woken by the harness. In a sleep of the machine, the clocks stop that
    do so. The threads that keep the lease get their first time `keeper_late` seconds after it.
    """

    kind: str
    point: str
    skip: int = 0
    keeper_late: float = 0.0


class PointControl(PendingFault[PointFault]):
    """Also learns whether the fault has happened, and what one machine has sent."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, PointFault)
        self._met = folder / "met.json"
        self._sends = folder / "sends.jsonl"

    def inject(self, fault: PointFault) -> None:
        self._met.unlink(missing_ok=True)
        super().inject(fault)

    def meet(self) -> None:
        """Tell the harness that the fault happens now."""
        self.withdraw()
        self._met.write_text(str(os.getpid()))

    @property
    def has_met(self) -> bool:
        return self._met.exists()

    def note_send(self, process: str, at: float) -> None:
        """Note that the process is about to send something, at this moment of the true clock."""
        with self._sends.open("a") as file:
            file.write(f"{json.dumps({'process': process, 'at': at})}\n")

    def sends(self) -> list[dict[str, object]]:
        lines = self._sends.read_text().splitlines() if self._sends.exists() else []
        return [json.loads(line) for line in lines]
