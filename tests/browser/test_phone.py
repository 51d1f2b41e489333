"""A phone is paired on the page by keys alone, and each state of it reads well."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from devtools.doubles.phone import CODE, OFFER
from devtools.localntfy.phone import Phone
from devtools.localntfy.server import LocalNtfy
from playwright.async_api import Browser, Locator, Page, expect
from tests.browser.axe import wrong_now
from tests.browser.scene import PageScene
from tests.browser.test_views import go_to
from tests.patience import patience
from tests.stores import memory_stores
from tests.surfaces.web.scene import make_scene, running

from ollim_bot.features.phone.phone_page import PhonePage
from ollim_bot.features.phone.push_file import PushFile
from ollim_bot.features.settings.settings_view import PHONE, SettingPage
from ollim_bot.kernel.base.clock import SystemClock
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import NtfyAccount
from ollim_bot.kernel.values.changes import Changer
from ollim_bot.kernel.values.push import PairingStatus, PhoneAttempt, PhoneView
from ollim_bot.kernel.values.views import SettingGroup, SettingsView

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SERVER = "https://push.example.org"


async def test_each_state_of_the_phone_is_right_narrow_and_wide(scene: PageScene) -> None:
    settings, now = scene.core.fakes.settings, scene.core.now()
    settings.current = SettingsView([SettingGroup(PHONE, ())])
    empty, paired = PhoneView(now, OFFER), PairingStatus(SERVER, now)
    code = replace(CODE, topic="ollim-" + "a7" * 13, picture=("# " * 20, " #" * 20) * 20)
    until = now + timedelta(minutes=10)
    states = {
        "Address of your own server": replace(empty, told="No press came.", has_failed=True),
        "Waiting for your press": replace(empty, attempt=PhoneAttempt(SERVER, code, until)),
        "Hide the code": replace(empty, paired=paired, code=code, told="Your phone is paired."),
    }
    page = await scene.open()
    await go_to(page, "p")
    problems: list[object] = []
    for words, state in states.items():
        settings.change(replace(settings.current, phone=state))
        await expect(page.locator(".phone")).to_contain_text(words)
        problems += await wrong_now(page)
    assert problems == []


async def test_a_press_on_the_phone_ends_the_waiting_of_the_page(
    browser: Browser, tmp_path: Path
) -> None:
    clock = SystemClock(UTC)
    scene, store = make_scene(tmp_path, clock=clock), memory_stores(clock.now).state
    phone = PhonePage(store, PushFile(DataPaths(tmp_path)), NtfyAccount, clock)
    scene.reception.fakes.settings = cast("Any", SettingPage(store, clock, _no_change, phone))
    pairing = asyncio.create_task(phone.run())
    context = await browser.new_context(viewport={"width": 390, "height": 844})
    try:
        async with LocalNtfy() as ntfy, running(scene):
            page = await context.new_page()
            await page.goto(scene.surface.address())
            await expect(page.locator("#views")).to_be_visible()
            await go_to(page, "p")
            part = page.locator(".phone")
            await expect(part).to_contain_text("What leaves this machine: the words")
            await page.get_by_label("Address of your own server").fill(ntfy.url)
            await page.keyboard.press("Enter")
            await expect(part).to_contain_text("Waiting for your press")
            await page.reload()
            await expect(part).to_contain_text("Waiting for your press")
            topic = await part.get_by_role("row", name="Topic").locator("code").inner_text()
            async with Phone(ntfy.url, topic) as owned:
                await owned.until(lambda: owned.shown, patience())
                await owned.press(owned.shown[-1], "It reaches me")
                await expect(part.get_by_role("alert")).to_contain_text("Your phone is paired.")
            assert topic not in await page.content()
            await _press(page, part.get_by_role("link", name="Show the code again"))
            await expect(part).to_contain_text(topic)
            await _press(page, part.get_by_text("Remove", exact=True))
            await _press(page, part.get_by_role("button", name="Remove it"))
            await expect(page.get_by_label("Address of your own server")).to_be_visible()
            assert topic not in await page.content()
    finally:
        await context.close()
        pairing.cancel()
        await asyncio.gather(pairing, return_exceptions=True)


async def _press(page: Page, what: Locator) -> None:
    await what.focus()
    await page.keyboard.press("Enter")


async def _no_change(_: Changer, _key: str, _value: str | None) -> str:
    return ""
