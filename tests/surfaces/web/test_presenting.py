"""A turn is shown while it runs: at once, at an even pace, whole at the end, to every tab."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.surfaces.web.browser import Browser, Tab
from tests.surfaces.web.scene import Scene

from ollim_bot.kernel.values.chat import Author
from ollim_bot.kernel.values.events import (
    EndCause,
    Noted,
    TextCompleted,
    TextStreamed,
    TextWithdrawn,
    ThinkingStreamed,
    ToolEnded,
    ToolStarted,
)
from ollim_bot.surfaces.web.frames import render

READ = ToolStarted("1", "Read", {"file_path": "/data/notes/today.md"})


class PageReplay:
    """Applies the frames of a turn as the page does."""

    def __init__(self, tab: Tab) -> None:
        self._tab = tab
        self.live: dict[str, Any] | None = None
        self.kinds: list[str] = []

    async def next(self) -> dict[str, Any]:
        frame = await self._tab.next()
        self.kinds.append(frame["type"])
        if frame["type"] == "turn":
            self.live = frame["live"]
        elif frame["type"] == "ended":
            self.live = None
        elif self.live is not None and frame.get("turn") == self.live["turn"]:
            if frame["type"] == "draft":
                frame["blocks"] = [*self.live["blocks"][: frame["keep"]], *frame["blocks"]]
            self.live |= frame
        return frame

    async def until(self, kind: str) -> dict[str, Any]:
        while (frame := await self.next())["type"] != kind:
            pass
        return frame

    @property
    def html(self) -> str:
        assert self.live is not None
        return "".join([*self.live["blocks"], self.live["tail"]])


async def test_a_turn_is_seen_as_soon_as_it_begins(scene: Scene, browser: Browser) -> None:
    asked = (await browser.send("hello")).json["message"]["id"]
    async with browser.tab() as (tab, _):
        turn = scene.reception.begin(asked)
        assert await tab.next() == {
            "type": "turn",
            "live": {
                "turn": turn.start.turn,
                "elapsed": 0.0,
                "began": None,
                "blocks": [],
                "tail": "",
                "phase": "Thinking…",
                "tools": [],
                "notes": [],
            },
        }
        await turn.end()


async def test_the_last_draft_is_whole_and_the_message_comes_before_the_end(
    scene: Scene, browser: Browser
) -> None:
    text = "# Hello\n\nOne *two* three.\n\n- a\n- b\n\n```py\nx = 1\n```\n\nThe end."
    async with browser.tab() as (tab, _):
        replay = PageReplay(tab)
        turn = scene.reception.begin()
        for start in range(0, len(text), 3):
            await turn.show(TextStreamed(text[start : start + 3]))
            await scene.clock.advance(0.02)
        await scene.clock.advance(1)
        answer = await turn.end(text)
        assert answer is not None
        message = await replay.until("message")
        assert replay.html == render(text)
        assert message["message"]["turn"] == turn.start.turn
        assert message["message"]["html"] == render(text)
        assert (await replay.next()) == {"type": "ended", "turn": turn.start.turn}


async def test_a_turn_without_an_answer_ends_with_all_that_was_written(
    scene: Scene, browser: Browser
) -> None:
    async with browser.tab() as (tab, _):
        replay = PageReplay(tab)
        turn = scene.reception.begin()
        await turn.show(TextStreamed("half a "))
        await replay.until("draft")
        await turn.show(TextStreamed("senten"))
        await turn.end(cause=EndCause.INTERRUPTED)
        await replay.until("draft")
        assert replay.html == "<p>half a senten</p>\n"
        assert await replay.next() == {"type": "ended", "turn": turn.start.turn}


async def test_drafts_come_at_most_twenty_times_a_second(scene: Scene, browser: Browser) -> None:
    async with browser.tab() as (tab, _):
        turn = scene.reception.begin()
        for number in range(100):
            await turn.show(TextStreamed(f"{number} "))
            await scene.clock.advance(0.01)
        await turn.end()
        kinds = []
        while (frame := await tab.next())["type"] != "ended":
            kinds.append(frame["type"])
    assert 15 <= kinds.count("draft") <= 21


async def test_the_first_word_does_not_wait_for_the_pace(scene: Scene, browser: Browser) -> None:
    async with browser.tab() as (tab, _):
        turn = scene.reception.begin()
        await turn.show(TextStreamed("hello"))
        assert (await tab.until("draft"))["tail"] == "<p>hello</p>\n"
        await turn.end()


async def test_what_is_written_is_sent_once(scene: Scene, browser: Browser) -> None:
    """A draft has the new blocks and the tail, not the blocks that were sent before."""
    async with browser.tab() as (tab, _):
        turn = scene.reception.begin()
        sent = 0
        for number in range(50):
            await turn.show(TextStreamed(f"paragraph {number}\n\n"))
            await scene.clock.advance(0.05)
        await turn.end()
        while (frame := await tab.next())["type"] != "ended":
            if frame["type"] == "draft":
                sent += sum(map(len, frame["blocks"])) + len(frame["tail"])
    assert sent < 4 * 50 * len("<p>paragraph 50</p>\n")


async def test_tools_thoughts_and_notes_are_the_status_line(scene: Scene, browser: Browser) -> None:
    async with browser.tab() as (tab, _):
        turn = scene.reception.begin()
        await turn.show(Noted("catching up on background activity..."), READ)
        running = await tab.until("activity")
        await scene.clock.advance(0.05)
        await turn.show(ToolEnded("1"), ThinkingStreamed("hm"))
        done = await tab.until("activity")
        await turn.end()
    assert running == {
        "type": "activity",
        "turn": turn.start.turn,
        "phase": "",
        "tools": [{"id": "1", "label": "Read(notes/today.md)", "state": "running", "reason": ""}],
        "notes": ["catching up on background activity..."],
    }
    assert (done["phase"], done["tools"][0]["state"]) == ("Thinking…", "done")


async def test_thoughts_alone_say_nothing_new(scene: Scene, browser: Browser) -> None:
    async with browser.tab() as (tab, _):
        turn = scene.reception.begin()
        for _ in range(20):
            await turn.show(ThinkingStreamed("hm"))
            await scene.clock.advance(0.1)
        await turn.end()
        assert [(await tab.next())["type"] for _ in range(2)] == ["turn", "ended"]


async def test_what_was_withdrawn_goes_and_what_is_whole_stays(
    scene: Scene, browser: Browser
) -> None:
    async with browser.tab() as (tab, _):
        replay = PageReplay(tab)
        turn = scene.reception.begin()
        for event in (
            TextStreamed("One.\n\nTwo."),
            TextCompleted("One.\n\nTwo."),
            TextStreamed("wrong\n\nwrong\n\nwro"),
            TextWithdrawn(),
            TextStreamed("Three."),
        ):
            await turn.show(event)
            await scene.clock.advance(0.1)
        while "Three" not in (replay.live or {"tail": ""})["tail"]:
            await replay.next()
        assert replay.html == "<p>One.</p>\n<p>Two.</p>\n<p>Three.</p>\n"
        await turn.end()


async def test_a_late_tab_sees_the_turn_as_the_others_do(scene: Scene, browser: Browser) -> None:
    async with browser.tab() as (tab, _):
        early = PageReplay(tab)
        turn = scene.reception.begin()
        await turn.show(READ, TextStreamed("One.\n\nTwo.\n\nThr"))
        await scene.clock.advance(7)
        await turn.show(TextStreamed("ee"), ToolEnded("1"))
        while "Three" not in (early.live or {"tail": ""})["tail"]:
            await early.next()
        await turn.show(TextStreamed(" is not drawn yet"))
        async with browser.tab() as (late_tab, hello):
            late = PageReplay(late_tab)
            late.live = hello["live"]
            assert late.live is not None
            assert late.live["elapsed"] == 7.0
            assert late.html.endswith("<p>Three</p>\n")
            assert late.live["tools"][0]["label"] == "Read(notes/today.md)"
            await scene.clock.advance(0.1)
            await turn.show(TextStreamed("!\n\nFour"))
            await scene.clock.advance(0.1)
            for replay in (early, late):
                while "Four" not in (replay.live or {"tail": ""})["tail"]:
                    await replay.next()
            assert early.live is not None
            assert (early.html, early.live["tools"]) == (late.html, late.live["tools"])
            await turn.end()


async def test_after_the_answer_nothing_more_is_drafted(scene: Scene, browser: Browser) -> None:
    async with browser.tab() as (tab, _):
        turn = scene.reception.begin()
        await turn.show(TextStreamed("Hello"))
        await scene.reception.say("Hello", turn=turn.start.turn)
        await turn.show(TextStreamed(" there"), READ)
        await scene.clock.advance(1)
        async with browser.tab() as (_, hello):
            assert hello["live"] is None
            assert hello["messages"][-1]["text"] == "Hello"
        await turn.end()
        await tab.until("message")
        assert (await tab.next())["type"] == "ended"


async def test_a_remark_of_the_program_does_not_end_the_drafts(
    scene: Scene, browser: Browser
) -> None:
    async with browser.tab() as (tab, _):
        turn = scene.reception.begin()
        await tab.until("turn")
        await scene.reception.say("by the way", Author.PROGRAM, turn=turn.start.turn)
        await turn.show(TextStreamed("Hello"))
        assert (await tab.until("draft"))["tail"] == "<p>Hello</p>\n"
        await turn.end()


async def test_a_new_turn_ends_the_old_one_on_the_page(scene: Scene, browser: Browser) -> None:
    async with browser.tab() as (tab, _):
        first = scene.reception.begin()
        await first.show(TextStreamed("one"))
        await tab.until("draft")
        second = scene.reception.begin()
        assert await tab.next() == {"type": "ended", "turn": first.start.turn}
        assert (await tab.next())["live"]["turn"] == second.start.turn
        await first.show(TextStreamed(" more"))
        await first.end()
        await second.show(TextStreamed("two"))
        await scene.clock.advance(0.1)
        frames = [await tab.next(), await tab.next()]
        assert [frame["type"] for frame in frames] == ["activity", "draft"]
        assert {frame["turn"] for frame in frames} == {second.start.turn}
        assert frames[1]["tail"] == "<p>two</p>\n"
        await second.end()


async def test_a_turn_whose_events_break_off_ends_on_the_page(
    scene: Scene, browser: Browser
) -> None:
    async with browser.tab() as (tab, _):
        turn = scene.reception.begin()
        await turn.show(TextStreamed("one"))
        await tab.until("draft")
        turn.cancel()
        assert await tab.next() == {"type": "ended", "turn": turn.start.turn}
        async with browser.tab() as (_, hello):
            assert hello["live"] is None


async def test_nobody_has_to_watch(scene: Scene) -> None:
    turn = scene.reception.begin()
    await turn.show(*(TextStreamed("word ") for _ in range(1000)))
    async with asyncio.timeout(60):
        await turn.end("done")
