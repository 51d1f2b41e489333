"""The law of the ping budget, which time fills: nothing is spent that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chaos.evidence import Evidence, moment
from chaos.years.world import World

_CAPACITY = 5.0
_SECONDS_FOR_ONE = 90 * 60.0
_A_HAIR = 0.02
# A crash may keep a payment waiting until the next start, when a full bucket has lost nothing.
_NOT_PAID_YET = 1.0
_USED_UP = "budget is used up"


@dataclass
class Bucket:
    """Between `low` and `high`: a clock that is set back hides when it was last filled."""

    at: float | None = None
    low: float = _CAPACITY
    high: float = _CAPACITY

    def fill(self, at: float) -> None:
        gained = max(0.0, at - self.at) / _SECONDS_FOR_ONE if self.at is not None else 0.0
        self.low = min(_CAPACITY, self.low + gained)
        self.high = min(_CAPACITY, self.high + gained)
        self.at = at

    def set_back(self) -> None:
        self.at, self.high = None, _CAPACITY

    def pay(self) -> None:
        self.low, self.high = max(0.0, self.low - 1), max(0.0, self.high - 1)


def the_budget_is_kept(world: World, evidence: Evidence) -> Iterator[str]:
    bucket = Bucket()
    for what, at, about in _events(world, evidence):
        if what == "set back":
            bucket.set_back()
            continue
        bucket.fill(at)
        if what == "paid":
            if bucket.high < 1 - _A_HAIR:
                yield f"payment {about} was made with {bucket.high:.2f} tokens at the most"
            bucket.pay()
        elif bucket.low > 1 + _NOT_PAID_YET + _A_HAIR:
            yield f"{about} was refused with {bucket.low:.2f} tokens at the least"
    left = evidence.value("ping_budget.json")
    if left is None:
        return
    bucket.fill(moment(left["last_refill"]).timestamp())
    if not bucket.low - _NOT_PAID_YET - _A_HAIR <= left["available"] <= bucket.high + _A_HAIR:
        yield f"{left['available']:.2f} tokens are left, not {bucket.low:.2f} to {bucket.high:.2f}"


def _events(world: World, evidence: Evidence) -> list[tuple[str, float, str]]:
    """In the order in which they have happened, with what was on the wall then."""
    found = [
        (row["passed"], "paid", row["at"], str(row["payment"])) for row in evidence.noted("paid")
    ]
    for row in evidence.model:
        is_refused = row["event"] == "called" and not row["is_done"]
        if is_refused and _USED_UP in row["result"]:
            at = moment(row["at"]).timestamp()
            found.append((row["passed"], "refused", at, row["mark"]))
    found += ((passed, "set back", 0.0, "") for passed in world.machine.diary.set_back_at)
    return [(what, at, about) for _, what, at, about in sorted(found)]
