"""Every view narrow and wide, light and dark: axe-core finds nothing wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, timedelta

import pytest
from playwright.async_api import Page, expect
from tests.browser.axe import FORMS, wrong_now
from tests.browser.scene import PageScene
from tests.surfaces.web.views import (
    HOSTILE,
    full_day,
    full_list,
    full_report,
    hostile_form,
    hostile_jobs,
    hostile_list,
    hostile_run,
    known,
    spent,
)
from tests.surfaces.web.weeks import full_week

from ollim_bot.features.settings.settings_view import PresentState, setting_groups
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.values.costs import Amount
from ollim_bot.kernel.values.quiet import QuietHours, QuietSettings
from ollim_bot.kernel.values.runtime_config import RuntimeConfig
from ollim_bot.kernel.values.sessions import CompactionLine, SessionLine, SessionList
from ollim_bot.kernel.values.views import SettingsView, ViewAnswer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

# The letter of each view, and a heading in it.
VIEWS = {
    "c": "Ollim",
    "t": "Overdue",
    "w": "Pings",
    "r": "Newest first",
    "j": "2 jobs",
    "m": "By job",
    "p": "Quiet",
    "h": "What to do",
    "s": "Compactions",
    "b": "USER.md",
    "v": "Older, from the history in git",
}
_FOLD_OUT = """() => document.querySelectorAll("#view details, #panel details")
    .forEach((one) => { one.open = true; })"""


def fill(scene: PageScene) -> None:
    """Give each view something to show."""
    fakes, now = scene.core.fakes, scene.core.now()
    fakes.today.current = replace(full_day(now), receipt=hostile_list(now).receipt)
    fakes.week.current = full_week(now)
    fakes.job.current = hostile_form().with_typed("Two.", {"when": "every day at 8:00"})
    fakes.runs.current = hostile_list(now)
    fakes.run.current = hostile_run(now)
    fakes.jobs.current = hostile_jobs(now)
    fakes.money.current = spent()
    fakes.health.current = full_report()
    fakes.changes.current = full_list()
    fakes.about_me.current = known()
    quiet = QuietSettings(UTC, QuietHours.parse("22:00-07:00"))
    groups = setting_groups(RuntimeConfig(auto_backup=True), PresentState(now, quiet, Amount()))
    fakes.settings.current = SettingsView(groups)
    begun, side = now - timedelta(hours=3), SessionLine(SessionId("s"), now, "the move", 2)
    main = SessionLine(SessionId("m"), begun, HOSTILE, 3, is_current=True)
    compacted = CompactionLine(begun, HOSTILE, SessionId("b"))
    fakes.sessions.current = SessionList(now, (main,), (side,), (compacted,))


async def go_to(page: Page, letter: str) -> None:
    await page.keyboard.press("Escape")
    await page.keyboard.press("g")
    await page.keyboard.press(letter)


async def test_every_view_is_right_narrow_and_wide(scene: PageScene) -> None:
    fill(scene)
    page = await scene.open()
    problems: list[object] = []
    for letter, first in VIEWS.items():
        await go_to(page, letter)
        heading = page.get_by_role("heading", name=first).first
        await expect(heading).to_be_visible()
        # What is folded shows nothing that is not there when it is open.
        await page.evaluate(_FOLD_OUT)
        # The conversation and a view stand for the wide frame of all.
        problems += await wrong_now(page, by_axe_in=[*FORMS] if letter in "cw" else ["light"])
    assert problems == []


async def test_what_is_opened_from_a_view_is_right_narrow_and_wide(scene: PageScene) -> None:
    fill(scene)
    page = await scene.open()
    await go_to(page, "t")
    await page.get_by_role("link", name="Edit: drink water").click()
    await expect(page.get_by_role("button", name="Save anyway").first).to_be_visible()
    await page.get_by_text("May be words of others").click()
    await page.get_by_text("The file itself").click()
    problems = await wrong_now(page)
    await go_to(page, "r")
    runs = page.get_by_role("region", name="Runs")
    await runs.get_by_role("link", name="Why? drink water").click()
    await expect(page.get_by_role("heading", name="Step by step")).to_be_visible()
    problems += await wrong_now(page)
    await page.get_by_role("button", name="More", exact=True).last.click()
    await expect(page.get_by_role("navigation", name="More")).to_be_visible()
    problems += await wrong_now(page)
    for key in ("Control+k", "?"):
        await page.keyboard.press("Escape")
        await page.keyboard.press(key)
        await expect(page.get_by_role("dialog")).to_be_visible()
        problems += await wrong_now(page)
    assert problems == []


async def test_a_refusal_stays_when_the_view_is_drawn_anew(scene: PageScene) -> None:
    fill(scene)
    changes = scene.core.fakes.changes
    changes.answers["undo"] = ViewAnswer("It was undone before.", is_error=True)
    page = await scene.open()
    await go_to(page, "v")
    undo = page.get_by_role("button", name="Undo:")
    await expect(undo).to_be_visible()
    async with page.expect_response("**/api/panels/changes?*"):
        await undo.click()
    changes.change(replace(full_list(), older=()))
    await expect(page.get_by_role("heading", name="Older")).to_have_count(0)
    await expect(page.get_by_role("alert").get_by_text("It was undone before.")).to_be_visible()
