"""Every tab gets the state and what it missed, and none delays another."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.patience import eventually
from tests.surfaces.web.browser import SECONDS, Browser, served, signed_in_browser, unknown_browser
from tests.surfaces.web.markdown_texts import TEXTS, chunked
from tests.surfaces.web.scene import SECRET, Scene, make_scene, running
from tests.surfaces.web.sign_in import NONCE, protocols

from ollim_bot.kernel.base.errors import WriteFailed
from ollim_bot.kernel.base.ids import TurnId
from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.events import AgentEvent, TextCompleted, TextStreamed, TextWithdrawn
from ollim_bot.kernel.values.ports import OpenFork
from ollim_bot.surfaces.web.access import WebLimits
from ollim_bot.surfaces.web.frames import draft_frame, render, status_json
from ollim_bot.surfaces.web.presenter import LiveHtml, RenderedMessages
from ollim_bot.surfaces.web.secret import bot_key, mac


async def test_what_does_not_work_elsewhere_is_told_without_marks(scene: Scene) -> None:
    trouble = "It is refused (`DISCORD_API_URL`). <b>Wait</b>."
    told = status_json(replace(scene.reception.status, trouble=trouble))
    assert told["trouble"] == "It is refused (DISCORD_API_URL). <b>Wait</b>."


def ids(messages: list[dict[str, Any]]) -> list[str]:
    return [message["id"] for message in messages]


async def test_a_new_tab_is_told_all_that_it_needs(scene: Scene, browser: Browser) -> None:
    await scene.reception.say("one")
    await browser.post("/api/read", {"id": "m1"})
    async with browser.tab() as (_, hello):
        messages = hello.pop("messages")
        commands = {command["name"]: command for command in hello.pop("commands")}
        assert browser.key is not None
        assert hello.pop("proof") == mac(bot_key(SECRET, browser.key.browser), "socket", NONCE)
        panels = hello.pop("panels")
        assert panels.pop("today") == {"change": 0, "open": 0}
        assert all(each == {"change": 0} for each in panels.values())
        assert hello == {
            "type": "hello",
            "status": {
                "provider": "offline model",
                "is_offline": True,
                "model": "offline",
                "is_busy": False,
                "bot_name": "Ollim",
                "version": "0.0",
                "program": "ollim-bot",
                "fork": None,
                "quiet": "",
                "careful": None,
                "trouble": "",
                "zone": "UTC",
                "has_jobs": False,
                "has_sound": True,
            },
            "missed": None,
            "change": 1,
            "has_more": False,
            "live": None,
            "read": "m1",
        }
    assert ids(messages) == ["m1"]
    assert list(commands) == ["clear", "compact", "model", "resume"]
    assert commands["resume"] == {
        "name": "resume",
        "about": "go back",
        "usage": "/resume <id>",
        "arguments": [
            {
                "name": "id",
                "about": "which one",
                "choices": ["aa11", "bb22"],
                "is_required": True,
                "takes_rest": False,
            }
        ],
    }


async def test_a_new_tab_gets_the_newest_messages_oldest_first(
    scene: Scene, browser: Browser
) -> None:
    for number in range(70):
        await scene.reception.say(f"number {number}")
    async with browser.tab() as (_, hello):
        assert ids(hello["messages"]) == [f"m{number}" for number in range(11, 71)]
        assert hello["has_more"] is True


async def test_two_tabs_agree(scene: Scene, browser: Browser) -> None:
    async with browser.tab() as (first, _), browser.tab() as (second, _):
        await browser.send("hello")
        await scene.reception.say("an answer", turn=None)
        await scene.reception.say("a ping", Author.BACKGROUND)
        await scene.reception.change(is_busy=True)
        await browser.post("/api/read", {"id": "m2"})
        seen = [[await tab.next() for _ in range(5)] for tab in (first, second)]
    assert seen[0] == seen[1]
    assert [frame["type"] for frame in seen[0]] == [
        "message",
        "message",
        "message",
        "status",
        "read",
    ]
    assert [frame["message"]["author"] for frame in seen[0][:3]] == [
        "owner",
        "assistant",
        "background",
    ]
    assert seen[0][3]["status"]["is_busy"] is True
    assert seen[0][4] == {"type": "read", "id": "m2"}


async def test_a_tab_that_comes_back_is_told_what_it_missed(scene: Scene, browser: Browser) -> None:
    await scene.reception.say("one")
    async with browser.tab():
        pass
    await scene.reception.say("two")
    await scene.reception.say("three")
    async with browser.tab(change=1) as (tab, hello):
        assert (hello["messages"], ids(hello["missed"])) == (None, ["m2", "m3"])
        await scene.reception.say("four")
        assert (await tab.next())["message"]["id"] == "m4"
    async with browser.tab(change=4) as (_, hello):
        assert (hello["messages"], hello["missed"]) == (None, [])


@pytest.mark.parametrize("change", [1, 6])
async def test_a_tab_that_was_away_for_too_long_begins_anew(
    scene: Scene, browser: Browser, change: int
) -> None:
    for number in range(5):
        await scene.reception.say(f"number {number}")
    scene.reception.remembers = 3
    async with browser.tab(change=change) as (_, hello):
        assert hello["missed"] is None
        assert ids(hello["messages"]) == ["m1", "m2", "m3", "m4", "m5"]


async def test_a_gap_of_many_messages_begins_anew_too(tmp_path: Path) -> None:
    limits = WebLimits(missed_messages=3)
    async with served(tmp_path, limits=limits) as (scene, browser):
        for number in range(6):
            await scene.reception.say(f"number {number}")
        async with browser.tab(change=3) as (_, hello):
            assert ids(hello["missed"]) == ["m4", "m5", "m6"]
        async with browser.tab(change=2) as (_, hello):
            assert (hello["missed"], len(hello["messages"])) == (None, 6)


async def test_a_restart_of_the_bot_needs_no_reload(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    async with unknown_browser(scene) as browser:
        async with running(scene):
            await browser.enter()
            await scene.reception.say("seen")
            async with browser.tab() as (_, hello):
                assert ids(hello["messages"]) == ["m1"]
            await scene.reception.say("missed")
        again = make_scene(tmp_path, port=scene.surface.port)
        again.reception.messages = scene.reception.messages
        again.reception.changes = scene.reception.changes
        async with running(again):
            await browser.enter()
            async with browser.tab(change=1) as (_, hello):
                assert (hello["messages"], ids(hello["missed"])) == (None, ["m2"])


async def test_no_message_is_lost_or_doubled_round_the_greeting(
    scene: Scene, browser: Browser
) -> None:
    """Messages are posted all the time while tabs connect."""
    stop = asyncio.Event()

    async def talk() -> None:
        while not stop.is_set():
            await scene.reception.say("on and on")
            await asyncio.sleep(0)

    talking = asyncio.create_task(talk())
    try:
        for _ in range(5):
            async with browser.tab() as (tab, hello):
                seen = ids(hello["messages"])
                while len(seen) < 90:
                    seen.append((await tab.next())["message"]["id"])
            numbers = [int(each[1:]) for each in seen]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    finally:
        stop.set()
        await talking


@pytest.mark.parametrize("change", [None, 1])
async def test_what_comes_during_the_greeting_comes_after_it(
    scene: Scene, browser: Browser, change: int | None
) -> None:
    await scene.reception.say("one")
    scene.reception.may_answer.clear()
    async with browser.connection() as tab:
        await tab.socket.send_json({"type": "hello", "change": change})
        await eventually(lambda: scene.reception.looks)
        await scene.reception.say("two")
        turn = scene.reception.begin()
        await turn.show(TextStreamed("hel"))
        await scene.reception.change(is_busy=True)
        scene.reception.may_answer.set()
        hello = await tab.next()
        assert ids(hello["messages"] or hello["missed"]) == (["m1"] if change is None else [])
        assert hello["status"]["is_busy"] is True
        assert hello["live"]["tail"] == "<p>hel</p>\n"
        assert (await tab.next())["message"]["id"] == "m2"
        await turn.end()
        assert (await tab.next())["type"] == "ended"


async def test_messages_come_in_their_order_though_one_takes_longer(
    scene: Scene, browser: Browser
) -> None:
    async with browser.tab() as (tab, _):
        texts = ["*long* " * 3000, "short", "*long* " * 3000, "shorter"]
        await asyncio.gather(*map(scene.reception.say, texts))
        assert [(await tab.next())["message"]["text"] for _ in texts] == texts


async def test_what_is_kept_of_messages_does_not_grow_with_the_conversation(scene: Scene) -> None:
    book = RenderedMessages(scene.reception, kept=10)
    for number in range(30):
        [shown] = await book.shown([await scene.reception.say(f"number {number}")])
        assert shown["text"] == f"number {number}"
    assert len(book) == 10


async def test_a_message_that_is_changed_comes_again(scene: Scene, browser: Browser) -> None:
    said = await scene.reception.say("one")
    async with browser.tab() as (tab, _):
        await scene.reception.post(replace(said, text="two"))
        shown = (await tab.next())["message"]
        assert (shown["id"], shown["html"]) == ("m1", "<p>two</p>\n")


async def test_what_is_shown_before_anybody_serves_is_no_error(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    await scene.reception.say("early")
    turn = scene.reception.begin()
    await turn.show(TextStreamed("hello"))
    await scene.reception.change(is_busy=True)
    async with running(scene), signed_in_browser(scene) as browser, browser.tab() as (tab, hello):
        assert ids(hello["messages"]) == ["m1"]
        assert hello["live"]["turn"] == turn.start.turn
        assert hello["status"]["is_busy"] is True
        await turn.end()
        assert (await tab.until("ended"))["turn"] == turn.start.turn


async def test_every_tab_knows_the_fork_and_what_was_said_in_it(
    scene: Scene, browser: Browser
) -> None:
    fork = {"topic": "taxes", "card": "m1"}
    async with browser.tab() as (tab, _):
        card = await scene.reception.say("Side conversation", Author.PROGRAM, in_fork=True)
        await scene.reception.change(fork=OpenFork("taxes", card.id))
        assert (await tab.until("message"))["message"]["in_fork"] is True
        assert (await tab.until("status"))["status"]["fork"] == fork
        async with browser.tab() as (_, hello):
            assert hello["status"]["fork"] == fork
            assert [message["in_fork"] for message in hello["messages"]] == [True]
        await scene.reception.change(fork=None)
        assert (await tab.until("status"))["status"]["fork"] is None


async def test_a_tab_that_does_not_read_is_dropped_and_slows_nobody(tmp_path: Path) -> None:
    limits = WebLimits(queued_frames=20, heartbeat_seconds=60)
    async with served(tmp_path, limits=limits) as (scene, browser), browser.tab() as (good, _):
        writer = await deaf_tab(scene, browser)
        await eventually(lambda: len(scene.surface.tabs) == 2)
        for _ in range(300):
            if len(scene.surface.tabs) == 1:
                break
            async with asyncio.timeout(SECONDS):
                await scene.reception.say("x" * 50_000)
            assert (await good.next())["type"] == "message"
        assert len(scene.surface.tabs) == 1
        await scene.reception.say("still here")
        assert (await good.next())["message"]["text"] == "still here"
        writer.transport.abort()


async def deaf_tab(scene: Scene, browser: Browser) -> asyncio.StreamWriter:
    """A tab that says hello and then never reads from its socket."""
    offered = ", ".join(protocols(browser.session))
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.connect(("127.0.0.1", scene.surface.port))
    reader, writer = await asyncio.open_connection(sock=wire, limit=1024)
    writer.write(
        (
            f"GET /api/socket HTTP/1.1\r\nHost: 127.0.0.1:{scene.surface.port}\r\n"
            f"Origin: {scene.url}\r\nSec-WebSocket-Protocol: {offered}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ).encode()
    )
    async with asyncio.timeout(SECONDS):
        await reader.readuntil(b"\r\n\r\n")
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    hello = json.dumps({"type": "hello", "change": None}).encode()
    writer.write(bytes([0x81, 0x80 | len(hello)]) + bytes(4) + hello)
    return writer


async def test_a_tab_that_is_gone_is_noticed(tmp_path: Path) -> None:
    """Its machine sleeps: nothing is closed, and nothing answers the heartbeat."""
    limits = WebLimits(heartbeat_seconds=0.1)
    async with served(tmp_path, limits=limits) as (scene, browser):
        writer = await deaf_tab(scene, browser)
        await eventually(lambda: len(scene.surface.tabs) == 1)
        await eventually(lambda: len(scene.surface.tabs) == 0)
        writer.transport.abort()


@pytest.mark.parametrize(
    "first",
    [
        *("", "hello", "[]", "3", "null", '{"type": "other"}', '{"change": 1}', "[" * 60_000),
        "x" * 70_000,
    ],
)
async def test_who_does_not_say_hello_is_hung_up_on(
    scene: Scene, browser: Browser, first: str
) -> None:
    async with browser.connection() as tab:
        await tab.socket.send_str(first)
        assert await tab.closing() in (1008, 1009)
    await eventually(lambda: len(scene.surface.tabs) == 0)


async def test_a_tab_that_cannot_be_greeted_is_hung_up_on_and_the_others_stay(
    scene: Scene, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    async with browser.tab() as (good, _), browser.connection() as tab:
        scene.reception.refusal = WriteFailed(Path("state/messages.jsonl"), "cannot be read.")
        await tab.socket.send_json({"type": "hello", "change": None})
        assert await tab.closing() == 1006
        assert "cannot be read" in caplog.text
        await scene.reception.say("still here")
        assert (await good.next())["type"] == "message"
    async with browser.connection() as tab:
        scene.reception.refusal = None
        await tab.socket.send_json({"type": "hello", "change": None})
        assert (await tab.next())["type"] == "hello"


async def test_who_says_nothing_is_hung_up_on(tmp_path: Path) -> None:
    async with (
        served(tmp_path, limits=WebLimits(hello_seconds=0.05)) as (_, browser),
        browser.connection() as tab,
    ):
        assert await tab.closing() == 1008


@pytest.mark.parametrize("change", [-1, 1.5, 10**30, [], {}, "1", False])
async def test_a_strange_change_is_none(browser: Browser, change: object) -> None:
    async with browser.connection() as tab:
        await tab.socket.send_json({"type": "hello", "change": change})
        assert (await tab.next())["messages"] == []


async def test_whatever_else_a_tab_says_is_ignored(scene: Scene, browser: Browser) -> None:
    async with browser.tab() as (tab, _):
        await tab.socket.send_str("nonsense")
        await tab.socket.send_bytes(b"\0")
        await scene.reception.say("hello")
        assert (await tab.next())["type"] == "message"


async def test_there_is_an_end_to_how_many_tabs_are_served(tmp_path: Path) -> None:
    async with (
        served(tmp_path, limits=WebLimits(tabs=2)) as (_, browser),
        browser.tab(),
        browser.tab(),
    ):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with browser.tab():
                pass
        assert refused.value.status == 503


async def test_tabs_are_told_goodbye_when_the_bot_ends(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    async with unknown_browser(scene) as browser:
        async with running(scene):
            await browser.enter()
            greeted = asyncio.Event()
            reading = asyncio.create_task(end_of_tab(browser, greeted))
            await greeted.wait()
        assert await reading == aiohttp.WSCloseCode.GOING_AWAY


async def end_of_tab(browser: Browser, greeted: asyncio.Event) -> int | None:
    async with browser.tab() as (tab, _):
        greeted.set()
        return await tab.closing()


async def test_the_bot_knows_whether_an_open_page_is_in_view_or_may_notify(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    surface = scene.surface

    def state() -> tuple[bool, bool]:
        return surface.tabs.is_in_view, surface.tabs.may_notify

    async with running(scene), signed_in_browser(scene) as browser:
        async with browser.tab() as (tab, _):
            assert state() == (False, False)
            await tab.socket.send_str('{"type":"presence","seen":true,"notifies":false}')
            await eventually(lambda: state() == (True, False))
            for other in ("[" * 9999, '{"type":"presence","seen":1,"notifies":2}', "null"):
                await tab.socket.send_str(other)
            await tab.socket.send_bytes(b"x")
            await tab.socket.send_str('{"type":"presence","seen":false,"notifies":true}')
            await eventually(lambda: state() == (False, True))
            told = await tab.next()
            assert (told["type"], told["panel"]) == ("stale", "today"), "it says what reaches you"
        await eventually(lambda: state() == (False, False))


def after(*events: AgentEvent) -> LiveHtml:
    live = LiveHtml()
    for event in events:
        live = live.after(event)
    return live


def html(live: LiveHtml) -> str:
    return "".join([*live.blocks, live.draft.tail()])


@given(chunked())
def test_what_streams_and_then_is_complete_is_the_text_as_a_whole(chunks: list[str]) -> None:
    live = after(*map(TextStreamed, chunks), TextCompleted("".join(chunks)))
    assert html(live) == render("".join(chunks))
    assert html(after(TextCompleted("".join(chunks)))) == render("".join(chunks))


@given(TEXTS, TEXTS, TEXTS)
def test_what_was_withdrawn_leaves_no_trace(whole: str, wrong: str, right: str) -> None:
    start = after(TextStreamed(whole), TextCompleted(whole))
    failed = start.after(TextStreamed(wrong)).settled().after(TextWithdrawn())
    assert html(failed) == html(start)
    assert html(failed.after(TextStreamed(right))) == html(start) + render(right)


def test_a_text_that_ends_otherwise_than_it_streamed_is_taken_as_it_ends() -> None:
    assert html(after(TextStreamed("one"), TextCompleted("two"))) == "<p>two</p>\n"


BLOCKS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=6)


@given(BLOCKS, BLOCKS)
def test_a_draft_leads_from_what_was_shown_to_what_is_to_be_shown(
    before: list[str], now: list[str]
) -> None:
    frame = draft_frame(TurnId("t"), None, before, now, "tail")
    keep, blocks = frame["keep"], frame["blocks"]
    assert isinstance(keep, int)
    assert isinstance(blocks, list)
    assert [*before[:keep], *blocks] == now
    assert keep <= min(len(before), len(now))
    assert keep == len(before) or keep == len(now) or before[keep] != now[keep]
