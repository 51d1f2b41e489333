"""Somebody without an account gets through the first day without a wrong step."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser
from tests.browser.first_day import walk
from tests.browser.first_day_scene import first_day


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_no_step_of_the_first_day_is_wrong(browser: Browser, tmp_path: Path) -> None:
    async with first_day(tmp_path, browser) as day:
        wrong = await walk(day)
    assert not wrong, "\n\n".join(wrong)
