"""Jobs on the page: each with its moments, a strip of days in words too, and one button."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta

from tests.web.browser import Browser
from tests.web.days import HOSTILE
from tests.web.markup import ATTRIBUTES, TAGS, Markup
from tests.web.scene import SUNDAY, Scene

from ollim_bot.domain.costs import Amount
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.job_list import DAYS, DayState, JobDay, JobLine, JobList, JobPast, LastRun
from ollim_bot.domain.usage import Price
from ollim_bot.domain.views import ViewAnswer


def hostile_jobs(now: datetime) -> JobList:
    """A routine with a day of each state, and a paused webhook, both with hostile words."""
    states = [*DayState, *[DayState.NOTHING] * (DAYS - len(DayState))]
    days = [
        JobDay(now.date() - timedelta(days=DAYS - 1 - place), each, HOSTILE if place == 3 else "")
        for place, each in enumerate(states)
    ]
    cost = Amount(12_300, 0, frozenset({Price.LISTED}))
    past = JobPast(days, cost, LastRun(now - timedelta(hours=1), HOSTILE))
    moments = [now + timedelta(days=each) for each in (1, 2, 3)]
    plan = JobLine(
        "a b",
        JobKind.ROUTINE,
        HOSTILE,
        "At 14:30 on every day",
        moments,
        asks_model=True,
        is_skipped=True,
        past=past,
    )
    hook = JobLine('x"><b>', JobKind.WEBHOOK, HOSTILE, "", is_enabled=False)
    return JobList(now, (plan, hook), 2, 2, HOSTILE, problems=(HOSTILE,), warnings=(HOSTILE,))


async def test_each_job_stands_with_its_moments_its_days_in_words_and_a_button(
    scene: Scene, browser: Browser
) -> None:
    jobs = scene.reception.fakes.jobs
    jobs.current = replace(hostile_jobs(SUNDAY), found=7)
    html = (await browser.get("/api/panels/jobs?words=tea&kind=routine&most=2")).json["html"]
    assert jobs.asked == [{"words": "tea", "kind": "routine", "most": "2"}]
    shown = Markup(html)
    assert shown.tags <= TAGS
    assert shown.attributes <= ATTRIBUTES
    words = " ".join(filter(None, shown.words))
    assert (
        "Routine · On · at 14:30 on every day · next tomorrow, Mon 16 Nov, 14:30, "
        "then Tue 17 Nov, 14:30, then Wed 18 Nov, 14:30 · the next time is skipped"
    ) in words
    assert "1 on time, 1 waiting, 1 skipped (" in words
    assert "usually $0.0123 a run · last run today 13:30: " in words
    assert "Webhook · Paused" in words
    assert html.index("These files are wrong") < html.index("Not all in these files counts")
    assert "has cost nothing yet · not called lately" in words
    once = replace(hostile_jobs(SUNDAY).lines[0], past=JobPast(), asks_model=False)
    seldom = replace(once, asks_model=True)
    jobs.change(replace(jobs.current, lines=(once, seldom)))
    fresh = (await browser.get("/api/panels/jobs")).json["html"]
    assert "<bdi>free, no model is asked · has not come yet</bdi>" in fresh
    assert "<bdi>has cost nothing yet · has not come yet</bdi>" in fresh
    assert "Show more · 5 left" in words
    assert sum(bars.count("M") for bars in re.findall(r' d="([^"]+)"', html)) == DAYS
    assert 'href="/jobs/a%20b"' in html
    jobs.answers["pause"] = ViewAnswer("Paused.")
    asked = {"action": "pause", "fields": {"id": "a b"}}
    assert not (await browser.post("/api/panels/jobs/actions", asked)).json["is_error"]
    assert jobs.acts == [("web", "pause", {"id": "a b"})]


async def test_without_a_job_it_says_what_will_stand_there_and_what_to_do(
    scene: Scene, browser: Browser
) -> None:
    jobs = scene.reception.fakes.jobs
    empty = (await browser.get("/api/panels/jobs")).json["html"]
    assert "There are no jobs yet." in empty
    assert 'data-action="add"' in empty
    assert "data-filter" not in empty
    jobs.change(JobList(SUNDAY, all=3, words="zebra"))
    html = (await browser.get("/api/panels/jobs?words=zebra")).json["html"]
    assert 'No job fits. <a href="/jobs">Show all jobs</a>' in html
    assert 'value="zebra"' in html
    assert (await browser.get("/jobs")).status == 200
