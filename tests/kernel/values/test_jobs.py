"""Jobs: what a file leaves unsaid, when each is due, and what it is called."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.values.strategies import (
    chains,
    instants,
    job_specs,
    reminders,
    routines,
    wall_times,
    zones,
)

from ollim_bot.kernel.values.cron import Cron
from ollim_bot.kernel.values.job_fields import COMMON, FIELDS
from ollim_bot.kernel.values.jobs import Chain, JobSpec, Late, Model, Reminder, ReportMode, Routine

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")
SPEC = JobSpec(id="a1b2c3d4", message="Call mum")
NINE = datetime(2026, 11, 16, 9)


def test_what_a_file_leaves_unsaid_is_this() -> None:
    assert JobSpec(
        id="a",
        message="m",
        description="",
        background=False,
        model=None,
        thinking=True,
        isolated=False,
        update_main_session=ReportMode.ON_PING,
        allow_ping=True,
        allowed_tools=(),
        skills=(),
        timezone=None,
        late=None,
        enabled=True,
        must=None,
    ) == JobSpec(id="a", message="m")
    assert Reminder(SPEC, NINE).chain == Chain(max=0, depth=0, parent=None)


def test_the_words_of_a_file_are_these() -> None:
    assert [*Model] == ["opus", "sonnet", "haiku"]
    assert [*ReportMode] == ["always", "on_ping", "freely", "blocked"]
    assert [*Late] == ["run", "skip", "tell"]


@pytest.mark.parametrize(
    ("must", "max_chain", "allow_ping", "expected"),
    [
        (None, 0, True, True),
        (None, 3, True, False),
        (None, 0, False, False),
        (None, 3, False, False),
        (False, 0, True, False),
        (True, 3, True, True),
    ],
)
def test_a_reminder_must_come_unless_a_chain_or_its_file_says_otherwise(
    must: bool | None, max_chain: int, allow_ping: bool, expected: bool
) -> None:
    spec = replace(SPEC, background=True, must=must, allow_ping=allow_ping)
    assert Reminder(spec, NINE, Chain(max=max_chain)).must is expected


@given(reminders)
def test_no_reminder_must_come_that_may_not_ping(reminder: Reminder) -> None:
    assert reminder.spec.allow_ping or not reminder.must


@pytest.mark.parametrize(("must", "expected"), [(None, False), (False, False), (True, True)])
def test_a_routine_must_come_only_when_its_file_says_so(must: bool | None, expected: bool) -> None:
    assert Routine(replace(SPEC, must=must), Cron.parse("0 9 * * *")).must is expected


@given(job_specs(), instants, zones)
def test_a_moment_with_an_offset_is_that_moment_in_every_zone(
    spec: JobSpec, moment: datetime, default: ZoneInfo
) -> None:
    due = Reminder(spec, moment).due(default)
    assert due.astimezone(UTC) == moment
    assert due.tzinfo == (spec.timezone or default)


@given(wall_times, zones, zones)
def test_a_job_keeps_the_time_of_its_own_zone(
    wall: datetime, own: ZoneInfo, default: ZoneInfo
) -> None:
    there = Reminder(replace(SPEC, timezone=own), wall)
    assert there.due(default) == Reminder(SPEC, wall).due(own)
    daily = Routine(replace(SPEC, timezone=own), Cron.parse("0 9 * * *"))
    following = daily.next_after(datetime(2026, 1, 1, tzinfo=UTC), default)
    assert following is not None
    assert following.astimezone(own).hour == 9


@given(routines, st.datetimes(datetime(1975, 1, 1), datetime(2090, 1, 1)), zones)
def test_a_routine_is_next_due_later_in_its_own_zone(
    routine: Routine, moment: datetime, default: ZoneInfo
) -> None:
    after = moment.replace(tzinfo=UTC)
    due = routine.next_after(after, default)
    assert due is not None
    assert due.astimezone(UTC) > after
    assert due.tzinfo == (routine.spec.timezone or default)


@given(job_specs())
def test_a_title_is_one_line(spec: JobSpec) -> None:
    assert spec.title.split("\n") == [spec.title]
    assert spec.title


@pytest.mark.parametrize(
    ("description", "message", "title"),
    [
        ("Morning", "Plan the day.", "Morning"),
        ("", "Plan\n  the day.\n\nThen go.", "Plan the day. Then go."),
    ],
)
def test_a_job_is_called_by_its_description_else_by_its_message(
    description: str, message: str, title: str
) -> None:
    assert replace(SPEC, description=description, message=message).title == title


@pytest.mark.parametrize(
    ("title", "short"),
    [
        ("Call the dentist.", "Call the dentist"),
        ("Done?", "Done?"),
        ("Tea:\n black", "Tea: black"),
        ("...", "..."),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        ("x" * 58 + " yz", "x" * 58 + "…"),
    ],
)
def test_a_title_can_be_made_short_enough_for_a_part_of_a_line(title: str, short: str) -> None:
    assert replace(SPEC, description=title).short_title == short


@given(chains)
def test_a_chain_of_n_follow_ups_makes_n_and_one_checks(chain: Chain) -> None:
    checks = 1
    step = Chain(chain.max)
    while step.may_follow_up:
        step = step._replace(depth=step.depth + 1)
        checks += 1
    assert checks == chain.max + 1
    assert chain.may_follow_up is (chain.depth < chain.max)


def test_each_field_of_a_job_is_declared_once_and_stands_in_a_file_in_the_order_of_the_job() -> (
    None
):
    # The text below the fields says these two.
    of_the_body = ("message", "is_template")
    attributes = [name for name in JobSpec.__dataclass_fields__ if name not in of_the_body]
    assert [each.attribute for each in COMMON] == attributes
    assert len({each.name for each in FIELDS}) == len(FIELDS)


def test_no_two_fields_have_a_flag_in_common() -> None:
    names = [name for each in FIELDS if each.flag for name in each.flag.names.split()]
    assert len(set(names)) == len(names)
