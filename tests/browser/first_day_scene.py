"""The whole bot without an account on its first day: page in a browser, local Discord, terminal.

The bot runs in this process with its built-in model, and on a moved clock.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from devtools.localdiscord.server import LocalDiscord
from devtools.localdiscord.state import Message
from devtools.scripted_model import ScriptedModel
from playwright.async_api import Browser, Locator, Page, ViewportSize, expect
from tests.browser.scene import box, send
from tests.e2e.discord.discord_scene import DiscordScene, account, words
from tests.e2e.discord.transcript import Transcript
from tests.e2e.discord.week_scene import WeekClock, WeekScene, moment_of
from tests.e2e.in_process_bot import InProcessBot
from tests.hostile.calling_engine import CallingEngine
from tests.hostile.canary_home import CanaryHome
from tests.patience import patience
from tests.surfaces.discord.connection_scene import restored_addresses
from tests.surfaces.web.sign_in import SignInClient

from ollim_bot.kernel.base.settings import Secret, Settings
from ollim_bot.kernel.engine.launcher import engine_variables
from ollim_bot.offline.rules import OfflineModel
from ollim_bot.surfaces.terminal.main import main
from ollim_bot.surfaces.web.secret import address

_SIZE: ViewportSize = {"width": 900, "height": 900}
# Without windows a browser blocks notifications, with windows it asks.
_ASKS_FIRST = "Object.defineProperty(Notification, 'permission', {value: 'default'})"


class NewcomersBot(InProcessBot):
    """Without an account: the built-in model, whose calls are carried out on the same clock."""

    def __init__(self, home: Path, clock: WeekClock) -> None:
        settings = {"OLLIM_MODEL": "offline", "OLLIM_TIMEZONE": "Europe/Berlin"}
        super().__init__(home, ScriptedModel(), settings, clock)
        given = {name: text for name, text in self.environment().items() if name != "PATH"}
        environment = engine_variables(given, os.environ, Path(sys.executable).parent)
        self._engine = CallingEngine(OfflineModel(), environment, CanaryHome(home), clock)

    def gets(self, settings: Mapping[str, str]) -> None:
        """It has these settings too from its next start on."""
        self._settings = {**self._settings, **settings}
        self._read = Settings.from_env(self.environment(), cwd=self.home)


class FirstDay:
    """What the newcomer does and sees. `page` is open from `opens_the_page` on."""

    def __init__(self, home: Path, browser: Browser, discord: LocalDiscord) -> None:
        self.clock = WeekClock(moment_of("Mon 7:30"))
        self.discord = discord
        self._browser = browser
        self._page: Page | None = None
        self.bot = NewcomersBot(home, self.clock)
        scene = DiscordScene(self.bot, ScriptedModel(), discord)
        self.week = WeekScene(scene, self.clock, Transcript("Ada", "Ollim", {}))
        self._shown = 0
        self._said = 0

    @property
    def page(self) -> Page:
        assert self._page is not None
        return self._page

    async def restarts_with_discord(self) -> None:
        await self._mark()
        await self.bot.stop()
        self.bot.gets(account(self.discord))
        await self.bot.start()

    async def opens_the_page(self) -> None:
        context = await self._browser.new_context(viewport=_SIZE, timezone_id="Europe/Berlin")
        context.set_default_timeout(patience() * 1000)
        await context.add_init_script(_ASKS_FIRST)
        self._page = await context.new_page()
        await self.page.clock.set_fixed_time(self.clock.now())
        secret = Secret((self.bot.data / "state" / "web_token").read_text().strip())
        code = await SignInClient(self.bot.http, self.bot.url).code(secret)
        await self.page.goto(address(self.bot.port, code))
        await expect(box(self.page)).to_be_focused()

    async def closes_the_page(self) -> None:
        if self._page is not None:
            await self._page.context.close()

    async def at(self, moment: str) -> None:
        """Time passes until this moment, such as `Mon 8:00`."""
        await self._mark()
        await self.week.at(moment)
        await self.page.clock.set_fixed_time(self.clock.now())

    async def types(self, text: str) -> None:
        await self._mark()
        await send(self.page, text)

    async def says_on_discord(self, text: str) -> None:
        await self._mark()
        self.discord.say(text)

    async def presses(self, label: str, of: str) -> None:
        """Press this button of the newest message with these words."""
        await self._mark()
        article = self._articles().filter(has_text=of)
        await article.get_by_role("button", name=label, exact=True).last.click()

    async def presses_on_discord(self, label: str, of: str) -> None:
        await self._mark()
        having = [each for each in self.discord.said if label in labels(each) and of in words(each)]
        assert having, f"There is no button {label!r} of {of!r} on Discord."
        (pressed,) = [each for each in having[-1].buttons if each.get("label") == label]
        self.discord.click(having[-1].id, str(pressed["custom_id"]))

    def runs(self, *command: str) -> str:
        """What `ollim-bot` prints in a terminal."""
        output = io.StringIO()
        with redirect_stdout(output), redirect_stderr(output):
            environment, now = self.bot.environment(), self.clock.now
            code = main(command, environ=environment, cwd=self.bot.home, now=now)
        assert code == 0, output.getvalue()
        return output.getvalue()

    async def new(self) -> str:
        """What the bot has said since the last act of the newcomer."""
        return "\n".join((await self._articles().all_inner_texts())[self._shown :])

    async def new_count(self) -> int:
        return await self._articles().count() - self._shown

    def new_on_discord(self) -> str:
        said = self.discord.said[self._said :]
        return "\n".join(f"{words(each)}\n{' '.join(labels(each))}" for each in said)

    async def all_shown(self) -> str:
        return "\n".join(await self._articles().all_inner_texts())

    async def until(self, look: Callable[[], Awaitable[str]], *parts: str) -> None:
        """Wait until what is seen has all these words, whatever their case."""
        seen = ""

        async def has_all() -> bool:
            nonlocal seen
            seen = await look()
            return all(part.casefold() in seen.casefold() for part in parts)

        try:
            await self.bot.until(has_all)
        except TimeoutError:
            missing = [part for part in parts if part.casefold() not in seen.casefold()]
            raise AssertionError(f"missing {missing} in:\n{seen}") from None

    def _articles(self) -> Locator:
        """The messages and notes of the bot."""
        return self.page.locator("#log article:not(.owner), #log .note")

    async def is_at_rest(self) -> bool:
        """Whether all is answered, and the page shows the newest message."""
        if self.bot.open_inputs():
            return False
        newest = self.bot.log()[-1:]
        shown = [self.page.locator(f'#log [data-id="{each.message.id}"]') for each in newest]
        return all([await each.count() for each in shown])

    async def _mark(self) -> None:
        # What still comes is the answer to the act before.
        await self.bot.until(self.is_at_rest)
        self._shown = await self._articles().count()
        self._said = len(self.discord.said)


def labels(message: Message) -> list[str]:
    return [str(each.get("label", "")) for each in message.buttons]


@asynccontextmanager
async def first_day(home: Path, browser: Browser) -> AsyncIterator[FirstDay]:
    """A bot that has just started in an empty home, early on a Monday."""
    with restored_addresses():
        async with LocalDiscord() as discord:
            discord.allowance(100, 1.0, of=["send", "edit", "delete", "react", "webhook"])
            day = FirstDay(home, browser, discord)
            async with day.week.ticking():
                try:
                    await day.bot.start()
                    yield day
                finally:
                    await day.closes_the_page()
                    await day.bot.kill()
