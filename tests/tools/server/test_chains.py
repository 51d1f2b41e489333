"""`follow_up_chain`: the next check of a chain, as long as there may be one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.domain.strategies import reminders
from tests.tools.server.tool_scene import (
    BERLIN,
    EVERYWHERE,
    NOW,
    NOWHERE,
    MakeToolScene,
    make_tool_scene,
)

from ollim_bot.domain.cron import Cron
from ollim_bot.domain.initiative import MOST_CHECKS
from ollim_bot.domain.jobs import Chain, JobSpec, Reminder, Routine
from ollim_bot.domain.moments import later
from ollim_bot.domain.runs import RunKind, taint_of_job
from ollim_bot.domain.taint import Taint
from ollim_bot.errors import WrongInput

CHECK = Reminder(JobSpec(id="root", message="Has Ann answered?", background=True), NOW, Chain(2))


@pytest.mark.parametrize("kind", EVERYWHERE)
async def test_the_next_check_is_set_in_whatever_run_a_check_happens(
    tool_scene: MakeToolScene, kind: RunKind
) -> None:
    at = tool_scene(kind, job=CHECK)
    answer = await at.works("follow_up_chain", minutes_from_now=30)
    (one,) = at.stores.reminders.all()
    assert answer == f"Next check set: today 9:30 (in 30 min). File: {one.path}"
    assert one.item.chain == Chain(2, 1, "root")
    assert one.item.run_at == later(at.clock.now(), timedelta(minutes=30))
    assert at.run.follow_up == one.item.spec.id


@settings(max_examples=12)
@given(reminders, st.integers(1, 20))
async def test_a_follow_up_inherits_everything_but_its_name_its_moment_and_its_depth(
    job: Reminder, left: int
) -> None:
    is_bounded = job.spec.set_by is not None or job.spec.untrusted is not None
    depth = min(job.chain.depth, MOST_CHECKS - 2) if is_bounded else job.chain.depth
    chain = Chain(depth + left, depth, job.chain.parent)
    job = replace(job, chain=chain)
    at = make_tool_scene(NOWHERE, job=job)
    await at.works("follow_up_chain", minutes_from_now=30)
    (one,) = at.stores.reminders.all()
    assert replace(one.item.spec, id=job.spec.id) == job.spec
    assert one.item.chain == Chain(chain.max, chain.depth + 1, chain.parent or job.spec.id)
    assert one.item.due(BERLIN) == later(at.clock.now(), timedelta(minutes=30))


async def test_a_second_call_takes_the_place_of_the_first(tool_scene: MakeToolScene) -> None:
    at = tool_scene(job=CHECK)
    await at.works("follow_up_chain", minutes_from_now=30)
    await at.works("follow_up_chain", minutes_from_now=60)
    (one,) = at.stores.reminders.all()
    assert one.item.run_at == later(at.clock.now(), timedelta(hours=1))
    assert one.item.chain.depth == 1
    assert at.run.follow_up == one.item.spec.id


async def test_a_second_call_that_is_wrong_leaves_the_first(tool_scene: MakeToolScene) -> None:
    at = tool_scene(job=CHECK)
    await at.works("follow_up_chain", minutes_from_now=30)
    with pytest.raises(WrongInput, match="more than 0"):
        await at.call("follow_up_chain", minutes_from_now=0)
    (one,) = at.stores.reminders.all()
    assert one.item.run_at == later(at.clock.now(), timedelta(minutes=30))


async def test_a_second_call_does_not_mind_that_the_first_was_cancelled(
    tool_scene: MakeToolScene,
) -> None:
    at = tool_scene(job=CHECK)
    await at.works("follow_up_chain", minutes_from_now=30)
    at.stores.reminders.remove(str(at.run.follow_up))
    await at.works("follow_up_chain", minutes_from_now=60)
    assert len(at.stores.reminders.all()) == 1


async def test_a_chain_has_one_check_more_than_follow_ups_and_ends_with_advice(
    tool_scene: MakeToolScene,
) -> None:
    answers = []
    for depth in range(4):
        job = replace(CHECK, chain=Chain(2, depth))
        answers.append(await tool_scene(job=job).call("follow_up_chain", minutes_from_now=5))
    assert [answer.is_error for answer in answers] == [False, False, True, True]
    assert "last check" in answers[2].text
    assert "ping the owner" in answers[2].text


@pytest.mark.parametrize(
    "job",
    [
        None,
        replace(CHECK, chain=Chain()),
        Routine(JobSpec(id="r", message="Plan the day"), Cron.parse("0 9 * * *")),
    ],
)
async def test_where_there_is_no_chain_a_reminder_is_the_way(
    tool_scene: MakeToolScene, job: Reminder | Routine | None
) -> None:
    at = tool_scene(job=job)
    reason = await at.is_refused("follow_up_chain", minutes_from_now=5)
    assert "Use `add_reminder`" in reason
    assert at.stores.reminders.all() == []


BY_RUN = replace(CHECK, spec=replace(CHECK.spec, set_by="routine:plan"))
BY_PAGE = replace(CHECK, spec=replace(CHECK.spec, untrusted="web page"))


@pytest.mark.parametrize(
    ("job", "read", "asked", "minutes"),
    [
        (BY_RUN, (), 0.0001, 5),
        (BY_PAGE, (), 4.9, 5),
        (CHECK, ("mail",), 1, 5),
        (CHECK, (), 0.001, 1),
        (BY_RUN, (), 5, 5),
        (BY_PAGE, (), 30, 30),
        (CHECK, (), 2, 2),
    ],
)
async def test_a_pause_that_is_too_short_is_raised_and_the_answer_says_so(
    tool_scene: MakeToolScene, job: Reminder, read: tuple[str, ...], asked: float, minutes: int
) -> None:
    at = tool_scene(job=job)
    at.run.taint = Taint(read) if read else taint_of_job(job)
    answer = await at.works("follow_up_chain", minutes_from_now=asked)
    (one,) = at.stores.reminders.all()
    assert one.item.run_at == later(at.clock.now(), timedelta(minutes=minutes))
    is_said = f"The shortest pause here is {minutes} min, so it was raised" in answer
    assert is_said is (asked < minutes)


@pytest.mark.parametrize(("job", "checks"), [(BY_RUN, 10), (BY_PAGE, 10), (CHECK, 31)])
async def test_a_thousand_checks_are_ten_unless_the_owner_asked_for_them(
    tool_scene: MakeToolScene, job: Reminder, checks: int
) -> None:
    """Also where the file says so: an older version may have written it."""
    made, job = 1, replace(job, chain=Chain(1000))
    while made < 31:
        at = tool_scene(job=job)
        answer = await at.call("follow_up_chain", minutes_from_now=0.001)
        if answer.is_error:
            assert "last check" in answer.text
            break
        job, made = at.stores.reminders.get(str(at.run.follow_up)).item, made + 1
    assert made == checks
