"""The phone is paired on the page: said before, one attempt at a time, kept only when pressed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from devtools.doubles.clock import A_FRACTION, ManualClock
from devtools.doubles.phone import CODE, OFFER, SINCE, FakePhoneLink
from tests.conversation.scene import scene, scripted
from tests.patience import patience
from tests.web.markup import ATTRIBUTES, TAGS, Markup

from ollim_bot.conversation.phone import PhonePage
from ollim_bot.domain.phone import PairingStatus, PhoneAttempt, PhoneView
from ollim_bot.domain.setting_view import PHONE, SettingGroup, SettingsView
from ollim_bot.errors import OllimError
from ollim_bot.surfaces.web.settings_html import settings_html

SERVER = "https://push.example.org"
PAIRED = PairingStatus(SERVER, SINCE)
KEYS = (CODE.topic, CODE.reply_topic)


def drawn(**state: object) -> str:
    phone = replace(PhoneView(SINCE, OFFER), **state)  # type: ignore[arg-type]
    html = settings_html(SettingsView([SettingGroup(PHONE, ())], phone), 9)
    shown = Markup(html)
    assert shown.tags <= TAGS
    assert shown.attributes <= ATTRIBUTES
    return html


def test_before_it_is_paired_all_is_said_and_no_server_is_chosen() -> None:
    html = drawn()
    before = html[: html.index("<form")]
    assert all(each in before for each in OFFER.told)
    assert html.index(OFFER.of_public) < html.index("Pair through push.example.net")
    assert 'name="server" autocomplete="off" placeholder' in html
    assert "value=" not in html
    assert "<code>ollim-bot push setup</code>" in html


def test_the_names_are_shown_only_while_it_is_paired_or_when_asked_for() -> None:
    waiting = PhoneAttempt(SERVER, CODE, SINCE + timedelta(minutes=10))
    hidden = [drawn(), drawn(attempt=PhoneAttempt(SERVER)), drawn(paired=PAIRED)]
    shown = [drawn(attempt=waiting), drawn(paired=PAIRED, code=CODE)]
    assert not [each for each in hidden if any(key in each for key in KEYS)]
    assert all(key in each for each in shown for key in KEYS)
    assert "Waiting for your press, until 12:10." in shown[0]
    square = "M0 0h3v1h-3zM0 1h1v1h-1zM2 1h1v1h-1zM0 2h3v1h-3z"
    assert (
        f'viewBox="0 0 3 3" role="img" aria-label="The code to scan"><path d="{square}"'
        in (shown[0])
    )
    assert "No button was pressed yet." in hidden[2]
    pressed = drawn(paired=replace(PAIRED, last_press=SINCE - timedelta(days=1)))
    assert "Last press: yesterday 12:00." in pressed


@asynccontextmanager
async def page_of(link: FakePhoneLink) -> AsyncIterator[PhonePage]:
    page = PhonePage(link, ManualClock(SINCE))
    running = asyncio.create_task(page.run())
    try:
        yield page
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(page: PhonePage, condition: Callable[[PhoneView], object]) -> PhoneView:
    """The first state that the page is told of and that meets the condition."""
    with page.news.watching((), None) as news:
        async with asyncio.timeout(patience()):
            while not condition(view := await page.look({})):
                await news.wait()
                news.clear()
    return view


async def begun(page: PhonePage) -> None:
    assert not (await page.act("pair", {"server": f"{SERVER}/"})).is_error
    view = await until(page, lambda view: view.attempt and view.attempt.code)
    assert view.attempt == PhoneAttempt(SERVER, CODE, SINCE + A_FRACTION + OFFER.patience)


@pytest.mark.real_process
async def test_the_press_ends_the_waiting_and_a_second_attempt_is_refused() -> None:
    link = FakePhoneLink()
    async with page_of(link) as page:
        wrong = await page.act("pair", {"server": "http://x"})
        assert (wrong.is_error, wrong.field) == (True, "server")
        await begun(page)
        assert (await page.act("pair", {"server": SERVER})).is_error
        link.pressed.set()
        view = await until(page, lambda view: view.paired and not view.attempt)
        assert (view.attempt, view.has_failed) == (None, False)
        assert link.calls == ["begin", "wait"]
        assert (await page.act("pair", {"server": SERVER})).is_error
        assert (await page.look({"phone": "code"})).code == CODE
        assert (await page.act("test-phone", {})).text == "A test was sent."
        assert (await page.act("remove-phone", {})).text == "The phone is forgotten."
        assert (await page.look({"phone": "code"})).paired is None


async def cancel(page: PhonePage, _: FakePhoneLink) -> None:
    assert not (await page.act("cancel-pairing", {})).is_error
    assert (await page.act("cancel-pairing", {})).is_error


async def let_time_pass(_: PhonePage, link: FakePhoneLink) -> None:
    link.late.set()


async def stop(page: PhonePage, _: FakePhoneLink) -> None:
    """The bot ends."""


@pytest.mark.real_process
async def test_without_a_press_nothing_is_kept() -> None:
    ways: dict[str, Callable[[PhonePage, FakePhoneLink], Awaitable[None]]]
    ways = {"": cancel, "No press came in time": let_time_pass, "broken off": stop}
    for told, end in ways.items():
        link = FakePhoneLink()
        async with page_of(link) as page:
            await begun(page)
            await end(page, link)
            if end is not stop:
                await until(page, lambda view: not view.attempt)
                assert await asyncio.to_thread(link.has_ended.wait, 5)
        assert await asyncio.to_thread(link.has_ended.wait, patience())
        view = await page.look({})
        assert (view.paired, view.attempt, bool(view.told)) == (None, None, bool(told))
        assert told in view.told


async def test_a_server_that_is_refused_is_told_on_the_page() -> None:
    link = FakePhoneLink()
    link.refusal = OllimError("The server keeps nothing.")
    async with page_of(link) as page:
        await page.act("pair", {"server": SERVER})
        view = await until(page, lambda view: view.told)
        assert (view.told, view.has_failed) == ("The server keeps nothing.", True)
        assert 'class="problem" role="alert">The server keeps nothing.' in drawn(
            told=view.told, has_failed=True
        )
        assert (await page.act("test-phone", {})).is_error


async def test_the_settings_have_the_phone_with_its_actions_and_its_news() -> None:
    link = FakePhoneLink()
    async with scene(scripted(), phone=link) as at:
        view = at.chat.views.settings
        shown = await view.look({})
        assert shown.phone
        assert shown.phone.offer == OFFER
        changes = view.changes()
        told = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        assert (await view.act("web", "pair", {"server": "x"})).field == "server"
        assert not (await view.act("web", "pair", {"server": SERVER})).is_error
        async with asyncio.timeout(patience()):
            await told
        assert (await view.look({})).phone.attempt == PhoneAttempt(SERVER)  # type: ignore[union-attr]
