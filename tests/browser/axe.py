"""axe-core in the page: the rules of accessibility that a program can check."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

_SOURCE = Path(".venv/axe-core-4.11.1/package/axe.min.js")
_RUN = """async ([part, only, without]) => (await axe.run(part, {
        resultTypes: ["violations"], ...(only.length && {runOnly: only}),
        rules: Object.fromEntries(without.map((rule) => [rule, {enabled: false}])),
    })).violations
    .map(({id, help, nodes}) => [id, help, nodes.map((one) => one.html.slice(0, 200))])"""


def _source() -> str:
    if _SOURCE.exists():
        return _SOURCE.read_text()
    reason = f"{_SOURCE} is not there: `make test` fetches it"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


async def violations(
    page: Page, part: str = "body", *rules: str, without: Sequence[str] = ()
) -> list[Any]:
    """What axe-core finds wrong in that part of the page as it looks now.

    By these rules, or by all but those that it is to do without.
    """
    if not await page.evaluate("() => 'axe' in globalThis"):
        await page.evaluate(_source())
    found: list[Any] = await page.evaluate(_RUN, [part, rules, without])
    return found
