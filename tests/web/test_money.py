"""Money on the page: the sums of `ollim-bot cost`, as sentences, a chart and tables."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.web.browser import Browser
from tests.web.days import HOSTILE
from tests.web.markup import ATTRIBUTES, TAGS, Markup
from tests.web.scene import SUNDAY, Scene

from ollim_bot.domain.costs import CostReport, cost_report
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.usage import Price, UsageKind, UsageRow

MORNING = Occurrence.scheduled(JobKind.ROUTINE, "morning", SUNDAY - timedelta(hours=2)).id


def spent() -> CostReport:
    """A turn and a run of a job with a hostile name today, and a turn a week ago."""
    week = SUNDAY - timedelta(days=7)
    rows = (
        UsageRow(week, UsageKind.TURN, "sonnet", Price.LISTED, 1_000_000, 900, "t1"),
        UsageRow(SUNDAY, UsageKind.TURN, "sonnet", Price.LISTED, 250_000, 900, "t2"),
        UsageRow(SUNDAY, UsageKind.RUN, HOSTILE, Price.UNKNOWN, 0, 0, "", MORNING),
    )
    return cost_report(rows, week, SUNDAY, 2.0, {"routine morning": HOSTILE})


async def test_the_sums_stand_in_words_in_bars_and_in_tables(
    scene: Scene, browser: Browser
) -> None:
    scene.reception.fakes.money.current = spent()
    html = (await browser.get("/api/panels/money?since=7d")).json["html"]
    assert scene.reception.fakes.money.asked == [{"since": "7d"}]
    shown = Markup(html)
    assert shown.tags <= TAGS
    assert shown.attributes <= ATTRIBUTES
    words = " ".join(filter(None, shown.words))
    assert "$0.25 and your own server today · of $2.00 a day for jobs" in words
    assert "The dearest of 2 days was Sun 8 Nov: $1.00." in words
    assert "the conversation $1.2500 2 uses" in words
    assert f"{HOSTILE} your own server 1 use" in words
    assert html.count("<rect") == 2
    assert '<progress max="2.0000" value="0.2500"' in html


async def test_before_the_first_use_it_says_what_will_stand_there(
    scene: Scene, browser: Browser
) -> None:
    scene.reception.fakes.money.current = cost_report([], SUNDAY, SUNDAY, None)
    html = (await browser.get("/api/panels/money")).json["html"]
    assert "Nothing has been used yet." in html
    assert "<table" not in html


OWN_SERVER = UsageRow(SUNDAY, UsageKind.RUN, "qwen3:8b", Price.UNKNOWN, 0, 7, "", MORNING)
BUILT_IN = UsageRow(SUNDAY, UsageKind.TURN, "claude-opus-5-5", Price.FREE, 0, 7, "t")


@pytest.mark.parametrize(
    ("row", "amount", "kind", "model"),
    [
        (OWN_SERVER, "your own server", "jobs", "qwen3:8b"),
        (BUILT_IN, "free", "conversation", "built-in"),
    ],
)
async def test_what_has_no_price_is_no_headline_and_no_chart(
    scene: Scene, browser: Browser, row: UsageRow, amount: str, kind: str, model: str
) -> None:
    scene.reception.fakes.money.current = cost_report([row], SUNDAY, SUNDAY, 5.0)
    html = (await browser.get("/api/panels/money")).json["html"]
    words = " ".join(filter(None, Markup(html).words))
    assert words.startswith(f"Money {amount} this month {kind} {amount} Since")
    assert f"By model {model} {amount} 1 use" in words
    for absent in ("unknown", "opus", "large", "<rect", "<progress", "$", "dearest"):
        assert absent not in html
