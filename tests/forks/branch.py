"""A conversation in which forks are opened and ended, on doubles."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.conversation.scene import Scene, scene

from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import ChatMessage, MessageId
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.forks import Fork
from ollim_bot.domain.sessions import SessionChange, SessionEvent, SessionId
from ollim_bot.testing.engine import CallsTool, ScriptedEngine

ENTER = "mcp__discord__enter_fork"
SAVE = CallsTool("mcp__discord__save_context")
EXIT = CallsTool("mcp__discord__exit_fork")


def reports(words: str) -> CallsTool:
    return CallsTool("mcp__discord__report_updates", {"message": words})


class Branch:
    """What a person sees and does about forks."""

    def __init__(self, at: Scene) -> None:
        self.at = at

    @property
    def fork(self) -> Fork | None:
        return self.at.stores.fork.read()

    @property
    def main(self) -> SessionId | None:
        return self.at.stores.session.read()

    @property
    def cards(self) -> list[ChatMessage]:
        return [message for message in self.at.log if message.card is not None]

    @property
    def titles(self) -> list[str]:
        return [message.card.title for message in self.cards if message.card is not None]

    @property
    def events(self) -> list[SessionEvent]:
        return list(self.at.stores.session_history.read().entries)

    def happened(self, change: SessionChange) -> list[SessionEvent]:
        return [event for event in self.events if event.event is change]

    async def enter(self, topic: str = "") -> None:
        answer = await self.at.chat.command("web", f"/fork {topic}".strip())
        assert answer == CommandAnswer(), answer
        await self.at.quiet()

    async def press(self, label: str, card: ChatMessage | None = None) -> CommandAnswer:
        """A button of the newest card that has it, and wait for what comes of it."""
        answer = await self.pressed(label, card)
        await self.at.quiet()
        return answer

    async def pressed(self, label: str, card: ChatMessage | None = None) -> CommandAnswer:
        message = card or next(each for each in reversed(self.cards) if self.button(each, label))
        button = self.button(message, label)
        assert button is not None
        return await self.at.chat.click("web", message.id, button.custom_id)

    def button(self, message: ChatMessage, label: str) -> Button | None:
        buttons = message.card.buttons if message.card else ()
        return next((each for each in buttons if each.label == label), None)

    def entry(self) -> ChatMessage:
        assert self.fork is not None
        return self.at.message(MessageId(f"fork-{self.fork.id}"))


@asynccontextmanager
async def branch(engine: ScriptedEngine, **changes: Any) -> AsyncIterator[Branch]:
    async with scene(engine, **changes) as at:
        yield Branch(at)
