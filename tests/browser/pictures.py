"""The pictures of the documentation, taken of the real page: `python -m tests.browser.pictures`.

The whole bot runs in this process on a moved clock; only the words of the agent are written here.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from playwright.async_api import Browser, Page, expect
from tests.browser.chromium import chromium
from tests.browser.stage import box
from tests.e2e.discord.week import Week, week_of
from tests.web.sign_in import Door

from ollim_bot.settings import Secret
from ollim_bot.surfaces.web.secret import address

IMAGES = Path(__file__).parents[2] / "docs" / "images"

Scheme = Literal["light", "dark"]
_WIDE = (720, 420)
_NARROW = (360, 560)


@asynccontextmanager
async def opened(
    browser: Browser, week: Week, size: tuple[int, int], scheme: Scheme = "light"
) -> AsyncIterator[Page]:
    """The page as the owner sees it now."""
    width, height = size
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        timezone_id="Europe/Berlin",
        reduced_motion="reduce",
    )
    page = await context.new_page()
    await page.clock.set_fixed_time(week.clock.now())
    await page.goto(await _address(week))
    await expect(box(page)).to_be_visible()
    await expect(page.get_by_role("log")).to_be_visible()
    yield page
    await context.close()


async def _address(week: Week) -> str:
    bot = week.talk.bot
    await bot.reconnect()
    secret = Secret((bot.data / "state" / "web_token").read_text().strip())
    return address(bot.port, await Door(bot.http, bot.url).code(secret))


async def picture(browser: Browser, week: Week, name: str, shows: str) -> None:
    """One in each width, when the page shows these words."""
    for ending, size in (("", _WIDE), ("-narrow", _NARROW)):
        async with opened(browser, week, size) as page:
            await expect(page.get_by_role("log")).to_contain_text(shows)
            await page.screenshot(path=IMAGES / f"{name}{ending}.png")


async def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        async with chromium() as browser, week_of(Path(home), "Ada") as week:
            await week.at("Mon 7:35")
            await picture(browser, week, "arriving", "Hello")


if __name__ == "__main__":
    asyncio.run(main())
