"""Runs: what a job may do, and when one may not end yet."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.values.strategies import reminders, routines, webhooks

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.values.hook_jobs import WebhookSpec
from ollim_bot.kernel.values.jobs import Job, ReportMode
from ollim_bot.kernel.values.run_words import outcome
from ollim_bot.kernel.values.runs import Run, RunKind, RunPolicy

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def run_of(mode: ReportMode, *, has_pinged: bool = False, has_reported: bool = False) -> Run:
    run = Run(RunPolicy(RunKind.BACKGROUND, (), mode), NOON)
    run.pings.extend([MessageId("1")] * has_pinged)
    run.reports.extend(["Done."] * has_reported)
    return run


@pytest.mark.parametrize(
    ("mode", "silent", "after_a_ping"),
    [
        (ReportMode.ALWAYS, True, True),
        (ReportMode.ON_PING, False, True),
        (ReportMode.FREELY, False, False),
        (ReportMode.BLOCKED, False, False),
    ],
)
def test_what_a_run_owes_is_decided_by_its_mode(
    mode: ReportMode, silent: bool, after_a_ping: bool
) -> None:
    assert run_of(mode).owes_report is silent
    assert run_of(mode, has_pinged=True).owes_report is after_a_ping


@pytest.mark.parametrize("mode", ReportMode)
@pytest.mark.parametrize("has_pinged", [True, False])
def test_a_run_that_has_reported_owes_nothing(mode: ReportMode, has_pinged: bool) -> None:
    assert not run_of(mode, has_pinged=has_pinged, has_reported=True).owes_report


@pytest.mark.parametrize("kind", [RunKind.MAIN, RunKind.FORK])
def test_a_conversation_owes_nothing_whatever_it_sends(kind: RunKind) -> None:
    assert not Run(RunPolicy(kind, ()), NOON, pings=[MessageId("1")]).owes_report


@given(reminders | routines | webhooks, st.lists(st.text()).map(tuple))
def test_the_policy_of_a_run_is_what_its_job_says(job: Job, tools: tuple[str, ...]) -> None:
    policy = RunPolicy.of_job(job, tools)
    spec = job.spec
    assert policy.kind is (RunKind.ISOLATED if spec.isolated else RunKind.BACKGROUND)
    assert policy.kind.is_background
    assert (policy.tools, policy.report, policy.allow_ping) == (
        tools,
        spec.update_main_session,
        spec.allow_ping,
    )
    assert policy.must is (not isinstance(job, WebhookSpec) and job.must)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"reason": "policy"}, "you wanted it skipped"),
        ({"reason": "policy", "why": "you had answered it"}, "you had answered it"),
        ({"plain": True}, "sent as written"),
    ],
)
def test_what_came_of_it_is_said_in_words(facts: dict[str, object], words: str) -> None:
    assert outcome(facts) == words
