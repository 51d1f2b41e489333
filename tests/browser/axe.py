"""axe-core in the page: the rules of accessibility that a program can check."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

_SOURCE = Path(".venv/axe-core-4.11.1/package/axe.min.js")
# Text with a contrast of 7 instead of 4.5 would be black and white: that rule is of a level above.
_RUN = """async (part) => (await axe.run(part ?? document, {
        resultTypes: ["violations"],
        rules: Object.fromEntries(axe.getRules().map(({ruleId}) =>
            [ruleId, {enabled: ruleId !== "color-contrast-enhanced"}])),
    })).violations
    .map(({id, help, nodes}) => [id, help, nodes.map((one) => one.html.slice(0, 200))])"""


def _source() -> str:
    if _SOURCE.exists():
        return _SOURCE.read_text()
    reason = f"{_SOURCE} is not there: `make test` fetches it"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


async def violations(page: Page, part: str | None = None) -> list[Any]:
    """What any rule of axe-core finds wrong in the page as it looks now, or in a part of it."""
    if not await page.evaluate("() => 'axe' in globalThis"):
        await page.evaluate(_source())
    found: list[Any] = await page.evaluate(_RUN, part)
    return found
