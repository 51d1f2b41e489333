"""Cards: shown with their buttons, clicked by the owner alone, and the same in every tab."""

from __future__ import annotations

import asyncio
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from tests.patience import eventually
from tests.surfaces.web.browser import Browser
from tests.surfaces.web.markdown_texts import HOSTILE_HTML, TEXTS
from tests.surfaces.web.scene import Scene

from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card, CardField, Color
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.surfaces.web import frames as texts
from ollim_bot.surfaces.web.frames import plain, render

DONE = Button("Done", "agent", "k1", ButtonStyle.PRIMARY)
LATER = Button("Later", "agent", "k2")
TEA = Card(
    "Tea",
    "It is *ready*.",
    Color.GREEN,
    (CardField("Where", "`kitchen`", inline=True), CardField("Kind", "green")),
    (DONE, LATER),
)


class TextContent(HTMLParser):
    """The text of what a browser would show."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.feed(html)
        self.close()

    def handle_data(self, data: str) -> None:
        self.text += data


async def said(scene: Scene, card: Card = TEA) -> ChatMessage:
    return await scene.reception.say(card.text, card=card)


def click(message_id: str, custom_id: str = DONE.custom_id) -> dict[str, str]:
    return {"message_id": message_id, "custom_id": custom_id}


def used(message: dict[str, Any]) -> list[bool]:
    return [button["is_used"] for button in message["card"]["buttons"]]


async def test_a_card_comes_rendered_and_its_text_only_once(scene: Scene, browser: Browser) -> None:
    await said(scene)
    [shown] = (await browser.get("/api/messages")).json["messages"]
    assert (shown["html"], shown["text"]) == ("", TEA.text)
    assert shown["card"] == {
        "title": "Tea",
        "html": "<p>It is <em>ready</em>.</p>\n",
        "color": "green",
        "fields": [
            {"name": "Where", "html": "<p><code>kitchen</code></p>\n", "inline": True},
            {"name": "Kind", "html": "<p>green</p>\n", "inline": False},
        ],
        "buttons": [
            {
                "label": "Done",
                "custom_id": "act:agent:k1",
                "style": "primary",
                "is_used": False,
                "line": 0,
                "asks": "",
            },
            {
                "label": "Later",
                "custom_id": "act:agent:k2",
                "style": "secondary",
                "is_used": False,
                "line": 0,
                "asks": "",
            },
        ],
        "lines": [],
        "earlier_of": "",
        "until": None,
        "job": "",
    }


async def test_a_long_card_comes_whole(scene: Scene, browser: Browser) -> None:
    await said(scene, TEA._replace(description="word " * 800))
    [shown] = (await browser.get("/api/messages")).json["messages"]
    assert TextContent(shown["card"]["html"]).text.split() == ["word"] * 800


async def test_a_click_is_answered_and_uses_the_button_up_in_every_tab(
    scene: Scene, browser: Browser
) -> None:
    message = await said(scene)
    scene.reception.answers[DONE.custom_id] = CommandAnswer("*Well* done.")
    async with browser.tab() as (first, hello), browser.tab() as (second, _):
        assert used(hello["messages"][0]) == [False, False]
        reply = await browser.post("/api/clicks", click(message.id))
        frames = [await tab.until("message") for tab in (first, second)]
    assert reply.json == {
        "text": "*Well* done.",
        "html": "<p><em>Well</em> done.</p>\n",
        "is_error": False,
        "is_shown": False,
    }
    assert [used(frame["message"]) for frame in frames] == [[True, False]] * 2
    assert scene.reception.clicks == [("web", message.id, DONE.custom_id)]


async def test_the_words_of_an_answer_come_with_the_click(scene: Scene, browser: Browser) -> None:
    other = Button("Other…", "snooze", "r1:other", asks="When?")
    message = await scene.reception.say("Water", card=Card("Water", buttons=(other,)))
    body = click(message.id, other.custom_id) | {"words": "at 9"}
    assert (await browser.post("/api/clicks", body)).status == 200
    assert scene.reception.calls == [f"{other.custom_id} at 9"]


async def test_a_used_button_answers_with_a_sentence_and_does_nothing(
    scene: Scene, browser: Browser
) -> None:
    message = await said(scene, TEA._replace(buttons=(DONE._replace(is_used=True),)))
    reply = await browser.post("/api/clicks", click(message.id))
    assert (reply.status, reply.json["is_error"]) == (200, True)
    assert reply.json["text"].endswith(".")
    assert scene.reception.clicks == []


async def test_two_clicks_at_once_are_one(scene: Scene, browser: Browser) -> None:
    message = await said(scene)
    scene.reception.may_answer.clear()
    asking = [asyncio.create_task(browser.post("/api/clicks", click(message.id))) for _ in range(2)]
    await eventually(lambda: len(scene.reception.calls) == 2)
    scene.reception.may_answer.set()
    replies = await asyncio.gather(*asking)
    assert sorted(reply.json["is_error"] for reply in replies) == [False, True]
    assert len(scene.reception.clicks) == 1


@pytest.mark.parametrize("custom_id", ["act:agent:k9", "act:agent:", "k1", "ACT:agent:k1", "\0"])
async def test_only_a_button_of_that_message_can_be_clicked(
    scene: Scene, browser: Browser, custom_id: str
) -> None:
    message = await said(scene)
    await said(scene, TEA._replace(buttons=(Button("Other", "agent", "k9"),)))
    reply = await browser.post("/api/clicks", click(message.id, custom_id))
    assert (reply.status, reply.error) == (404, texts.NO_BUTTON)
    assert scene.reception.calls == []


async def test_what_has_no_card_or_is_not_there_cannot_be_clicked(
    scene: Scene, browser: Browser
) -> None:
    message = await scene.reception.say("no card")
    reply = await browser.post("/api/clicks", click(message.id))
    assert (reply.status, reply.error) == (404, texts.NO_BUTTON)
    reply = await browser.post("/api/clicks", click("m99"))
    assert (reply.status, reply.error) == (404, texts.NO_MESSAGE)
    assert scene.reception.calls == []


@pytest.mark.parametrize(
    "body",
    [
        *({}, [], {"message_id": "m1"}, {"custom_id": "act:agent:k1"}, click("m1", "")),
        {"message_id": ["m1"], "custom_id": DONE.custom_id},
    ],
)
async def test_a_click_on_nothing_is_refused_plainly(
    scene: Scene, browser: Browser, body: object
) -> None:
    await said(scene)
    reply = await browser.post("/api/clicks", body)
    assert (reply.status, reply.error) == (400, texts.NOT_UNDERSTOOD)
    assert scene.reception.calls == []


async def test_a_hostile_card_is_harmless(scene: Scene, browser: Browser) -> None:
    """Rendered parts are sanitised like any message; all other parts are sent as plain text."""
    for text in HOSTILE_HTML:
        button = Button(text, "agent", text)
        await said(scene, Card(text, text, fields=(CardField(text, text),), buttons=(button,)))
        [shown] = (await browser.get("/api/messages?limit=1")).json["messages"]
        card = shown["card"]
        assert card["html"] == card["fields"][0]["html"] == render(text)
        names = [card["title"], card["fields"][0]["name"], card["buttons"][0]["label"]]
        assert names == [text] * 3
        clicked = await browser.post("/api/clicks", click(shown["id"], button.custom_id))
        assert clicked.status == 200


async def test_a_tab_that_comes_back_is_told_which_buttons_were_used(
    scene: Scene, browser: Browser
) -> None:
    message = await said(scene)
    await said(scene, TEA._replace(buttons=()))
    await scene.reception.say("later")
    change = await scene.reception.last_change()
    await browser.post("/api/clicks", click(message.id))
    async with browser.tab(change) as (_, hello):
        assert [(each["id"], used(each)) for each in hello["missed"]] == [
            (message.id, [True, False])
        ]


async def test_a_quote_is_without_marks(scene: Scene, browser: Browser) -> None:
    text = "# Plan\n\n1. **Buy** `milk`, see [the list](https://example.org/a_b_c)\n> soon"
    message = await scene.reception.say(text)
    shown = (await browser.send("why?", reply_to=message.id)).json["message"]
    assert shown["reply_to"]["excerpt"] == "Plan Buy milk, see the list soon"


async def test_a_card_is_quoted_by_its_words(scene: Scene, browser: Browser) -> None:
    message = await said(scene)
    shown = (await browser.send("why?", reply_to=message.id)).json["message"]
    assert shown["reply_to"]["excerpt"] == "Tea It is ready. Where: kitchen Kind: green"


@given(TEXTS)
def test_plain_words_are_those_that_are_shown(text: str) -> None:
    assert "".join(plain(text).split()) == "".join(TextContent(render(text)).text.split())
