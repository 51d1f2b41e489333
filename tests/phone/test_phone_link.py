"""The page pairs a real server: kept with its press, told to the bot, and removed again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.phone import SINCE
from devtools.localntfy.phone import Phone
from devtools.localntfy.server import LocalNtfy
from tests.patience import patience
from tests.stores import memory_stores

from ollim_bot.conversation.phone import PhonePage
from ollim_bot.domain.phone import PhoneCode, PhoneView
from ollim_bot.paths import DataPaths
from ollim_bot.settings import NtfyAccount
from ollim_bot.store.push_file import PushFile
from ollim_bot.store.store import Store
from ollim_bot.surfaces.ntfy.phone_link import NtfyPhone

pytestmark = pytest.mark.real_process


class Pairing:
    """The page's side of a bot with this store."""

    def __init__(self, folder: Path) -> None:
        paths = DataPaths(folder)
        paths.locks.mkdir(parents=True)
        clock = ManualClock(SINCE)
        self.file = PushFile(paths)
        self.store: Store = memory_stores(clock.now).state
        link = NtfyPhone(self.file, self.store, NtfyAccount, clock.now)
        self.page = PhonePage(link, clock)

    @property
    def joined(self) -> list[str]:
        return [each.name for each in self.store.query(lambda tx: tx.channels.all())]

    async def until(self, condition: Callable[[PhoneView], object]) -> PhoneView:
        with self.page.news.watching((), None) as news:
            async with asyncio.timeout(patience()):
                while not condition(view := await self.page.look({})):
                    await news.wait()
                    news.clear()
        return view

    async def begin(self, server: str) -> PhoneCode:
        answer = await self.page.act("pair", {"server": server})
        assert not answer.is_error, answer
        view = await self.until(lambda view: view.told or (view.attempt and view.attempt.code))
        assert view.attempt, view.told
        assert view.attempt.code
        return view.attempt.code


@asynccontextmanager
async def pairing(folder: Path) -> AsyncIterator[Pairing]:
    made = Pairing(folder)
    running = asyncio.create_task(made.page.run())
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_press_pairs_and_removing_tells_the_phone(tmp_path: Path) -> None:
    async with LocalNtfy() as ntfy, pairing(tmp_path) as at:
        at.store.run(lambda tx: tx.channels.join("discord", ""))
        code = await at.begin(f"{ntfy.url}/")
        assert (at.file.read(), at.joined) == (None, ["discord"])
        async with Phone(ntfy.url, code.topic) as phone:
            await phone.until(lambda: phone.shown)
            assert await phone.press(phone.shown[-1], "It reaches me") == 200
            view = await at.until(lambda view: view.paired and not view.attempt)
            assert "only what must come rings" in view.told
            assert at.store.query(lambda tx: tx.config.get()).push_what == "must"
            assert at.joined == ["discord", "ntfy"]
            kept = at.file.read()
            assert kept
            assert (kept.server, kept.topic) == (ntfy.url, code.topic)
            assert (await at.page.look({})).code is None
            assert (await at.page.look({"phone": "code"})).code == code
            assert (await at.page.act("test-phone", {})).text
            await phone.until(lambda: "A test" in [each.title for each in phone.shown])
            told = await at.page.act("remove-phone", {})
            assert "The phone was told." in told.text
            await phone.until(lambda: "No longer used" in [each.title for each in phone.shown])
        assert (at.file.read(), at.joined) == (None, ["discord"])
        assert (await at.page.act("remove-phone", {})).is_error


async def test_nothing_is_kept_of_an_attempt_that_ends_without_its_press(tmp_path: Path) -> None:
    async with LocalNtfy() as ntfy, pairing(tmp_path) as at:
        code = await at.begin(ntfy.url)
        assert not (await at.page.act("cancel-pairing", {})).is_error
        again = await at.begin(ntfy.url)
        assert code.topic != again.topic
        assert (at.file.read(), at.joined) == (None, [])


async def test_a_server_that_wants_a_token_is_for_the_terminal(tmp_path: Path) -> None:
    async with LocalNtfy() as ntfy, pairing(tmp_path) as at:
        ntfy.access.close_to_strangers()
        await at.page.act("pair", {"server": ntfy.url})
        view = await at.until(lambda view: view.told)
        assert "run `ollim-bot push setup` in a terminal" in view.told
        wrong = await at.page.act("pair", {"server": "http://push.example.org"})
        assert (wrong.is_error, wrong.field) == (True, "server")
