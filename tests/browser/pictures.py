"""The pictures of the documentation, taken of the real page: `python -m tests.browser.pictures`.

The whole bot runs in this process on a moved clock. Only the words of the agent and the name of
its model are written here. Look at the pictures before you keep them: fonts differ by machine.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from PIL import Image
from playwright.async_api import Browser, Page, expect
from tests.browser.chromium import chromium
from tests.browser.scene import box
from tests.calendars.calendar_server import CalendarAnswer, ics, served
from tests.e2e.discord.week_scene import WeekScene, week_scene
from tests.e2e.discord.week_story import reminder, routine
from tests.web.sign_in import SignInClient

from ollim_bot.offline.messages import Reply, Say, Stall
from ollim_bot.settings import Secret
from ollim_bot.surfaces.web.secret import address

IMAGES = Path(__file__).parents[2] / "docs" / "images"


# The engine is a fake one, so the page names the built-in model, again after every change.
_RETOUCH = """() => {
    const offline = document.getElementById("offline");
    const provider = document.getElementById("provider");
    const retouch = () => {
        if (!offline.hidden || provider.hidden) {
            offline.hidden = true;
            provider.hidden = false;
            provider.textContent = "Claude · sonnet";
        }
    };
    retouch();
    const header = document.querySelector("header");
    new MutationObserver(retouch).observe(header, {subtree: true, attributes: true});
}"""
_DOSE = ("plain: true", "kind: dose", "nag: 10m x 3")
_TO_THE_END = "it => { it.scrollTop = it.scrollHeight }"


class ScreenshotFormat(NamedTuple):
    """`ending` is added to the file name of the picture."""

    ending: str
    width: int
    height: int
    scheme: Literal["light", "dark"] = "light"


NARROW = ScreenshotFormat("-narrow", 360, 640)
# From so many pixels on, Today stands beside the conversation.
_BESIDE = 1100

_MOMENT = (ScreenshotFormat("", 720, 520), NARROW)
_PAGE = (ScreenshotFormat("", 900, 990), ScreenshotFormat("-dark", 900, 990, "dark"))
_FORK = (ScreenshotFormat("", 900, 620),)
_VIEW = (ScreenshotFormat("", 900, 1080), ScreenshotFormat("-narrow", 390, 844))
_FORM = (ScreenshotFormat("", 900, 860), ScreenshotFormat("-narrow", 390, 844))
_DAY = (
    ScreenshotFormat("", 1280, 980),
    ScreenshotFormat("-dark", 1280, 980, "dark"),
    ScreenshotFormat("-narrow", 390, 980),
    ScreenshotFormat("-narrow-dark", 390, 980, "dark"),
)


@dataclass(frozen=True, slots=True)
class PageCamera:
    browser: Browser
    week: WeekScene

    async def take(
        self, name: str, shows: str, formats: Sequence[ScreenshotFormat] = _MOMENT
    ) -> None:
        """Take a picture in each format, once the page shows these words."""
        for size in formats:
            async with self.week.ticking(), opened(self.browser, self.week, size) as page:
                await expect(page.get_by_role("log")).to_contain_text(shows)
                await page.locator("#scroller").evaluate(_TO_THE_END)
                await expect(page.get_by_text("New messages")).to_be_hidden()
                await _keep(page, f"{name}{size.ending}")

    async def take_view(self, name: str, shows: str) -> None:
        """Take pictures of the view with this name, once it shows these words."""
        for size in _VIEW:
            async with self.week.ticking(), opened(self.browser, self.week, size) as page:
                await page.locator(f"#views [data-view={name}]").click()
                await expect(page.locator("#view")).to_contain_text(shows)
                await _keep(page, f"{name}{size.ending}")

    async def take_day(self, line: str, shows: str) -> None:
        """Take pictures of Today with this line in its box, once the page shows these words."""
        for size in _DAY:
            async with self.week.ticking(), opened(self.browser, self.week, size) as page:
                if size.width < _BESIDE:
                    await page.locator("#views [data-view=today]").click()
                await page.get_by_label("Add something").fill(line)
                await expect(page.locator("#panel .preview")).to_contain_text(shows)
                await page.locator("#scroller").evaluate(_TO_THE_END)
                await _keep(page, f"today{size.ending}")

    async def take_form(self, job: str, when: str, shows: str) -> None:
        """Take pictures of the form of a job with this rhythm in it, once it shows these words."""
        for size in _FORM:
            async with self.week.ticking(), opened(self.browser, self.week, size) as page:
                await page.locator("#views [data-view=today]").click()
                await page.get_by_role("link", name=f"Edit: {job}").click()
                await page.get_by_label("How often").fill(when)
                await expect(page.locator("#view .preview").first).to_contain_text(shows)
                await _keep(page, f"change{size.ending}")


async def _keep(page: Page, name: str) -> None:
    """Take the picture, with as many colours as one can tell apart in it."""
    await page.evaluate(_RETOUCH)
    path = IMAGES / f"{name}.png"
    await page.screenshot(path=path, animations="disabled", caret="hide")
    with Image.open(path) as taken:
        taken.convert("RGB").quantize(256).save(path, optimize=True)


@asynccontextmanager
async def opened(browser: Browser, week: WeekScene, size: ScreenshotFormat) -> AsyncIterator[Page]:
    """The page as the owner sees it now."""
    context = await browser.new_context(
        viewport={"width": size.width, "height": size.height},
        color_scheme=size.scheme,
        timezone_id="Europe/Berlin",
    )
    page = await context.new_page()
    await page.clock.set_fixed_time(week.clock.now())
    await page.goto(await _address(week))
    await expect(box(page)).to_be_focused()
    yield page
    await context.close()


async def _address(week: WeekScene) -> str:
    bot = week.scene.bot
    await bot.reconnect()
    secret = Secret((bot.data / "state" / "web_token").read_text().strip())
    return address(bot.port, await SignInClient(bot.http, bot.url).code(secret))


async def moments(week: WeekScene, camera: PageCamera) -> None:
    """What is due: arriving, answered, put off, asked again, and the morning after the quiet."""
    await week.calls("config", key="quiet_hours", value="22:00-07:00")
    dose = ("plain: true", "kind: dose", "nag: 10m x 3", "first-step: Fill a glass of water.")
    await week.says(
        "I forget my pills. every day at 8, and do not let me get away with it",
        routine(week, "pills", "0 8 * * *", "take the pills", *dose),
        answer="Every day at 8:00, and again every 10 minutes, three times, until you answer.",
    )
    await week.at("Mon 8:00")
    card = await week.comes("take the pills")
    await camera.take("arriving", "Taken")
    await week.at("Mon 8:04")
    await week.presses(card, "Taken")
    await camera.take("done", "Undo")
    await week.at("Mon 17:40")
    rent = reminder("pay the rent", "today 18:00")
    await week.says("remind me at 6pm to pay the rent", rent, answer="Reminder set: 18:00.")
    await week.at("Mon 18:00")
    card = await week.comes("pay the rent")
    await week.presses(card, "1 h")
    await camera.take("snoozed", "again at")
    await week.at("Mon 19:01")
    await week.presses(await week.comes("pay the rent"), "Done")
    await week.at("Tue 8:00")
    await week.comes("take the pills")
    await week.at("Tue 8:10")
    await week.comes("Fill a glass")
    await week.at("Tue 8:20")
    card = await week.comes("Still open")
    await camera.take("nagging", "Still open")
    await week.presses(card, "Taken")
    for name, hour, text, found in (
        ("parcel", 22, "Look for the parcel.", "It is in town, and comes on Friday."),
        ("week", 23, "Plan the week.", "Thursday is full. Move one?"),
    ):
        week.write(routine(week, name, f"30 {hour} * * 2", text, "background: true"))
        week.will_ping(text, found)
    await week.at("Tue 22:30")
    await week.run_ended("Look for the parcel")
    await week.at("Tue 23:30")
    await week.run_ended("Plan the week")
    await week.at("Wed 7:00")
    await week.comes("While it was quiet")
    await camera.take("digest", "While it was quiet")


async def first_page(week: WeekScene, camera: PageCamera) -> None:
    """The whole page: a briefing, a question, a reminder, and an answer under way."""
    await week.says(
        "brief me on weekdays at 8:30",
        routine(week, "briefing", "30 8 * * 1-5", "Morning briefing.", "background: true"),
        answer="Weekdays at 8:30.",
    )
    week.will_ping(
        "Morning briefing.",
        "Today: the **tax letter**, which has until the 30th, and the **dentist**, who closes at "
        "noon. The tap still drips.",
    )
    await week.at("Mon 8:30")
    await week.comes("tax letter")
    await week.at("Mon 8:41")
    await week.says(
        "My head is full. What do I begin with?",
        answer="With the dentist: one call of two minutes, and it is off the list.\n\n"
        "- The tap can wait: put a bowl under it.\n- The tax letter needs a quiet hour, not today.",
    )
    call = reminder("call the dentist", "today 11:00")
    await week.says(
        "ok, remind me at 11 to call them",
        call,
        answer="Reminder set: call the dentist, today 11:00.",
    )
    await week.at("Mon 11:00")
    await week.comes("call the dentist")
    await week.at("Mon 11:06")
    words = "Good, that was the hard one. Thursday 9:00 is in your"
    week.scene.model.then(Stall(Reply((Say(words),))))
    week.scene.discord.say("Done. Thursday at nine.")
    await week.until(lambda: week.has_new("is in your"))
    await camera.take("page", "is in your", _PAGE)


async def fork(week: WeekScene, camera: PageCamera) -> None:
    week.scene.model.answers("Rome. By train, or by plane?")
    await week.calls("fork", "by plane?", topic="a trip to Rome")
    await week.says("by train", answer="Then the night train, on Friday. Shall I look for seats?")
    await camera.take("fork", "the night train", _FORK)


async def coming_week(week: WeekScene, camera: PageCamera) -> None:
    """The week before it comes: pills, mail, a course of antibiotics, the bins, the dentist."""
    await week.calls("config", key="quiet_hours", value="22:00-07:00")
    for name, cron, text, *more in (
        ("pills", "0 8,20 * * *", "Take the pills", *_DOSE),
        ("mail", "*/15 12,15 * * 1-5", "Look at the mail", "background: true"),
        ("briefing", "30 8 * * 1-5", "Morning briefing", "background: true"),
        ("plan", "30 21 * * *", "Plan tomorrow"),
        ("bins", "0 19 * * 4", "Put the bins out", "plain: true"),
        ("news", "30 22 * * 1-5", "Read the news", "background: true"),
    ):
        week.write(routine(week, name, cron, text, *more))
    dentist = reminder("dentist", "wednesday 15:00", plain=True, before=["30m"])
    await week.says("dentist on wednesday at 3", dentist, answer="Reminder set.")
    await camera.take_view("week", "Put the bins out")


_EVENTS = (
    "SUMMARY:Lunch with Noor\nDTSTART:20261116T113000Z\nDTEND:20261116T123000Z",
    "SUMMARY:Pottery\nDTSTART:20261116T170000Z\nDTEND:20261116T183000Z",
)


async def day_in_sight(week: WeekScene, camera: PageCamera) -> None:
    """A Monday at 10:20: one thing is late, one comes soon, and the rest of the day is in sight."""
    await week.calls("config", key="quiet_hours", value="22:00-07:00")
    (week.scene.bot.data / "tasks.md").write_text("- [ ] buy a birthday card (due 2026-11-16)\n")
    with served(CalendarAnswer(body=ics(*_EVENTS, head="X-WR-CALNAME:Home\n"))) as calendar:
        week.scene.discord.say(calendar.address())
        await week.comes("is added")
        week.write(routine(week, "pills", "0 8,20 * * *", "Take the pills", *_DOSE))
        week.write(routine(week, "walk", "0 15 * * *", "A walk around the block", "plain: true"))
        await week.at("Mon 8:00")
        await week.presses(await week.comes("Take the pills"), "Taken")
        await week.at("Mon 8:20")
        await week.says("good morning", answer="Good morning. Lunch with Noor is at 12:30.")
        await week.at("Mon 8:41")
        await week.says(
            "My head is full. What do I begin with?",
            answer="With the dentist: one call of two minutes, and it is off the list.\n\n"
            "- The tap can wait: put a bowl under it.\n"
            "- The tax letter needs a quiet hour, not today.",
        )
        call = reminder("Call the dentist", "today 11:00", plain=True)
        answer = "Reminder set: call the dentist, today 11:00."
        await week.says("ok, remind me at 11 to call them", call, answer=answer)
        laundry = reminder("Hang up the laundry", "today 9:45", plain=True)
        answer = "Reminder set: hang up the laundry, today 9:45."
        await week.says("and at quarter to ten to hang up the laundry", laundry, answer=answer)
        await week.says("thanks", answer="You are welcome. See you at quarter to ten.")
        await week.at("Mon 9:45")
        await week.comes("Hang up the laundry")
        await week.at("Mon 10:20")
        await camera.take_day("call mum tomorrow 9am", "tomorrow")
        await camera.take_form("Take the pills", "every day at 8:30 and 22:30", "22:30")


async def main() -> None:
    async with chromium() as browser:
        for scene in (moments, first_page, fork, coming_week, day_in_sight):
            with tempfile.TemporaryDirectory() as home:
                async with week_scene(Path(home), "Ada") as week:
                    await scene(week, PageCamera(browser, week))


if __name__ == "__main__":
    asyncio.run(main())
