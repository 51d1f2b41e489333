"""Buttons and reactions on Discord: without state in memory, and only where they belong."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import discord
import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.reception import FakeReception
from devtools.localdiscord.interactions import ResponseType
from hypothesis import given
from hypothesis import strategies as st
from tests.garbage import collect_garbage_of_earlier_tests
from tests.patience import eventually
from tests.surfaces.discord.interaction_scene import (
    InteractionClient,
    InteractionScene,
    interaction_scene,
)

from ollim_bot.kernel.base.errors import Unreadable
from ollim_bot.kernel.conversation.approvals import answered_card, asking_card
from ollim_bot.kernel.values.cards import Button, ButtonStyle, Card, Color
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.permissions import Pattern
from ollim_bot.kernel.values.ports import ToolCall
from ollim_bot.kernel.values.taint import CarefulTime
from ollim_bot.surfaces.discord.interactions import FAILED, UNKNOWN, InteractionRouter
from ollim_bot.surfaces.discord.translation import view_of

BUTTONS = (
    Button("✅ Allow once", "approve", "k1:once", ButtonStyle.SUCCESS),
    Button("Keep a summary", "fork_report", style=ButtonStyle.PRIMARY),
    Button("Later", "snooze", "r1:10m"),
    Button("❌ Refuse", "approve", "k1:no", ButtonStyle.DANGER, is_used=True),
)

CARD = Card("What now?", buttons=BUTTONS)

LATER = BUTTONS[2].custom_id


@dataclass(frozen=True, slots=True)
class Connected:
    scene: InteractionScene
    client: InteractionClient


@pytest.fixture
async def on(tmp_path: Path) -> AsyncIterator[Connected]:
    async with interaction_scene(tmp_path) as scene, scene.connected() as client:
        yield Connected(scene, client)


def test_a_message_without_buttons_has_no_view() -> None:
    assert view_of(()) is None


def test_a_button_stands_there_as_its_card_says() -> None:
    view = view_of(BUTTONS)
    assert view is not None
    [row] = view.to_components()
    shown = [
        (each["label"], each["style"], each["custom_id"], each["disabled"])
        for each in row["components"]
    ]
    assert shown == [
        ("✅ Allow once", 3, "act:approve:k1:once", False),
        ("Keep a summary", 1, "act:fork_report:", False),
        ("Later", 2, "act:snooze:r1:10m", False),
        ("❌ Refuse", 4, "act:approve:k1:no", True),
    ]


@given(count=st.integers(1, 25))
def test_buttons_stand_in_order_and_five_in_a_row(count: int) -> None:
    view = view_of([Button(f"b{number}", "agent", str(number)) for number in range(count)])
    assert view is not None
    rows = [[each["label"] for each in row["components"]] for row in view.to_components()]
    assert [label for row in rows for label in row] == [f"b{n}" for n in range(count)]
    assert [len(row) for row in rows[:-1]] == [5] * (len(rows) - 1)
    assert len(rows[-1]) <= 5


async def test_a_view_never_ends_by_itself() -> None:
    view = view_of(BUTTONS)
    assert view is not None
    assert view.timeout is None
    assert view.is_persistent()


async def test_a_click_is_acknowledged_while_it_is_taken_and_then_answered(
    on: Connected, caplog: pytest.LogCaptureFixture
) -> None:
    ref, message = await on.scene.show(on.client, CARD)
    on.scene.core.may_answer.clear()
    asked = on.scene.discord.click(ref, LATER)
    assert await asked.answered() is ResponseType.DEFERRED_UPDATE
    assert (on.scene.core.clicks, asked.followups) == ([], [])
    on.scene.core.may_answer.set()
    assert await asked.said() == "Later: done."
    assert all(each.is_ephemeral for each in asked.followups)
    assert (on.scene.core.calls, on.scene.told) == ([LATER], [])
    assert on.scene.core.clicks == [("discord", message.id, LATER)]
    assert len(on.scene.discord.message(ref).versions) == 1
    assert [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")] == []


async def test_a_click_without_an_answer_says_nothing(on: Connected) -> None:
    ref, _ = await on.scene.show(on.client, CARD)
    on.scene.core.answers[LATER] = CommandAnswer()
    asked = on.scene.discord.click(ref, LATER)
    await eventually(lambda: on.scene.core.clicks)
    assert await on.scene.discord.click(ref, BUTTONS[0].custom_id).said()
    assert (asked.followups, on.scene.told) == ([], [])


async def test_a_click_on_a_message_that_nobody_knows_is_told(on: Connected) -> None:
    ref, _ = await on.scene.show(on.client, CARD)
    on.scene.core.messages.clear()
    asked = on.scene.discord.click(ref, LATER)
    assert await asked.said() == UNKNOWN
    assert asked.followups[0].is_ephemeral
    assert on.scene.core.calls == []


@pytest.mark.parametrize("is_in_log", [False, True])
async def test_the_button_of_a_running_answer_goes_by_its_key(
    on: Connected, is_in_log: bool
) -> None:
    careful = CarefulTime("careful: mail", "0a1b")
    await on.scene.core.change(careful=careful)
    ref, message = await on.scene.show(on.client, Card("x", buttons=(careful.button,)))
    on.scene.core.messages.clear()
    if is_in_log:
        # The answer has taken the place of its drafts.
        await on.scene.core.post(replace(message, card=None))
    said = [
        await on.scene.discord.press(on.scene.discord.message(ref), custom_id).said()
        for custom_id in ("act:go_on:ffff", careful.button.custom_id)
    ]
    assert said == ["It has read something else since then.", "It is not careful any more."]
    assert on.scene.core.status.careful is None


async def test_two_clicks_at_once_are_both_answered_and_one_is_done(on: Connected) -> None:
    ref, _ = await on.scene.show(on.client, CARD)
    message = on.scene.discord.message(ref)
    asked = [on.scene.discord.press(message, LATER) for _ in range(2)]
    said = [await each.said() for each in asked]
    assert sorted(said) == ["Later: done.", "That button was used already."]
    assert len(on.scene.core.clicks) == 1


async def test_the_core_judges_a_button_that_is_not_there(on: Connected) -> None:
    ref, _ = await on.scene.show(on.client, CARD)
    forged = "act:agent:any thing: at all"
    asked = on.scene.discord.press(on.scene.discord.message(ref), forged)
    assert await asked.said() == "That button is gone."
    assert (on.scene.core.calls, on.scene.core.clicks) == ([forged], [])


async def test_buttons_of_before_a_restart_work(tmp_path: Path) -> None:
    async with interaction_scene(tmp_path) as scene:
        async with scene.connected() as client:
            ref, _ = await scene.show(client, CARD)
        async with scene.connected():
            assert await scene.discord.click(ref, LATER).said() == "Later: done."


async def test_nothing_is_held_for_the_messages_that_have_buttons(on: Connected) -> None:
    collect_garbage_of_earlier_tests()
    on.scene.discord.allowance(1000, 1.0, of=("send", "edit", "global"))
    owner = discord.Object(int(on.scene.discord.owner.id))
    channel = await on.client.create_dm(owner)
    held = []
    for number in range(200):
        view = view_of([Button("Ask", "agent", f"k{number}")])
        assert view is not None
        held.append(weakref.ref(view))
        sent = await channel.send("What now?", view=view)
    view = view_of([Button("Ask", "agent", "k199", is_used=True)])
    await sent.edit(content="What now?", view=view)
    del view, sent
    gc.collect()
    assert [each for each in held if each() is not None] == []
    assert list(on.client.persistent_views) == []


async def test_a_click_that_discord_gave_up_waiting_for_is_not_taken(on: Connected) -> None:
    ref, _ = await on.scene.show(on.client, CARD)
    asked = on.scene.discord.click(ref, LATER)
    on.scene.late += 4
    await on.scene.discord.until(lambda: asked.late)
    await on.scene.discord.click(ref, BUTTONS[0].custom_id).said()
    assert on.scene.core.calls == [BUTTONS[0].custom_id]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (Unreadable(Path("messages.jsonl"), "cannot be read."), "messages.jsonl: cannot be read."),
        (LookupError("the details"), FAILED),
    ],
)
async def test_what_went_wrong_is_told_to_who_clicked(
    on: Connected, fault: Exception, sentence: str
) -> None:
    ref, _ = await on.scene.show(on.client, CARD)
    on.scene.core.fault = fault
    assert await on.scene.discord.click(ref, LATER).said() == sentence


async def test_a_button_that_asks_opens_a_form_whose_words_come_with_the_click(
    on: Connected,
) -> None:
    other = Button("Other…", "snooze", "r1:other", asks="When? " + "x" * 60)
    ref, _ = await on.scene.show(on.client, Card("Drink water.", buttons=(other,)))
    clicked = on.scene.discord.click(ref, other.custom_id)
    assert await clicked.answered() is ResponseType.FORM
    assert clicked.form["title"] == "Other"
    assert not on.scene.core.calls
    on.scene.core.answers[other.custom_id] = CommandAnswer("In 20 minutes?", is_error=True)
    said = on.scene.discord.submit(clicked, "in 20 minuts")
    assert await said.said() == "In 20 minutes?"
    assert on.scene.core.calls == [f"{other.custom_id} in 20 minuts"]


SUNDAY = datetime(2026, 11, 15, 12, tzinfo=UTC)

QUESTION = asking_card(ToolCall("Bash", {"command": "ls"}), "k1", Pattern.of("Bash(ls)"))


class BrokenReception(FakeReception):
    async def by_ref(self, surface: str, ref: str) -> ChatMessage | None:
        raise Unreadable(Path(surface), f"{ref} cannot be read.")


class ReactionScene:
    def __init__(self, reception: FakeReception) -> None:
        self.reception = reception
        self.told: list[str] = []
        self._reactions = InteractionRouter(reception, self._tell)

    async def react(self, emoji: str, ref: str = "700") -> None:
        await self._reactions.reacted(ref, emoji)

    @property
    def clicked(self) -> list[str]:
        return [custom_id for _, _, custom_id in self.reception.clicks]

    async def _tell(self, text: str) -> None:
        self.told.append(text)


@pytest.fixture
def scene(tmp_path: Path) -> ReactionScene:
    return ReactionScene(FakeReception(ManualClock(SUNDAY), tmp_path))


async def say(scene: ReactionScene, card: Card | None, ref: str = "700") -> ChatMessage:
    message = await scene.reception.say("", card=card)
    scene.reception.show_on("discord", ref, message.id)
    return message


@pytest.mark.parametrize(
    ("emoji", "custom_id"),
    [
        ("✅", "act:approve:k1:once"),
        ("🔓", "act:approve:k1:always"),
        ("❌", "act:approve:k1:no"),
        ("✅\ufe0f", "act:approve:k1:once"),
        ("🔓\ufe0e", "act:approve:k1:always"),
    ],
)
async def test_a_reaction_to_a_question_is_the_click_that_says_the_same(
    scene: ReactionScene, emoji: str, custom_id: str
) -> None:
    question = await say(scene, QUESTION)
    scene.reception.answers[custom_id] = CommandAnswer()
    await scene.react(emoji)
    assert scene.reception.clicks == [("discord", question.id, custom_id)]
    assert scene.told == []


async def test_a_question_of_several_messages_is_answered_on_any_of_them(
    scene: ReactionScene,
) -> None:
    await say(scene, QUESTION, "699 700 701")
    await scene.react("✅", "701")
    assert scene.clicked == ["act:approve:k1:once"]


USED = QUESTION.buttons[0]._replace(is_used=True)

MEANINGLESS: list[tuple[Card | None, str]] = [
    *(
        (QUESTION, each)
        for each in ("👍", "✔️", "☑️", "❎", "🔒", "👀", "", "\ufe0f", "once", "✅✅")
    ),
    (asking_card(ToolCall("Bash", {"command": "ls"}), "k1", None), "🔓"),
    (answered_card(QUESTION, "Allowed once", Color.GREEN), "❌"),
    (QUESTION._replace(buttons=(USED, *QUESTION.buttons[1:])), "✅"),
    (None, "✅"),
    (Card("Done?"), "✅"),
    (Card("Done?", buttons=(Button("Once", "snooze", "k1:once"),)), "✅"),
    (Card("Done?", buttons=(Button("Once", "approve", "once"),)), "✅"),
]


@pytest.mark.parametrize(("card", "emoji"), MEANINGLESS)
async def test_any_other_reaction_means_nothing(
    scene: ReactionScene, card: Card | None, emoji: str
) -> None:
    await say(scene, card)
    await scene.react(emoji)
    await scene.react("✅", "701")
    assert (scene.reception.calls, scene.told) == ([], [])


async def test_two_reactions_in_a_row_are_one_answer(scene: ReactionScene) -> None:
    await say(scene, QUESTION)
    await scene.react("✅")
    await scene.react("✅")
    assert scene.clicked == ["act:approve:k1:once"]


async def test_an_answer_that_came_to_nothing_is_told(scene: ReactionScene) -> None:
    await say(scene, QUESTION)
    refused = CommandAnswer("It could not be kept.", is_error=True)
    scene.reception.answers["act:approve:k1:always"] = refused
    await scene.react("🔓")
    assert scene.told == ["It could not be kept."]


async def test_a_log_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    scene = ReactionScene(BrokenReception(ManualClock(SUNDAY), tmp_path))
    await scene.react("✅")
    assert scene.told == ["discord: 700 cannot be read."]
