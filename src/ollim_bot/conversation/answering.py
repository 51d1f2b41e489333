"""Answers what the owner sent: one turn of the main session for each batch of messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Sequence
from uuid import uuid4

from ollim_bot.agent import Prompt
from ollim_bot.chat import TurnStart
from ollim_bot.conversation import texts
from ollim_bot.conversation.auto_commit import AutoCommit
from ollim_bot.conversation.inbox import DurableInbox
from ollim_bot.conversation.main_session import MainSession
from ollim_bot.conversation.main_tools import main_run
from ollim_bot.conversation.questions import Question
from ollim_bot.conversation.running_turn import RunningTurn
from ollim_bot.conversation.stage import Stage
from ollim_bot.domain.chat import Author, ChatMessage, MessageId, Spent, TurnId
from ollim_bot.domain.context_use import context_warning
from ollim_bot.domain.events import (
    EndCause,
    FailureKind,
    Noted,
    TurnEnded,
    TurnFailure,
    Usage,
)
from ollim_bot.domain.inputs import Ended, InboxRow, InputEnd, InputId, OwnerMessage, Taken
from ollim_bot.domain.sessions import SessionId
from ollim_bot.domain.updates import PendingUpdates
from ollim_bot.errors import OllimError
from ollim_bot.logs import log_fields
from ollim_bot.ports import Clock, Log
from ollim_bot.stores import Stores
from ollim_bot.tools.server.bench import Workbench

_logger = logging.getLogger(__name__)

# The engine's process or its session is gone, but the same can be asked again.
_CUT_OFF = (FailureKind.ENGINE_DIED, FailureKind.SESSION_LOST)


def answer_name(command: InputId) -> MessageId:
    """The message in the log that says what came of a command."""
    return MessageId(f"answer-{command}")


class Answering:
    """One turn at a time. `is_free` is set where the model costs nothing."""

    def __init__(
        self,
        stores: Stores,
        inbox: DurableInbox,
        session: MainSession,
        stage: Stage,
        bench: Workbench,
        auto_commit: AutoCommit,
        clock: Clock,
        *,
        is_free: bool,
    ) -> None:
        self._stores = stores
        self._inbox = inbox
        self._session = session
        self._stage = stage
        self._bench = bench
        self._auto_commit = auto_commit
        self._clock = clock
        self._is_free = is_free
        self._unwanted: frozenset[InputId] = frozenset()
        self.running: RunningTurn | None = None

    async def ask(self, messages: Sequence[OwnerMessage], question: Awaitable[Question]) -> bool:
        """Run a turn to its end, with all that has to be shown and written down about it.

        It can be stopped from the first moment on, while the question is still being made. True if
        it was cut off, neither answered nor failed: then it has to go on.
        """
        turn = self._begun(message.id for message in messages)
        end = TurnEnded(EndCause.INTERRUPTED)
        try:
            end = await self._run(turn, await question)
            return await self._conclude(turn, messages, end)
        finally:
            self.running = None
            await turn.close(end)

    async def run_command(self, input_id: InputId, line: str) -> tuple[RunningTurn, TurnEnded]:
        """Have the engine itself do something to the session."""
        turn = self._begun([input_id], is_command=True)
        end = TurnEnded(EndCause.INTERRUPTED)
        try:
            await self._session.open()
            end = await turn.follow(self._session.command(line))
        except OllimError as error:
            end = _no_engine(error)
        finally:
            self.running = None
            await turn.close(end)
        return turn, end

    @property
    def is_idle(self) -> bool:
        """Whether no turn runs and none was begun; a command has a turn too."""
        return self.running is None and self._inbox.state.running is None

    async def interrupt(self) -> bool:
        """Stop the turn that runs or is about to; False if there is none."""
        turn = self.running
        if turn is None:
            self._unwanted = frozenset(message.id for message in self._upcoming())
            return bool(self._unwanted)
        turn.is_interrupted = True
        await self._session.interrupt()
        return True

    async def make_way(self, turn: RunningTurn | None, newer: InputId) -> None:
        """A newer message stops this turn, if it still runs and is one that can be stopped so."""
        if turn is None or turn is not self.running or newer in turn.start.inputs:
            return
        if turn.gives_way:
            await self.interrupt()

    async def settle(self, claim: PendingUpdates, *, is_taken: bool) -> None:
        """Updates that the prompt showed are done with if it was taken, and wait again if not."""

        def step(pending: PendingUpdates) -> tuple[PendingUpdates, None]:
            return pending.committed(claim) if is_taken else pending.restored(claim), None

        if claim != PendingUpdates():
            await asyncio.to_thread(self._stores.updates.transact, step)

    async def end(self, messages: Sequence[OwnerMessage], how: InputEnd) -> None:
        ids = tuple(message.id for message in messages)
        await self._inbox.append(Ended(self._clock.now(), ids, how))

    async def post_answer(
        self, turn: TurnId, text: str, usage: Usage, *, is_cut_off: bool = False
    ) -> None:
        cost = 0.0 if self._is_free else self._session.cost_since_last(usage)
        message = ChatMessage(
            MessageId(uuid4().hex),
            self._clock.now(),
            Author.ASSISTANT,
            text,
            turn=turn,
            session=self._session.id,
            is_cut_off=is_cut_off,
            spent=Spent(cost, usage.context, usage.window),
            footer="" if is_cut_off else context_warning(usage),
        )
        await self._stage.post(message)

    async def post_note(
        self, text: str, turn: TurnId | None = None, *, name: str | None = None
    ) -> None:
        """With a name of its own it is one note, however often it is posted."""
        message_id = MessageId(name or uuid4().hex)
        note = ChatMessage(message_id, self._clock.now(), Author.PROGRAM, text, turn=turn)
        await self._stage.post(note)

    def _begun(self, inputs: Iterable[InputId], *, is_command: bool = False) -> RunningTurn:
        start = TurnStart(TurnId(uuid4().hex), self._clock.now(), tuple(inputs))
        turn = RunningTurn(start, self._stage.present(start), is_command=is_command)
        turn.is_interrupted = not self._unwanted.isdisjoint(start.inputs)
        self._unwanted = frozenset()
        self.running = turn
        return turn

    def _upcoming(self) -> Iterable[OwnerMessage]:
        """What the next turn will be about, where none has begun yet."""
        inputs = self._inbox.state.taken or self._inbox.state.next_batch()
        return (each for each in inputs if isinstance(each, OwnerMessage))

    async def _run(self, turn: RunningTurn, question: Question) -> TurnEnded:
        try:
            session_id = await self._session.open()
        except OllimError as error:
            return _no_engine(error)
        if turn.is_interrupted:
            return TurnEnded(EndCause.INTERRUPTED)
        self._bench.run = main_run(turn.start.at, session_id)
        prompt_id = str(uuid4())
        claim = await self._take(turn.start, question.attempt, prompt_id, session_id)
        for note in (*([texts.CATCHING_UP] if claim.entries else []), *question.unreadable):
            turn.show(Noted(note))
        with log_fields(session=session_id, run=turn.start.turn):
            _logger.info("A turn begins (attempt %d)", question.attempt)
            text = question.text(claim, self._clock.now(), session_id)
            prompt = Prompt(text, question.images_for(session_id), prompt_id)
            end = await turn.follow(self._auto_commit.watching(self._session.turn(prompt)))
            _logger.info("The turn ended: %s", end.cause)
        return end

    async def _take(
        self, start: TurnStart, attempt: int, prompt: str, session: SessionId
    ) -> PendingUpdates:
        """Write down that the turn begins, together with the updates that it claims."""

        def write(log: Log[InboxRow]) -> Sequence[InboxRow]:
            def step(pending: PendingUpdates) -> tuple[PendingUpdates, Taken]:
                taken = Taken(start.at, start.turn, start.inputs, attempt, prompt, session, pending)
                log.append(taken)  # before the updates are gone from their own file
                return PendingUpdates(), taken

            return [self._stores.updates.transact(step)]

        await self._inbox.record(write)
        running = self._inbox.state.running
        return running.claim if running is not None else PendingUpdates()

    async def _conclude(
        self, turn: RunningTurn, messages: Sequence[OwnerMessage], end: TurnEnded
    ) -> bool:
        """Post what came of it and end the inputs; True if the turn was cut off instead."""
        if end.failure is not None and end.failure.kind in _CUT_OFF:
            await self._post_rest(turn, end)
            if end.failure.kind is FailureKind.SESSION_LOST:
                await self._session.forget()
            return True
        how = await self._post_outcome(turn, end)
        taken = self._inbox.state.running
        if taken is not None and taken.turn == turn.start.turn:
            is_taken = turn.was_asked and (
                end.cause is EndCause.COMPLETED or await self._session.has_taken(taken)
            )
            await self.settle(taken.claim, is_taken=is_taken)
        await self.end(messages, how)
        return False

    async def _post_outcome(self, turn: RunningTurn, end: TurnEnded) -> InputEnd:
        turn_id = turn.start.turn
        if end.cause is EndCause.COMPLETED:
            await self.post_answer(turn_id, turn.text.whole(end), end.usage)
            return InputEnd.ANSWERED
        await self._post_rest(turn, end)
        if end.failure is not None:
            await self.post_note(end.failure.sentence, turn_id)
            return InputEnd.FAILED
        if self._is_superseded(turn):
            return InputEnd.SUPERSEDED
        if not turn.text.so_far:
            await self.post_note(texts.STOPPED, turn_id)
        return InputEnd.STOPPED

    def _is_superseded(self, turn: RunningTurn) -> bool:
        """Whether a newer message waits; those of a turn that was never taken wait too."""
        waiting = (each for each in self._inbox.state.waiting if isinstance(each, OwnerMessage))
        return any(each.id not in turn.start.inputs for each in waiting)

    async def _post_rest(self, turn: RunningTurn, end: TurnEnded) -> None:
        """What there is of an answer that will not be whole."""
        if turn.text.so_far:
            await self.post_answer(turn.start.turn, turn.text.so_far, end.usage, is_cut_off=True)


def _no_engine(error: OllimError) -> TurnEnded:
    return TurnEnded(EndCause.FAILED, failure=TurnFailure(FailureKind.OTHER, str(error)))
