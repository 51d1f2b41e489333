"""Reminders that the agent sets by itself: their owner, their limits, and their cost in pings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.moments import Nag
from ollim_bot.kernel.store.codecs.plain import plain_codec
from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.due_items import note_of, reminder_from
from ollim_bot.kernel.values.initiative import (
    MOST_CHECKS,
    MOST_PER_DAY,
    MOST_PER_DAY_IN_ALL,
    MOST_PER_RUN,
    SHORTEST_PAUSE,
    SHORTEST_PAUSE_OF_OWNER,
    SetByAgent,
    Setter,
    marked,
    may_be_held_back,
    may_follow_up,
    objections,
    objections_after_reading,
    origin_of,
    set_by,
    setter_of,
    shortest_pause,
)
from ollim_bot.kernel.values.jobs import Chain, ItemKind, JobSpec, Late, Reminder, Routine
from ollim_bot.kernel.values.occurrences import SkipReason
from ollim_bot.kernel.values.pings import Charge, PingAllowed, PingBudget, charged
from ollim_bot.kernel.values.runs import Run, RunKind, RunPolicy
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.schedule import late_rule
from ollim_bot.kernel.values.simulation import Assumptions, Ping, rehearse
from ollim_bot.kernel.values.taint import Taint
from ollim_bot.kernel.values.upcoming import build_upcoming_schedule

NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
TODAY = NOW.date()
LOUD = Setter("routine:plan:2026-11-16T08:00:00Z", "routine:plan", allow_ping=True)
SILENT = replace(LOUD, allow_ping=False)
NO_CHAIN = Chain()


def reminder(chain: Chain = NO_CHAIN, **fields: Any) -> Reminder:
    spec = JobSpec(**{"id": "r1", "message": "Call.", "background": True, **fields})
    return Reminder(spec, NOW, chain)


def routine(cron: str = "0 9 * * *", **fields: Any) -> Routine:
    spec = JobSpec(**{"id": "r1", "message": "Call.", "background": True, **fields})
    return Routine(spec, Cron.parse(cron))


def test_it_carries_the_mark_and_is_never_an_order() -> None:
    assert reminder().must
    made = set_by(reminder(), LOUD)
    assert (made.spec.set_by, made.must, made.spec.allow_ping) == ("routine:plan", False, True)
    assert not replace(made, spec=replace(made.spec, must=True)).must
    assert not routine(must=True, set_by="routine:plan").must
    assert not set_by(reminder(), SILENT).spec.allow_ping
    assert not set_by(reminder(allow_ping=False), LOUD).spec.allow_ping


def test_a_snooze_keeps_the_mark() -> None:
    again = reminder_from(note_of(set_by(reminder(), LOUD)), "r2", NOW)
    assert again.spec.set_by == "routine:plan"


def test_only_background_runs_set_by_themselves() -> None:
    for kind in RunKind:
        run = Run(RunPolicy(kind, (), allow_ping=False), NOW, job=routine(), occurrence="o")
        expected = Setter("o", "routine:r1", allow_ping=False) if kind.is_background else None
        assert setter_of(run) == expected


OWN: dict[str, Any] = {"set_by": "routine:plan"}


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        (None, reminder(must=True, **OWN), "must"),
        (None, routine(background=False, **OWN), "background"),
        (None, reminder(), "set-by"),
        (None, reminder(set_by="routine:other"), "set-by"),
        (reminder(**OWN), reminder(must=False), "set-by"),
        (reminder(), reminder(message="Buy."), "the owner asked"),
        (reminder(), reminder(must=False), "the owner asked"),
        (routine(background=False), routine(background=False, message="x"), "the owner"),
        (routine(), routine(background=False), "the owner asked"),
        (routine(), routine(must=True), "the owner asked"),
        (routine(), routine(plain=True), "the owner asked"),
        (routine(plain=True), routine(plain=True, message="x"), "the owner asked"),
        (routine(enabled=False), routine(), "enabled"),
        (routine(allow_ping=False), routine(allow_ping=True), "allow-ping"),
        (None, reminder(Chain(1000), **OWN), "max-chain"),
        (None, reminder(Chain(10), **OWN), "max-chain"),
        (reminder(Chain(3)), reminder(Chain(10)), "max-chain"),
        (None, reminder(Chain(9, 1), **OWN), "chain-depth"),
        (reminder(Chain(9, 8, "r0"), **OWN), reminder(Chain(9, 0, "r0"), **OWN), "chain-depth"),
        (
            reminder(Chain(9, 1), **OWN),
            replace(reminder(Chain(9, 1), **OWN), run_at=NOW - timedelta(minutes=4)),
            "run-at",
        ),
        (None, routine("* * * * *", **OWN), "cron"),
        (routine(), routine("*/4 9-17 * * *"), "cron"),
    ],
)
def test_what_would_be_louder_is_refused(before: Any, after: Any, field: str) -> None:
    (reason,) = objections(before, after, LOUD)
    assert reason.startswith((field, "what the owner asked for"))
    assert field.partition(" ")[0] in reason


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, reminder(**OWN)),
        (None, routine(**OWN)),
        (reminder(**OWN), reminder(message="Call Ann.", **OWN)),
        (routine(), routine(message="Look at all mail.")),
        (routine(), routine(allow_ping=False)),
        (reminder(Chain(2)), reminder(Chain(3))),
        (reminder(Chain(50)), reminder(Chain(40))),
        (None, reminder(Chain(9), **OWN)),
        (None, routine("*/5 * * * *", **OWN)),
        (None, routine("0 0 29 2 *", **OWN)),
        (routine("* * * * *"), routine("* * * * *", message="Look.")),
    ],
)
def test_what_speaks_within_the_budget_may_be_set_and_changed(before: Any, after: Any) -> None:
    assert [*objections(before, after, LOUD)] == []
    louder = replace(after, spec=replace(after.spec, allow_ping=True))
    assert any("may not ping" in each for each in objections(before, louder, SILENT))


def by(number: int, job: str = "routine:plan") -> Setter:
    return Setter(f"run {number}", job, allow_ping=True)


def test_so_many_in_a_run_and_so_many_a_day() -> None:
    known, refusals = SetByAgent(), []
    for number in range(6 * MOST_PER_RUN):
        known, refusal = known.one_more(by(number // 4), TODAY)
        refusals.append(refusal)
    assert refusals[:4] == ["", "", "", refusals[3]]
    assert "3 jobs at most" in refusals[3]
    assert len(known.entries) == len(known.origins) == MOST_PER_DAY
    assert "10 jobs a day" in refusals[-1]
    assert "`report_updates`" in refusals[-1]


def test_a_noisy_job_leaves_room_for_the_others_and_all_together_have_an_end() -> None:
    known = SetByAgent()
    for number in range(50):
        known, _ = known.one_more(by(number, "webhook:noisy"), TODAY)
    assert len(known.origins) == MOST_PER_DAY
    assert known.one_more(by(50, "routine:honest"), TODAY)[1] == ""
    for number in range(100):
        known, refusal = known.one_more(by(number + 100, f"routine:r{number}"), TODAY)
    assert len(known.origins) == MOST_PER_DAY_IN_ALL
    assert "30 jobs a day" in refusal


def test_what_a_job_sets_and_the_checks_of_a_chain_count_for_the_first() -> None:
    assert origin_of(reminder(**OWN)) == "routine:plan"
    assert origin_of(set_by(reminder(id="r9"), LOUD)) == "routine:plan"
    assert origin_of(reminder(Chain(3, 2, "root"))) == "reminder:root"
    assert origin_of(routine()) == "routine:r1"


def test_midnight_makes_room_for_the_day_but_not_for_the_run() -> None:
    known = SetByAgent()
    for number in range(MOST_PER_DAY):
        known, _ = known.one_more(by(number // 3), TODAY)
    tomorrow = TODAY + timedelta(days=1)
    assert known.one_more(by(0), tomorrow)[1]
    assert known.one_more(by(9), tomorrow)[1] == ""
    assert known.one_more(by(9), TODAY - timedelta(days=1))[1]
    after, _ = known.one_more(by(9), TODAY + timedelta(days=2))
    assert (len(after.entries), len(after.origins)) == (1, 1)


def test_a_turn_after_reading_sets_three_and_the_day_has_no_other_limit() -> None:
    known = SetByAgent()
    said = []
    for number in range(5 * (MOST_PER_RUN + 1)):
        known, refusal = known.one_more_in_turn(f"turn {number // 4}", TODAY)
        said.append(bool(refusal))
    assert said == [False, False, False, True] * 5
    assert known.one_more(by(0), TODAY)[1] == ""


DAYS = st.lists(st.tuples(st.text(), st.dates())).map(tuple)


@given(DAYS, DAYS)
def test_what_was_set_is_remembered_as_it_was(
    entries: tuple[tuple[str, date], ...], origins: tuple[tuple[str, date], ...]
) -> None:
    known = SetByAgent(entries, origins)
    codec = plain_codec(SetByAgent)
    encoded = codec.encode(known)
    assert encoded is None or codec.decode(encoded)[0] == known


def test_what_an_earlier_version_has_counted_still_counts() -> None:
    stored = (
        b'{"entries": [["run 1", "2026-11-16"], ["run 1", "2026-11-16"], ["run 1", "2026-11-16"]]}'
    )
    known, _ = plain_codec(SetByAgent).decode(stored)
    assert "3 jobs at most" in known.one_more(by(1), TODAY)[1]


PAGE = Taint(("web page",))
FROM_PAGE: dict[str, Any] = {"untrusted": "web page"}


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        (None, reminder(must=True, **FROM_PAGE), "must"),
        (None, reminder(nag=Nag.parse("10m x 4"), **FROM_PAGE), "nag"),
        (None, reminder(before=(timedelta(minutes=30),), **FROM_PAGE), "before"),
        (None, reminder(kind=ItemKind.DOSE, **FROM_PAGE), "kind"),
        (None, reminder(background=False, **FROM_PAGE), "background"),
        (None, reminder(Chain(1000), **FROM_PAGE), "max-chain"),
        (None, reminder(), "untrusted"),
        (None, reminder(untrusted="mail"), "untrusted"),
        (None, routine(must=True), "must"),
        (None, routine(nag=Nag.parse("10m x 4")), "nag"),
        (reminder(**FROM_PAGE), reminder(must=True, **FROM_PAGE), "must"),
        (reminder(must=False), reminder(), "must"),
        (reminder(Chain(2)), reminder(), "must"),
        (reminder(), reminder(nag=Nag.parse("10m x 4")), "nag"),
        (reminder(nag=Nag.parse("1h x 2")), reminder(nag=Nag.parse("2m x 8")), "nag"),
    ],
)
def test_what_comes_whatever_happens_is_not_set_after_reading_text_of_others(
    before: Any, after: Any, field: str
) -> None:
    (reason,) = objections_after_reading(before, after, PAGE)
    assert reason.startswith(f"{field}: ")
    assert [*objections_after_reading(before, after, Taint())] == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, reminder(**FROM_PAGE)),
        (None, reminder(Chain(9), plain=False, **FROM_PAGE)),
        (None, reminder(plain=True, untrusted="mail, web page")),
        (None, routine(background=False)),
        (reminder(must=True), reminder(must=True, message="Call Ann.")),
        (reminder(nag=Nag.parse("1h x 2")), reminder(nag=Nag.parse("1h x 2"), message="x")),
        (reminder(), reminder(enabled=False)),
    ],
)
def test_all_else_can_still_be_set_and_changed_after_reading(before: Any, after: Any) -> None:
    assert [*objections_after_reading(before, after, PAGE)] == []


@pytest.mark.parametrize("named", ["web page", "web page news.example", "web page b.example"])
def test_a_mark_may_name_the_kind_without_the_site(named: str) -> None:
    page = Taint(("web page news.example",))
    assert [*objections_after_reading(None, reminder(untrusted=named), page)] == []
    assert [*objections_after_reading(None, reminder(untrusted="mail"), page)]


def test_a_reminder_of_a_tainted_turn_may_be_held_back_until_the_owner_orders_it() -> None:
    made = marked(reminder(), PAGE)
    assert (made.must, may_be_held_back(made)) == (False, True)
    ordered = replace(made, spec=replace(made.spec, must=True))
    assert (ordered.must, may_be_held_back(ordered)) == (True, False)
    assert not may_be_held_back(reminder())
    assert not may_be_held_back(set_by(made, LOUD))


@pytest.mark.parametrize("own", [OWN, FROM_PAGE])
def test_a_chain_that_the_owner_did_not_begin_has_ten_checks_and_long_pauses(
    own: dict[str, Any],
) -> None:
    depths = [depth for depth in range(1000) if may_follow_up(reminder(Chain(1000, depth), **own))]
    assert len(depths) == MOST_CHECKS - 1
    assert may_follow_up(reminder(Chain(1000, 999)))
    assert not may_follow_up(reminder(Chain(1000, 1000)))
    assert shortest_pause(reminder(Chain(3), **own), Taint()) == SHORTEST_PAUSE
    assert shortest_pause(reminder(Chain(3)), PAGE) == SHORTEST_PAUSE
    assert shortest_pause(reminder(Chain(3)), Taint()) == SHORTEST_PAUSE_OF_OWNER


def test_what_is_set_aside_is_used_once_or_given_back() -> None:
    full = PingBudget.full(NOW)
    held, is_paid = full.set_aside("o", NOW)
    assert (is_paid, held.tokens, held.daily_used) == (True, 4, 1)
    assert held.set_aside("o", NOW) == (held, True)
    assert held.released("o", NOW) == full
    assert held.released("other", NOW) == held
    used, is_paid = held.spent_by("o", NOW)
    assert (is_paid, used.tokens, used.held) == (True, 4, ())
    assert used.released("o", NOW) == used
    assert used.spent_by("o", NOW)[0].tokens == 3


@dataclass
class SimulatedDay:
    """One day of background runs that set reminders, run them and ping, in any order."""

    now: datetime = NOW
    known: SetByAgent = field(default_factory=SetByAgent)
    budget: PingBudget = field(default_factory=lambda: PingBudget.full(NOW))
    waiting: list[Run] = field(default_factory=list)
    going: list[Run] = field(default_factory=list)
    fired: int = 0
    asked: int = 0
    messages: int = 0
    critical: int = 0

    def begin_routine(self) -> None:
        self.fired += 1
        self.going.append(_run(f"routine {self.fired}", routine()))

    def set(self, which: int, *, must: bool) -> None:
        if not self.going:
            return
        run = self.going[which % len(self.going)]
        setter = setter_of(run)
        assert setter is not None
        made = set_by(reminder(must=must or None), setter)
        if [*objections(None, made, setter)]:
            return
        self.known, refusal = self.known.one_more(setter, self.now.date())
        if not refusal:
            self.asked += 1
            self.waiting.append(_run(f"reminder {self.asked}", made))

    def fire(self) -> None:
        if self.waiting:
            run = self.waiting.pop()
            self.budget, is_paid = self.budget.set_aside(run.occurrence, self.now)
            if is_paid:
                self.going.append(run)

    def ping(self, which: int, *, critical: bool) -> None:
        if not self.going:
            return
        run = self.going[which % len(self.going)]
        self.budget, verdict = charged(
            self.budget, run, self.now, wants_critical=critical, is_busy=False, daily_cap=5
        )
        if isinstance(verdict, PingAllowed):
            run.pings.append(MessageId("m"))
            run.critical_used |= verdict.charge is Charge.CRITICAL
            self.messages += verdict.charge is not Charge.CRITICAL
            self.critical += verdict.charge is Charge.CRITICAL

    def end(self, which: int) -> None:
        if self.going:
            run = self.going.pop(which % len(self.going))
            self.budget = self.budget.released(run.occurrence, self.now)


def _run(occurrence: str, job: Reminder | Routine) -> Run:
    return Run(RunPolicy.of_job(job, ()), NOW, job=job, occurrence=occurrence)


STEPS = st.one_of(
    st.just(("begin_routine", {})),
    st.tuples(
        st.just("set"), st.fixed_dictionaries({"which": st.integers(0, 9), "must": st.booleans()})
    ),
    st.just(("fire", {})),
    st.tuples(
        st.just("ping"),
        st.fixed_dictionaries({"which": st.integers(0, 9), "critical": st.booleans()}),
    ),
    st.tuples(st.just("end"), st.fixed_dictionaries({"which": st.integers(0, 9)})),
    st.tuples(st.just("wait"), st.fixed_dictionaries({"minutes": st.integers(0, 100)})),
)


@given(st.lists(STEPS, max_size=120))
def test_no_more_reaches_the_owner_in_a_day_than_the_budget_has_paid_for(steps: list[Any]) -> None:
    at = SimulatedDay()
    for name, given_ in steps:
        if name == "wait":
            later = at.now + timedelta(**given_)
            at.now = later if later.date() == TODAY else at.now
        else:
            getattr(at, name)(**given_)
        refills = (at.now - NOW) / timedelta(minutes=at.budget.refill_rate_minutes)
        assert at.messages + len(at.budget.held) <= at.budget.daily_used
        assert at.messages + at.budget.tokens <= at.budget.capacity + refills
        assert at.critical <= 5
        assert at.asked <= MOST_PER_DAY


def test_what_was_missed_of_it_is_not_told() -> None:
    own = reminder(late=Late.TELL, **OWN)
    late = NOW + timedelta(hours=3)
    assert late_rule(reminder(late=Late.TELL, must=False), NOW, late, UTC) is Late.TELL
    assert late_rule(own, NOW, late, UTC) is Late.SKIP
    assert late_rule(routine(**OWN), NOW, late, UTC) is Late.SKIP
    assert late_rule(reminder(**OWN), NOW, late, UTC) is Late.RUN


def test_a_rehearsal_knows_that_the_budget_may_refuse_it() -> None:
    jobs = [replace(reminder(id=f"r{n}", **OWN), run_at=NOW + timedelta(hours=1)) for n in range(3)]
    one_left = replace(PingBudget.full(NOW), capacity=1, available=1.0, refill_rate_minutes=900)
    given_ = Assumptions(NOW, UTC, one_left, RuntimeConfig())
    fires = rehearse(jobs, given_, 1).fires
    assert [fire.reason for fire in fires] == [None, SkipReason.BUDGET, SkipReason.BUDGET]
    assert [fire.ping for fire in fires] == [Ping.SENT, Ping.REFUSED, Ping.REFUSED]


def test_the_forward_schedule_says_that_it_needs_a_ping() -> None:
    soon = replace(reminder(**OWN), run_at=NOW + timedelta(hours=1))
    (entry,) = build_upcoming_schedule([soon], NOW, None, UTC, {}).entries
    assert entry.label == "Reminder if the budget has a ping then"
