"""Runs slash commands: at once, or from the inbox in order with the other inputs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from uuid import uuid4

from ollim_bot.conversation import texts
from ollim_bot.conversation.commands.table import (
    COMMANDS,
    CommandServices,
    Completions,
    Immediate,
    Queued,
    read_line,
)
from ollim_bot.conversation.message_poster import CommandChange, MessagePoster, answer_name, note_of
from ollim_bot.conversation.state import ConversationState
from ollim_bot.domain.chat import TurnId
from ollim_bot.domain.commands import CommandAnswer
from ollim_bot.domain.inbox import Accepted, Ended, InputEnd, Taken
from ollim_bot.domain.inputs import CommandCall, InputId
from ollim_bot.errors import OllimError
from ollim_bot.ports import Clock
from ollim_bot.store.transaction import Transaction

_MOST_COMPLETIONS = 25


class CommandDispatcher:
    """Runs commands. `steps` are further queued commands that buttons and the agent can add."""

    def __init__(
        self,
        state: ConversationState,
        poster: MessagePoster,
        clock: Clock,
        services: CommandServices,
        steps: Mapping[str, Queued],
    ) -> None:
        self._state = state
        self._poster = poster
        self._clock = clock
        handlers = {command.name: command.handler(services) for command in COMMANDS}
        self._immediate = {
            name: one for name, one in handlers.items() if isinstance(one, Immediate)
        }
        self._queued = {
            **steps,
            **{name: one for name, one in handlers.items() if isinstance(one, Queued)},
        }
        self._completions: Mapping[tuple[str, str], Completions] = {
            (command.name, argument): values(services)
            for command in COMMANDS
            for argument, values in command.completions.items()
        }
        self._waiting: dict[InputId, asyncio.Future[CommandAnswer]] = {}

    async def call(self, surface: str, line: str) -> CommandAnswer:
        """Run or enqueue the command, and return when it has run."""
        try:
            command, arguments = read_line(line)
            name = InputId(uuid4().hex)
            call = CommandCall(name, surface, self._clock.now(), command.name, arguments)
            if command.name in self._immediate:
                return CommandAnswer(await self._immediate[command.name].run(call))
            return await self._wait_for_turn(call)
        except OllimError as error:
            return CommandAnswer(str(error), is_error=True)

    def can_repeat(self, call: CommandCall) -> bool:
        return self._queued[call.name].can_repeat

    async def run(self, call: CommandCall, attempt: int = 1) -> None:
        """Run a command that was taken from the inbox."""
        asker = self._waiting.get(call.id)
        try:
            is_heard = asker is not None and not asker.done()
            answer = await self._run(call, attempt, is_heard=is_heard)
        except BaseException:  # also if cancelled: the asker waits
            answer = CommandAnswer(texts.command_cut_off(call.name), is_error=True)
            raise
        finally:
            if asker is not None and not asker.done():
                asker.set_result(answer)

    async def _run(self, call: CommandCall, attempt: int, *, is_heard: bool) -> CommandAnswer:
        """Post the answer. An error is posted only if no caller waits for it."""
        now = self._clock.now()
        await self._state.append(Taken(now, TurnId(uuid4().hex), (call.id,), attempt))
        try:
            said: str | CommandChange = await self._queued[call.name].run(call)
            answer, end = CommandAnswer(), InputEnd.ANSWERED
        except OllimError as error:
            said = "" if is_heard else str(error)
            answer, end = CommandAnswer(str(error), is_error=True), InputEnd.FAILED
        now = self._clock.now()
        ended = Ended(now, (call.id,), end)

        def step(tx: Transaction) -> None:
            words = said.step(tx) if isinstance(said, CommandChange) else said
            if words:
                self._poster.add_note(tx, note_of(words, now, answer_name(call.id)))
            tx.inbox.append(ended)

        await self._state.transact(step)
        if isinstance(said, CommandChange):
            await said.after()
        return answer

    async def completions(self, command: str, argument: str, typed: str) -> Sequence[str]:
        """The values that begin with the typed text, then those that contain it."""
        values = await self._proposed(command, argument)
        word = typed.lower()
        begins = [value for value in values if value.lower().startswith(word)]
        holds = [value for value in values if word in value.lower() and value not in begins]
        return [*begins, *holds][:_MOST_COMPLETIONS]

    async def _proposed(self, command: str, argument: str) -> Sequence[str]:
        if (command, argument) in self._completions:
            return await self._completions[command, argument]()
        arguments = (one for spec in COMMANDS if spec.name == command for one in spec.arguments)
        return next((one.choices for one in arguments if one.name == argument), ())

    async def _wait_for_turn(self, call: CommandCall) -> CommandAnswer:
        answer: asyncio.Future[CommandAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[call.id] = answer
        try:
            before = self._queued[call.name].before
            if before is not None:
                await before()
            await self._state.append(Accepted(call.at, call))
            return await answer
        finally:
            del self._waiting[call.id]
