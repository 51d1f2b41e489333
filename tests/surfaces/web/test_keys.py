"""Codes and challenges of the sign-in work once, for a limited time, and at one bot only."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from tests.surfaces.web.browser import SECONDS, Browser, served, signed_in_browser, unknown_browser
from tests.surfaces.web.scene import SECRET, Scene, make_scene, running
from tests.surfaces.web.sign_in import NONCE, AccessDenied, BrowserKey

from ollim_bot.kernel.base.paths import DataPaths
from ollim_bot.kernel.base.settings import Secret
from ollim_bot.kernel.values.surface_state import MOST_BROWSERS
from ollim_bot.surfaces.web.access import CHALLENGE_SECONDS, CODE_SECONDS, SESSION_SECONDS
from ollim_bot.surfaces.web.secret import bot_key, entry_code, mac, new_web_secret

MONTH = timedelta(days=30).total_seconds()


def code_of(scene: Scene) -> str:
    return scene.surface.address().partition("#")[2]


async def key_of_before(folder: Path) -> BrowserKey:
    """The key of a browser that an earlier run of the bot has let in."""
    async with served(folder) as (_, browser):
        assert browser.key is not None
        return replace(browser.key)


async def refused(browser: Browser, key: BrowserKey) -> int:
    with pytest.raises(AccessDenied) as told:
        await browser.sign_in.session(replace(key))
    return told.value.status


def browsers_of(scene: Scene) -> list[dict[str, object]]:
    path = DataPaths(scene.folder).web_browsers
    found: list[dict[str, object]] = json.loads(path.read_text())["browsers"]
    return found


async def test_a_code_counts_once(scene: Scene) -> None:
    code = code_of(scene)
    async with unknown_browser(scene) as browser, unknown_browser(scene) as other:
        await browser.sign_in.enter(code)
        with pytest.raises(AccessDenied) as told:
            await other.sign_in.enter(code)
    assert told.value.status == 401
    assert "used already" in told.value.answer["error"]


@pytest.mark.parametrize("seconds", [CODE_SECONDS + 1, 10 * CODE_SECONDS])
async def test_a_code_counts_for_a_quarter_of_an_hour(scene: Scene, seconds: float) -> None:
    early, late = code_of(scene), code_of(scene)
    async with unknown_browser(scene) as browser:
        await scene.clock.advance(CODE_SECONDS - 1)
        await browser.sign_in.enter(early)
        await scene.clock.advance(seconds - CODE_SECONDS + 1)
        with pytest.raises(AccessDenied):
            await browser.sign_in.enter(late)


async def test_a_code_that_somebody_read_while_the_bot_was_down_opens_nothing(
    tmp_path: Path,
) -> None:
    async with running(make_scene(tmp_path)) as scene:
        code = code_of(scene)
    async with running(make_scene(tmp_path)) as scene, unknown_browser(scene) as other:
        with pytest.raises(AccessDenied):
            await other.sign_in.enter(code)


async def test_a_code_is_right_or_it_is_nothing(scene: Scene) -> None:
    code = code_of(scene)
    challenge, _, answer = code.partition(".")
    wrong = ["", code[:-1], f"{code}x", f"{code}.", challenge, f"{challenge}=.{answer}", f"ü{code}"]
    wrong += [entry_code(SECRET, "never-asked"), entry_code(SECRET, "")]
    wrong += [entry_code(Secret("another"), challenge), f".{answer}"]
    async with unknown_browser(scene) as browser:
        for each in wrong:
            with pytest.raises(AccessDenied) as told:
                await browser.sign_in.enter(each)
            assert told.value.status == 401
        await browser.sign_in.enter(code)


@pytest.mark.parametrize("path", ["/api/enter", "/api/challenge", "/api/session"])
async def test_who_is_not_known_is_heard_shortly(scene: Scene, path: str) -> None:
    async with unknown_browser(scene) as other:
        for body in (
            "",
            "[]",
            "3",
            "{}",
            '{"code": 3}',
            '{"browser": [], "nonce": {}}',
            "[" * 3000,
        ):
            assert (await other.ask("POST", path, data=body)).status == 400
        words = dict.fromkeys(("code", "browser", "nonce", "generation", "challenge", "proof"), "x")
        assert (await other.post(path, dict.fromkeys(words, "x" * 600))).status in (400, 413)
        assert (await other.ask("POST", path, data="x" * 5000)).status == 413
        assert (await other.post(path, words, Origin="http://evil.example")).status == 403
        assert (await other.post(path, words, Origin="")).status == 403


async def test_an_answer_to_a_challenge_counts_once(scene: Scene) -> None:
    async with unknown_browser(scene) as browser:
        key = await browser.sign_in.enter(code_of(scene))
        challenge = await browser.sign_in.challenge()
        assert (await browser.sign_in.answer(key, challenge))["session"]
        for _ in range(2):
            with pytest.raises(AccessDenied):
                await browser.sign_in.answer(key, challenge)


async def test_an_answer_counts_for_a_minute_and_for_the_bot_that_asked(tmp_path: Path) -> None:
    async with running(make_scene(tmp_path)) as scene, unknown_browser(scene) as browser:
        key = await browser.sign_in.enter(code_of(scene))
        slow = await browser.sign_in.challenge()
        await scene.clock.advance(CHALLENGE_SECONDS + 1)
        with pytest.raises(AccessDenied):
            await browser.sign_in.answer(key, slow)
        unanswered = await browser.sign_in.challenge()
        session = await browser.sign_in.session(key)
    async with running(make_scene(tmp_path)) as scene, unknown_browser(scene) as browser:
        for challenge in (unanswered, slow, "", "guessed", "A" * 48):
            with pytest.raises(AccessDenied):
                await browser.sign_in.answer(key, challenge)
        browser.session = session
        assert (await browser.get("/api/messages")).status == 401
        assert await browser.sign_in.session(key)


async def test_a_session_ends_when_it_is_not_used(scene: Scene, browser: Browser) -> None:
    for _ in range(3):
        await scene.clock.advance(SESSION_SECONDS - 1)
        assert (await browser.get("/api/messages")).status == 200
    await scene.clock.advance(SESSION_SECONDS + 1)
    assert (await browser.get("/api/messages")).status == 401
    await browser.enter()
    assert (await browser.get("/api/messages")).status == 200


async def test_a_browser_is_known_for_thirty_days_after_its_last_use(scene: Scene) -> None:
    async with unknown_browser(scene) as browser:
        await browser.enter()
        assert browser.key is not None
        for _ in range(3):
            await scene.clock.advance(MONTH - 60)
            await browser.enter()
        await scene.clock.advance(MONTH + 3700)
        assert await refused(browser, browser.key) == 401
        assert (await browser.get("/api/messages")).status == 401


async def test_an_open_tab_is_use(scene: Scene, browser: Browser) -> None:
    assert browser.key is not None
    async with browser.tab():
        for _ in range(3):
            await scene.clock.advance(MONTH / 2)
            async with asyncio.timeout(SECONDS):
                while str(browsers_of(scene)[0]["used"])[:13] != scene.clock.now().isoformat()[:13]:
                    await scene.clock.advance(2)
                    await asyncio.sleep(0.005)
    assert await browser.sign_in.session(browser.key)


async def test_a_new_secret_ends_everything_at_once(scene: Scene, browser: Browser) -> None:
    assert browser.key is not None
    waiting = code_of(scene)
    async with browser.tab() as (tab, _):
        secret = new_web_secret(DataPaths(scene.folder))
        await scene.clock.advance(2)
        assert await tab.closing() == 1006
    assert (await browser.get("/api/messages")).status == 401
    assert await refused(browser, browser.key) == 401
    with pytest.raises(AccessDenied):
        await browser.sign_in.enter(waiting)
    assert not DataPaths(scene.folder).web_browsers.exists()
    async with unknown_browser(scene) as anew:
        assert await anew.sign_in.session(await anew.sign_in.enter(await anew.sign_in.code(secret)))


async def test_a_secret_made_anew_while_the_bot_is_down_counts_too(tmp_path: Path) -> None:
    key = await key_of_before(tmp_path)
    secret = new_web_secret(DataPaths(tmp_path))
    async with (
        running(make_scene(tmp_path, secret=secret)) as scene,
        unknown_browser(scene) as browser,
    ):
        assert await refused(browser, key) == 401


async def test_a_secret_that_was_deleted_is_as_good_as_a_new_one(
    scene: Scene, browser: Browser
) -> None:
    paths = DataPaths(scene.folder)
    paths.web_token.unlink()
    async with browser.tab() as (tab, _):
        await scene.clock.advance(2)
        assert await tab.closing() == 1006
    assert paths.web_token.read_text().strip() != SECRET.reveal()


async def test_a_restart_needs_no_new_address_and_the_key_becomes_another(tmp_path: Path) -> None:
    """A copy of the old key, taken while the bot was down, is then useless."""
    async with served(tmp_path) as (scene, browser):
        old = replace(browser.key) if browser.key else None
        assert old is not None
        assert await browser.sign_in.session(old)
    async with running(make_scene(tmp_path)) as scene, unknown_browser(scene) as browser:
        browser.key = replace(old)
        await browser.enter()
        assert (browser.key.generation, browser.key.browser) == (2, old.browser)
        assert browser.key.key != old.key
        assert (await browser.get("/api/messages")).status == 200
        await browser.enter()
        assert browser.key.generation == 2


async def test_a_key_that_was_replaced_tells_that_two_have_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither of the two is accepted any more, whichever came first."""
    old = await key_of_before(tmp_path)
    async with running(make_scene(tmp_path)) as scene, unknown_browser(scene) as first:
        first.key = replace(old)
        await first.enter()
        async with (
            first.tab() as (tab, _),
            unknown_browser(scene) as second,
            signed_in_browser(scene) as bystander,
        ):
            assert await refused(second, old) == 401
            assert await tab.closing() == 1006
            assert (await first.get("/api/messages")).status == 401
            assert await refused(first, first.key) == 401
            assert (await bystander.get("/api/messages")).status == 200
    assert "with `--new` if somebody else" in caplog.text


