"""About me on the page: each line with its source and its day, and Edit and Forget beside it."""

from __future__ import annotations

from datetime import date

from tests.web.browser import Browser
from tests.web.days import HOSTILE
from tests.web.markup import ATTRIBUTES, TAGS, Markup
from tests.web.scene import SUNDAY, Scene

from ollim_bot.domain.about_me import OWNERS_WORDS, AboutMe, KnownLine
from ollim_bot.surfaces.web.settings_html import about_me_html


def known() -> AboutMe:
    """A line of the owner's words, and a hostile one in a file with a hostile name."""
    lines = (
        KnownLine("USER.md", 1, "likes tea", date(2026, 5, 3), OWNERS_WORDS),
        KnownLine(HOSTILE, 7, HOSTILE, date(2026, 5, 4), "web page"),
    )
    return AboutMe(SUNDAY.date(), lines, (f"{HOSTILE} cannot be read: it is not UTF-8 text.",))


async def test_each_line_has_its_source_and_can_be_changed_and_forgotten(
    scene: Scene, browser: Browser
) -> None:
    view = scene.reception.fakes.about_me
    assert "It has written down nothing" in about_me_html(AboutMe(SUNDAY.date()), 100)
    view.current = known()
    html = (await browser.get("/api/panels/about-me")).json["html"]
    shown = Markup(html)
    assert shown.tags <= TAGS
    assert shown.attributes <= ATTRIBUTES
    words = " ".join(filter(None, shown.words))
    assert f"About me {HOSTILE} cannot be read: it is not UTF-8 text. USER.md likes tea" in words
    assert "likes tea from your words of 3 May Edit Line 1 of USER.md Save Forget" in words
    assert f"{HOSTILE} from a web page read on 4 May Edit Line 7 of {HOSTILE} Save" in words
    assert "ollim-bot forget --everywhere" in words
    assert "1 left" in about_me_html(known(), 1)
    fields = {"file": "USER.md", "line": "1", "text": "likes tea"}
    await browser.post("/api/panels/about-me/actions", {"action": "forget", "fields": fields})
    assert view.acts == [("web", "forget", fields)]
