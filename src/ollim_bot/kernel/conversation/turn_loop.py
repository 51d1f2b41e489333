"""Takes the inputs of the conversation in their order, and resumes turns that were cut off."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.ids import TurnId
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.buttons import Action
from ollim_bot.kernel.conversation.dispatcher import CommandDispatcher
from ollim_bot.kernel.conversation.fork_commands import Forks, Replies
from ollim_bot.kernel.conversation.message_poster import (
    RETRY,
    CommandChange,
    MessagePoster,
    answer_name,
    answer_of,
)
from ollim_bot.kernel.conversation.notice_poster import DiskGate
from ollim_bot.kernel.conversation.state import ConversationState, StatusBoard
from ollim_bot.kernel.conversation.turn_runner import TurnInput, TurnInputs, TurnRunner
from ollim_bot.kernel.store.steps import leave_update
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.values.cards import Button
from ollim_bot.kernel.values.chat import ChatMessage
from ollim_bot.kernel.values.commands import CommandAnswer
from ollim_bot.kernel.values.inbox import (
    MOST_ATTEMPTS,
    CommandCall,
    Ended,
    FailedTurn,
    InputEnd,
    JobTurn,
    OwnerMessage,
    ProgramTurn,
    Taken,
    ToolCalled,
    TurnRequest,
)
from ollim_bot.kernel.values.taint import Taint
from ollim_bot.kernel.values.updates import PendingUpdate
from ollim_bot.kernel.values.usage import Usage

_logger = logging.getLogger(__name__)


class InputLoop:
    """Takes one input after another. Only an interruption overtakes the inputs that wait."""

    def __init__(
        self,
        gate: DiskGate,
        state: ConversationState,
        forks: Forks,
        replies: Replies,
        inputs: TurnInputs,
        runner: TurnRunner,
        recovery: Recovery,
        dispatcher: CommandDispatcher,
        board: StatusBoard,
    ) -> None:
        self._gate = gate
        self._state = state
        self._forks = forks
        self._replies = replies
        self._inputs = inputs
        self._runner = runner
        self._recovery = recovery
        self._dispatcher = dispatcher
        self._board = board
        self._is_ending = False

    async def run(self) -> None:
        """Run until cancelled or told to end. Inputs wait while the disk refuses writes."""
        await self._gate.repeat(self._run)

    async def _run(self) -> None:
        if not self._is_ending:
            await self._recovery.run()
            await self._board.tell()
        while not self._is_ending:
            await self._forks.current.be_ready()
            await self._state.work()
            await self._take_next()
            await self._board.tell()

    def end_soon(self) -> None:
        """Take no further input: `run` returns when the current turn has ended."""
        self._is_ending = True

    async def _take_next(self) -> None:
        batch = self._state.inbox.next_batch(in_fork=self._state.fork is not None)
        # Await nothing before a turn has begun, so that a later message finds a turn to interrupt.
        for command in (each for each in batch if isinstance(each, CommandCall)):
            await self._dispatcher.run(command)
            await self._board.load()
        asked = tuple(each for each in batch if not isinstance(each, CommandCall))
        fork = self._state.fork
        programs = [each for each in asked if isinstance(each, ProgramTurn)]

        async def question() -> TurnInput:
            """Route a reply into its fork, then read the pictures."""
            replies = [each for each in asked if isinstance(each, OwnerMessage) and each.origin]
            notes = await self._replies.route(replies) if replies else ()
            await self._board.tell()
            built = await self._inputs.with_pictures(TurnInput(asked))
            return replace(built, notes=(*notes, *built.notes))

        if any(fork is None or each.fork != fork.id for each in programs):
            # The fork that it belongs to is no longer open.
            await self._runner.end(asked, InputEnd.WITHDRAWN)
        elif asked and await self._runner.ask(asked, question()):
            await self._recovery.run()


class Recovery:
    """Continues what the engine's own record shows as taken, and asks only the rest again."""

    def __init__(
        self,
        state: ConversationState,
        forks: Forks,
        questions: TurnInputs,
        runner: TurnRunner,
        poster: MessagePoster,
        dispatcher: CommandDispatcher,
        clock: Clock,
    ) -> None:
        self._state = state
        self._forks = forks
        self._questions = questions
        self._runner = runner
        self._poster = poster
        self._dispatcher = dispatcher
        self._clock = clock

    async def run(self) -> None:
        """Resume until every taken turn has ended."""
        while (taken := self._state.inbox.running) is not None:
            inputs = self._state.inbox.taken
            commands = [each for each in inputs if isinstance(each, CommandCall)]
            asked = tuple(each for each in inputs if not isinstance(each, CommandCall))
            if not commands:
                await self._go_on(taken, asked)
            elif taken.attempt < MOST_ATTEMPTS and self._dispatcher.can_repeat(commands[0]):
                await self._dispatcher.run(commands[0], attempt=taken.attempt + 1)
            else:
                await self._give_up_command(commands[0])

    async def _go_on(self, taken: Taken, asked: tuple[TurnRequest, ...]) -> None:
        dialogue = self._forks.spoken_in(in_fork=taken.in_fork)
        trace = await dialogue.trace(taken)
        _logger.info(
            "A turn was cut off (taken: %s, complete: %s)", trace.is_taken, trace.is_complete
        )
        now = self._clock.now()
        read = await self._state.read(lambda tx: tx.marks.of(taken.session))

        def settle(tx: Transaction) -> None:
            dialogue.settle(tx, taken.claim, is_taken=trace.is_taken)
            if trace.is_taken and taken.session is not None:
                dialogue.adopt(tx, taken.session, now)

        if await self._state.read(lambda tx: answer_of(tx, taken.turn)) is not None:
            await self._runner.end(asked, InputEnd.ANSWERED, settle)
        elif trace.is_complete and trace.answer:
            job = next((each.as_of(taken.at) for each in asked if isinstance(each, JobTurn)), None)
            answer = self._poster.answer(
                dialogue,
                taken.turn,
                trace.answer,
                Usage(),
                session=taken.session,
                late_since=job.late_since if job else None,
                waited_since=job.waited_since if job else None,
                job=job.title if job else "",
                taint=Taint(read),
            )

            def add(tx: Transaction) -> None:
                self._poster.add_to_log(tx, answer, dialogue.answering(tx, answer))

            await self._runner.end(asked, InputEnd.ANSWERED, _both(settle, add))
        elif taken.attempt >= MOST_ATTEMPTS:
            tell = self._telling_of(taken, asked)
            await self._runner.end(asked, InputEnd.SET_ASIDE, _both(settle, tell))
        else:
            await self._state.transact(settle)
            known_in = dialogue.id if trace.is_taken else None
            # Of equal calls, the later ones have no recorded result.
            left, known, unknown = Counter(trace.ended), list[ToolCalled](), list[ToolCalled]()
            for each in self._state.inbox.tools:
                is_known = left[each.summary] > 0
                left[each.summary] -= is_known
                # What it was about may be words of others, and the prompt is ours.
                told = replace(each, summary="") if read else each
                (known if is_known else unknown).append(told)
            question = TurnInput(
                asked,
                taken.attempt + 1,
                tools=tuple(known),
                unknown=tuple(unknown),
                known_in=known_in,
            )
            await self._runner.ask(asked, self._questions.with_pictures(question))

    def _telling_of(self, taken: Taken, asked: Sequence[TurnRequest]) -> Step[None]:
        """Tell the owner which messages are set aside; a turn of the program has none to tell."""
        messages = tuple(each for each in asked if isinstance(each, OwnerMessage))
        if not messages:
            return lambda _: None
        sentence, name = texts.set_aside(messages), f"given-up-{messages[0].id}"
        note = self._poster.failure(sentence, taken.turn, has_words=False, name=name)
        tell, failed = self._telling(note), FailedTurn(taken.turn, note.at, messages)

        def step(tx: Transaction) -> None:
            tell(tx)
            tx.failed_turns.change(lambda known: known.with_turn(failed))

        return step

    async def _give_up_command(self, command: CommandCall) -> None:
        """End the command without a second run: how far it came is known only if it answered."""
        sentence, now = texts.command_cut_off(command.name), self._clock.now()
        tell = self._telling(self._poster.note(sentence, name=f"given-up-{command.id}"))

        def step(tx: Transaction) -> None:
            is_done = tx.messages.get(answer_name(command.id)) is not None
            if not is_done:
                tell(tx)
            how = InputEnd.ANSWERED if is_done else InputEnd.FAILED
            tx.inbox.append(Ended(now, (command.id,), how))

        await self._state.transact(step)

    def _telling(self, note: ChatMessage) -> Step[None]:
        """Post the note, which is no notice, since the owner waits; leave it for the agent too."""

        def step(tx: Transaction) -> None:
            self._poster.add_note(tx, note)
            leave_update(tx, PendingUpdate(note.at, note.text, note.id))

        return step


