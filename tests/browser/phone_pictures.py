"""The pictures of the phone: `python -m tests.browser.phone_pictures`.

They are drawn here, from what the whole bot really sent to a phone that follows its topic. A real
phone looks a little different.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from devtools.localntfy.phone import Notification, Phone
from devtools.localntfy.server import LocalNtfy
from devtools.scripted_model import ScriptedModel
from PIL import Image
from playwright.async_api import Browser
from tests.browser.chromium import chromium
from tests.browser.pictures import IMAGES
from tests.e2e.bot import Bot
from tests.e2e.conftest import running
from tests.e2e.in_process_bot import InProcessBot
from tests.e2e.test_reminders import remind

from ollim_bot.features.phone.push_file import PushFile
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.store.data_directory import prepare_data_directory
from ollim_bot.kernel.values.push import Pairing

_WIDTH, _HEIGHT = 360, 300
_TOPIC = "ollim-out"
_STYLE = """
* { box-sizing: border-box; margin: 0 }
body { background: #1f2430; font: 15px/1.4 system-ui, sans-serif; padding: 14px 12px }
article { background: #f7f4f8; color: #1d1b20; border-radius: 20px; padding: 14px 16px;
  margin-bottom: 10px }
header { color: #5f5b66; font-size: 12.5px; display: flex; gap: 7px; align-items: center }
header i { width: 18px; height: 18px; border-radius: 50%; background: #338574; display: block }
h1 { font-size: 15px; font-weight: 600; margin-top: 7px }
p { white-space: pre-line; margin-top: 2px }
nav { display: flex; gap: 26px; margin-top: 12px; color: #276759; font-weight: 600 }
.none { color: #b9bdc9; text-align: center; margin-top: 110px }
"""


def drawer(shown: Sequence[Notification]) -> str:
    """A page that shows the notifications as the drawer of a phone does, newest first."""
    cards = "".join(map(_card, reversed(shown))) or '<p class="none">No notifications</p>'
    return f"<!doctype html><meta charset=utf-8><style>{_STYLE}</style>{cards}"


def _card(one: Notification) -> str:
    buttons = "".join(f"<span>{escape(label)}</span>" for label in one.labels)
    return (
        f"<article><header><i></i>ntfy · now</header><h1>{escape(one.title)}</h1>"
        f"<p>{escape(one.text)}</p><nav>{buttons}</nav></article>"
    )


async def draw(browser: Browser, name: str, shown: Sequence[Notification]) -> None:
    page = await browser.new_page(viewport={"width": _WIDTH, "height": _HEIGHT})
    await page.set_content(drawer(shown))
    path = IMAGES / f"{name}.png"
    await page.screenshot(path=path)
    await page.close()
    with Image.open(path) as taken:
        taken.convert("RGB").quantize(256).save(path, optimize=True)


async def _is_settled(bot: Bot, text: str) -> bool:
    (shown,) = [each for each in await bot.messages() if each["text"] == text]
    labels = ("Done", "Taken")
    return all(each["is_used"] for each in shown["card"]["buttons"] if each["label"] in labels)


async def _pictures(browser: Browser, home: Path) -> None:
    async with LocalNtfy() as ntfy, Phone(ntfy.url, _TOPIC) as phone:
        bot = InProcessBot(home, ScriptedModel(), {"NTFY_URL": ntfy.url})
        paths = DataPaths(bot.data)
        prepare_data_directory(paths)
        PushFile(paths).write(Pairing(ntfy.url, _TOPIC, "ollim-in", datetime.now(UTC)))
        async with running(bot):
            remind(bot, "dentist", 0, "Call the dentist.", head="plain: true\n")
            await phone.until(lambda: len(phone.shown) == 1)
            dose = "plain: true\nkind: dose\nfirst-step: Fill a glass of water.\n"
            remind(bot, "pills", 0, "Take the pills.", head=dose)
            await phone.until(lambda: len(phone.shown) == 2)
            await draw(browser, "phone-notification", phone.shown)
            pills = phone.shown[-1]
            await phone.press(pills, pills.labels[0])
            await bot.until(lambda: _is_settled(bot, "Take the pills."))
            await phone.until(lambda: len(phone.shown) == 1)
            await draw(browser, "phone-answered", phone.shown)


async def main() -> None:
    async with chromium() as browser:
        with tempfile.TemporaryDirectory() as home:
            await _pictures(browser, Path(home))


if __name__ == "__main__":
    asyncio.run(main())
