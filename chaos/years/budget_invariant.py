"""The invariant of the ping budget, which is refilled over time and never overdrawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chaos.evidence import Evidence, moment
from chaos.years.scene import YearsScene

_CAPACITY = 5.0
_SECONDS_FOR_ONE = 90 * 60.0
_TOLERANCE = 0.02
# A crash may delay a payment until the next start; then the budget differs by up to one token.
_OPEN_PAYMENT = 1.0
_USED_UP = "budget is used up"


@dataclass
class BudgetBounds:
    """The least and the most tokens that the budget can have.

    They differ after the clock was set back, when the time of the last refill is unknown.
    """

    at: float | None = None
    low: float = _CAPACITY
    high: float = _CAPACITY

    def refill(self, at: float) -> None:
        gained = max(0.0, at - self.at) / _SECONDS_FOR_ONE if self.at is not None else 0.0
        self.low = min(_CAPACITY, self.low + gained)
        self.high = min(_CAPACITY, self.high + gained)
        self.at = at

    def set_back(self) -> None:
        self.at, self.high = None, _CAPACITY

    def pay(self) -> None:
        self.low, self.high = max(0.0, self.low - 1), max(0.0, self.high - 1)


def ping_budget_is_exact(scene: YearsScene, evidence: Evidence) -> Iterator[str]:
    bounds = BudgetBounds()
    for what, at, about in _events(scene, evidence):
        if what == "set back":
            bounds.set_back()
            continue
        bounds.refill(at)
        if what == "paid":
            if bounds.high < 1 - _TOLERANCE:
                yield f"payment {about} was made with {bounds.high:.2f} tokens at the most"
            bounds.pay()
        elif bounds.low > 1 + _OPEN_PAYMENT + _TOLERANCE:
            yield f"{about} was refused with {bounds.low:.2f} tokens at the least"
    left = evidence.value("ping_budget.json")
    if left is None:
        return
    bounds.refill(moment(left["last_refill"]).timestamp())
    if not bounds.low - _OPEN_PAYMENT - _TOLERANCE <= left["available"] <= bounds.high + _TOLERANCE:
        yield f"{left['available']:.2f} tokens are left, not {bounds.low:.2f} to {bounds.high:.2f}"


def _events(scene: YearsScene, evidence: Evidence) -> list[tuple[str, float, str]]:
    """Kind, wall time and name of each event, in the order in which they happened."""
    found = [
        (row["passed"], "paid", row["at"], str(row["payment"])) for row in evidence.noted("paid")
    ]
    for row in evidence.model:
        is_refused = row["event"] == "called" and not row["is_done"]
        if is_refused and _USED_UP in row["result"]:
            at = moment(row["at"]).timestamp()
            found.append((row["passed"], "refused", at, row["mark"]))
    found += ((passed, "set back", 0.0, "") for passed in scene.host.timeline.set_back_at)
    return [(what, at, about) for _, what, at, about in sorted(found)]
