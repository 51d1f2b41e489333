"""What the coming runs would cost, by the median of past runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date

from ollim_bot.domain.costs import Amount, PastCosts
from ollim_bot.domain.rehearsal.fires import Fire
from ollim_bot.domain.rehearsal.simulation import Rehearsal
from ollim_bot.domain.text import counted


@dataclass(frozen=True, slots=True)
class Forecast:
    """`amount` is what `runs` runs would cost; the cost of `unknown_jobs` is not known."""

    amount: Amount = field(default_factory=Amount)
    runs: int = 0
    unknown_jobs: int = 0
    by_day: Mapping[date, Amount] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """`About $0.84 for 43 runs, by the median of past runs.`"""
        jobs = counted(self.unknown_jobs, "job")
        verb = "costs" if self.unknown_jobs == 1 else "cost"
        rest = f" What {jobs} {verb} is not known yet." if self.unknown_jobs else ""
        if not self.runs:
            return rest.strip() or "Nothing of this asks a model, so it costs nothing."
        words = self.amount.in_words()
        about = "About " if any(each.is_listed for each in self.amount.prices) else ""
        total = f"{about}{words} for {counted(self.runs, 'run')}"
        return f"{total[0].upper()}{total[1:]}, by the median of past runs.{rest}"


def forecast(rehearsal: Rehearsal, costs: PastCosts) -> Forecast:
    """What the runs of the rehearsed days would cost."""
    jobs = {id(fire.job): fire.job for fire in rehearsal.fires if asks_model(fire)}
    usual = {key: costs.amount(job) for key, job in jobs.items()}
    counts = Counter(
        (fire.at.astimezone(rehearsal.zone).date(), id(fire.job))
        for fire in rehearsal.fires
        if asks_model(fire)
    )
    by_day: dict[date, list[Amount]] = {}
    runs = 0
    for (day, key), times in counts.items():
        amount = usual[key]
        if amount is not None:
            runs += times
            by_day.setdefault(day, []).append(
                Amount(amount.micros * times, amount.included * times, amount.prices)
            )
    return Forecast(
        total(each for amounts in by_day.values() for each in amounts),
        runs,
        sum(amount is None for amount in usual.values()),
        {day: total(amounts) for day, amounts in by_day.items()},
    )


def asks_model(fire: Fire) -> bool:
    return fire.starts is not None and not fire.job.is_plain


def total(amounts: Iterable[Amount]) -> Amount:
    known = [*amounts]
    prices = frozenset(price for each in known for price in each.prices)
    return Amount(sum(each.micros for each in known), sum(each.included for each in known), prices)
