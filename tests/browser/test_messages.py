"""Messages on the page: who says what, files, code, and how they are found again."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from playwright.async_api import Dialog, FilePayload, Locator, Page, expect
from tests.browser.scene import (
    PageScene,
    box,
    is_at_end,
    message,
    messages,
    scroll_to,
    scroll_top,
    send,
    sent,
    set_hidden,
    texts,
)
from tests.kernel.engine.scene import tiny_png
from tests.patience import eventually

from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.events import TextStreamed
from ollim_bot.offline.intents import schedule_intent
from ollim_bot.offline.phrasings import intents_in
from ollim_bot.offline.vocabulary import Remind

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


LOOKS = ("background-color", "border-left-width", "font-size", "margin-left")


async def test_who_speaks_is_seen_and_said_and_each_message_is_shown_once_in_its_place(
    scene: PageScene, page: Page
) -> None:
    names = {
        Author.OWNER: "You, today",
        Author.ASSISTANT: "Ollim, today",
        Author.BACKGROUND: "Ollim, in the background, today",
        Author.PROGRAM: "Program, today",
    }
    looks = set()
    for author, name in names.items():
        await scene.core.say(f"by {author}", author)
        article = page.get_by_role("article", name=name)
        await expect(article).to_contain_text(f"by {author}")
        style = "(it, names) => names.map(name => getComputedStyle(it)[name]).join()"
        looks.add(await article.evaluate(style, LOOKS))
    assert len(looks) == len(names)
    await expect(message(page, "by background").locator(".mark")).to_have_text(re.compile("^today"))
    said = [f"by {author}" for author in names]

    await send(page, "Good *morning*")
    await expect(sent(page, "Good morning")).to_have_count(1)
    await expect(messages(page)).to_have_count(5)
    await expect(box(page)).to_have_value("")
    [received] = scene.core.received
    assert (received.text, received.surface, received.reply_to) == ("Good *morning*", "web", None)
    said.append("Good morning")

    first = await scene.core.say("frist")
    await scene.core.say("second")
    await expect(texts(page)).to_have_text([*said, "frist", "second"])
    await scene.core.post(replace(first, text="first"))
    await expect(texts(page)).to_have_text([*said, "first", "second"])

    warning = "context: 67% (134k) — consider /compact"
    await scene.core.say("Done.", footer=warning)
    await expect(message(page, "Done.")).to_contain_text(warning)


async def test_a_reply_quotes_above_the_box_and_on_the_message_and_can_be_cancelled(
    scene: PageScene, page: Page
) -> None:
    first = await scene.core.say("The dentist is at **nine**.")
    article, quote = message(page, "The dentist"), page.locator("#reply")
    for cancel in ("button", "key"):
        await article.hover()
        await article.get_by_role("button", name="Reply").click()
        await expect(quote).to_be_visible()
        if cancel == "button":
            await page.get_by_role("button", name="Cancel the reply").click()
        else:
            await box(page).press("Escape")
        await expect(quote).to_be_hidden()
    await send(page, "Hi")
    await expect(sent(page, "Hi")).to_be_visible()
    assert scene.core.received[0].reply_to is None

    await article.hover()
    await article.get_by_role("button", name="Reply").click()
    await expect(quote).to_have_text("Ollim The dentist is at nine.")
    await expect(box(page)).to_be_focused()

    await send(page, "Which one?")

    await expect(quote).to_be_hidden()
    jump = sent(page, "Which one?").get_by_role("button", name="The dentist is at")
    await expect(jump).to_be_visible()
    assert scene.core.received[1].reply_to == first.id
    await jump.click()
    await expect(article.first).to_be_focused()
    await expect(article.first).to_have_css("outline-style", "solid")


async def older_come_without_a_jump(page: Page) -> None:
    await expect(messages(page)).to_have_count(60)
    await scroll_to(page, 700)
    seen = message(page, "old message 130")
    before = await seen.bounding_box()
    moved = await scroll_top(page)
    await scroll_to(page, 400)
    await expect(messages(page)).to_have_count(110)
    after = await seen.bounding_box()
    assert before
    assert after
    assert after["y"] == pytest.approx(before["y"] + moved - 400, abs=1)
    await scroll_to(page, 0)
    await expect(messages(page)).to_have_count(160)
    await expect(messages(page).first).to_contain_text("old message 21")
    assert await scroll_top(page) > 0


async def late_ones_leave_no_gap(page: Page) -> None:
    """The page requested them before it started anew with the newest messages."""
    shown = await page.evaluate("""async () => {
        const { INITIAL_STATE } = await import("/static/state.js");
        const { olderLoaded } = await import("/static/reducers.js");
        const state = { ...INITIAL_STATE, messages: [{ id: "m90" }], hasMore: true };
        const late = olderLoaded(state, "m30", [{ id: "m29" }], false);
        const right = olderLoaded(state, "m90", [{ id: "m89" }], false);
        return [late, right].map(({ messages }) => messages.map((message) => message.id));
    }""")
    assert shown == [["m90"], ["m89", "m90"]]


async def test_a_quote_leads_to_a_message_that_was_not_loaded_yet_and_older_ones_do_not_jump(
    scene: PageScene,
) -> None:
    """This holds during sending too, and the page says when the bot is away."""
    first = await scene.post_old("the very first", minutes=500)
    await scene.post_many_old(180)
    await scene.core.say("about that", reply_to=first.id)
    page = await scene.open()
    quote = message(page, "about that").get_by_role("button", name="the very first")
    first_shown = message(page, "the very first").first
    async with scene.without_server():
        await quote.click()
        await expect(page.locator("#notice")).to_have_text(
            "The bot does not answer, so the page could not load that message. Try again later."
        )
    await expect(page.locator("#connection")).to_have_text("")
    await expect(message(page, "the very first")).to_have_count(1)
    await quote.click()
    await expect(first_shown).to_be_focused()
    await expect(first_shown).to_be_in_viewport()

    await page.reload()
    await older_come_without_a_jump(page)
    scene.core.may_answer.clear()
    looks = scene.core.looks
    await scroll_to(page, 0)
    await eventually(lambda: scene.core.looks > looks)
    await quote.evaluate("it => it.click()")
    scene.core.may_answer.set()
    await expect(first_shown).to_be_focused()
    await expect(messages(page)).to_have_count(182)
    await expect(messages(page).first).to_contain_text("the very first")
    await late_ones_leave_no_gap(page)


async def test_the_unread_line_stands_where_the_reader_left(scene: PageScene) -> None:
    """Messages that arrive on a hidden page are counted until they are seen."""
    last = await scene.post_old("read already", minutes=20)
    scene.web.mark.write(last.id)
    await scene.stop()
    await scene.start()
    await scene.post_old("new one", Author.BACKGROUND, minutes=10)
    await scene.post_old("new two", minutes=5)
    page = await scene.open()
    shown = page.get_by_role("log").locator("> *:not(.moment)")
    await expect(shown).to_have_count(4)
    await expect(shown.nth(1)).to_have_text("new")
    await expect(page).to_have_title("Ollim")
    assert await is_at_end(page)
    await send(page, "thanks")
    await expect(page.locator(".unread")).to_have_count(0)

    before = await scene.core.say("before")
    await eventually(lambda: scene.web.mark.value == before.id)
    await set_hidden(page, True)
    await scene.core.say("one", Author.BACKGROUND)
    await scene.core.say("two")
    await expect(page).to_have_title("(2) Ollim")
    assert scene.web.mark.value == before.id
    await set_hidden(page, False)
    await expect(page).to_have_title("Ollim")
    await expect(page.locator(".unread + article")).to_contain_text("one")


async def test_a_long_absence_opens_at_the_first_unread_message(scene: PageScene) -> None:
    last = await scene.post_old("read already", minutes=90)
    scene.web.mark.write(last.id)
    await scene.stop()
    await scene.start()
    await scene.post_many_old(40)
    page = await scene.open()
    await expect(page.locator(".unread")).to_be_in_viewport()
    await expect(page).to_have_title("(20) Ollim")
    await page.get_by_role("button", name="New messages").click()
    await expect(page).to_have_title("Ollim")


async def test_what_was_not_sent_is_not_lost(scene: PageScene, page: Page) -> None:
    """A text that is too long stays in the box; a refused one says why, and what can be done."""
    await box(page).fill("x" * 100_001)
    await box(page).press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("too long")
    await expect(box(page)).to_have_value("x" * 100_001)
    assert scene.core.received == []
    scene.check()

    scene.expect_browser_error("status of 400")
    scene.core.refusal = WrongInput("The picture cannot be read.")
    await send(page, "my words")
    refused = message(page, "my words")
    await expect(refused).to_contain_text("The picture cannot be read.")
    await expect(refused).to_contain_text("not sent")
    scene.core.refusal = None
    await refused.get_by_role("button", name="Edit").click()
    await expect(box(page)).to_have_value("my words")
    await expect(messages(page)).to_have_count(0)
    scene.check()

    scene.expect_browser_error("status of 503")
    scene.core.refusal = OllimError("The disk is full.")
    await send(page, "keep me")
    await send(page, "drop me")
    await expect(page.get_by_text("The disk is full.")).to_have_count(2)
    await box(page).fill("half a thought")
    await page.reload()
    await expect(box(page)).to_have_value("half a thought")
    await expect(page.get_by_text("The disk is full.")).to_have_count(2)
    scene.core.refusal = None
    await message(page, "keep me").get_by_role("button", name="Try again").click()
    await expect(sent(page, "keep me")).to_have_count(1)
    await message(page, "drop me").get_by_role("button", name="Discard").click()
    await expect(messages(page)).to_have_count(1)
    assert [received.text for received in scene.core.received] == ["keep me"]


async def test_the_first_page_offers_three_things_that_work(scene: PageScene, page: Page) -> None:
    """The offline model understands its own examples."""
    ideas = page.get_by_role("region", name="Three things to try").get_by_role("button")
    await expect(ideas).to_have_count(3)
    for idea in (await ideas.all())[:2]:
        text = await idea.get_attribute("data-text") or ""
        assert intents_in(text) or isinstance(schedule_intent(text, datetime.now(UTC)), Remind)
    await ideas.nth(2).click()
    await expect(page.get_by_role("listbox", name="Commands")).to_be_visible()
    await expect(box(page)).to_be_focused()
    await box(page).fill("half a thought")
    await ideas.nth(0).click()
    await expect(sent(page, "remind me in 1 minute to drink water")).to_be_visible()
    assert [each.text for each in scene.core.received] == ["remind me in 1 minute to drink water"]
    await expect(box(page)).to_have_value("half a thought")
    await expect(ideas).to_have_count(0)


async def test_the_bar_says_who_answers_and_what_does_not_work_elsewhere_while_it_does_not(
    scene: PageScene, page: Page
) -> None:
    offline = page.get_by_role("button", name="offline model — not a language model")
    await expect(offline).to_be_visible()
    await offline.click()
    await expect(page.get_by_text("ollim-bot auth login")).to_be_visible()
    await scene.core.change(program=".venv/bin/ollim-bot")
    await expect(page.get_by_text(".venv/bin/ollim-bot auth login")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_text("ollim-bot auth login")).to_be_hidden()
    await scene.core.change(provider="Claude", model="sonnet", is_offline=False, bot_name="Mira")
    await expect(page.get_by_role("heading", name="Mira", exact=True)).to_be_visible()
    await expect(page.get_by_text("Claude · sonnet")).to_be_visible()
    await expect(offline).to_be_hidden()
    await expect(page).to_have_title("Mira")

    trouble = "Discord cannot be reached now. <b>Messages</b> wait here."
    await scene.core.change(trouble=trouble)
    await expect(page.get_by_role("status").filter(has_text=trouble)).to_be_visible()
    await scene.core.change(trouble="")
    await expect(page.get_by_text("cannot be reached")).to_have_count(0)
    gained = await page.locator("header.bar").evaluate("""bar => {
        const before = bar.offsetHeight;
        document.getElementById("trouble").hidden = true;
        return before - bar.offsetHeight;
    }""")
    assert gained == 0

    sign = page.locator("#quiet")
    await expect(sign).to_be_hidden()
    await scene.core.change(quiet_until=datetime(2026, 11, 17, 7, 0, tzinfo=UTC))
    await expect(sign).to_have_text("quiet until 7:00")
    await expect(sign).to_be_visible()
    await scene.core.change(quiet_until=None)
    await expect(sign).to_be_hidden()


_CARRY = """([kind, files]) => {
    const carried = new DataTransfer();
    for (const [name, type, bytes] of files) {
        carried.items.add(new File([new Uint8Array(bytes)], name, {type}));
    }
    const details = {bubbles: true, cancelable: true};
    const event = kind === "paste"
        ? new ClipboardEvent(kind, {...details, clipboardData: carried})
        : new DragEvent(kind, {...details, dataTransfer: carried});
    document.body.dispatchEvent(event);
}"""

_PASTE_TEXT_WITH_ITS_PICTURE = """() => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", "a table");
    clipboardData.items.add(new File([new Uint8Array(3)], "table.png", {type: "image/png"}));
    const details = {clipboardData, cancelable: true, bubbles: true};
    return document.getElementById("box").dispatchEvent(new ClipboardEvent("paste", details));
}"""

_DROP_A_FILM = """() => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([new Uint8Array(26 * 1024 * 1024)], "film.mp4"));
    dataTransfer.items.add(new File(["fine"], "small.txt"));
    document.body.dispatchEvent(new DragEvent("drop", {dataTransfer, bubbles: true}));
}"""


def picture(name: str = "tap.png") -> FilePayload:
    return {"name": name, "mimeType": "image/png", "buffer": tiny_png()}


def chips(page: Page) -> Locator:
    return page.get_by_role("list", name="Files to send").get_by_role("listitem")


async def choose(page: Page, *files: FilePayload) -> None:
    async with page.expect_file_chooser() as choosing:
        await page.get_by_role("button", name="Add files").click()
    await (await choosing.value).set_files(list(files))


async def carry(page: Page, kind: str, *files: FilePayload) -> None:
    plain = [[file["name"], file["mimeType"], list(file["buffer"])] for file in files]
    await page.evaluate(_CARRY, [kind, plain])


async def test_files_from_the_button_are_shown_sent_and_can_be_opened(
    scene: PageScene, page: Page
) -> None:
    """A removed file is not sent, and unsent files survive a reload with their message."""
    await choose(page, picture("keep.png"), picture("drop.png"))
    await page.get_by_role("button", name="Remove drop.png").click()
    await expect(chips(page)).to_contain_text(["keep.png"])
    await box(page).press("Enter")
    await expect(messages(page).get_by_role("img")).to_have_count(1)
    assert [file.name for file in scene.core.received[0].files] == ["keep.png"]

    letter: FilePayload = {"name": "letter.txt", "mimeType": "text/plain", "buffer": b"Dear" * 500}
    await choose(page, picture(), letter)
    await expect(chips(page)).to_have_text([f"tap.png{len(tiny_png())} bytes", "letter.txt2 KB"])
    await expect(chips(page).first.locator("img")).to_have_js_property("naturalWidth", 1)
    await expect(box(page)).to_be_focused()
    await box(page).press_sequentially("This is the tap")
    await box(page).press("Enter")

    sent = message(page, "This is the tap")
    await expect(sent.get_by_role("img", name="tap.png")).to_have_js_property("naturalWidth", 1)
    await expect(chips(page)).to_have_count(0)
    assert [file.name for file in scene.core.received[1].files] == ["tap.png", "letter.txt"]
    async with page.expect_download() as downloading:
        await sent.get_by_role("link", name="letter.txt").click()
    path = await (await downloading.value).path()
    assert path.read_bytes() == b"Dear" * 500

    async with scene.without_server():
        await choose(page, picture("basin.png"))
        await box(page).press_sequentially("look")
        await box(page).press("Enter")
        await expect(message(page, "look")).to_contain_text("not sent yet")
    await page.reload()
    await expect(messages(page).get_by_role("img", name="basin.png")).to_be_visible()
    assert [file.name for file in scene.core.received[2].files] == ["basin.png"]
    assert len(scene.core.received) == 3


async def test_dropped_files_and_pasted_pictures_are_added_and_pasted_text_stays_text(
    scene: PageScene, page: Page
) -> None:
    """Files that are too large or too many are reported at once, and not added."""
    await carry(page, "dragover", picture())
    await expect(page.get_by_text("Drop the files to add them")).to_be_visible()
    await carry(page, "drop", picture('one "1".png'), picture("zwölf.png"))
    await expect(page.get_by_text("Drop the files to add them")).to_be_hidden()
    await expect(chips(page)).to_have_count(2)
    await box(page).press("Enter")
    await expect(messages(page).get_by_role("img")).to_have_count(2)
    assert [file.name for file in scene.core.received[0].files] == ['one "1".png', "zwölf.png"]

    await carry(page, "paste", picture("image.png"))
    await expect(chips(page)).to_contain_text(["image.png"])
    await box(page).press("Enter")
    await expect(messages(page).get_by_role("img", name="image.png")).to_be_visible()
    assert scene.core.received[1].text == ""
    await expect(chips(page)).to_have_count(0)

    assert await page.evaluate(_PASTE_TEXT_WITH_ITS_PICTURE), "it is left to the box"
    await expect(chips(page)).to_have_count(0)

    await page.evaluate(_DROP_A_FILM)
    notice = page.get_by_role("alert")
    await expect(notice).to_have_text("film.mp4 is too large. Files can be up to 25 MB.")
    await expect(chips(page)).to_contain_text(["small.txt"])
    await box(page).press_sequentially("x")
    await expect(notice).to_have_text("")
    await page.get_by_role("button", name="Remove small.txt").click()
    await expect(chips(page)).to_have_count(0)
    await choose(page, *(picture(f"{number}.png") for number in range(11)))
    await expect(chips(page)).to_have_count(10)
    await expect(notice).to_have_text("10.png is one file too many. A message takes up to 10.")


def search(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Search")


def results(page: Page) -> Locator:
    return search(page).get_by_role("listitem")


async def test_a_search_is_typed_chosen_and_left_by_keyboard(scene: PageScene) -> None:
    await scene.post_old("When is the **dentist**?", Author.OWNER, minutes=90)
    await scene.post_old("The dentist <b>is</b> on Friday.", minutes=80)
    page = await scene.open(width=320, height=560)
    await page.keyboard.press("Control+k")
    status = search(page).get_by_role("status")
    await expect(status).to_have_text(
        "Search everything that you and the bot said, also before a /clear."
    )
    await page.keyboard.type("zebra")
    await expect(status).to_have_text("No message has these words.")
    await page.keyboard.press("Control+a")
    await page.keyboard.type("DENT is")
    await expect(results(page)).to_have_count(0)
    await page.keyboard.press("Control+a")
    await page.keyboard.type("is dent")
    await expect(results(page)).to_have_count(2)
    await expect(status).to_have_text("2 results, best first")
    await expect(results(page).first.locator("mark")).to_have_text(["dentist", "is"])
    await expect(results(page).last).to_contain_text("· YouWhen is the dentist?")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(results(page).last.get_by_role("button")).to_be_focused()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await page.keyboard.press("Enter")
    await expect(search(page)).to_be_hidden()
    await expect(message(page, "When is the dentist?")).to_be_focused()
    await expect(message(page, "When is the dentist?")).to_have_attribute("data-target", "")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("is dent")
    await expect(search(page).get_by_role("button", name="Close")).to_be_visible()
    await expect(page.get_by_role("searchbox")).to_have_attribute("type", "text")
    await page.keyboard.press("Escape")
    await expect(search(page)).to_be_hidden()


async def look_up(page: Page, words: str) -> None:
    await page.get_by_role("button", name="Search").click()
    await page.keyboard.type(words)
    await expect(results(page)).to_have_count(1)
    await page.keyboard.press("Enter")


async def test_a_result_of_long_ago_is_shown_among_its_neighbours_and_three_ways_lead_back(
    scene: PageScene,
) -> None:
    await scene.post_many_old(120)
    page = await scene.open()
    await send(page, '/search "old message 30"')
    await expect(results(page)).to_have_count(1)
    assert scene.commands == []
    await results(page).get_by_role("button").click()
    found = message(page, "old message 30")
    await expect(found).to_be_in_viewport()
    await expect(found).to_be_focused()
    await expect(messages(page)).to_have_count(51)
    await expect(message(page, "old message 119")).to_have_count(0)
    await page.go_back()
    await expect(message(page, "old message 119")).to_be_in_viewport()
    assert await is_at_end(page)

    await look_up(page, '"old message 7"')
    await expect(message(page, "old message 7").first).to_be_focused()
    await scene.post_old("said meanwhile")
    await expect(message(page, "said meanwhile")).to_have_count(0)
    await page.get_by_role("button", name="New messages").click()
    await expect(message(page, "said meanwhile")).to_be_in_viewport()
    await expect(box(page)).to_have_value("")

    await look_up(page, '"old message 8"')
    await expect(message(page, "old message 8").first).to_be_focused()
    await scene.post_old("said in between")
    await expect(message(page, "said in between")).to_have_count(0)
    await send(page, "I am back")
    await expect(message(page, "I am back")).to_be_in_viewport()
    await expect(box(page)).to_have_value("")


HOSTILE = """\
<script>window.harmed = 1; alert(1)</script>
<img src=x onerror="window.harmed = 2">
<svg onload="window.harmed = 3"></svg>
<iframe src="https://evil.example/"></iframe>
<style>body { display: none }</style>
<a href="javascript:window.harmed = 4">raw</a>
<form action="https://evil.example/"><button>raw</button></form>

