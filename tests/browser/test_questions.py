"""A person's questions, each answered on the page within few clicks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.async_api import Locator, Page, expect
from tests.browser.scene import PageScene
from tests.browser.test_views import fill
from tests.patience import eventually

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


class Person:
    """Clicks on a phone, and counts it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0

    async def begin(self) -> None:
        """Go back to the conversation, where every question begins."""
        await self.page.get_by_role("link", name="Chat").first.click()
        self.clicks = 0

    async def click(self, target: Locator) -> None:
        await target.first.click()
        self.clicks += 1

    async def go_to(self, view: str) -> None:
        await self.click(self.page.get_by_role("navigation").get_by_role("link", name=view))


async def test_questions_are_answered_within_few_clicks(scene: PageScene) -> None:
    fill(scene)
    fakes = scene.core.fakes
    stale = "Family may have changed: read 2 days ago"
    fakes.today.current = replace(fakes.today.current, notes=[stale])
    page = await scene.open(width=1280, height=900)
    person, view = Person(page), page.locator("#view")

    # Why did it not remind me at nine?
    await person.begin()
    await person.go_to("Runs")
    await person.click(view.get_by_role("link", name="Why? drink water"))
    await expect(view.get_by_role("heading", name="Step by step")).to_be_visible()
    assert person.clicks <= 3

    # What did last week cost, and which job most?
    await person.begin()
    await person.go_to("Money")
    await person.click(view.get_by_role("link", name="7 days"))
    await eventually(lambda: fakes.money.asked[-1:] == [{"since": "7d"}])
    assert person.clicks <= 2

    await page.reload()
    await expect(view.get_by_role("heading", name="By job")).to_be_visible()
    assert (page.url.endswith("?since=7d"), fakes.money.asked[-1]) == (True, {"since": "7d"})

    # What did it change, and how do I take it back?
    await person.begin()
    await person.go_to("Changes")
    await person.click(view.get_by_role("button", name="Undo"))
    await eventually(lambda: fakes.changes.acts)
    assert (person.clicks <= 3, fakes.changes.acts[-1][:2]) == (True, ("web", "undo"))

    # Which calendar is stale?
    await person.begin()
    await expect(page.get_by_text(stale)).to_be_visible()
    assert person.clicks <= 1

    # Let it be quiet at night.
    await person.begin()
    await person.go_to("Settings")
    await view.get_by_label("quiet_hours").first.fill("22:00-07:00")
    await person.click(view.get_by_role("button", name="Set quiet_hours"))
    told = ("web", "set", {"key": "quiet_hours", "value": "22:00-07:00"})
    await eventually(lambda: fakes.settings.acts)
    assert (person.clicks <= 3, fakes.settings.acts) == (True, [told])
