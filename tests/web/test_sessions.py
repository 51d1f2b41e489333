"""Sessions on the page: the conversations by kind, each with a way back."""

from __future__ import annotations

from datetime import timedelta

from tests.web.browser import Browser
from tests.web.days import HOSTILE
from tests.web.markup import ATTRIBUTES, TAGS, Markup
from tests.web.scene import SUNDAY, Scene

from ollim_bot.domain.ids import SessionId
from ollim_bot.domain.session_list import CompactionLine, SessionLine, SessionList
from ollim_bot.domain.views import ViewAnswer
from ollim_bot.surfaces.web.sessions_html import sessions_html


async def test_sessions_are_listed_by_kind_and_a_press_goes_back_to_one(
    scene: Scene, browser: Browser
) -> None:
    begun = SUNDAY - timedelta(hours=3)
    sessions = scene.reception.fakes.sessions
    assert "There are no conversations yet." in sessions_html(SessionList(SUNDAY), 100)
    sessions.current = SessionList(
        SUNDAY,
        (
            SessionLine(SessionId("m1"), begun, "plan the week", 3, is_current=True),
            SessionLine(SessionId("m0"), begun - timedelta(days=1), HOSTILE, 1),
        ),
        (SessionLine(SessionId("s1"), begun, "the move", 2),),
        (
            CompactionLine(begun, "plan the week", SessionId("m2")),
            CompactionLine(begun, "in place"),
        ),
    )
    html = (await browser.get("/api/panels/sessions?most=2")).json["html"]
    shown = Markup(html)
    assert shown.tags <= TAGS
    assert shown.attributes <= ATTRIBUTES
    assert " ".join(filter(None, shown.words)) == (
        "Sessions Conversations today 11:30 plan the week 3 answers · this one "
        f"yesterday 11:30 {HOSTILE} 1 answer Go back to it "
        "Side conversations today 11:30 the move 2 answers Go back to it "
        "Compactions today 11:30 plan the week shortened to a summary Go back before it "
        "today 11:30 in place shortened to a summary, in place"
    )
    assert 'data-field-id="m1"' not in html
    asked = {"action": "resume", "fields": {"id": "s1"}}
    sessions.answers["resume"] = ViewAnswer(go="/")
    reply = (await browser.post("/api/panels/sessions/actions", asked)).json
    assert (reply["is_error"], reply["go"]) == (False, "/")
    assert sessions.acts == [("web", "resume", {"id": "s1"})]
