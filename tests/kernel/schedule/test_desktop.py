"""Where no page and no channel can show it, the bot shows what comes on the desktop."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from devtools.doubles.engine import ScriptedEngine
from tests.kernel.schedule.owner_actions import pings, press
from tests.kernel.schedule.scene import ScheduleScene, schedule_scene

from ollim_bot.kernel.base.desktop_notification import DesktopNotifier
from ollim_bot.kernel.base.ids import MessageId
from ollim_bot.kernel.conversation.approvals import asking_card
from ollim_bot.kernel.conversation.desktop_notices import ONLY_HERE, Reach
from ollim_bot.kernel.values.cards import Card
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.ports import ToolCall
from ollim_bot.kernel.values.surface_state import WebState

MINUTE = timedelta(minutes=1)


@dataclass
class RecordingDesktop:
    """`last` is the id that the next notification gets; without one, its program fails."""

    shown: list[str] = field(default_factory=list)
    replaced: list[tuple[str, str]] = field(default_factory=list)
    last: str | None = None

    def can_show(self, mode: str) -> bool:
        return mode != "off"

    def show(self, _: str, text: str) -> str | None:
        self.shown.append(text)
        return self.last

    def replace(self, shown: str, _: str, text: str) -> None:
        self.replaced.append((shown, text))


@dataclass
class FakeTabs:
    is_in_view: bool = False
    may_notify: bool = False


async def come(at: ScheduleScene, name: str) -> None:
    at.remind(name, MINUTE, f"Do {name}.", plain="true")
    await at.advance(80)
    assert any(f"Do {name}." in each.text for each in at.log)


async def test_what_comes_is_shown_once_and_only_where_nothing_else_shows_it(
    tmp_path: Path,
) -> None:
    desktop, tabs = RecordingDesktop(), FakeTabs()
    async with schedule_scene(
        ScriptedEngine(), tmp_path, reach=Reach(desktop=desktop, page=tabs)
    ) as at:
        await come(at, "tea")
        await come(at, "cake")
        assert ["tea" in each for each in desktop.shown] == [True, False]
        tabs.is_in_view = True
        await come(at, "milk")
        tabs.is_in_view, tabs.may_notify = False, True
        await come(at, "bread")
        tabs.may_notify = False
        assert len(desktop.shown) == 2
        at.configure("desktop_notifications", "off")
        await come(at, "wine")
        assert len(desktop.shown) == 2
        at.configure("desktop_notifications", "on")
        await at.store.transact(lambda tx: tx.channels.join("phone", "paired just now"))
        await come(at, "soup")
        assert len(desktop.shown) == 2
        await at.store.transact(lambda tx: tx.channels.leave("phone"))
        await come(at, "salt")
        assert len(desktop.shown) == 3


async def test_a_notification_is_replaced_when_its_card_is_answered(tmp_path: Path) -> None:
    desktop = RecordingDesktop(last="7")
    async with schedule_scene(ScriptedEngine(), tmp_path, reach=Reach(desktop=desktop)) as at:
        await come(at, "tea")
        tea = at.log[-1]
        desktop.last = ""
        await come(at, "cake")
        assert (len(desktop.shown), desktop.replaced) == (2, [])
        await press(at, tea, "Done")
        await press(at, at.log[-1], "Done")
        await at.advance(10)
        ((shown, words),) = desktop.replaced
        assert (shown, words) == ("7", "✓ Do tea · 10:17")


async def test_what_was_answered_at_once_is_not_shown(tmp_path: Path) -> None:
    desktop = RecordingDesktop()
    async with schedule_scene(ScriptedEngine(), tmp_path, reach=Reach(desktop=desktop)) as at:
        at.remind("tea", MINUTE, "Do tea.", plain="true")
        while not at.items:
            await at.advance(0.2, 0.2)
        await press(at, at.log[-1], "Done")
        await at.advance(10)
        assert desktop.shown == []


async def test_only_what_asks_or_comes_by_itself_is_shown_and_only_if_it_is_unread(
    tmp_path: Path,
) -> None:
    desktop = RecordingDesktop()
    async with schedule_scene(ScriptedEngine(), tmp_path, reach=Reach(desktop=desktop)) as at:

        async def post(name: str, author: Author, card: Card | None = None) -> ChatMessage:
            message = ChatMessage(MessageId(name), at.clock.now(), author, name, card=card)
            await at.talk.poster.post(message)
            return message

        asking = asking_card(ToolCall("Write", {"file": "notes.md"}), "0" * 32, None)
        await post("asking", Author.PROGRAM, asking)
        await at.advance(5)
        assert ["notes.md" in each for each in desktop.shown] == [True]
        await post("an answer in the chat", Author.ASSISTANT)
        await post("my own words", Author.OWNER)
        read = await post("read on the page", Author.BACKGROUND)
        await at.store.transact(lambda tx: tx.web.put(WebState(read.id)))
        await post("unread", Author.BACKGROUND)
        await at.advance(5)
        assert desktop.shown[1:] == ["unread"]


async def test_what_waits_for_the_end_of_the_quiet_is_not_shown_before(tmp_path: Path) -> None:
    desktop, engine = RecordingDesktop(), ScriptedEngine().then(pings("A thought."))
    async with schedule_scene(engine, tmp_path, reach=Reach(desktop=desktop)) as at:
        at.configure("quiet_hours", "10:00-10:30")
        at.routine("plan", "16 10 * * *", background="true")
        await at.advance(120)
        assert at.ended("plan")
        assert desktop.shown == []
        await at.advance(15 * 60, 60)
        assert ["A thought." in each for each in desktop.shown] == [True]


async def test_a_restart_shows_nothing_again(tmp_path: Path) -> None:
    desktop = RecordingDesktop()
    for name in ("tea", "cake"):
        async with schedule_scene(ScriptedEngine(), tmp_path, reach=Reach(desktop=desktop)) as at:
            await at.advance(10)
            await come(at, name)
    assert ["tea" in each for each in desktop.shown] == [True, False]


async def test_today_says_when_only_the_page_can_show_it(tmp_path: Path) -> None:
    tabs = FakeTabs(is_in_view=True)
    async with schedule_scene(ScriptedEngine(), tmp_path, reach=Reach(page=tabs)) as at:
        said = []
        for tabs.may_notify in (False, True):
            await at.chat.command("web", "/today")
            await at.advance(5)
            day = await at.chat.views["today"].look({})
            said.append((ONLY_HERE in at.log[-1].text, day.reach == ONLY_HERE))
        assert said == [(True, True), (False, False)]


@pytest.mark.real_process
def test_hostile_words_are_shown_as_they_are_and_a_desktop_is_needed(tmp_path: Path) -> None:
    shown, words = tmp_path / "shown", '<b>a</b> & $(id)\x00\ud800" -- '
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nfor word in "$@"; do echo "$word"; done > {shown}\n')
    program.chmod(0o755)
    there = DesktopNotifier({"PATH": str(tmp_path), "DISPLAY": ":0"})
    assert there.notify("--icon=/etc/passwd", words)
    expected = ["--", "--icon=/etc/passwd", '&lt;b&gt;a&lt;/b&gt; &amp; $(id)" -- ']
    assert shown.read_text().splitlines()[2:] == expected
    assert there.show("Ollim", words) == ""
    there.replace("7", "--icon=/etc/passwd", words)
    assert shown.read_text().splitlines()[-3:] == expected
    assert "--replace-id=7" in shown.read_text()
    program.write_text("#!/bin/sh\ncase $* in *--print-id*) echo 12;; esac\n")
    assert there.show("Ollim", words) == "12"
    program.write_text("#!/bin/sh\ncase $* in *--print-id*) exit 1;; esac\n")
    assert there.show("Ollim", words) == "", "an old program knows no ids, and still shows it"
    without = DesktopNotifier({"PATH": str(tmp_path)})
    nothing = DesktopNotifier({"PATH": str(tmp_path / "none"), "DISPLAY": ":0"})
    modes = ("auto", "on", "off")
    assert [there.can_show(mode) for mode in modes] == [True, True, False]
    assert [without.can_show(mode) for mode in modes] == [sys.platform == "darwin", True, False]
    assert not any(nothing.can_show(mode) for mode in modes)
