"""Sums of the usage rows: by day, by job and by model, and against the daily limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ollim_bot.kernel.values.occurrences import Occurrence
from ollim_bot.kernel.values.usage import Price, UsageRow, dollars

if TYPE_CHECKING:
    from ollim_bot.kernel.values.jobs import Job

CONVERSATION = "conversation"
BUILT_IN = "built-in"
# The runs from which the cost of another one is taken.
PAST = timedelta(days=60)
_DAY = timedelta(days=1)


class Amount(NamedTuple):
    """A sum in millionths of a dollar at list prices, and the prices that it was made of.

    `included` is the part that a subscription has paid for.
    """

    micros: int = 0
    included: int = 0
    prices: frozenset[Price] = frozenset()

    @classmethod
    def of(cls, rows: Iterable[UsageRow]) -> Amount:
        known = [*rows]
        included = sum(row.micros for row in known if row.price is Price.INCLUDED)
        prices = frozenset(row.price for row in known)
        return cls(sum(row.micros for row in known), included, prices)

    @property
    def usd(self) -> float | None:
        """The dollars at list prices; None if no price in it is known."""
        is_known = not self.prices or any(each.is_listed for each in self.prices)
        return dollars(self.micros) if is_known else None

    def in_words(self, digits: int = 2) -> str:
        """`$0.42`, `included ($0.42 at list price)`, `free`, or `your own server`."""
        if not self.prices:
            return f"${0:.{digits}f}"
        words = []
        if Price.LISTED in self.prices:
            words.append(f"${dollars(self.micros - self.included):.{digits}f}")
        if Price.INCLUDED in self.prices:
            words.append(f"included (${dollars(self.included):.{digits}f} at list price)")
        if Price.UNKNOWN in self.prices:
            words.append(Price.UNKNOWN.in_words)
        return " and ".join(words) or Price.FREE.in_words

    def as_object(self) -> dict[str, object]:
        prices = sorted(each.value for each in self.prices)
        included = dollars(self.included)
        return {"cost_usd": self.usd, "included_usd": included, "prices": prices}


class CostLine(NamedTuple):
    """One line of a table; `name` is the day, the job or the model."""

    name: str
    amount: Amount
    uses: int
    tokens: int

    @classmethod
    def of(cls, name: str, rows: Sequence[UsageRow]) -> CostLine:
        uses = len({row.turn or (row.occurrence, row.at) for row in rows})
        return cls(name, Amount.of(rows), uses, sum(row.tokens for row in rows))


class CostReport(NamedTuple):
    """What everything since `since` has cost, with today, this month and the daily limit.

    `month_at_pace` is what the whole month costs if it goes on like this; None if nothing has a
    price yet. `costliest` are the occurrences that cost most. `titles` are those of the jobs.
    """

    since: date
    today: Amount
    month: Amount
    cap: float | None
    month_at_pace: int | None
    conversation: Amount
    jobs: Amount
    by_day: Sequence[CostLine]
    by_job: Sequence[CostLine]
    by_model: Sequence[CostLine]
    costliest: Sequence[CostLine]
    titles: Mapping[str, str]

    @property
    def used(self) -> Sequence[tuple[str, Amount]]:
        """The conversation and the jobs, as far as they have used a model."""
        both = ((CONVERSATION, self.conversation), ("jobs", self.jobs))
        return [(name, amount) for name, amount in both if amount.prices]


def month_start(now: datetime) -> datetime:
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def cost_report(
    rows: Sequence[UsageRow],
    since: datetime,
    now: datetime,
    cap: float | None,
    titles: Mapping[str, str] | None = None,
) -> CostReport:
    """`rows` are those since the beginning of the month, or since `since` if that is earlier."""
    zone = now.tzinfo or UTC
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    chosen = [row for row in rows if row.at >= since]
    month = Amount.of(row for row in rows if row.at >= month_start(now))
    began = month_start(now)
    days = ((began.date() + 31 * _DAY).replace(day=1) - began.date()).days
    passed = max(_DAY, now.replace(tzinfo=None) - began.replace(tzinfo=None))
    dear = [row for row in chosen if row.occurrence and row.micros]
    return CostReport(
        since=since.date(),
        today=Amount.of(row for row in rows if row.at >= midnight),
        month=month,
        cap=cap,
        month_at_pace=round(month.micros * (days * _DAY / passed)) if month.micros else None,
        conversation=Amount.of(row for row in chosen if not row.occurrence),
        jobs=Amount.of(row for row in chosen if row.occurrence),
        by_day=sorted(
            _lines(chosen, lambda row: row.at.astimezone(zone).date().isoformat()),
            key=lambda line: line.name,
        ),
        by_job=_lines(
            chosen, lambda row: job_name(row.occurrence) if row.occurrence else CONVERSATION
        ),
        # The engine takes the built-in model for one of Claude's, and calls it so.
        by_model=_lines(chosen, lambda row: BUILT_IN if row.price is Price.FREE else row.model),
        costliest=_lines(dear, lambda row: row.occurrence)[:5],
        titles=titles or {},
    )


def job_name(occurrence: str) -> str:
    """`routine morning`."""
    one = Occurrence.parse(occurrence)
    return f"{one.kind} {one.job_id}"


def _lines(rows: Iterable[UsageRow], key: Callable[[UsageRow], str]) -> list[CostLine]:
    """A line for each key, the dearest first."""
    ordered = sorted(rows, key=key)
    lines = [CostLine.of(name, [*found]) for name, found in groupby(ordered, key)]
    return sorted(lines, key=lambda line: (-line.amount.micros, line.name))


class PastRun(NamedTuple):
    """What one occurrence of a job has cost, in all its attempts."""

    job: str
    micros: int
    models: str
    is_background: bool
    is_included: bool

    @classmethod
    def of(cls, occurrence: str, rows: Sequence[UsageRow]) -> PastRun:
        return cls(
            job_name(occurrence),
            sum(row.micros for row in rows),
            " ".join(row.model for row in rows),
            all(row.kind.is_background for row in rows),
            rows[-1].price is Price.INCLUDED,
        )


class PastCosts:
    """What a run of a job usually costs: the median of its past runs, else of those of others."""

    def __init__(self, rows: Iterable[UsageRow]) -> None:
        by_occurrence: dict[str, list[UsageRow]] = {}
        self._prices: dict[str, Price] = {}
        for row in rows:
            if row.occurrence:
                self._prices[job_name(row.occurrence)] = row.price
            if row.occurrence and row.price.is_listed:
                by_occurrence.setdefault(row.occurrence, []).append(row)
        self._runs = [PastRun.of(name, found) for name, found in by_occurrence.items()]
        self._by_job: dict[str, list[PastRun]] = {}
        for run in self._runs:
            self._by_job.setdefault(run.job, []).append(run)
        self._of_others: dict[tuple[bool, str], int | None] = {}

    @property
    def is_included(self) -> bool:
        """Whether a subscription has paid for the newest run."""
        return bool(self._runs) and self._runs[-1].is_included

    def usual(self, job: Job) -> int | None:
        """Millionths of a dollar; None if no run like it is known, 0 if no model is asked."""
        if job.spec.plain:
            return 0
        like = (job.spec.background, job.spec.model or "")
        own = _median(self._by_job.get(f"{job.kind} {job.spec.id}", ()), like)
        if own is not None:
            return own
        if like not in self._of_others:
            self._of_others[like] = _median(self._runs, like)
        return self._of_others[like]

    def amount(self, job: Job) -> Amount | None:
        """As `usual`, at the price that its newest run had; None if nothing like it is known."""
        price = self._prices.get(f"{job.kind} {job.spec.id}")
        if price is not None and not price.is_listed:
            return Amount(0, 0, frozenset({price}))
        micros = self.usual(job)
        if micros is None:
            return None
        if price is None:
            price = Price.INCLUDED if self.is_included else Price.LISTED
        return Amount(micros, micros if price is Price.INCLUDED else 0, frozenset({price}))


def _median(runs: Iterable[PastRun], like: tuple[bool, str]) -> int | None:
    """The median cost of the runs of a kind, in background or not; an empty model means any."""
    is_background, model = like
    costs = sorted(
        run.micros for run in runs if run.is_background == is_background and model in run.models
    )
    middle = costs[(len(costs) - 1) // 2 : len(costs) // 2 + 1]
    return round(sum(middle) / len(middle)) if middle else None
