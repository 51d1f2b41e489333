"""Takes the inputs of the conversation one after another, in their order."""

from __future__ import annotations

from dataclasses import replace

from ollim_bot.conversation.commands.dispatcher import CommandDispatcher
from ollim_bot.conversation.disk_gate import DiskGate
from ollim_bot.conversation.forks.forks import Replies
from ollim_bot.conversation.state import ConversationState
from ollim_bot.conversation.status_board import StatusBoard
from ollim_bot.conversation.turns.questions import TurnInput, TurnInputs
from ollim_bot.conversation.turns.recovery import Recovery
from ollim_bot.conversation.turns.runner import TurnRunner
from ollim_bot.domain.inbox import InputEnd
from ollim_bot.domain.inputs import CommandCall, ProgramTurn, TurnRequest
from ollim_bot.errors import StorageError


class InputLoop:
    """Takes one input after another. Only an interruption overtakes the inputs that wait."""

    def __init__(
        self,
        gate: DiskGate,
        state: ConversationState,
        replies: Replies,
        inputs: TurnInputs,
        runner: TurnRunner,
        recovery: Recovery,
        dispatcher: CommandDispatcher,
        board: StatusBoard,
    ) -> None:
        self._gate = gate
        self._state = state
        self._replies = replies
        self._inputs = inputs
        self._runner = runner
        self._recovery = recovery
        self._dispatcher = dispatcher
        self._board = board
        self._is_ending = False

    async def run(self) -> None:
        """Run until cancelled or told to end. Inputs wait while the disk refuses writes."""
        while not self._is_ending:
            try:
                await self._work()
            except StorageError as refused:
                await self._gate.wait(refused)

    def end_soon(self) -> None:
        """Take no further input: `run` returns when the current turn has ended."""
        self._is_ending = True

    async def _work(self) -> None:
        await self._recovery.run()
        await self._board.tell()
        while not self._is_ending:
            await self._runner.be_ready()
            await self._state.work()
            await self._take_next()
            await self._board.tell()

    async def _take_next(self) -> None:
        batch = self._state.inbox.next_batch(in_fork=self._state.fork is not None)
        # Await nothing before a turn has begun, so that a later message finds a turn to interrupt.
        for command in (each for each in batch if isinstance(each, CommandCall)):
            await self._dispatcher.run(command)
        asked = tuple(each for each in batch if not isinstance(each, CommandCall))
        if any(self._is_over(each) for each in asked):
            await self._runner.end(asked, InputEnd.WITHDRAWN)
        elif asked and await self._runner.ask(asked, self._question(asked)):
            await self._recovery.run()

    async def _question(self, asked: tuple[TurnRequest, ...]) -> TurnInput:
        """Route a reply into its fork, then read the pictures."""
        notes = await self._replies.route(asked)
        await self._board.tell()
        question = await self._inputs.first(asked)
        return replace(question, notes=(*notes, *question.notes))

    def _is_over(self, asked: TurnRequest) -> bool:
        """Whether the input belongs to a fork that is no longer open."""
        fork = self._state.fork
        return isinstance(asked, ProgramTurn) and (fork is None or asked.fork != fork.id)
