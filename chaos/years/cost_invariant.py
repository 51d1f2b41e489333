"""The invariant of the costs: the rows of the bot have what the model itself has counted."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from devtools.doubles.immediate_store import ImmediateStore

from chaos.evidence import Evidence
from chaos.years.simulated_engine import Bill, SimulatedEngine

if TYPE_CHECKING:
    from chaos.years.scene import YearsScene

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A turn that has ended longer before a kill has its rows.
_COMMITTED_AFTER = 300.0


@dataclass
class UnrecordedCosts:
    """What requests have cost whose turns a kill has cut off before they were recorded.

    `killed_at` is the virtual time of the last kill; None if the bot was stopped in good order.
    """

    killed_at: float | None = None
    micros: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def note_start(self, engine: SimulatedEngine, store: ImmediateStore) -> None:
        rows = Counter[str]()
        for row in store.query(lambda tx: tx.usage.since(_EPOCH)):
            rows[row.model] += row.micros
        for model, counted in _by_model(engine.bills).items():
            lost = counted - rows[model] - self.micros[model]
            at_stake = sum(each.micros for each in self._cut_off(engine) if each.model == model)
            if not 0 <= lost <= at_stake:
                self.problems.append(
                    f"{lost} millionths of {model} are unrecorded, at most {at_stake} were cut off"
                )
            self.micros[model] += lost

    def _cut_off(self, engine: SimulatedEngine) -> Iterator[Bill]:
        for bill in engine.bills:
            if self.killed_at is not None and (
                bill.ended is None or bill.ended > self.killed_at - _COMMITTED_AFTER
            ):
                yield bill


def costs_are_those_of_the_model(scene: YearsScene, evidence: Evidence) -> Iterator[str]:
    """The rows, and what the ledger says of each run, agree with the count of the model."""
    yield from scene.host.unrecorded.problems
    with closing(sqlite3.connect(scene.host.data / "state" / "ollim.db")) as database:
        sums = database.execute("SELECT model, sum(micros) FROM usage GROUP BY model").fetchall()
        of_runs = database.execute(
            "SELECT occurrence, sum(micros) FROM usage WHERE kind = 'run' GROUP BY occurrence"
        ).fetchall()
    rows, lost = Counter(dict(sums)), scene.host.unrecorded.micros
    for model, counted in _by_model(scene.engine.bills).items():
        if rows[model] + lost[model] != counted:
            yield f"{model} cost {counted}, but the rows have {rows[model]} + {lost[model]} lost"
    said = Counter[str]()
    for row in evidence.ledger:
        if "cost_usd" in row and row.get("occurrence"):
            said[row["occurrence"]] += round(row["cost_usd"] * 1_000_000)
    for occurrence, micros in of_runs:
        if said[occurrence] != micros:
            yield f"{occurrence} cost {micros}, but its rows in the ledger say {said[occurrence]}"


def _by_model(bills: list[Bill]) -> Counter[str]:
    found = Counter[str]()
    for bill in bills:
        found[bill.model] += bill.micros
    return found
