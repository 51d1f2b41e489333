"""A reaction answers the question of its message, and does nothing on other messages."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from devtools.doubles.clock import ManualClock
from devtools.doubles.reception import FakeReception

from ollim_bot.conversation.approvals import answered_card, asking_card
from ollim_bot.domain.cards import Button, Card, Color
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.permissions import Pattern
from ollim_bot.errors import Unreadable
from ollim_bot.ports import ToolCall
from ollim_bot.surfaces.discord.interactions import ApprovalReactions

SUNDAY = datetime(2026, 11, 15, 12, tzinfo=UTC)
QUESTION = asking_card(ToolCall("Bash", {"command": "ls"}), "k1", Pattern.of("Bash(ls)"))


class BrokenReception(FakeReception):
    async def by_ref(self, surface: str, ref: str) -> ChatMessage | None:
        raise Unreadable(Path(surface), f"{ref} cannot be read.")


class ReactionScene:
    def __init__(self, reception: FakeReception) -> None:
        self.reception = reception
        self.told: list[str] = []
        self._reactions = ApprovalReactions(reception, self._tell)

    async def react(self, emoji: str, ref: str = "700") -> None:
        await self._reactions.added(ref, emoji)

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


@pytest.mark.parametrize("emoji", ["👍", "✔️", "☑️", "❎", "🔒", "👀", "", "\ufe0f", "once", "✅✅"])
async def test_other_emojis_mean_nothing(scene: ReactionScene, emoji: str) -> None:
    await say(scene, QUESTION)
    await scene.react(emoji)
    assert (scene.reception.calls, scene.told) == ([], [])


async def test_what_is_not_offered_cannot_be_said_by_a_reaction(scene: ReactionScene) -> None:
    await say(scene, asking_card(ToolCall("Bash", {"command": "ls"}), "k1", None))
    await scene.react("🔓")
    assert (scene.reception.calls, scene.told) == ([], [])


async def test_a_question_that_was_answered_is_not_answered_again(scene: ReactionScene) -> None:
    await say(scene, answered_card(QUESTION, "Allowed once", Color.GREEN))
    await scene.react("❌")
    assert (scene.reception.calls, scene.told) == ([], [])


async def test_two_reactions_in_a_row_are_one_answer(scene: ReactionScene) -> None:
    await say(scene, QUESTION)
    await scene.react("✅")
    await scene.react("✅")
    assert scene.clicked == ["act:approve:k1:once"]


@pytest.mark.parametrize(
    "card",
    [
        None,
        Card("Done?"),
        Card("Done?", buttons=(Button("Once", "snooze", "k1:once"),)),
        Card("Done?", buttons=(Button("Once", "approve", "once"),)),
    ],
)
async def test_a_reaction_to_any_other_message_means_nothing(
    scene: ReactionScene, card: Card | None
) -> None:
    await say(scene, card)
    await scene.react("✅")
    assert (scene.reception.calls, scene.told) == ([], [])


async def test_a_reaction_to_an_unknown_message_means_nothing(scene: ReactionScene) -> None:
    await say(scene, QUESTION)
    await scene.react("✅", "701")
    assert (scene.reception.calls, scene.told) == ([], [])


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


async def test_only_the_button_that_is_open_counts(scene: ReactionScene) -> None:
    used = QUESTION.buttons[0]._replace(is_used=True)
    await say(scene, QUESTION._replace(buttons=(used, *QUESTION.buttons[1:])))
    await scene.react("✅")
    assert (scene.reception.calls, scene.told) == ([], [])