[click](javascript:window.harmed=5) [data](data:text/html,<script>alert(6)</script>)
![picture](https://evil.example/pixel.png)
[auto]: https://evil.example/ref.png

```html"><script>window.harmed = 7</script>
</code></pre><script>window.harmed = 8</script>
```

| <img src=x onerror=alert(9)> | b |
|---|---|
| <script>alert(10)</script> | `<b>` |

the end"""

CODE = 'def hello(name: str) -> str:\n    return f"Hello <{name}> & all"\n'


async def test_hostile_markdown_does_nothing_wherever_it_is_shown(
    scene: PageScene, page: Page
) -> None:
    dialogs: list[Dialog] = []

    def heard(dialog: Dialog) -> None:
        dialogs.append(dialog)

    page.on("dialog", heard)
    scene.core.answers["/clear"] = CommandAnswer(HOSTILE, is_error=True)
    for author in Author:
        said = await scene.core.say(HOSTILE, author)
    await scene.core.say(HOSTILE, reply_to=said.id)
    await send(page, HOSTILE)
    await send(page, "/clear")
    turn = scene.core.begin()
    for start in range(0, len(HOSTILE), 40):
        await turn.show(TextStreamed(HOSTILE[start : start + 40]))
    await expect(page.get_by_role("log").get_by_text("the end")).to_have_count(8)
    await turn.end(HOSTILE)
    await expect(messages(page)).to_have_count(7)

    attributes = "it => ['href', 'target', 'rel'].map((name) => `${it.getAttribute(name)}`)"
    links: list[list[str]] = (
        await messages(page).get_by_role("link").evaluate_all(f"all => all.map({attributes})")
    )
    assert links
    for href, target, rel in links:
        assert href.startswith("https://evil.example/")
        assert target == "_blank"
        assert "noopener" in rel
    assert await page.evaluate("window.harmed") is None
    harmful = "script, iframe, img, svg[onload], style, form, [onerror], [onclick], [style]"
    assert await messages(page).locator(harmful).count() == 0
    assert dialogs == []
    assert scene.requested_hosts == {scene.host}
    page.remove_listener("dialog", heard)


@pytest.mark.own_context
async def test_code_and_messages_are_copied_as_they_were_written(
    scene: PageScene, page: Page
) -> None:
    """This works without a secure context too, and where the clipboard is forbidden."""
    await scene.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.clock.install()
    await scene.core.say(f"Try this:\n\n```python\n{CODE}```")
    source = "Some **bold** text.\n\n- and\n- a list"
    await scene.core.say(source)
    code, text = message(page, "Try this"), message(page, "Some bold text")
    copy, copied = (code.get_by_role("button", name=name) for name in ("Copy code", "Copied"))
    beside, text_of_code = await copy.bounding_box(), await code.locator("pre").bounding_box()
    assert beside is not None
    assert text_of_code is not None
    assert beside["x"] >= text_of_code["x"] + text_of_code["width"]
    await copy.click()
    await expect(copied).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == CODE
    await copied.click()
    await page.clock.run_for(5000)
    await expect(copy).to_be_visible()

    await text.hover()
    await text.get_by_role("button", name="Copy", exact=True).click()
    await expect(text.get_by_role("button", name="Copied")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == source

    await page.evaluate("addEventListener('copy', () => { window.copied = `${getSelection()}` })")
    for clipboard in ("undefined", "{writeText: () => Promise.reject(new Error('no'))}"):
        details = f"{{value: {clipboard}, configurable: true}}"
        await page.evaluate(f"Object.defineProperty(navigator, 'clipboard', {details})")
        await page.evaluate("window.copied = ''")
        await copy.click()
        await expect(copied).to_be_visible()
        assert (await page.evaluate("window.copied")).strip() == CODE.strip()
        await page.clock.run_for(5000)
        await expect(copy).to_be_visible()


async def test_markdown_looks_like_what_it_means(scene: PageScene, page: Page) -> None:
    await scene.core.say(
        "# Day\n\n1. one\n2. two\n\n- [x] called\n\n| a | b |\n|---|--:|\n| 1 | 2 |"
    )
    article = message(page, "Day")
    await expect(article.get_by_role("heading", name="Day")).to_be_visible()
    await expect(article.get_by_role("listitem")).to_have_count(3)
    await expect(article.get_by_role("checkbox", name="done")).to_be_disabled()
    await expect(article.get_by_role("cell", name="2")).to_have_css("text-align", "end")
