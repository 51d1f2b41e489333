"""A conversation on test doubles in which forks are opened and ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from devtools.doubles.engine import CallsTool, ScriptedEngine
from tests.kernel.conversation.scene import Scene, scene

from ollim_bot.kernel.base.ids import MessageId, SessionId
from ollim_bot.kernel.values.cards import Button
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.forks import Fork
from ollim_bot.kernel.values.sessions import SessionChange, SessionEvent

ENTER = "mcp__discord__enter_fork"
SAVE = CallsTool("mcp__discord__save_context")
EXIT = CallsTool("mcp__discord__exit_fork")


def reports(words: str) -> CallsTool:
    return CallsTool("mcp__discord__report_updates", {"message": words})


class ForkScene:
    """A conversation, with what the owner sees and does about forks."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    @property
    def fork(self) -> Fork | None:
        return self.scene.stores.fork.read()

    @property
    def open(self) -> Fork:
        """The fork, which has to be open."""
        assert self.fork is not None
        return self.fork

    @property
    def main(self) -> SessionId | None:
        return self.scene.stores.session.read()

    @property
    def cards(self) -> list[ChatMessage]:
        return [message for message in self.scene.log if message.card is not None]

    @property
    def titles(self) -> list[str]:
        return [card.title for card in self.scene.cards]

    @property
    def events(self) -> list[SessionEvent]:
        return list(self.scene.stores.session_history.read().entries)

    def happened(self, change: SessionChange) -> list[SessionEvent]:
        return [event for event in self.events if event.event is change]

    async def enter(self, topic: str = "") -> None:
        answer = await self.scene.chat.command("web", f"/fork {topic}".strip())
        assert answer == CommandAnswer(), answer
        await self.scene.quiet()

    async def press(self, label: str, card: ChatMessage | None = None) -> CommandAnswer:
        """Press a button of `card`, or of the newest card that has it, and wait for the result."""
        answer = await self.press_only(label, card)
        await self.scene.quiet()
        return answer

    async def press_only(self, label: str, card: ChatMessage | None = None) -> CommandAnswer:
        message = card or next(each for each in reversed(self.cards) if self.button(each, label))
        button = self.button(message, label)
        assert button is not None
        return await self.scene.chat.click("web", message.id, button.custom_id)

    def button(self, message: ChatMessage, label: str) -> Button | None:
        buttons = message.card.buttons if message.card else ()
        return next((each for each in buttons if each.label == label), None)

    def entry(self) -> ChatMessage:
        return self.scene.message(MessageId(f"fork-{self.open.id}"))


@asynccontextmanager
async def fork_scene(engine: ScriptedEngine, **changes: Any) -> AsyncIterator[ForkScene]:
    async with scene(engine, **changes) as at:
        yield ForkScene(at)
