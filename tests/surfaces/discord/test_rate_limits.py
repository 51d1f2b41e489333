"""How long an optional edit waits, so that no urgent call has to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollim_bot.surfaces.discord.errors import NEVER, UNKNOWN_PAUSE, EditAllowance


@dataclass
class Time:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def headers(limit: int, remaining: int, reset_after: float) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(limit),
        "X-RateLimit-Remaining": str(remaining),
        "X-RateLimit-Reset-After": f"{reset_after:.3f}",
    }


def told(
    allowance: EditAllowance, limit: int, remaining: int, after: float, by: str = "PATCH"
) -> None:
    allowance.began()
    allowance.answered(by, 200, headers(limit, remaining, after))


def test_before_anything_is_known_it_is_a_little_more_than_a_second() -> None:
    time = Time()
    allowance = EditAllowance(time)
    assert allowance.pause() == pytest.approx(UNKNOWN_PAUSE)

    time.now += UNKNOWN_PAUSE
    assert allowance.pause() == 0

    allowance.began()
    allowance.answered("PATCH", 200, {})
    assert allowance.pause() == pytest.approx(UNKNOWN_PAUSE)


def test_the_tighter_of_sending_and_editing_counts() -> None:
    allowance = EditAllowance(Time())
    told(allowance, 5, 1, 4.0, by="POST")
    told(allowance, 5, 4, 5.0, by="PATCH")
    assert allowance.pause() == pytest.approx(4)


def test_where_one_call_is_all_there_is_no_edit_takes_it() -> None:
    time = Time()
    allowance = EditAllowance(time)
    told(allowance, 1, 0, 10.0, by="POST")
    time.now += 10
    assert allowance.pause() == NEVER


def test_what_is_on_its_way_counts_as_used() -> None:
    allowance = EditAllowance(Time())
    told(allowance, 5, 2, 4.0)
    assert allowance.pause() == pytest.approx(2)

    allowance.began()
    assert allowance.pause() == pytest.approx(4)

    allowance.failed(ConnectionResetError())
    assert allowance.pause() == pytest.approx(2)


def test_what_makes_no_sense_is_not_believed() -> None:
    allowance = EditAllowance(Time())
    allowance.began()
    allowance.answered("PATCH", 200, {**headers(5, 4, 5.0), "X-RateLimit-Reset-After": "soon"})
    assert allowance.pause() == pytest.approx(UNKNOWN_PAUSE)


@dataclass
class FakeRateLimit:
    """Counts calls as Discord does: in windows that begin with their first call, or, with
    `is_steady`, as a bucket that fills up steadily."""

    time: Time
    limit: int
    per: float
    is_steady: bool
    left: float = math.nan
    since: float = -math.inf
    refused: int = 0
    served: list[float] = field(default_factory=list)

    def take(self) -> dict[str, str]:
        now = self.time.now
        if self.is_steady:
            gained = (now - self.since) * self.limit / self.per
            self.left = min(self.limit, self.left + gained) if self.served else self.limit
            self.since = now
        elif now >= self.since + self.per:
            self.since, self.left = now, self.limit
        if self.left < 1:
            self.refused += 1
            return {}
        self.left -= 1
        self.served.append(now)
        return headers(self.limit, int(self.left), self._reset_after(now))

    def _reset_after(self, now: float) -> float:
        """Rounded up, as Discord does, so that no client comes too early."""
        if self.is_steady:
            seconds = (self.limit - self.left) * self.per / self.limit
        else:
            seconds = self.since + self.per - now
        return math.ceil(seconds * 1000) / 1000


@dataclass
class Traffic:
    """Optional edits as soon as they are allowed, and urgent calls that cannot wait. Discord may
    count the two kinds together or apart."""

    time: Time
    edit_count: FakeRateLimit
    send_count: FakeRateLimit
    allowance: EditAllowance
    edits: int = 0

    @property
    def refused(self) -> int:
        return self.edit_count.refused + self.send_count.refused

    def call(self, method: str) -> None:
        self.allowance.began()
        count = self.send_count if method == "POST" else self.edit_count
        self.allowance.answered(method, 200, count.take())

    def run_until(self, moment: float) -> None:
        while (pause := self.allowance.pause()) < moment - self.time.now:
            if pause > 0:
                self.time.now += pause
            else:
                self.call("PATCH")
                self.edits += 1
        self.time.now = moment


LIMITS = st.tuples(st.integers(1, 50), st.floats(1, 10))
URGENT_GAPS = st.lists(st.floats(1.01, 4), min_size=1, max_size=6)


@given(limits=LIMITS, gaps=URGENT_GAPS, is_steady=st.booleans(), is_apart=st.booleans())
def test_no_call_is_refused_and_no_urgent_one_has_to_wait(
    limits: tuple[int, float], gaps: list[float], is_steady: bool, is_apart: bool
) -> None:
    """The urgent calls alone stay within the limit: there is one in each window."""
    limit, per = limits
    time = Time()
    edit_count = FakeRateLimit(time, limit, per, is_steady)
    send_count = FakeRateLimit(time, limit, per, is_steady) if is_apart else edit_count
    traffic = Traffic(time, edit_count, send_count, EditAllowance(time))
    traffic.call("POST")
    for gap in gaps:
        traffic.run_until(time.now + gap * per)
        traffic.call("POST")
        assert traffic.refused == 0


@given(limits=st.tuples(st.integers(3, 50), st.floats(1, 10)))
def test_most_of_what_is_allowed_is_used(limits: tuple[int, float]) -> None:
    limit, per = limits
    time = Time()
    server = FakeRateLimit(time, limit, per, is_steady=False)
    traffic = Traffic(time, server, server, EditAllowance(time))
    traffic.call("POST")
    traffic.run_until(time.now + 10 * per)
    assert traffic.edits >= 10 * (limit - 1) * 0.8 - limit


@pytest.mark.parametrize(
    ("happens", "uncertain_calls"),
    [
        (lambda each: each.answered("POST", 200, {}), 0),
        (lambda each: each.answered("POST", 400, {}), 0),
        (lambda each: each.answered("POST", 502, {}), 1),
        (lambda each: each.failed(ConnectionResetError()), 1),
    ],
)
def test_a_call_whose_outcome_is_not_known_is_counted(
    happens: Callable[[EditAllowance], None], uncertain_calls: int
) -> None:
    allowance = EditAllowance(Time())
    allowance.began()
    happens(allowance)
    assert allowance.uncertain_calls == uncertain_calls