async def test_a_key_that_came_but_was_never_used_is_given_again(tmp_path: Path) -> None:
    """The page or the bot may stop between the two steps."""
    key = await key_of_before(tmp_path)
    async with running(make_scene(tmp_path)) as scene, unknown_browser(scene) as browser:
        given = [
            (await browser.sign_in.answer(key, await browser.sign_in.challenge()))["next"]
            for _ in range(2)
        ]
        assert given[0] == given[1]
        assert await browser.sign_in.session(replace(key))
    async with running(make_scene(tmp_path)) as scene, unknown_browser(scene) as browser:
        assert await refused(browser, key) == 401


async def test_on_a_full_disk_who_was_let_in_stays_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = await key_of_before(tmp_path)
    locks = DataPaths(tmp_path).lock_of(DataPaths(tmp_path).web_browsers)
    locks.unlink()
    locks.mkdir()
    for _ in range(3):
        async with running(make_scene(tmp_path)) as scene, unknown_browser(scene) as browser:
            browser.key = key
            await browser.enter()
            assert (await browser.get("/api/messages")).status == 200
    assert "is not kept" in caplog.text
    assert key.generation == 4


async def test_only_so_many_browsers_are_known_and_the_file_is_the_owners_alone(
    scene: Scene,
) -> None:
    async with unknown_browser(scene) as first, unknown_browser(scene) as other:
        await first.enter()
        assert first.key is not None
        for _ in range(MOST_BROWSERS):
            await scene.clock.advance(1)
            await other.sign_in.enter(code_of(scene))
        assert await refused(first, first.key) == 401
    assert len(browsers_of(scene)) == MOST_BROWSERS
    path = DataPaths(scene.folder).web_browsers
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SECRET.reveal() not in path.read_text()


