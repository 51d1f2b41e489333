"""What each use of a model cost: the rows from which every sum of money is taken."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

_MILLION = 1_000_000


class Price(StrEnum):
    """Whether the costs that the engine reports are the costs that are paid.

    With a subscription, the list price is known, and included in what is paid anyway.
    """

    LISTED = "listed"
    INCLUDED = "included"
    FREE = "free"
    UNKNOWN = "unknown"

    @property
    def is_listed(self) -> bool:
        """Whether the list price is known, which counts towards the daily limit."""
        return self in (Price.LISTED, Price.INCLUDED)

    @property
    def in_words(self) -> str:
        """The words shown in place of an unknown sum; empty if it is known."""
        return {Price.FREE: "free", Price.UNKNOWN: "your own server"}.get(self, "")


class ModelCost(NamedTuple):
    model: str
    cost_usd: float


class Usage(NamedTuple):
    """Tokens of the last request, and the cost since the session was opened.

    `context` includes cached tokens. `window` is how many tokens the model takes; None until a turn
    has ended. `cost_usd` is 0 where `price` is not a listed one. `model` is the one that answered,
    by the name that it gave itself. `by_model` has the part of each model in the cost, those of
    subagents too, as far as the engine says it.
    """

    context: int = 0
    output: int = 0
    cost_usd: float = 0.0
    window: int | None = None
    price: Price = Price.LISTED
    model: str = ""
    by_model: tuple[ModelCost, ...] = ()


class UsageKind(StrEnum):
    TURN = "turn"
    FORK = "fork"
    RUN = "run"
    SCREENING = "screening"

    @property
    def is_background(self) -> bool:
        return self in (UsageKind.RUN, UsageKind.SCREENING)


class UsageRow(NamedTuple):
    """What one model was used for in one turn of the conversation, or in one attempt of a run.

    `micros` are millionths of a dollar, so that sums are exact; they are 0 where no price is known.
    `turn` or `occurrence` says what it was used for; a turn of a job has both. The model of a
    subagent has a row of its own.
    """

    at: datetime
    kind: UsageKind
    model: str
    price: Price
    micros: int
    tokens: int = 0
    turn: str = ""
    occurrence: str = ""


def micros(dollars: float) -> int:
    return round(dollars * _MILLION)


def dollars(amount: int) -> float:
    """The inverse of `micros`."""
    return amount / _MILLION


def cost_of(rows: Iterable[UsageRow]) -> float:
    """The dollars at listed prices."""
    return sum(row.micros for row in rows) / _MILLION


def usage_rows(
    used: Usage,
    before: Usage,
    at: datetime,
    kind: UsageKind,
    *,
    turn: str = "",
    occurrence: str = "",
) -> list[UsageRow]:
    """The rows of what a session used between two readings; none if the model was not asked.

    The rows add up to the whole cost: what no other model is known to have cost, the model that
    answered has.
    """
    if used == before:
        return []
    is_listed, known = used.price.is_listed, dict(before.by_model)
    total, found = 0, dict[str, int]()
    if is_listed and used.cost_usd > before.cost_usd:
        total = round(used.cost_usd * _MILLION) - round(before.cost_usd * _MILLION)
        for model, cost in used.by_model:
            found[model] = max(0, round((cost - known.get(model, 0.0)) * _MILLION))
    found[used.model] = found.get(used.model, 0) + total - sum(found.values())
    if is_listed:
        found = {model: cost for model, cost in found.items() if cost}
    tokens = used.context + used.output
    return [
        UsageRow(
            at, kind, model, used.price, cost, tokens * (model == used.model), turn, occurrence
        )
        for model, cost in found.items()
    ]


def usage_after(before: Usage, used: Usage) -> Usage:
    """The reading from which the next rows count; a turn that asked nothing may know no cost."""
    if used.price.is_listed and used.cost_usd >= before.cost_usd:
        return used
    return used._replace(cost_usd=before.cost_usd, by_model=before.by_model)
