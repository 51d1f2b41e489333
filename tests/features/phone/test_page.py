"""The page pairs a real server: one attempt at a time, kept with its press, and removed again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.phone import SINCE
from devtools.localntfy.phone import Phone
from devtools.localntfy.server import LocalNtfy
from tests.kernel.conversation.scene import scene, scripted
from tests.patience import patience
from tests.stores import memory_stores

from ollim_bot.features.phone.phone_page import PhonePage
from ollim_bot.features.phone.push_file import PushFile
from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import NtfyAccount
from ollim_bot.kernel.values.push import PhoneAttempt, PhoneCode, PhoneView

pytestmark = pytest.mark.real_process


class Pairing:
    """The page's side of a bot with this store."""

    def __init__(self, folder: Path) -> None:
        paths = DataPaths(folder)
        paths.locks.mkdir(parents=True, exist_ok=True)
        self.clock = ManualClock(SINCE)
        self.file = PushFile(paths)
        self.stores = memory_stores(self.clock.now)
        self.store = self.stores.state
        self.page = PhonePage(self.store, self.file, NtfyAccount, self.clock)
        self.running = asyncio.create_task(self.page.run())

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
    try:
        yield made
    finally:
        made.running.cancel()
        await asyncio.gather(made.running, return_exceptions=True)


async def test_a_press_pairs_and_removing_tells_the_phone(tmp_path: Path) -> None:
    async with LocalNtfy() as ntfy, pairing(tmp_path) as at:
        at.store.run(lambda tx: tx.channels.join("discord", ""))
        wrong = await at.page.act("pair", {"server": "http://push.example.org"})
        assert (wrong.is_error, wrong.field) == (True, "server")
        code = await at.begin(f"{ntfy.url}/")
        until = at.clock.now() + timedelta(minutes=10)
        attempt = (await at.page.look({})).attempt
        assert attempt is not None
        assert attempt.until is not None
        assert abs(attempt.until - until) < timedelta(seconds=1)
        assert (await at.page.act("pair", {"server": ntfy.url})).is_error
        assert (at.file.read(), at.joined) == (None, ["discord"])
        async with Phone(ntfy.url, code.topic) as phone:
            await phone.until(lambda: phone.shown)
            assert await phone.press(phone.shown[-1], "It reaches me") == 200
            view = await at.until(lambda view: view.paired and not view.attempt)
            assert "only what must come rings" in view.told
            assert not view.has_failed
            assert at.store.query(lambda tx: tx.config.get()).push_what == "must"
            assert at.joined == ["discord", "ntfy"]
            kept = at.file.read()
            assert kept
            assert (kept.server, kept.topic) == (ntfy.url, code.topic)
            assert (await at.page.act("pair", {"server": ntfy.url})).is_error
            assert (await at.page.look({})).code is None
            assert (await at.page.look({"phone": "code"})).code == code
            assert (await at.page.act("test-phone", {})).text
            await phone.until(lambda: "A test" in [each.title for each in phone.shown])
            told = await at.page.act("remove-phone", {})
            assert "The phone was told." in told.text
            await phone.until(lambda: "No longer used" in [each.title for each in phone.shown])
        assert (at.file.read(), at.joined) == (None, ["discord"])
        assert (await at.page.look({"phone": "code"})).paired is None
        assert (await at.page.act("remove-phone", {})).is_error


async def cancel(at: Pairing) -> None:
    assert not (await at.page.act("cancel-pairing", {})).is_error
    assert (await at.page.act("cancel-pairing", {})).is_error


async def let_time_pass(at: Pairing) -> None:
    at.clock.jump(11 * 60)


async def stop(at: Pairing) -> None:
    at.running.cancel()


async def test_nothing_is_kept_of_an_attempt_that_ends_without_its_press(tmp_path: Path) -> None:
    ways: dict[str, Callable[[Pairing], Awaitable[None]]]
    ways = {"": cancel, "No press came in time": let_time_pass, "broken off": stop}
    topics = set()
    async with LocalNtfy() as ntfy:
        for told, end in ways.items():
            async with pairing(tmp_path) as at:
                topics.add((await at.begin(ntfy.url)).topic)
                await end(at)
                view = await at.until(lambda view: not view.attempt)
                assert (view.paired, view.has_failed, bool(view.told)) == (None, *[bool(told)] * 2)
                assert told in view.told
                assert (at.file.read(), at.joined) == (None, [])
    assert len(topics) == len(ways)


async def test_a_server_that_is_refused_or_wants_a_token_is_told_on_the_page(
    tmp_path: Path,
) -> None:
    async with LocalNtfy() as ntfy, pairing(tmp_path) as at:
        ntfy.access.close_to_strangers()
        await at.page.act("pair", {"server": ntfy.url})
        view = await at.until(lambda view: view.told)
        assert "run `ollim-bot push setup` in a terminal" in view.told
        await ntfy.refuse_connections()
        await at.page.act("pair", {"server": ntfy.url})
        view = await at.until(lambda view: "cannot be reached now" in view.told)
        assert view.has_failed
        assert (await at.page.act("test-phone", {})).is_error


async def test_the_settings_have_the_phone_with_its_actions_and_its_news(tmp_path: Path) -> None:
    async with (
        LocalNtfy() as ntfy,
        pairing(tmp_path) as at,
        scene(scripted(), stores=at.stores, phone=at.page) as bot,
    ):
        view = bot.chat.views["settings"]
        shown = (await view.look({})).phone
        assert shown
        assert shown.offer == (await at.page.look({})).offer
        changes = view.changes()
        told = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        assert (await view.act("web", "pair", {"server": "http://x"})).field == "server"
        assert not (await view.act("web", "pair", {"server": ntfy.url})).is_error
        async with asyncio.timeout(patience()):
            await told
        attempt = (await view.look({})).phone.attempt
        assert isinstance(attempt, PhoneAttempt)
        assert attempt.server == ntfy.url
