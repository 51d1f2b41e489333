"""The coming week has every moment of every job, the pings that are left, and what it may cost."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, timedelta

from tests.features.week.rehearsal_jobs import BERLIN, NOW, routine
from tests.surfaces.web.weeks import full_week

from ollim_bot.features.week.rehearsal_findings import findings
from ollim_bot.features.week.week import forecast, week_of
from ollim_bot.kernel.values.costs import PastCosts
from ollim_bot.kernel.values.pings import PingBudget
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.simulation import Assumptions, rehearse
from ollim_bot.kernel.values.usage import Price, UsageKind, UsageRow


def test_each_moment_of_each_rhythm_stands_once_in_its_hour() -> None:
    week = full_week(NOW)
    shown = [(hour.at, fire) for day in week.days for hour in day.hours for fire in hour.fires]
    assert sorted(map(id, week.rehearsal.fires)) == sorted(id(fire) for _, fire in shown)
    assert all(at <= fire.at < at + timedelta(hours=1) for at, fire in shown)
    counts = Counter(fire.job.spec.id.rstrip("0123456789") for _, fire in shown)
    assert counts == {
        "pills": 14,
        "mail": 42,
        "plan": 7,
        "news": 7,
        # Every two weeks; three days after it is done; three times; until a day.
        "bins": 1,
        "ferns": 3,
        "course": 3,
        "lamp": 3,
        "check": 25,
        "dentist": 1,
        "hostile": 1,
    }
    # An hour that is too full is folded; a job that comes often in an hour has one line.
    folded = [hour for day in week.days for hour in day.hours if hour.is_folded]
    assert [(len(hour.fires), len([*hour.lines()])) for hour in folded] == [(25, 25)]
    often = next(hour for hour in week.days[1].hours if hour.at.hour == 15)
    assert [line.title for line in often.lines()] == ["Look at the mail"]


def test_the_pings_fall_with_each_payment_and_refill_by_the_hour() -> None:
    jobs = [routine("mail", "0,10,20 15 * * *")]
    budget = PingBudget.full(NOW).resized(NOW, capacity=2, refill_rate_minutes=60)
    given = Assumptions(NOW, BERLIN, budget, RuntimeConfig())
    rehearsal = rehearse(jobs, given, 1)
    week = week_of(rehearsal, findings(rehearsal), None, [], None, PastCosts(()))
    hours = [(each.at.hour, round(each.left, 2), each.paid, each.refused) for each in week.budget]
    # 15:02 and 15:12 are paid, at 15:22 a fifth of a ping is there.
    assert hours[:4] == [(14, 2.0, 0, 0), (15, 2.0, 2, 1), (16, 0.97, 0, 0), (17, 1.97, 0, 0)]
    assert round(week.budget[1].lowest, 2) == 0.17
    assert {each.left for each in week.budget[4:]} == {2.0}
    assert week.budget_sentence == (
        "The ping budget would run dry today 15:20: 1 ping would be refused."
    )


def test_the_money_is_the_median_of_past_runs_at_the_price_of_the_newest() -> None:
    def run(job: str, day: int, micros: int, price: Price = Price.LISTED) -> UsageRow:
        at = NOW - timedelta(days=day)
        name = f"routine:{job}:{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        return UsageRow(at, UsageKind.RUN, "m", price, micros, occurrence=name)

    past = [
        *(run("a", day, micros) for day, micros in ((3, 90_000), (2, 10_000), (1, 20_000))),
        run("b", 2, 10_000),
        # Two attempts of one run.
        *(run("b", 1, micros, Price.INCLUDED) for micros in (10_000, 30_000)),
        run("free", 1, 0, Price.FREE),
    ]
    given = Assumptions(NOW, BERLIN, PingBudget.full(NOW), RuntimeConfig())
    jobs = [
        routine("a", "0 16 * * *"),
        routine("b", "0 17 * * *"),
        routine("free", "0 18 * * *"),
        routine("plain", "0 19 * * *", background=False, plain=True),
        # No turn of the conversation has run yet.
        routine("talk", "0 20 * * *", background=False),
    ]
    found = forecast(rehearse(jobs, given, 2), PastCosts(past))
    assert (found.amount.micros, found.amount.included) == (90_000, 50_000)
    assert (found.runs, found.unknown_jobs) == (6, 1)
    assert [amount.micros for amount in found.by_day.values()] == [45_000, 45_000]
    assert found.sentence == (
        "About $0.04 and included ($0.05 at list price) for 6 runs, by the median of past runs. "
        "What 1 job costs is not known yet."
    )
