"""`/setup`: a few questions of the agent, one at a time, as a conversation."""

from __future__ import annotations

from uuid import uuid4

from ollim_bot.chat import Incoming
from ollim_bot.conversation.clicks import Receive
from ollim_bot.domain.chat import OF_SET_UP
from ollim_bot.domain.inputs import InputId

# What the button of the welcome says, and what the owner is shown to have said.
SET_UP = "Set up"


class SetUp:
    """It is asked as if the button of the welcome were pressed, as often as it is wanted."""

    def __init__(self, prompt: str, receive: Receive) -> None:
        self._prompt = prompt
        self._receive = receive

    async def begin(self, surface: str) -> None:
        """When it returns, it is on disk. Raises `OllimError` if it cannot be kept."""
        name = InputId(f"{OF_SET_UP}{uuid4().hex}")
        await self._receive(Incoming(name, surface, self._prompt, button=SET_UP))
