"""How the harness tells the bot's process which fault to inject, and learns what happened."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

CRASH, POWER_CUT = "crash", "power_cut"
ANY_POINT = "anywhere"


@dataclass(frozen=True)
class InjectedFault:
    """`kind` is `CRASH`, `POWER_CUT` or the name of an error, such as `EIO`.

    A crash or a power cut happens once, at `crash_point`, or at the next one with `ANY_POINT`.
    An error meets every call that it applies to, until the fault is withdrawn: for the file or
    folder named `label`, or for all of them if `label` is empty. `seed` decides what a power cut
    takes.
    """

    kind: str
    crash_point: str = ""
    label: str = ""
    seed: int = 0


F = TypeVar("F")


class PendingFault(Generic[F]):
    """Holds one fault at a time, in a folder that the harness and a process of the bot share."""

    def __init__(self, folder: Path, kind: type[F]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._kind = kind
        self._pending = folder / "fault.json"

    def inject(self, fault: F) -> None:
        draft = self._pending.with_suffix(".new")
        draft.write_text(json.dumps(vars(fault)))
        draft.replace(self._pending)

    def withdraw(self) -> bool:
        """Returns whether a fault was pending."""
        try:
            self._pending.unlink()
        except FileNotFoundError:
            return False
        return True

    @property
    def is_pending(self) -> bool:
        return self._pending.exists()

    def current(self) -> F | None:
        try:
            return self._kind(**json.loads(self._pending.read_text()))
        except FileNotFoundError:
            return None


class FaultControl(PendingFault[InjectedFault]):
    """Also learns which faults happened, and which crash points were passed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, InjectedFault)
        self._reports = folder / "reports.jsonl"
        self._reports_read = 0

    def report(self, fault: InjectedFault, where: str) -> None:
        """Tell the harness that the fault happened. Withdraws a crash, which happens only once."""
        with self._reports.open("a") as file:
            file.write(f"{json.dumps({'kind': fault.kind, 'where': where})}\n")
        if fault.kind in (CRASH, POWER_CUT):
            self.withdraw()

    def new_reports(self) -> list[tuple[str, str]]:
        """The kind and the place of each fault that happened since the last call."""
        if not self._reports.exists():
            return []
        lines = self._reports.read_text().splitlines()
        fresh, self._reports_read = lines[self._reports_read :], len(lines)
        return [(row["kind"], row["where"]) for row in map(json.loads, fresh)]

    def report_passed(self, crash_points: set[str]) -> None:
        """Tell the harness which crash points this process has passed, all of them each time."""
        (self.folder / f"passed-{os.getpid()}").write_text("\n".join(sorted(crash_points)))

    @property
    def passed_crash_points(self) -> set[str]:
        """The crash points that any process has passed."""
        texts = (path.read_text() for path in self.folder.glob("passed-*"))
        return {line for text in texts for line in text.splitlines()}