@pytest.mark.parametrize("content", ["", "[]", '{"version": 9}', '{"browsers": [3]}', "\udcff"])
async def test_a_file_that_is_damaged_keeps_nobody_from_being_let_in_anew(
    tmp_path: Path, content: str
) -> None:
    scene = make_scene(tmp_path)
    DataPaths(tmp_path).web_browsers.write_bytes(content.encode(errors="surrogateescape"))
    async with running(scene), signed_in_browser(scene) as browser:
        assert (await browser.get("/api/messages")).status == 200


async def test_the_bot_shows_who_it_is(browser: Browser) -> None:
    """The bot proves itself to a page that signed in before, and learns nothing from that page."""
    assert browser.key is not None
    name = browser.key.browser
    answer = await browser.sign_in.ask("/api/challenge", browser=name, nonce=NONCE)
    right = mac(bot_key(SECRET, name), "challenge", answer["challenge"], NONCE)
    assert answer["proof"] == right
    assert bot_key(SECRET, name) != browser.key.key
    async with browser.tab() as (_, hello):
        assert hello["proof"] == mac(bot_key(SECRET, name), "socket", NONCE)


async def test_a_socket_is_opened_by_its_session_alone(browser: Browser) -> None:
    async with browser.connection() as tab:
        assert tab.socket.protocol == "ollim"
    right = browser.session
    for wrong in ("", f"x{right}", right[:-1], f"{right}x"):
        browser.session = wrong
        with pytest.raises(aiohttp.WSServerHandshakeError) as told:
            async with browser.connection(Authorization=f"Bearer {right}"):
                pass
        assert told.value.status == 401


async def test_nothing_of_it_is_in_the_log(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    code = code_of(scene)
    async with unknown_browser(scene) as browser:
        browser.key = await browser.sign_in.enter(code)
        await browser.enter()
        async with browser.tab():
            pass
    assert code not in caplog.text
    assert browser.session not in caplog.text
