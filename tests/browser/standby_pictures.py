"""The pictures of a second machine: `python -m tests.browser.standby_pictures`.

They are drawn here. Look at them before you keep them: fonts differ by machine.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from html import escape

from PIL import Image
from playwright.async_api import Browser
from tests.browser.chromium import chromium
from tests.browser.pictures import IMAGES

_WIDTH, _HEIGHT = 860, 400
_BOX = 250
_STYLE = """
svg { display: block; background: #fbfaf7; font: 15px system-ui, sans-serif }
rect { fill: #fff; stroke: #6b6a75; stroke-width: 1.5 }
.leads rect { fill: #e4efe9; stroke: #276759; stroke-width: 2.5 }
.away rect { fill: #f3f1f6 }
text { fill: #1d1b20 }
.name { font-weight: 600 }
.small { font-size: 13.5px; fill: #4c4a55 }
path { fill: none; stroke: #276759; stroke-width: 2; marker-end: url(#end) }
path.waits { stroke: #6b6a75; stroke-dasharray: 6 5 }
"""
_HEAD = f"""<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}">
<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" style="fill:#6b6a75;stroke:none"/></marker>
</defs>"""


@dataclass(frozen=True)
class Box:
    """A machine or a service; the first line is its name."""

    x: int
    y: int
    lines: tuple[str, ...]
    kind: str = ""
    width: int = _BOX

    def drawn(self) -> str:
        height = 26 + 24 * len(self.lines)
        texts = "".join(
            f'<text x="{self.x + 18}" y="{self.y + 32 + 24 * number}" '
            f'class="{"small" if number else "name"}">{escape(line)}</text>'
            for number, line in enumerate(self.lines)
        )
        frame = f'<rect x="{self.x}" y="{self.y}" width="{self.width}" height="{height}" rx="10"/>'
        return f'<g class="{self.kind}">{frame}{texts}</g>'


@dataclass(frozen=True)
class Arrow:
    """A way from one point to another with words at a third one; `waits` is not in use now."""

    way: str
    words: str
    at: tuple[int, int]
    kind: str = ""

    def drawn(self) -> str:
        x, y = self.at
        words = f'<text x="{x}" y="{y}" class="small">{escape(self.words)}</text>'
        return f'<path d="{self.way}" class="{self.kind}"/>{words}'


_YOU = Box(590, 20, ("You", "Discord, the page, your phone"), "away")
_LEADER = Box(20, 20, ("Machine 1 leads", "ollim-bot, its files, its keys"), "leads")
_OTHER = Box(20, 290, ("Machine 2 stands by", "ollim-bot, the same files, its keys"), width=270)
_SPEAKS = Arrow("M270,57 L586,57", "only the one that leads speaks", (325, 45))
SHAPES = {
    "standby-nas": (
        _LEADER,
        _OTHER,
        _YOU,
        Box(590, 165, ("NAS or small server", "PostgreSQL, always on", "at your home")),
        _SPEAKS,
        Arrow("M270,80 L586,190", "all data, and the lease", (420, 115)),
        Arrow("M290,315 L586,232", "asks for the lease", (425, 305), "waits"),
    ),
    "standby-managed": (
        _LEADER,
        _OTHER,
        _YOU,
        Box(590, 165, ("Managed PostgreSQL", "run by a provider,", "who can read it"), "away"),
        _SPEAKS,
        Arrow("M270,80 L586,190", "encrypted, over the internet", (420, 115)),
        Arrow("M290,315 L586,232", "asks for the lease", (425, 305), "waits"),
    ),
    "standby-replica": (
        Box(20, 20, ("Machine 1 leads", "ollim-bot, its files, its keys", "PostgreSQL"), "leads"),
        Box(
            20,
            275,
            ("Machine 2 stands by", "ollim-bot, the same files, its keys", "a copy of PostgreSQL"),
            width=270,
        ),
        _YOU,
        Box(
            590,
            265,
            (
                "You promote the copy",
                "by hand, with pg_promote(),",
                "and never while machine 1 runs",
            ),
        ),
        _SPEAKS,
        Arrow("M80,120 L80,271", "all data, a little late", (92, 190)),
        Arrow("M240,271 L240,124", "asks for the lease", (252, 215), "waits"),
        Arrow("M586,324 L294,324", "when machine 1 is gone", (365, 312), "waits"),
    ),
}


async def draw(browser: Browser, name: str) -> None:
    page = await browser.new_page(viewport={"width": _WIDTH, "height": _HEIGHT})
    drawn = "".join(each.drawn() for each in SHAPES[name])
    style = f"<style>body {{ margin: 0 }}{_STYLE}</style>"
    await page.set_content(f"<!doctype html><meta charset=utf-8>{style}{_HEAD}{drawn}</svg>")
    path = IMAGES / f"{name}.png"
    await page.screenshot(path=path)
    await page.close()
    with Image.open(path) as taken:
        taken.convert("RGB").quantize(64).save(path, optimize=True)


async def main() -> None:
    async with chromium() as browser:
        for name in SHAPES:
            await draw(browser, name)


if __name__ == "__main__":
    asyncio.run(main())
