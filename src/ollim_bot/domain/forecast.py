"""What the coming runs would cost: the median of the past runs of each job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

from ollim_bot.domain.costs import Amount
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.provider import Price
from ollim_bot.domain.rehearsal import Fire, Rehearsal
from ollim_bot.domain.schedule import JobKey, key_of
from ollim_bot.domain.text import counted
from ollim_bot.domain.usage import RunCost

# Older runs say little about what a job costs today.
LOOKS_BACK = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Forecast:
    """`amount` is what `runs` runs would cost; `unknown_jobs` never ran and are not in it."""

    amount: Amount = field(default_factory=Amount)
    runs: int = 0
    unknown_jobs: int = 0
    by_day: Mapping[date, Amount] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """`About $0.84 for 43 runs: the median of each job's past runs.`"""
        jobs = counted(self.unknown_jobs, "job")
        verb = "has" if self.unknown_jobs == 1 else "have"
        rest = f" {jobs} {verb} not run yet, so the cost is not known." if self.unknown_jobs else ""
        if not self.runs:
            return rest.strip() or "Nothing of this asks a model, so it costs nothing."
        words = self.amount.in_words()
        about = "About " if any(each.is_listed for each in self.amount.prices) else ""
        total = f"{about}{words} for {counted(self.runs, 'run')}"
        return f"{total[0].upper()}{total[1:]}: the median of each job's past runs.{rest}"


def median_costs(runs: Iterable[RunCost]) -> Mapping[JobKey, Amount]:
    """What a run of each job costs, at the prices of its newest run."""
    totals: dict[JobKey, Counter[str]] = {}
    newest: dict[JobKey, RunCost] = {}
    for run in runs:
        one = Occurrence.parse(run.occurrence)
        key = JobKey(one.kind, one.job_id)
        totals.setdefault(key, Counter())[run.occurrence] += run.micros
        if key not in newest or newest[key].at <= run.at:
            newest[key] = run
    return {
        key: _amount(_median(sorted(costs.values())), newest[key].price)
        for key, costs in totals.items()
    }


def forecast(rehearsal: Rehearsal, medians: Mapping[JobKey, Amount]) -> Forecast:
    """What the runs of the rehearsed days would cost."""
    counts = Counter(
        (fire.at.astimezone(rehearsal.zone).date(), key_of(fire.job))
        for fire in rehearsal.fires
        if asks_model(fire)
    )
    by_day: dict[date, list[Amount]] = {}
    for (day, key), times in counts.items():
        if key in medians:
            by_day.setdefault(day, []).append(_times(medians[key], times))
    return Forecast(
        total(each for amounts in by_day.values() for each in amounts),
        sum(times for (_, key), times in counts.items() if key in medians),
        len({key for _, key in counts if key not in medians}),
        {day: total(amounts) for day, amounts in by_day.items()},
    )


def asks_model(fire: Fire) -> bool:
    return fire.starts is not None and not fire.job.is_plain


def total(amounts: Iterable[Amount]) -> Amount:
    known = [*amounts]
    prices = frozenset(price for each in known for price in each.prices)
    return Amount(sum(each.micros for each in known), sum(each.included for each in known), prices)


def _times(amount: Amount, times: int) -> Amount:
    return Amount(amount.micros * times, amount.included * times, amount.prices)


def _amount(micros: int, price: Price) -> Amount:
    return Amount(micros, micros if price is Price.INCLUDED else 0, frozenset({price}))


def _median(ordered: Sequence[int]) -> int:
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return round((ordered[middle - 1] + ordered[middle]) / 2)
