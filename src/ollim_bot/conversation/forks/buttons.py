"""The buttons of a fork's cards: each puts what it says into the line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from ollim_bot.conversation import texts
from ollim_bot.conversation.clicks import Action, Uses, nothing
from ollim_bot.conversation.forks import cards
from ollim_bot.conversation.forks.commands import EXIT, REPORT, SAVE, ForkCommands
from ollim_bot.conversation.forks.forks import Forks
from ollim_bot.domain.cards import Button
from ollim_bot.domain.chat import ChatMessage
from ollim_bot.domain.commands import CommandAnswer


class ForkButtons:
    """`stop` ends the answer that is being written."""

    def __init__(
        self, forks: Forks, commands: ForkCommands, stop: Callable[[], Awaitable[None]]
    ) -> None:
        self._forks = forks
        self._commands = commands
        self._stop = stop
        self.actions: Mapping[str, Action] = {
            "fork_save": Action(self._putting(SAVE), Uses.NOTHING),
            "fork_report": Action(self._putting(REPORT), Uses.NOTHING),
            "fork_exit": Action(self._exit, Uses.NOTHING),
            "fork_save_confirm": Action(self._putting(SAVE), Uses.ALL),
            "fork_save_dismiss": Action(nothing, Uses.ALL),
        }

    def _putting(
        self, command: str
    ) -> Callable[[str, ChatMessage, Button], Awaitable[CommandAnswer]]:
        async def put(surface: str, message: ChatMessage, button: Button) -> CommandAnswer:
            fork = self._forks.open
            if fork is None or fork.id != (button.data or cards.fork_of(message.id)):
                return CommandAnswer(texts.BUTTON_USED, is_error=True)
            await self._commands.put(command, surface=surface, fork=fork.id)
            return CommandAnswer()

        return put

    async def _exit(self, surface: str, message: ChatMessage, button: Button) -> CommandAnswer:
        """Whoever wants to leave does not wait for the end of an answer, but for the first one."""
        answer = await self._putting(EXIT)(surface, message, button)
        fork = self._forks.open
        if not answer.is_error and fork is not None and fork.has_answered:
            await self._stop()
        return answer
