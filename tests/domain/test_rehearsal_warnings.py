"""A short warning names a new job that comes at a bad time; other jobs have no warning."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tests.domain.rehearsal_jobs import BERLIN, HOUR, NOW, reminder, routine

from ollim_bot.domain.pings import PingBudget
from ollim_bot.domain.rehearsal.findings import warnings
from ollim_bot.domain.rehearsal.fires import Assumptions
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.domain.schedule import ScheduledJob


def warned(job: ScheduledJob, *others: ScheduledJob) -> Sequence[str]:
    return warnings(job, others, Assumptions(NOW, BERLIN, PingBudget.full(NOW), RuntimeConfig()))


def test_a_new_job_that_comes_when_others_do_is_warned_of() -> None:
    others = [routine(name, "0 9 * * *", allow_ping=False) for name in "abc"]
    new = reminder("new", datetime(2026, 11, 16, 9, tzinfo=BERLIN))
    assert warned(new, *others) == ["That is when 3 others run."]
    assert warned(new, *others[:1]) == []
    assert warned(reminder("new", NOW + HOUR), *others) == []
    paused = [routine(name, "0 9 * * *", enabled=False) for name in "xyz"]
    assert warned(new, *paused) == []
    assert not warned(new, *others * 400)


def test_a_new_job_that_empties_the_budget_is_warned_of() -> None:
    others = [routine(f"o{hour}", f"0 {hour} * * 2") for hour in (8, 9, 10, 11, 12)]
    tuesday = routine("new", "30-58/7 12 * * 2")
    assert warned(tuesday, *others) == ["The ping budget would run dry on Tue."]
    assert warned(routine("quiet", "30-58/7 12 * * 2", allow_ping=False), *others) == []
    assert warned(routine("new", "*/5 * * * *")) == [
        "The ping budget would run dry on 8 days, first today."
    ]


def test_a_new_job_that_leaves_too_little_to_another_is_warned_of() -> None:
    just_enough = routine("other", "0-40/10 12 * * 2")
    assert warned(just_enough) == []
    assert warned(routine("new", "50 11 * * 2"), just_enough) == [
        "The ping budget would run dry on Tue."
    ]
