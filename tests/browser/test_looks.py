"""How the page looks and reads, in the dark, on a phone, to a screen reader, while careful."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import Locator, Page, expect
from tests.browser.axe import FORMS, wrong_now
from tests.browser.scene import (
    PageScene,
    announced,
    box,
    is_at_end,
    listen,
    message,
    messages,
    send,
)

from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.base.moments import describe
from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card, CardField, Color
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.events import Noted, TextStreamed, ToolFailed, ToolRefused, ToolStarted
from ollim_bot.kernel.values.ports import OpenFork
from ollim_bot.kernel.values.taint import CarefulTime

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


RICH = """\
# A day

Some `code`, a [link](https://example.org) and **more**.

> a quote

| when | what | a wide column | another wide column | and a third one |
|------|-----:|---------------|---------------------|-----------------|
| 9:00 | averyveryverylongwordthatdoesnotendanywheresoon | b | c | d |

```
a_line_of_code_that_is_much_longer_than_any_phone_is_wide = "and it goes on and on"
```

https://example.org/a/very/long/address/that/has/no/place/to/break/at/all/0123456789
"""

CARD = Card(
    "A card with a title that is a good deal longer than any phone is wide",
    RICH,
    fields=(
        *(CardField(f"name {number}", "short", inline=True) for number in range(4)),
        CardField("averyveryverylongnamethatdoesnotendanywheresoon0123456789", RICH, inline=True),
        CardField("wide", "`averyveryverylongwordthatdoesnotendanywheresoon0123456789`"),
    ),
    buttons=(
        *(Button(f"as {style}", "agent", style, style) for style in ButtonStyle),
        Button("averyveryverylonglabelthatdoesnotendanywheresoon0123456789" * 2, "agent"),
    ),
)

_OVERFLOWING = """() => [...document.body.querySelectorAll("*")].filter((element) => {
    const {right, width} = element.getBoundingClientRect();
    const scrolls = element.parentElement.closest("pre, .table, .unseen");
    return width > 0 && right > innerWidth + 0.5 && !scrolls;
}).map((element) => element.outerHTML.slice(0, 80))"""

# The hint in the empty box, and whether one line of the box has room for it.
_HINT = """box => {
    const low = box.scrollHeight;
    box.value = box.placeholder;
    const isWhole = box.scrollHeight === low;
    box.value = "";
    return [box.placeholder, isWhole];
}"""

_MOVING = """() => [...document.querySelectorAll("*")].filter((element) => {
    const style = getComputedStyle(element);
    return style.transitionDuration !== "0s" || style.animationName !== "none"
        || style.scrollBehavior === "smooth";
}).length + document.getAnimations().length"""


async def show_everything(scene: PageScene, page: Page) -> None:
    long = "averyveryverylongwordthatdoesnotendanywheresoon"
    careful = CarefulTime(f"careful since yesterday 14:02: web page {long} and 2 more", "0a1b")
    await scene.core.change(trouble=f"{long} " * 2, careful=careful)
    for author in Author:
        said = await scene.core.say(RICH, author, is_cut_off=author is Author.ASSISTANT)
    for color in Color:
        card = CARD._replace(color=color)
        await scene.core.say(card.text, Author.BACKGROUND, card=card, job="a long name " * 9)
    used = tuple(each._replace(is_used=True) for each in CARD.buttons)
    card = CARD._replace(buttons=used)
    await scene.core.say(card.text, card=card)
    await scene.core.say("in reply", reply_to=said.id)
    scene.core.answers["/modle"] = CommandAnswer("There is no command `/modle`.", is_error=True)
    await send(page, "/modle")
    await send(page, "/clear")
    turn = scene.core.begin()
    await turn.show(
        Noted("catching up on background activity..."),
        ToolStarted("1", "Bash", {"command": "a very long command that goes on and on and on"}),
        ToolRefused("1", "Bash", "the owner said no"),
        ToolStarted("2", "Read", {"file_path": "a.md"}),
        ToolFailed("2", "no such file"),
        TextStreamed("so far"),
    )
    await page.get_by_role("button", name="3 steps").click()
    await message(page, "in reply").hover()
    await message(page, "in reply").get_by_role("button", name="Reply").click()
    await page.locator("#files").set_input_files(
        {"name": "a long name of a file.txt", "mimeType": "text/plain", "buffer": b"x"}
    )
    await page.keyboard.type("/")
    await expect(page.get_by_role("listbox")).to_be_visible()
    await expect(message(page, "so far")).to_be_visible()


async def in_fork(scene: PageScene, page: Page) -> OpenFork:
    """A fork that could not be ended, with everything that it shows."""
    fork = OpenFork("averyveryverylongwordthatdoesnotendanywheresoon" * 3, MessageId("none"))
    await scene.core.change(fork=fork)
    scene.expect_browser_error("404")
    await page.locator("#fork").get_by_role("button", name="Keep a summary").click()
    await expect(page.locator("#fork-answer")).to_be_visible()
    for author in Author:
        await scene.core.say(RICH, author, in_fork=True)
    await scene.core.say(CARD.text, Author.PROGRAM, card=CARD, in_fork=True)
    await expect(page.locator(".in-fork > .card")).to_be_attached()
    return fork


async def nothing_goes_beyond_the_edge(page: Page, width: int) -> None:
    await page.set_viewport_size({"width": width, "height": 640})
    assert await page.evaluate(_OVERFLOWING) == []
    assert await page.evaluate("document.documentElement.scrollWidth") == width
    assert await page.locator("#scroller").evaluate("it => it.scrollWidth === it.clientWidth")
    assert await page.locator("pre").first.evaluate("it => it.scrollWidth > it.clientWidth")
    await expect(box(page)).to_be_in_viewport(ratio=1)
    await expect(page.get_by_role("button", name="Send")).to_be_in_viewport(ratio=1)


async def test_all_can_be_read_and_hit_nothing_goes_beyond_the_edge_and_only_what_streams_moves(
    scene: PageScene, page: Page
) -> None:
    await show_everything(scene, page)
    problems = []
    for fork in (await in_fork(scene, page), None):
        await scene.core.change(fork=fork)
        await expect(page.locator("#fork")).to_be_visible(visible=fork is not None)
        # A side conversation shows all that the main one shows, and more, on another ground.
        problems += await wrong_now(page, by_axe_in=[*FORMS] if fork else [])
    assert problems == []
    assert await page.evaluate(_MOVING) == 0
    for width in (320, 768):
        await nothing_goes_beyond_the_edge(page, width)


async def test_the_page_goes_with_the_system_until_the_switch_is_used(scene: PageScene) -> None:
    page = await scene.open()
    body = page.locator("body")
    await page.emulate_media(color_scheme="light")
    light = await body.evaluate("it => getComputedStyle(it).backgroundColor")
    await page.emulate_media(color_scheme="dark")
    await expect(body).not_to_have_css("background-color", light)
    await page.get_by_role("button", name="Switch to light").click()
    await expect(body).to_have_css("background-color", light)
    await page.reload()
    await expect(body).to_have_css("background-color", light)
    await page.get_by_role("button", name="Switch to dark").click()
    await expect(body).not_to_have_css("background-color", light)
    await page.emulate_media(color_scheme="light")
    await expect(body).to_have_css("background-color", light)


async def test_a_pause_is_seen_a_line_is_short_and_the_box_stays_in_sight_on_a_phone(
    scene: PageScene,
) -> None:
    for minutes in (200, 199, 120, 5):
        await scene.post_old(f"{minutes} minutes ago", Author.OWNER, minutes=minutes)
    page = await scene.open(width=1600, height=900)
    await expect(page.locator(".moment")).to_have_count(3)
    await expect(page.locator(".moment + article > .body")).to_have_text(
        ["200 minutes ago", "120 minutes ago", "5 minutes ago"]
    )

    words = "It was the best of times, it was the worst of times, it was the age of wisdom. " * 6
    await scene.core.say(words.strip())
    paragraph = message(page, "best of times").locator("p")
    lines = await paragraph.evaluate("""it => {
        const range = document.createRange();
        range.selectNodeContents(it);
        return it.textContent.length / new Set([...range.getClientRects()].map(({top}) => top)).size
    }""")
    assert await paragraph.evaluate("it => it.getBoundingClientRect().width") > 400
    assert 45 < lines <= 70

    await scene.core.say("the last words")
    await page.set_viewport_size({"width": 360, "height": 640})
    await expect(messages(page).last).to_contain_text("the last words")
    await expect(messages(page).last).to_be_in_viewport(ratio=1)
    # The height that the on-screen keyboard of a phone leaves for the page.
    await page.set_viewport_size({"width": 360, "height": 300})
    await expect(box(page)).to_be_in_viewport(ratio=1)
    await expect(messages(page).last).to_be_in_viewport(ratio=1)
    assert await page.locator("#scroller").evaluate("it => it.scrollHeight > it.clientHeight")


async def test_a_phone_has_one_row_at_the_top_and_the_whole_hint_in_the_box(
    scene: PageScene, page: Page
) -> None:
    hints = set()
    quiet = datetime(2026, 11, 17, 7, 0, tzinfo=UTC)
    cases: list[dict[str, object]] = [
        {},
        {"fork": OpenFork("Rome", MessageId("none"))},
        {"fork": None, "bot_name": "A name of many words"},
        {"bot_name": "Ollim", "quiet_until": quiet},
        {"is_offline": False, "provider": "Claude", "model": "claude-sonnet-4-5-20250929"},
        {"quiet_until": None},
        {"zone": "Asia/Kathmandu"},
    ]
    for case, width in product(cases, (320, 390)):
        await page.set_viewport_size({"width": width, "height": 640})
        await scene.core.change(**case)
        await expect(page.locator("#fork")).to_be_visible(visible=bool(case.get("fork")))
        await expect(page.locator("#quiet")).to_be_visible(
            visible=scene.core.status.quiet_until is not None
        )
        assert await page.locator("header.bar").evaluate("it => it.offsetHeight") <= 56, case
        assert await page.evaluate(_OVERFLOWING) == []
        if not case:
            assert await page.locator("#offline").evaluate("it => it.scrollWidth <= it.clientWidth")
        hint, is_whole = await box(page).evaluate(_HINT)
        assert is_whole, (hint, width)
        hints.add(hint)
    assert hints == {"Write to Ollim", "Write here"}


async def test_a_bot_in_another_zone_is_said_once_in_the_view_and_never_in_the_header(
    scene: PageScene, page: Page
) -> None:
    await scene.core.change(zone="Asia/Kathmandu")
    words = page.get_by_text("Times are Kathmandu’s; this device is in UTC.")
    for width, view in product((320, 390, 1280), ("Chat", "Today", "Week")):
        await page.set_viewport_size({"width": width, "height": 640})
        if width < 1100 or view != "Today":
            await page.get_by_role("link", name=view).click()
        await expect(words).to_have_count(1)
        await expect(words).to_be_in_viewport(ratio=1)
        await expect(page.get_by_role("main")).to_contain_text("Times are")
        assert await page.locator("header.bar").evaluate("it => it.offsetHeight") <= 56
        assert await page.evaluate(_OVERFLOWING) == []
    await scene.core.change(zone="UTC")
    await expect(words).to_be_hidden()


@pytest.mark.own_context
async def test_moments_are_said_in_the_words_and_the_zone_of_the_bot_until_its_midnight(
    scene: PageScene,
) -> None:
    await scene.context.clock.install()
    page = await scene.open()
    said = await scene.post_old("the browser is in another zone", minutes=60)
    for zone in ("Asia/Tokyo", "UTC"):
        await scene.core.change(zone=zone)
        at = said.at.astimezone(ZoneInfo(zone)).replace(second=0, microsecond=0)
        when = describe(at, datetime.now(ZoneInfo(zone)))
        await expect(page.locator(".moment").first).to_have_text(when)
        await expect(page.get_by_role("article", name=f"Ollim, {when}")).to_be_visible()
    await scene.core.say("late in the day")
    moment = page.locator(".moment").last
    await expect(moment).to_contain_text("today")
    await page.clock.fast_forward("24:00:00")
    await expect(moment).to_contain_text("yesterday")
    await expect(page.get_by_role("article", name="Ollim, yesterday").last).to_be_visible()

    zones = ["UTC", "Asia/Tokyo", "America/New_York", "Asia/Kathmandu"]
    now = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    away = [timedelta(hours=hours) for hours in (0, -1, -12, -13, -37, -24 * 30, -24 * 80, 12, 36)]
    moments = [now + each for each in away]
    told: Any = await page.evaluate(
        """async ([moments, now, zones]) => {
            const {momentInWords} = await import("/static/format.js");
            return zones.map((zone) => moments.map(
                (moment) => momentInWords(new Date(moment), new Date(now), zone)));
        }""",
        [[moment.isoformat() for moment in moments], now.isoformat(), zones],
    )
    for zone, words in zip(zones, told, strict=True):
        there = ZoneInfo(zone)
        local = [moment.astimezone(there) for moment in moments]
        assert words == [describe(moment, now.astimezone(there)) for moment in local]


async def test_the_page_has_its_landmarks_and_a_log(scene: PageScene, page: Page) -> None:
    await scene.core.say("Hello.")
    await expect(message(page, "Hello.")).to_be_visible()
    await expect(page.locator("body")).to_match_aria_snapshot("""
        - link "Go to the message box"
        - banner:
          - heading "Ollim" [level=1]
          - button "offline model — not a language model"
          - status
          - button "Notifications"
          - button "Switch to dark"
          - button "Keys"
        - main:
          - region "Conversation":
            - log "Messages":
              - article /Ollim, today/:
                - paragraph: Hello.
        - contentinfo:
          - button "Add files"
          - textbox "Message"
          - button "Send"
    """)
    await expect(page.get_by_role("log")).to_have_attribute("aria-live", "off")
    assert await page.locator("html").get_attribute("lang") == "en"


async def test_what_comes_is_announced_once_when_it_is_whole_and_what_was_there_before_is_not(
    scene: PageScene,
) -> None:
    await scene.post_many_old(70)
    page = await scene.open()
    assert await page.locator("#announcer").text_content() == ""
    await listen(page)
    await page.locator("#scroller").evaluate("it => { it.scrollTop = 0 }")
    await expect(messages(page)).to_have_count(70)
    await scene.core.say("new")
    await expect(message(page, "new")).to_be_visible()
    heard = ["Ollim: new"]
    assert await announced(page) == heard

    await send(page, "What now?")
    turn = scene.core.begin()
    for word in ("This", " **comes**", " word by word.", "\n\n", "And", " on."):
        await turn.show(TextStreamed(word))
    await expect(messages(page)).to_have_count(73)
    assert await announced(page) == heard
    await turn.end("This **comes** word by word.\n\nAnd on.")
    await expect(page.locator("#doing")).to_have_text("")
    await scene.core.say("Reminder: tea", Author.BACKGROUND)
    await expect(message(page, "Reminder: tea")).to_be_visible()
    heard += ["Ollim: This comes word by word.\nAnd on.", "Ollim, in the background: Reminder: tea"]
    assert await announced(page) == heard

    await send(page, "/clear")
    await expect(page.get_by_role("region", name="Answer to /clear")).to_contain_text("is done")
    assert await announced(page) == [*heard, "/clear is done."]


WORDS = "careful since 14:02: web page news.example and 2 more"

FIRST = CarefulTime(WORDS, "0a1b")

_BAR = "header.bar"


def line(page: Page) -> Locator:
    return page.get_by_role("banner").get_by_text("careful since")


def go_on(page: Page) -> Locator:
    return page.get_by_role("banner").get_by_role("button", name="Go on, it is all right")


async def test_the_line_is_there_while_it_is_careful_and_a_press_by_keyboard_ends_it(
    scene: PageScene, page: Page
) -> None:
    await scene.post_many_old()
    await scene.core.say("the last words")
    plain = await page.locator(_BAR).bounding_box()
    await expect(line(page)).to_be_hidden()
    await scene.core.change(careful=FIRST)
    await expect(line(page)).to_have_text(WORDS)
    await expect(message(page, "the last words")).to_be_in_viewport(ratio=1)
    assert await is_at_end(page)

    await listen(page)
    await go_on(page).focus()
    await expect(go_on(page)).to_have_css("outline-style", "solid")
    scene.core.may_answer.clear()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Enter")
    await expect(go_on(page)).to_have_attribute("aria-disabled", "true")
    scene.core.may_answer.set()
    await expect(line(page)).to_be_hidden()
    await expect(box(page)).to_be_focused()
    assert scene.core.calls == ["go_on 0a1b"]
    assert await announced(page) == ["It is not careful any more."]
    assert await page.locator(_BAR).bounding_box() == plain
    await scene.core.change(careful=FIRST)
    await expect(go_on(page)).to_be_enabled()


async def test_a_press_is_about_what_is_shown_and_what_went_wrong_is_said(
    scene: PageScene, page: Page
) -> None:
    hostile = "careful: web page <img src=x onerror=alert(1)>"
    await scene.core.change(careful=CarefulTime(hostile, "<key>"))
    await expect(page.get_by_role("banner").get_by_text(hostile)).to_be_visible()
    await expect(page.locator("img")).to_have_count(0)
    async with scene.without_server():
        await go_on(page).click()
        await expect(page.get_by_role("alert")).to_contain_text("nothing was done")
    await expect(page.locator("#connection")).to_be_empty()

    await page.route(
        "**/api/go-on", lambda route: route.continue_(post_data='{"key": "an older one"}')
    )
    await go_on(page).click()
    await expect(page.get_by_role("alert")).to_contain_text("something else since then")
    assert scene.core.calls == ["go_on an older one"]
    await page.unroute("**/api/go-on")
    await go_on(page).click()
    await expect(go_on(page)).to_be_hidden()
    await expect(page.get_by_role("alert")).to_be_empty()
    assert scene.core.calls[-1] == "go_on <key>"


async def test_it_is_one_row_in_the_bar_or_below_it_and_large_enough_for_a_thumb(
    scene: PageScene, page: Page
) -> None:
    longest = f"careful since yesterday 23:02: web page {'a' * 60} and 12 more"
    highest = {320: 200, 390: 160, 768: 140, 1280: 64}
    for words, width in product((WORDS, longest), highest):
        await page.set_viewport_size({"width": width, "height": 640})
        await scene.core.change(careful=CarefulTime(words, "0a1b"))
        await expect(page.get_by_text(words)).to_be_in_viewport(ratio=1)
        target = await go_on(page).bounding_box()
        assert target is not None
        assert min(target["width"], target["height"]) >= 44
        await expect(go_on(page)).to_be_in_viewport(ratio=1)
        assert await page.evaluate("document.documentElement.scrollWidth") == width
        height = await page.locator(_BAR).evaluate("it => it.offsetHeight")
        assert height <= highest[width], (words, width, height)
