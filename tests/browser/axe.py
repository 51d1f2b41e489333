"""What a program can see of how well a page is used: axe-core, contrasts, sizes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Page, expect

_SOURCE = Path(".venv/axe-core-4.11.1/package/axe.min.js")
# Contrasts are measured here: axe takes half of its time for them, and leaves out some texts.
_RUN = """async (part) => (await axe.run(part ?? document, {
        resultTypes: ["violations"],
        rules: Object.fromEntries(axe.getRules().map(({ruleId}) =>
            [ruleId, {enabled: !ruleId.startsWith("color-contrast")}])),
    })).violations
    .map(({id, help, nodes}) => [id, help, nodes.map((one) => one.html.slice(0, 200))])"""


# Each visible text with the contrast between its colour and the colour behind it.
_CONTRASTS = """() => {
    const canvas = Object.assign(document.createElement("canvas"), {width: 1, height: 1});
    const brush = canvas.getContext("2d", {willReadFrequently: true});
    const paint = (colours) => {
        brush.clearRect(0, 0, 1, 1);
        for (const colour of colours) {
            brush.fillStyle = colour;
            brush.fillRect(0, 0, 1, 1);
        }
        return [...brush.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const known = new Map();
    const painted = (colours) => {
        const name = colours.join(" under ");
        if (!known.has(name)) {
            known.set(name, paint(colours));
        }
        return known.get(name);
    };
    const luminance = (rgb) => {
        const [r, g, b] = rgb.map((value) => value / 255)
            .map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const layers = (element) => element === null
        ? [] : [...layers(element.parentElement), getComputedStyle(element).backgroundColor];
    const ratio = (colour, element) => {
        const below = layers(element);
        const [dark, light] = [painted(below), painted([...below, colour])]
            .map(luminance).sort((one, other) => one - other);
        return (light + 0.05) / (dark + 0.05);
    };
    const results = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const element = node.parentElement;
        if (node.data.trim() && element.checkVisibility() && !element.closest("noscript, script")) {
            results.push([node.data.trim(), ratio(getComputedStyle(element).color, element)]);
        }
    }
    const box = document.getElementById("box");
    results.push(["placeholder", ratio(getComputedStyle(box, "::placeholder").color, box)]);
    return results;
}"""

Scheme = Literal["light", "dark"]
NARROW, WIDE = (390, 844), (1280, 900)
FORMS: dict[Scheme, tuple[int, int]] = {"light": NARROW, "dark": WIDE}
_WIDER = """() => [document.documentElement, ...document.querySelectorAll("#view, #panel")]
    .some((one) => one.scrollWidth > one.clientWidth)"""
# What a finger cannot hit well. What stands between words is as high as its line, and the small
# tools of a message in the gap below it.
SMALL = """() => [...document.querySelectorAll(
        "button:not(.link, .quote), summary, input, select, textarea, #views > *")]
    .filter((one) => !one.closest("article :is(.actions, .code)"))
    .map((one) => one.type === "checkbox" ? one.closest("label") : one)
    .filter((one) => one.checkVisibility({visibilityProperty: true}))
    .map((one) => [one.getBoundingClientRect(), one.outerHTML.slice(0, 200)])
    .filter(([{width, height}]) => width < 44 || height < 44)
    .map(([{width, height}, html]) => [width, height, html])"""


def _source() -> str:
    if _SOURCE.exists():
        return _SOURCE.read_text()
    reason = f"{_SOURCE} is not there: `make test` fetches it"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


async def violations(page: Page, part: str | None = None) -> list[Any]:
    """What axe-core finds wrong in the page as it looks now, or in a part of it."""
    if not await page.evaluate("() => 'axe' in globalThis"):
        await page.evaluate(_source())
    found: list[Any] = await page.evaluate(_RUN, part)
    return found


async def faint(page: Page) -> list[tuple[str, float]]:
    """The texts that are hard to see, with their contrast."""
    contrasts: list[tuple[str, float]] = await page.evaluate(_CONTRASTS)
    assert len(contrasts) > 10, "the texts are no longer found"
    return [each for each in contrasts if each[1] < 4.5]


async def wrong_now(page: Page, *, by_axe_in: Sequence[Scheme] = ("light",)) -> list[object]:
    """What is wrong with the page as it is, narrow and light, and wide and dark.

    Sizes change what stands where, and schemes the colours: two more forms would mix these. To
    axe-core only the frame differs between the two.
    """
    problems: list[object] = []
    for scheme, (width, height) in FORMS.items():
        await page.emulate_media(color_scheme=scheme)
        await page.set_viewport_size({"width": width, "height": height})
        role = "main" if width == NARROW[0] else "complementary"
        await expect(page.locator("#panel")).to_have_attribute("role", role)
        found = [*await faint(page), *await page.evaluate(SMALL)]
        found += await violations(page) if scheme in by_axe_in else []
        found += ["wider than the screen"] if await page.evaluate(_WIDER) else []
        problems += [(page.url, width, scheme, each) for each in found]
    return problems
