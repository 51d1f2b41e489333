"""Messages of others are shown without side effects, and code can be copied."""

from __future__ import annotations

import pytest
from playwright.async_api import Dialog, Page, expect
from tests.browser.scene import PageScene, message, messages, send

from ollim_bot.domain.chat import Author
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.events import TextStreamed

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

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
