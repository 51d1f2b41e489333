"""Changes on the page: who, why, what as a small difference, and Undo or the reason why not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.web.browser import Browser
from tests.web.days import HOSTILE
from tests.web.markup import ATTRIBUTES, TAGS, Markup
from tests.web.scene import SUNDAY, Scene

from ollim_bot.domain.change_list import ChangeFilter, ChangeLine, ChangeList, OlderChange
from ollim_bot.domain.changes import Changer, ChangeRow
from ollim_bot.domain.job_kinds import JobKind
from ollim_bot.domain.occurrences import Occurrence
from ollim_bot.domain.run_pages import address_of_run
from ollim_bot.domain.views import ViewAnswer
from ollim_bot.surfaces.web.runs_html import changes_html

RUN = Occurrence.scheduled(JobKind.ROUTINE, "plan", SUNDAY).id


def full_list() -> ChangeList:
    """A change that can be undone, with hostile texts; one that was; one that cannot be."""
    at = SUNDAY - timedelta(hours=3)
    texts = [f"-{HOSTILE}", *(f"+line {number}" for number in range(8))]
    mail = ChangeRow("1" * 8, at, HOSTILE, Changer.AGENT, "a", "b", HOSTILE, HOSTILE)
    model = ChangeRow("2" * 8, at, "setting:model.main", Changer.AGENT, "sonnet", "opus", RUN)
    pill = ChangeRow("3" * 8, at, "answer:x", Changer.BUTTON, "open\npill\n", "done\npill\n")
    return ChangeList(
        SUNDAY,
        ChangeFilter("agent", HOSTILE),
        (
            ChangeLine(mail, tuple(texts)),
            ChangeLine(model, is_undone=True),
            ChangeLine(pill, refusal="The next moment of “pill” has come since."),
            ChangeLine(replace(mail, key="4" * 8), refusal="It was changed since.", edit="/jobs/x"),
        ),
        (OlderChange(at - timedelta(days=9), HOSTILE),),
        has_more=True,
    )


async def test_changes_are_shown_as_words_and_one_is_undone_by_a_press(
    scene: Scene, browser: Browser
) -> None:
    changes = scene.reception.fakes.changes
    assert "Nothing was changed yet." in changes_html(ChangeList(SUNDAY), 100)
    nothing = ChangeList(SUNDAY, ChangeFilter(words="x"))
    assert "No change fits." in changes_html(nothing, 100)
    changes.current = full_list()
    html = (await browser.get("/api/panels/changes?who=agent&most=3")).json["html"]
    assert changes.asked == [{"who": "agent", "most": "3"}]
    shown = Markup(html)
    assert shown.tags <= TAGS
    assert shown.attributes <= ATTRIBUTES
    words = " ".join(filter(None, shown.words))
    assert f"today 11:30 changed {HOSTILE} by agent, {HOSTILE} · 11111111" in words
    assert f"with words of others: {HOSTILE} removed {HOSTILE} added line 0" in words
    assert "added line 4 3 more lines added line 5" in words
    assert f"setting:model.main by agent, {RUN} · 22222222 · undone was sonnet" in words
    assert html.count(f'href="{address_of_run(RUN)}"') == 1
    assert "Undo is not possible: The next moment of “pill” has come since." in words
    assert words.endswith(f"Older, from the history in git Fri 6 Nov 11:30 {HOSTILE} Show more")
    assert 'It was changed since.</bdi> <a href="/jobs/x">Edit</a>' in html
    assert html.count('data-action="undo"') == 1
    changes.answers["undo"] = ViewAnswer("It was undone before.", is_error=True)
    asked = {"action": "undo", "fields": {"id": "11111111"}}
    reply = (await browser.post("/api/panels/changes/actions", asked)).json
    assert "undone before" in reply["html"]
    assert changes.acts == [("web", "undo", {"id": "11111111"})]
