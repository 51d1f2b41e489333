"""`ollim-bot web url` prints an address of the page that works once, and nothing else."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.browser.hostile_server import HostileServer, serving
from tests.surfaces.web.browser import signed_in_browser, unknown_browser
from tests.surfaces.web.scene import SECRET, Scene, make_scene, running
from tests.surfaces.web.sign_in import AccessDenied
from tests.terminal import CommandResult, Terminal

from ollim_bot.kernel.base.instance import single_instance
from ollim_bot.kernel.store.data_directory import prepare_data_directory

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\?[0-9a-f]{8}#([\w.-]{60,})\n")
SILENT = "The bot is running, but its page does not answer"


@asynccontextmanager
async def bot(terminal: Terminal) -> AsyncIterator[Scene]:
    """A fake running bot: its page, and its lock."""
    prepare_data_directory(terminal.paths)
    with single_instance(terminal.paths.bot_pid):
        async with running(make_scene(terminal.paths.root)) as scene:
            terminal.environ["OLLIM_WEB_PORT"] = str(scene.surface.port)
            yield scene


async def run(terminal: Terminal, *words: str) -> CommandResult:
    return await asyncio.to_thread(terminal.run, "web", "url", *words)


@pytest.mark.real_process
async def test_the_address_is_printed_alone_and_lets_one_browser_in(terminal: Terminal) -> None:
    async with bot(terminal) as scene, unknown_browser(scene) as browser:
        first, second = await run(terminal), await run(terminal)
        assert (first.code, first.err) == (0, "")
        assert first.out != second.out
        for answer in (first, second):
            found = ADDRESS.fullmatch(answer.out)
            assert found is not None
            assert SECRET.reveal() not in answer.out
            assert await browser.sign_in.session(await browser.sign_in.enter(found[1]))
            with pytest.raises(AccessDenied):
                await browser.sign_in.enter(found[1])


@pytest.mark.real_process
async def test_a_new_one_ends_every_other_way_in(terminal: Terminal) -> None:
    async with bot(terminal) as scene, signed_in_browser(scene) as browser:
        earlier = await run(terminal)
        answer = await run(terminal, "--new")
        assert answer.code == 0
        assert answer.err == "note: Every browser needs a new address now.\n"
        assert (await browser.get("/api/messages")).status == 401
        for out, is_good in ((earlier.out, False), (answer.out, True)):
            found = ADDRESS.fullmatch(out)
            assert found is not None
            if is_good:
                assert await browser.sign_in.session(await browser.sign_in.enter(found[1]))
            else:
                with pytest.raises(AccessDenied):
                    await browser.sign_in.enter(found[1])
        assert terminal.paths.web_token.read_text().strip() != SECRET.reveal()
        assert terminal.paths.web_token.stat().st_mode & 0o777 == 0o600


def test_without_a_bot_there_is_no_address_and_nothing_is_made(terminal: Terminal) -> None:
    assert terminal.refused("web", "url", code=1).startswith("The bot is not running, so its page")
    assert not terminal.paths.root.exists()


def test_every_way_in_can_be_ended_without_a_bot(terminal: Terminal) -> None:
    prepare_data_directory(terminal.paths)
    terminal.paths.web_token.write_text(SECRET.reveal())
    answer = terminal.run("web", "url", "--new")
    assert (answer.code, answer.out) == (0, "")
    assert "Every browser needs a new address now." in answer.err
    assert "The bot is not running" in answer.err
    assert terminal.paths.web_token.read_text().strip() != SECRET.reveal()


@pytest.mark.real_process
async def test_another_program_at_the_port_is_told_and_given_nothing(terminal: Terminal) -> None:
    async with bot(terminal):
        server = HostileServer()
        async with serving(server) as port:
            terminal.environ["OLLIM_WEB_PORT"] = str(port)
            answer = await run(terminal)
        assert (answer.code, answer.out) == (1, "")
        assert answer.err.startswith(f"Another program answers at port {port}, not this bot.")
        assert SECRET.reveal() not in str(server.received)
        silent = await run(terminal)
        assert (silent.code, silent.out) == (1, "")
        assert silent.err.startswith(SILENT)


def test_a_page_that_is_off_has_no_address(terminal: Terminal) -> None:
    terminal.environ["OLLIM_WEB_PORT"] = "0"
    assert terminal.refused("web", "url").startswith("The page is off: OLLIM_WEB_PORT is 0. Set it")
    assert not terminal.paths.root.exists()


@pytest.mark.real_process
def test_the_secret_is_not_in_the_history(terminal: Terminal) -> None:
    terminal.run("web", "url", "--new")
    assert terminal.paths.web_token.exists()
    assert all("web_token" not in line for line in terminal.git("ls-files"))