def _both(first: Step[None], second: Step[None]) -> Step[None]:
    def step(tx: Transaction) -> None:
        first(tx)
        second(tx)

    return step


RETRY_AFTER_LOGIN = "retry_after_login"

# Names the login in use, with another text after each renewal; empty if there is none.
LoginMark = Callable[[], Awaitable[str]]


class Retries:
    """Puts the messages of a failed turn into the inbox again, once, also after a restart.

    Messages that met a lost login follow by themselves when the login was renewed.
    """

    def __init__(
        self,
        store: Store,
        state: ConversationState,
        forks: Forks,
        poster: MessagePoster,
        clock: Clock,
        *,
        login: LoginMark,
    ) -> None:
        self._store = store
        self._state = state
        self._forks = forks
        self._poster = poster
        self._clock = clock
        self._login = login
        self.actions: Mapping[str, Action] = {RETRY: Action(self._click)}

    async def run(self) -> None:
        """Ask again what waits for the login: at the start, and after each change of the login."""
        with self._store.changes("failed_turns") as changed:
            if await self._waits() and await self._login():
                await self._queue()
            while True:
                changed.clear()
                if await self._waits():
                    await self._until_renewed()
                await changed.wait()

    async def after_login(self, _: CommandCall) -> CommandChange:
        """Ask again all that waits for the login, in new processes, which read the new login."""
        now = self._clock.now()

        def step(tx: Transaction) -> str:
            for failed in tx.failed_turns.get().for_login(now):
                tx.failed_turns.take(lambda known, failed=failed: known.taken(failed.turn))  # type: ignore[misc]
                tx.inbox.append(*failed.again(now))
                for each in tx.messages.of_turn(failed.turn):
                    card = each.message.card
                    if card is not None and any(button.action == RETRY for button in card.buttons):
                        buttons = tuple(button._replace(is_used=True) for button in card.buttons)
                        shown = replace(each.message, card=card._replace(buttons=buttons))
                        self._poster.add_to_log(tx, shown)
            return ""

        return CommandChange(step, after=self._forks.close)

    async def _click(self, _: str, __: ChatMessage, button: Button) -> CommandAnswer:
        now, turn = self._clock.now(), TurnId(button.data)

        def step(tx: Transaction) -> bool:
            failed = tx.failed_turns.take(lambda known: known.taken(turn))
            if failed is not None:
                tx.inbox.append(*failed.again(now))
            return failed is not None

        is_asked = await self._state.transact(step)
        return CommandAnswer() if is_asked else CommandAnswer(texts.BUTTON_USED, is_error=True)

    async def _waits(self) -> bool:
        known = await self._store.read(lambda tx: tx.failed_turns.get())
        return bool(known.for_login(self._clock.now()))

    async def _until_renewed(self) -> None:
        before = await self._login()
        while await self._waits():
            await self._clock.sleep(10.0)
            now = await self._login()
            if now and now != before:
                await self._queue()
                return

    async def _queue(self) -> None:
        await self._state.queue(RETRY_AFTER_LOGIN, self._clock.now())
