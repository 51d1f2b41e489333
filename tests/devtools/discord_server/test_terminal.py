"""A developer talks to the bot in a terminal, as the owner would on Discord."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from devtools.localdiscord.interactions import InteractionKind
from devtools.localdiscord.server import LocalDiscord
from devtools.localdiscord.terminal import Terminal
from tests.devtools.discord_server.rest_client import RestClient
from tests.patience import patience
from yarl import URL

COMMAND = {
    "name": "config",
    "description": "Settings",
    "options": [
        {"type": 3, "name": "key", "description": "Which"},
        {"type": 3, "name": "value", "description": "What"},
    ],
}
CARD = {
    "embeds": [{"title": "Allow it?", "fields": [{"name": "Command", "value": "ls"}]}],
    "components": [
        {
            "type": 1,
            "components": [
                {"type": 2, "style": 3, "label": "Yes", "custom_id": "act:yes"},
                {"type": 2, "style": 4, "label": "No", "custom_id": "act:no", "disabled": True},
            ],
        }
    ],
}


class Screen:
    """A terminal of the local Discord that records its output."""

    def __init__(self, server: LocalDiscord) -> None:
        self.lines: list[str] = []
        self._server = server
        self.terminal = Terminal(server, self._write)

    def _write(self, line: str) -> None:
        self.lines.append(line)
        self._server.state.has_changed()

    async def reads(self, *lines: str) -> None:
        await self._server.until(lambda: self.lines == list(lines))
        self.lines.clear()


@pytest.fixture
async def screen(server: LocalDiscord) -> AsyncIterator[Screen]:
    screen = Screen(server)
    watching = asyncio.create_task(screen.terminal.watch())
    yield screen
    watching.cancel()
    await asyncio.wait([watching])


async def test_lines_are_messages_and_answers_are_shown(rest: RestClient, screen: Screen) -> None:
    screen.terminal.run_line("hello\n")
    assert [each.text for each in rest.server.messages] == ["hello"]
    sent = (await rest.send("Hi")).body["id"]
    await screen.reads("#1 Hi")
    await rest.edit(sent, content="Hi you")
    await screen.reads("#1 (changed) Hi you")
    await rest.react(sent, "👀")
    await screen.reads("#1 has 👀")
    await rest.delete(sent)
    await screen.reads("#1 is deleted")


async def test_buttons_have_numbers(rest: RestClient, screen: Screen) -> None:
    await rest.send("", **CARD)
    await screen.reads("#1", "   │ Allow it?", "   │ Command: ls", "   [1] Yes  [2] No (off)")
    await rest.edit(rest.server.said[0].id, content="Well?")
    await screen.reads(
        "#1 (changed) Well?", "   │ Allow it?", "   │ Command: ls", "   [1] Yes  [2] No (off)"
    )
    screen.terminal.run_line("!click 1")
    [click] = rest.server.interactions
    assert (click.kind, click.user) == (InteractionKind.CLICK, rest.server.owner)
    screen.terminal.run_line("!click 2")
    await screen.reads("! The button 'act:no' is disabled. Type !help for what can be done.")
    await rest.send("Another", components=CARD["components"])
    await screen.reads("#2 Another", "   [3] Yes  [4] No (off)")


@pytest.mark.parametrize(
    ("typed", "arguments"),
    [
        ("/config", {}),
        ("/config model", {"key": "model"}),
        ("/config model claude opus 4", {"key": "model", "value": "claude opus 4"}),
        ("/config 'a key' b", {"key": "a key", "value": "b"}),
    ],
)
async def test_a_command_takes_words(
    rest: RestClient, screen: Screen, typed: str, arguments: dict[str, str]
) -> None:
    await rest.put_commands(COMMAND)
    screen.terminal.run_line(typed)
    [call] = rest.server.interactions
    assert (call.kind, dict(call.arguments)) == (InteractionKind.COMMAND, arguments)


async def test_an_answer_for_one_person_is_shown_as_such(rest: RestClient, screen: Screen) -> None:
    await rest.put_commands(COMMAND)
    screen.terminal.run_line("/config")
    [call] = rest.server.interactions
    body = {"type": 4, "data": {"content": "All of it.", "flags": 64}}
    await rest.ask("POST", f"/interactions/{call.id}/{call.token}/callback", body)
    await screen.reads("#1 (only you see this) All of it.")


async def test_the_owner_replies_reacts_and_takes_back(rest: RestClient, screen: Screen) -> None:
    sent = (await rest.send("Hi")).body["id"]
    await screen.reads("#1 Hi")
    screen.terminal.run_line("!reply 1 what now")
    screen.terminal.run_line("!edit what then")
    mine = rest.server.messages[-1]
    assert (mine.text, mine.reply_to) == ("what then", sent)
    screen.terminal.run_line("!delete")
    assert mine.is_deleted
    screen.terminal.run_line("!react ✅")
    assert rest.server.message(sent).reactions == {"✅": [rest.server.owner]}
    screen.terminal.run_line("!unreact ✅ 1")
    assert rest.server.message(sent).reactions == {}


@pytest.mark.parametrize(
    "typed",
    ["!", "!what", "!click", "!click x", "!click 9", "!react", "!edit x", "/none", "!reply 7 x"],
)
async def test_what_cannot_be_done_is_said(rest: RestClient, screen: Screen, typed: str) -> None:
    screen.terminal.run_line(typed)
    [line] = screen.lines
    assert line.startswith("! ")
    assert rest.server.messages == []


@asynccontextmanager
async def program(home: Path, port: int, stdin: int) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "devtools.localdiscord", "--port", str(port)),
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "HOME": str(home)},
    )
    try:
        async with asyncio.timeout(patience()):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.real_process
async def test_it_starts_as_a_program_says_that_a_port_is_taken_and_ends_with_its_input(
    tmp_path: Path,
) -> None:
    async with program(tmp_path, 0, asyncio.subprocess.PIPE) as process:
        assert process.stdout is not None
        await process.stdout.readline()
        url = (await process.stdout.readline()).decode().strip()
        token = (await process.stdout.readline()).decode().strip()
        assert url.startswith("DISCORD_API_URL=http://127.0.0.1:")
        address = url.removeprefix("DISCORD_API_URL=")
        headers = {"Authorization": f"Bot {token.removeprefix('DISCORD_TOKEN=')}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(f"{address}/users/@me") as response,
        ):
            assert response.status == 200
        port = URL(address).port or 0
        async with program(tmp_path, port, asyncio.subprocess.DEVNULL) as second:
            _, errors = await second.communicate()
            assert second.returncode == 1
            assert errors.decode() == f"Port {port} is taken. Give another one with --port.\n"
        _, errors = await process.communicate(b"hello\n")
        assert (process.returncode, errors) == (0, b"")
