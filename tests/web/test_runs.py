"""Runs on the page: a line for each, the filters in the address, and one run, whole."""

from __future__ import annotations

from datetime import datetime

from tests.web.browser import Browser
from tests.web.days import HOSTILE
from tests.web.markup import ATTRIBUTES, TAGS, Markup
from tests.web.scene import SUNDAY, Scene

from ollim_bot.domain.costs import Amount
from ollim_bot.domain.day import DayView
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.occurrences import LedgerRow, Occurrence
from ollim_bot.domain.receipts import receipt_of
from ollim_bot.domain.run_list import RunFilter, RunList, RunPage, Show
from ollim_bot.domain.run_pages import address_of_run, run_stories
from ollim_bot.domain.usage import Price
from ollim_bot.surfaces.web.runs_html import runs_html

SKIPPED = Occurrence.scheduled(JobKind.ROUTINE, "water", SUNDAY)
SPOKE = Occurrence.parse(f"webhook:door:{HOSTILE}/?#")


def hostile_rows(now: datetime) -> list[LedgerRow]:
    """A run that was skipped, and one with hostile words in every fact."""
    at, named, skipped = now, {"job": HOSTILE}, Occurrence.scheduled(JobKind.ROUTINE, "water", now)
    refused = [{"text": HOSTILE, "reason": HOSTILE}]
    told = {"report": HOSTILE, "tools": [HOSTILE], "untrusted": HOSTILE, "refused_pings": refused}
    held = {"message": "7", "text": HOSTILE, "until": HOSTILE}
    return [
        LedgerRow(at, "due", skipped, {"job": "drink water"}),
        LedgerRow(at, "skipped", skipped, {"reason": "cost cap"}),
        LedgerRow(at, "due", SPOKE, named),
        LedgerRow(at, "running", SPOKE, {"attempt": 1}),
        LedgerRow(at, "held", SPOKE, held),
        LedgerRow(at, "failed", SPOKE, {**told, "error": HOSTILE, "tokens": 7}),
    ]


def hostile_list(now: datetime) -> RunList:
    rows = hostile_rows(now)
    receipt = receipt_of(rows, now.date(), now)
    return RunList(now, RunFilter(), run_stories(rows), has_more=True, receipt=receipt)


def hostile_run(now: datetime) -> RunPage:
    story = next(each for each in run_stories(hostile_rows(now)) if each.occurrence == SPOKE)
    spent = Amount(250_000, prices=frozenset({Price.LISTED}))
    return RunPage(now, story._replace(spent=spent), [HOSTILE], "webhook:door")


async def fragment(browser: Browser, path: str) -> tuple[str, str]:
    """The markup, which has nothing but what it may have, and its words."""
    html = (await browser.get(f"/api/panels/{path}")).json["html"]
    shown = Markup(html)
    assert shown.tags <= TAGS
    assert shown.attributes <= ATTRIBUTES
    return html, " ".join(filter(None, shown.words))


async def test_a_line_for_each_run_leads_to_it(scene: Scene, browser: Browser) -> None:
    fakes = scene.reception.fakes
    fakes.runs.current = hostile_list(SUNDAY)
    html, words = await fragment(browser, "runs?show=late&most=200")
    assert fakes.runs.asked == [{"show": "late", "most": "200"}]
    assert "Today: due 2, came 0, held 1, skipped 1, late 0, lost 0." in words
    assert "drink water skipped: the daily cost cap was reached" in words
    assert f'href="/runs/{SKIPPED.id}" aria-label="Why? drink water"' in html
    assert "%3Cimg" in html
    assert "Show older ones" in words
    fakes.day.current = DayView(SUNDAY, receipt=fakes.runs.current.receipt)
    html, words = await fragment(browser, "today")
    assert "Checked: everything that was due has its end or is under way." in words
    assert 'href="/runs?day=2026-11-15"' in html
    for run in (SKIPPED, SPOKE):
        assert (await browser.get(address_of_run(run.id))).status == 200


async def test_a_run_says_why_and_what_it_did_in_order(scene: Scene, browser: Browser) -> None:
    scene.reception.fakes.run.current = hostile_run(SUNDAY)
    html, words = await fragment(browser, f"run?id={SPOKE.job_id}")
    assert scene.reception.fakes.run.asked == [{"id": "door"}]
    for heading in ("Step by step", "Messages", "Report", "Read from others", "Tools used", "Cost"):
        assert f">{heading}</h3>" in html
    assert "7 tokens, $0.2500" in words
    assert 'href="/jobs/webhook:door">Edit' in html
    assert "\u202e" not in html


async def test_an_empty_list_says_what_will_stand_there() -> None:
    assert "Nothing has run yet." in runs_html(RunList(SUNDAY, RunFilter()), 100)
    filtered = runs_html(RunList(SUNDAY, RunFilter(Show.LATE, "water", SUNDAY.date())), 100)
    assert "No run fits that." in filtered
    assert '<option value="late" selected>' in filtered
    assert 'name="day" value="2026-11-15"' in filtered
