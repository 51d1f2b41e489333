"""Commands on the page stand as the owner can type them, wherever the program was started."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from devtools.doubles.phone import OFFER
from tests.web.browser import Browser
from tests.web.days import full_day
from tests.web.forms import hostile_form
from tests.web.scene import SUNDAY, Scene
from tests.web.test_about_me import known
from tests.web.test_changes import full_list
from tests.web.test_jobs import hostile_jobs
from tests.web.test_runs import hostile_list

from ollim_bot.domain.phone import PhoneView
from ollim_bot.domain.receipts import Fate
from ollim_bot.domain.text import with_program
from ollim_bot.domain.views import (
    PHONE,
    HealthLine,
    HealthReport,
    Preview,
    SettingGroup,
    SettingsView,
    ViewAnswer,
)
from ollim_bot.errors import OllimError

WHERE = ".venv/bin/ollim-bot"
SENTENCE = "Run `ollim-bot backup --to Käse`, then start `ollim-bot` again."
TYPED = f"Run `{WHERE} backup --to Käse`, then start `{WHERE}` again."


def as_text(html: str) -> str:
    """What is read, without what stands in a field or is another's words."""
    return re.sub(
        r"<textarea.*?</textarea>|<bdi.*?</bdi>|<code>|</code>", "", html, flags=re.DOTALL
    )


async def commands_on(browser: Browser, panel: str) -> list[str]:
    """The commands on a view, which all begin as this program is called."""
    html = as_text((await browser.get(f"/api/panels/{panel}")).json["html"])
    assert with_program(html, "elsewhere") == html, panel
    return re.findall(rf"{re.escape(WHERE)} [a-z-]+", html)


async def test_every_command_that_a_view_shows_can_be_typed(scene: Scene, browser: Browser) -> None:
    fakes = scene.reception.fakes
    await scene.reception.change(program=WHERE)
    came = hostile_list(SUNDAY).receipt
    assert came is not None
    lost = replace(came, things=[replace(each, fate=Fate.LOST) for each in came.things])
    fakes.day.current = replace(full_day(SUNDAY), reach=SENTENCE, receipt=lost)
    fakes.runs.current = replace(hostile_list(SUNDAY), receipt=lost)
    fakes.health.current = HealthReport(
        SUNDAY, (HealthLine("WARN", "copies", SENTENCE, SENTENCE),), SUNDAY
    )
    fakes.settings.current = SettingsView(
        [SettingGroup(PHONE, ())], PhoneView(SUNDAY, OFFER, told=SENTENCE, has_failed=True)
    )
    fakes.jobs.current = replace(hostile_jobs(SUNDAY), problems=tuple("abcdefgh"))
    listed = full_list()
    without = replace(listed.lines[0], difference=())
    fakes.changes.current = replace(listed, lines=(without,))
    fakes.about_me.current = known()
    found = {
        panel: await commands_on(browser, panel)
        for panel in ("today", "runs", "health", "settings", "jobs", "changes", "about-me")
    }
    assert all(found.values()), found


async def test_what_is_to_be_edited_and_the_words_of_others_keep_their_commands(
    scene: Scene, browser: Browser
) -> None:
    await scene.reception.change(program=WHERE)
    form = hostile_form()
    scene.reception.fakes.job.current = form.with_typed("", {}, file=SENTENCE)
    scene.reception.fakes.day.current = replace(
        full_day(SUNDAY), all_day=[replace(full_day(SUNDAY).all_day[0], title=SENTENCE)]
    )
    assert SENTENCE in (await browser.get("/api/panels/job?id=water")).json["html"]
    assert SENTENCE in (await browser.get("/api/panels/today")).json["html"]


@pytest.mark.parametrize("is_error", [False, True])
async def test_answers_previews_and_refusals_of_a_view_can_be_typed(
    scene: Scene, browser: Browser, is_error: bool
) -> None:
    await scene.reception.change(program=WHERE)
    day = scene.reception.fakes.day
    day.answers["add"] = ViewAnswer(SENTENCE, is_error=is_error)
    day.previews["add"] = Preview((SENTENCE,), is_error=is_error)
    asked = {"action": "add", "fields": {"line": "x"}}
    said = (await browser.post("/api/panels/today/actions", asked)).json["html"]
    assert re.sub("</?(?:p|code)>", "`", said).count(WHERE) == 2
    assert TYPED in (await browser.post("/api/panels/today/previews", asked)).json["html"]
    day.refusal = OllimError(SENTENCE)
    assert (await browser.get("/api/panels/today")).error == TYPED
