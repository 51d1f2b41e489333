"""Every tab gets the state when it connects, then what it missed, and all tabs see the same."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.web.browser import Browser, eventually, signed_in_browser, unknown_browser
from tests.web.scene import SECRET, Scene, make_scene, running
from tests.web.sign_in import NONCE

from ollim_bot.domain.chat import Author
from ollim_bot.domain.events import TextStreamed
from ollim_bot.ports import OpenFork
from ollim_bot.surfaces.web.frames import status_json
from ollim_bot.surfaces.web.presenter import RenderedMessages
from ollim_bot.surfaces.web.refusals import WebLimits
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
    async with (
        running(make_scene(tmp_path, limits=limits)) as scene,
        signed_in_browser(scene) as browser,
    ):
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


async def test_every_tab_knows_what_does_not_work_elsewhere(scene: Scene, browser: Browser) -> None:
    trouble = "Discord cannot be reached now."
    async with browser.tab() as (tab, _):
        await scene.reception.change(trouble=trouble)
        assert (await tab.until("status"))["status"]["trouble"] == trouble
        async with browser.tab() as (_, hello):
            assert hello["status"]["trouble"] == trouble


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
