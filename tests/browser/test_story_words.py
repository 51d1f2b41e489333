"""The story of the week in the documentation shows the words of the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect
from tests.browser.pictures import NARROW, opened
from tests.e2e.discord.transcript import folded, read_on_page
from tests.e2e.discord.week_scene import week_scene
from tests.e2e.discord.week_story import routine

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

DOSE = ("plain: true", "kind: dose", "nag: 10m x 2")
# What each message shows, without the buttons that every message has.
_SHOWN = """articles => articles.map((article) => {
    // What leads elsewhere on the page has no place on Discord.
    article.querySelectorAll(".actions, a[href^='/']").forEach((one) => {
        one.style.display = "none";
    });
    return article.innerText;
})"""
# Signs that the page draws, and those by which the story marks lines, buttons and code.
_SIGNS = re.compile(r"^(│ |-# |- )+|[✓⏱`\[\]]", re.MULTILINE)


async def test_the_words_beside_those_of_discord_are_the_words_of_the_page(
    browser: Browser, tmp_path: Path
) -> None:
    async with week_scene(tmp_path, "Ada") as week:
        await week.says(
            "I forget my pills",
            routine(week, "pills", "0 8 * * *", "take the pills", *DOSE),
            answer="Every day at **8:00**:\n\n- a glass of water\n- `one` pill",
        )
        week.will_ping("Look at the mail.", "The bank wants a signature.")
        week.write(routine(week, "mail", "0 9 * * *", "Look at the mail.", "background: true"))
        await week.at("Mon 8:00")
        await week.comes("take the pills")
        await week.at("Mon 8:10")
        await week.comes("10 min ago")
        await week.at("Mon 8:20")
        await week.presses(await week.comes("Still open"), "Taken")
        await week.at("Mon 9:00")
        await week.comes("The bank")
        await week.calls("today", "Today, ")
        told = [*map(read_on_page, folded(await week.scene.bot.messages()))]
        async with week.ticking(), opened(browser, week, NARROW) as page:
            await expect(page.get_by_role("log")).to_contain_text("Today, ")
            shown = await _shown(page)
    assert _words("take the pills · asked at 8:00, 8:10") in shown
    assert shown == [_words("\n".join(lines)) for lines in told]


async def _shown(page: Page) -> list[list[str]]:
    articles = page.get_by_role("log").get_by_role("article")
    texts: list[str] = await articles.evaluate_all(_SHOWN)
    return [_words(text) for text in texts]


def _words(text: str) -> list[str]:
    return _SIGNS.sub("", text).split()
