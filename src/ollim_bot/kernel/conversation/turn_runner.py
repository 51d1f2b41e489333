"""Runs the turns of the conversation, one at a time, and builds what each asks the agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import NamedTuple
from uuid import uuid4

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import OllimError, WrongInput
from ollim_bot.kernel.base.ids import SessionId, TurnId
from ollim_bot.kernel.base.logs import log_fields, unless_refused
from ollim_bot.kernel.conversation import background_attempt
from ollim_bot.kernel.conversation import sentences as texts
from ollim_bot.kernel.conversation.chat_sessions import ChatSession
from ollim_bot.kernel.conversation.foreground import LIMIT, ForegroundJobs
from ollim_bot.kernel.conversation.fork_commands import Forks
from ollim_bot.kernel.conversation.message_poster import MessagePoster, TypedAddresses, open_items
from ollim_bot.kernel.conversation.state import ConversationState
from ollim_bot.kernel.conversation.surface_fanout import Presentation, SurfaceFanout
from ollim_bot.kernel.prompts.prompt_context import (
    joined,
    open_items_block,
    owner_prompt,
    owner_words,
    updates_block,
)
from ollim_bot.kernel.prompts.turn_prompts import (
    button_prompt,
    button_words,
    continued_prompt,
    foreground_prompt,
    fork_prompt,
    idle_prompt,
    report_prompt,
    resumed_fork_prompt,
)
from ollim_bot.kernel.store.steps import (
    end_careful,
    leave_failure,
    leave_update,
    new_notice,
    note_answer,
    note_success,
)
from ollim_bot.kernel.store.transaction import Step, Transaction
from ollim_bot.kernel.tools.tool_context import ToolContext
from ollim_bot.kernel.values.chat import OF_CLICK, Attachment, ChatMessage
from ollim_bot.kernel.values.due_items import DueItem, open_card, why_now
from ollim_bot.kernel.values.events import (
    Activity,
    AgentEvent,
    AnswerText,
    Compacted,
    CompactionStarted,
    EndCause,
    FailureKind,
    Noted,
    TextCompleted,
    TextStreamed,
    ToolStarted,
    TurnEnded,
    TurnFailure,
)
from ollim_bot.kernel.values.inbox import (
    CommandCall,
    Ended,
    FailedTurn,
    FailedTurns,
    Inbox,
    InputEnd,
    InputId,
    JobTurn,
    OwnerMessage,
    ProgramTurn,
    ProgramTurnReason,
    Released,
    Taken,
    ToolCalled,
    TurnRequest,
)
from ollim_bot.kernel.values.item_messages import item_message
from ollim_bot.kernel.values.jobs import Reminder, Routine, is_ordered
from ollim_bot.kernel.values.notices import Notice, failing_key
from ollim_bot.kernel.values.occurrences import Occurrence, OccurrenceState
from ollim_bot.kernel.values.ports import AttachmentStore, Image, Prompt, TurnStart
from ollim_bot.kernel.values.runs import Run, RunKind
from ollim_bot.kernel.values.taint import ATTACHMENT, PICTURE, Taint, marked_taint
from ollim_bot.kernel.values.updates import PendingUpdate, PendingUpdates
from ollim_bot.kernel.values.usage import Usage, UsageRow, cost_of, usage_after

JobEnds = Sequence[tuple[JobTurn, OccurrenceState]]


@dataclass(slots=True)
class RunningTurn:
    """`was_asked` is set as soon as the engine may know of it, `has_ended` when it is done.

    `began` is when its first words came. `activity` has its tool calls. `notes`
    are sentences about files that the agent cannot use.
    """

    start: TurnStart
    shown: Presentation
    clock: Clock
    can_be_replaced: bool = True
    began: datetime | None = None
    activity: Activity = field(default_factory=Activity)
    notes: tuple[str, ...] = ()
    text: AnswerText = field(default_factory=AnswerText)
    was_asked: bool = False
    has_ended: bool = False
    is_interrupted: bool = False
    is_timed_out: bool = False
    is_compacting: bool = False
    compacted: Compacted | None = None

    async def noting_end(self, events: AsyncIterator[AgentEvent]) -> AsyncIterator[AgentEvent]:
        """Yield the events unchanged. After the last one, the turn can no longer be stopped."""
        async for event in events:
            if isinstance(event, TurnEnded):
                self.has_ended = True
            yield event

    async def follow(self, events: AsyncIterator[AgentEvent]) -> TurnEnded:
        """Show all events except the last, which the caller shows after posting its results."""
        end = TurnEnded(EndCause.INTERRUPTED)
        if self.is_interrupted:
            return end
        self.was_asked = True
        async for event in events:
            self.text.add(event)
            self.activity = self.activity.after(event)
            match event:
                case CompactionStarted():
                    self.is_compacting = True
                case Compacted():
                    self.compacted = event
                    self.is_compacting = False
                case TextStreamed() | ToolStarted():
                    self.is_compacting = False
            if self.began is None and isinstance(event, TextStreamed | TextCompleted):
                self.began = self.clock.now()
            if isinstance(event, TurnEnded):
                end = event
            else:
                self.shown.show(event)
        await self.shown.flush()
        return end


_logger = logging.getLogger(__name__)

# The engine's process or its session is gone, and the same question can be asked again.
_CUT_OFF = (FailureKind.ENGINE_DIED, FailureKind.SESSION_LOST)


def _occurrence_of(asked: Sequence[TurnRequest]) -> str:
    """The occurrence of the job among the requests; empty if there is none."""
    return next((each.id for each in asked if isinstance(each, JobTurn)), "")


class _InputsChanged(Exception):
    """An input was edited or withdrawn after the question was built and before it was taken."""


class TurnRunner:
    """Runs one turn at a time: gives its run to the tools, and writes how its jobs go.

    `watch` yields the events of a turn unchanged, and acts on what they change. `hurry` is called
    when the question under construction is obsolete.
    """

    def __init__(
        self,
        state: ConversationState,
        forks: Forks,
        fanout: SurfaceFanout,
        poster: MessagePoster,
        context: ToolContext,
        jobs: ForegroundJobs,
        clock: Clock,
        *,
        watch: Callable[..., AsyncIterator[AgentEvent]],
        hurry: Callable[[], None],
    ) -> None:
        self._state = state
        self._forks = forks
        self._fanout = fanout
        self._poster = poster
        self._context = context
        self._jobs = jobs
        self._watch = watch
        self._clock = clock
        self._hurry = hurry
        self._typed = TypedAddresses()
        self._unwanted: frozenset[InputId] = frozenset()
        self.running: RunningTurn | None = None

    async def ask(self, asked: Sequence[TurnRequest], question: Awaitable[TurnInput]) -> bool:
        """Run a turn to its end, and show and commit everything that belongs to it.

        The turn can be stopped from the start, also while `question` is still being built, which
        may open a fork. Returns True if the turn was cut off, neither answered nor failed, and must
        be resumed. Does nothing if an input was edited or withdrawn before it was taken.
        """
        can_be_replaced = all(each.can_be_replaced for each in asked)
        turn = self._begin((each.id for each in asked), can_be_replaced=can_be_replaced)
        end = TurnEnded(EndCause.INTERRUPTED)
        try:
            made = await question
            dialogue = self._forks.current
            if dialogue.in_fork and any(isinstance(each, OwnerMessage) for each in asked):
                await dialogue.touch()

            async def stop_late() -> None:
                await self._clock.sleep(LIMIT)
                turn.is_interrupted = turn.is_timed_out = True
                await dialogue.interrupt()

            is_job = any(isinstance(each, JobTurn) for each in asked)
            # No newer message stops a job.
            alarm = asyncio.create_task(stop_late()) if is_job else None
            try:
                end = await self._run(turn, dialogue, made)
            except asyncio.CancelledError:
                await self._record_cut_off(turn, dialogue, asked)
                raise
            finally:
                if alarm is not None:
                    alarm.cancel()
            self._state.answering = end.usage.model or self._state.answering
            return await self._conclude(turn, dialogue, made, end)
        except _InputsChanged:
            return False
        finally:
            await self._close(turn, end)

    async def run_command(self, input_id: InputId, line: str) -> tuple[RunningTurn, TurnEnded]:
        """Run a command of the engine on the current session."""
        turn = self._begin([input_id], can_be_replaced=False)
        end = TurnEnded(EndCause.INTERRUPTED)
        dialogue = self._forks.current
        try:
            await dialogue.open()
            end = await turn.follow(turn.noting_end(dialogue.turn(line)))
            await self._record_usage(turn, dialogue, end.usage)
        except OllimError as error:
            end = _no_engine(error)
        except asyncio.CancelledError:
            await self._record_cut_off(turn, dialogue)
            raise
        finally:
            await self._close(turn, end)
        return turn, end

    async def _record_usage(
        self, turn: RunningTurn, dialogue: ChatSession, usage: Usage, occurrence: str = ""
    ) -> None:
        """Commit what a turn has used that leaves nothing else."""
        spent = dialogue.usage_rows(usage, self._clock.now(), turn.start.turn, occurrence)
        if spent:
            await self._state.transact(lambda tx: tx.usage.add(*spent))
        dialogue.recorded = usage_after(dialogue.recorded, usage)

    async def _record_cut_off(
        self, turn: RunningTurn, dialogue: ChatSession, asked: Sequence[TurnRequest] = ()
    ) -> None:
        """Commit what a turn has used that the end of the bot cuts off."""
        writing = self._record_usage(turn, dialogue, dialogue.usage, _occurrence_of(asked))
        await unless_refused("The cost of a turn could not be written down", writing)

    async def interrupt(self) -> bool:
        """Stop the running or the next turn; False if there is none."""
        if self.running is None:
            # The inputs of the next turn, before it has begun.
            inbox = self._state.inbox
            inputs = inbox.taken or inbox.next_batch(in_fork=self._state.fork is not None)
            asked = (each.id for each in inputs if not isinstance(each, CommandCall))
            self._unwanted = frozenset(asked)
            return bool(self._unwanted)
        if self.running.has_ended:
            return False
        await self.stop()
        return True

    async def stop(self) -> None:
        """Stop the running turn, if there is one."""
        if self.running is not None:
            self.running.is_interrupted = True
            self._hurry()
            await self._forks.current.interrupt()

    async def make_way(self, newer: InputId) -> None:
        """Stop the running turn if the message `newer` may stop it."""
        turn = self.running
        if turn is None or newer in turn.start.inputs:
            return
        if turn.can_be_replaced and not turn.is_compacting:
            await self.interrupt()

    async def end(
        self, asked: Sequence[TurnRequest], how: InputEnd, also: Step[None] = lambda _: None
    ) -> None:
        """End inputs that will not be asked again; commit `also` in the same step."""

        def step(tx: Transaction) -> JobEnds:
            also(tx)
            return self._end(tx, asked, how, Usage())

        for job, state in await self._state.transact(step):
            self._jobs.note_end(job, state)

    def _end(
        self,
        tx: Transaction,
        asked: Sequence[TurnRequest],
        how: InputEnd,
        usage: Usage,
        error: str = "",
    ) -> JobEnds:
        """End the inputs, and in the ledger the jobs among them; `error` says why they failed."""
        run, jobs = self._context.run, (each for each in asked if isinstance(each, JobTurn))
        ends = [(job, self._jobs.end(tx, job, how, run, usage, error)) for job in jobs]
        tx.inbox.append(Ended(tx.now, tuple(each.id for each in asked), how))
        return ends

    def _begin(self, inputs: Iterable[InputId], *, can_be_replaced: bool) -> RunningTurn:
        start = TurnStart(TurnId(uuid4().hex), self._clock.now(), tuple(inputs))
        turn = RunningTurn(start, Presentation(start, self._fanout), self._clock, can_be_replaced)
        turn.is_interrupted = not self._unwanted.isdisjoint(start.inputs)
        self._unwanted = frozenset()
        self.running = turn
        self._state.turn = start
        return turn

    async def _close(self, turn: RunningTurn, end: TurnEnded) -> None:
        self.running = None
        self._state.turn = None
        self._state.wake()
        await turn.shown.end(end)

    async def _run(
        self, turn: RunningTurn, dialogue: ChatSession, question: TurnInput
    ) -> TurnEnded:
        try:
            session_id = await dialogue.open()
        except OllimError as error:
            return _no_engine(error)
        if turn.is_interrupted:
            return TurnEnded(EndCause.INTERRUPTED)
        run = self._context.run = dialogue.run_at(turn.start.at, session_id)
        await self._begin_run(run, question)
        prompt_id, start = str(uuid4()), turn.start
        taken = Taken(start.at, start.turn, start.inputs, question.attempt, prompt_id, session_id)

        # Take the inputs, and with them what is told: the updates and the open items.
        def step(tx: Transaction) -> tuple[PendingUpdates, Sequence[DueItem], DueItem | None]:
            accepted = tx.inbox.get().accepted
            if any(each not in accepted for each in question.asked):
                raise _InputsChanged
            claim = dialogue.claim(tx)
            tx.inbox.append(replace(taken, claim=claim, in_fork=dialogue.in_fork))
            return claim, *open_items(tx)

        claim, waiting, newest = await self._state.transact(step)
        marks = (marked_taint(each.untrusted) for each in claim.entries if each.untrusted)
        if sources := tuple(source for mark in marks for source in mark.sources):
            read = await self._note_reading(run, sources, ends=False)
            run.taint = run.taint.having_read(*read)
        is_news = bool(claim.entries) and not dialogue.in_fork
        turn.notes = (*([texts.CATCHING_UP] if is_news else []), *question.notes)
        for note in turn.notes:
            turn.shown.show(Noted(note))
        with log_fields(session=session_id, run=turn.start.turn):
            _logger.debug("A turn begins (attempt %d)", question.attempt)
            now = self._clock.now()
            updates = joined(
                "\n",
                updates_block(claim, dialogue.header, now),
                open_items_block(waiting, now, newest),
            )
            text = question.text(updates, now, session_id, dialogue.resumed_at)
            images = () if session_id == question.known_in else question.images
            events = turn.noting_end(_renaming(run, dialogue.turn(Prompt(text, images, prompt_id))))
            end = await turn.follow(self._watch(events, in_fork=dialogue.in_fork))
            _logger.debug("The turn ended: %s", end.cause)
        return end

    async def _begin_run(self, run: Run, question: TurnInput) -> None:
        """Find what taints the run, and write that its jobs are running.

        The owner's own words end an earlier taint of the session, but not what an earlier attempt
        at answering them has read, and not what the session begins with as a branch. The store has
        the taint, so a restart does not clear it.
        """
        sources: list[str] = []
        for each in question.asked:
            if isinstance(each, JobTurn):
                sources += marked_taint(each.untrusted).sources
            elif isinstance(each, OwnerMessage):
                sources += (one.source for one in (each.untrusted_quote, each.untrusted) if one)
                sources += (PICTURE if one.is_image else ATTACHMENT for one in each.attachments)
        is_owners_word = any(
            each.text.strip() and not each.button and each.as_message().is_typed
            for each in question.asked
            if isinstance(each, OwnerMessage)
        )
        run.asked_steps = frozenset(
            each.id.removeprefix(OF_CLICK).rpartition("-")[0]
            for each in question.asked
            if isinstance(each, OwnerMessage) and each.button
        )
        addresses = await self._state.read(self._typed.read)
        ends = question.attempt == 1 and is_owners_word
        run.taint = Taint(await self._note_reading(run, sources, ends=ends), addresses)
        for each in question.asked:
            if isinstance(each, JobTurn):
                await self._jobs.begin(each, run)

    async def _note_reading(
        self, run: Run, sources: Sequence[str], *, ends: bool
    ) -> tuple[str, ...]:
        """Record what the turn reads; returns all that taints it."""
        session = run.session
        assert session is not None
        fork = self._state.fork if run.policy.kind is RunKind.FORK else None
        origin = fork.parent if fork is not None and fork.session is None else None

        def step(tx: Transaction) -> tuple[str, ...]:
            # A branch begins with all of it, also with what the owner's words end elsewhere.
            inherited = tx.marks.of_session(origin)
            if ends:
                end_careful(tx, session)
            tx.marks.go_on(session, inherited)
            tx.marks.read(session, sources, in_turn=True)
            return tx.marks.of(session)

        standing, inherited = await self._state.read(
            lambda tx: (tx.marks.of(session), tx.marks.of(origin))
        )
        is_new = bool(sources or inherited) or (ends and bool(standing))
        return await self._state.transact(step) if is_new else standing

    async def _conclude(
        self, turn: RunningTurn, dialogue: ChatSession, question: TurnInput, end: TurnEnded
    ) -> bool:
        """Commit all results of the turn in one step; True if the turn was cut off instead."""
        asked, now = question.asked, self._clock.now()
        is_complete = end.cause is EndCause.COMPLETED
        how = InputEnd.TIMED_OUT if turn.is_timed_out else InputEnd.STOPPED
        if is_complete or end.failure is not None:
            how = InputEnd.ANSWERED if is_complete else InputEnd.FAILED
        jobs = [each for each in asked if isinstance(each, JobTurn)]
        spent = dialogue.usage_rows(end.usage, now, turn.start.turn, _occurrence_of(asked))
        if end.failure is not None and end.failure.kind in _CUT_OFF:
            await self._cut_off(turn, dialogue, end, end.failure.kind, spent)
            return True
        answer = None
        if _is_wanted(turn, asked, end, self._state.inbox):
            answer = self._answer(turn, dialogue, end)
        usage = end.usage._replace(cost_usd=cost_of(spent))
        explain: Step[None] = (
            partial(_note_answered, jobs=jobs, over=new_notice(""))
            if is_complete
            else self._explaining(turn, asked, end, how, answer)
        )
        ask: Step[None] = self._asking(jobs[0]) if jobs and is_complete else lambda _: None
        taken, is_taken = self._state.inbox.running, False
        if taken is not None and taken.turn == turn.start.turn:
            is_taken = turn.was_asked and (is_complete or await dialogue.wait_until_taken(taken))

        def step(tx: Transaction) -> JobEnds:
            tx.usage.add(*spent)
            # A newer message waits; the inputs of a turn that was never taken also wait.
            is_superseded = (
                how is InputEnd.STOPPED
                and not jobs
                and any(
                    isinstance(each, OwnerMessage) and each.id not in turn.start.inputs
                    for each in tx.inbox.get().waiting
                )
            )
            if answer is not None:
                self._poster.add_to_log(tx, answer, dialogue.answering(tx, answer))
                ask(tx)
            if not is_superseded:
                explain(tx)
            if taken is not None and taken.turn == turn.start.turn:
                dialogue.settle(tx, taken.claim, is_taken=is_taken)
            dialogue.rest(tx, now)
            # Ask what the engine has not read again, together with the newer messages.
            if is_superseded and not is_taken and question.known_in is None:
                tx.inbox.append(Released(now, turn.start.turn))
                return ()
            ended = InputEnd.SUPERSEDED if is_superseded else how
            return self._end(tx, asked, ended, usage, end.failure.sentence if end.failure else "")

        for job, state in await self._state.transact(step):
            self._jobs.note_end(job, state)
        dialogue.recorded = usage_after(dialogue.recorded, end.usage)
        return False

    def _asking(self, turn: JobTurn) -> Step[None]:
        """Adds, below the answer to a job that asks something of the owner, the card that does."""
        job, now = self._context.run.job, self._clock.now()
        if not isinstance(job, Routine | Reminder) or not job.asks:
            return lambda _: None
        footer, words = why_now("", self._context.run.late_since, now), job.spec.words
        message, item = item_message(job, Occurrence.parse(turn.id), now, footer)
        # The agent has said the rest.
        card = replace(message, text=words, card=open_card(item, now, words))

        def step(tx: Transaction) -> None:
            # The program may have delivered it while the turn went on.
            if tx.due_items.get(item.key) is None:
                self._poster.add_item(tx, card, item)

        return step

    def _explaining(
        self,
        turn: RunningTurn,
        asked: Sequence[TurnRequest],
        end: TurnEnded,
        how: InputEnd,
        answer: ChatMessage | None,
    ) -> Step[None]:
        """Leaves why there is no answer: for a job as a notice, else as a note of the turn."""
        jobs = [each for each in asked if isinstance(each, JobTurn)]
        if jobs and end.failure is not None:
            return self._failing(jobs[0], end.failure)
        # Nothing is said where the conversation already shows the reason.
        reason = texts.STOPPED if how is InputEnd.STOPPED and not turn.text.so_far else ""
        if end.failure is not None or how is InputEnd.TIMED_OUT:
            reason = end.failure.sentence if end.failure else texts.JOB_TOO_LONG
        note = self._poster.note(reason, turn.start.turn)
        failed = FailedTurn.of(turn.start.turn, self._clock.now(), asked, end.failure)
        if failed is not None:
            note = self._poster.failure(note.text, failed.turn, has_words=answer is not None)

        def step(tx: Transaction) -> None:
            if note.text:
                self._poster.add_note(tx, note)
            if failed is not None:
                tx.failed_turns.change(lambda known: known.with_turn(failed))

        return step

    def _failing(self, job: JobTurn, failure: TurnFailure) -> Step[None]:
        reason, is_outage = failure.sentence, failure.kind.is_outage
        sentence = background_attempt.failed(job.title, reason)
        given = self._context.run.job
        key, for_reminder = failing_key(job.job, reason), isinstance(given, Reminder)
        notice = new_notice(sentence, key=key, for_reminder=for_reminder)
        if given is None or not is_ordered(given):
            return lambda tx: leave_failure(tx, notice, job.title, tx.now, is_outage=is_outage)
        sentence = background_attempt.came_all_the_same(sentence)
        update = PendingUpdate(self._clock.now(), sentence, notice.id)
        return lambda tx: leave_update(tx, update)

    async def _cut_off(
        self,
        turn: RunningTurn,
        dialogue: ChatSession,
        end: TurnEnded,
        kind: FailureKind,
        spent: Sequence[UsageRow],
    ) -> None:
        answer = self._answer(turn, dialogue, end)
        is_lost = kind is FailureKind.SESSION_LOST
        forget = dialogue.forgetting() if is_lost else None

        def step(tx: Transaction) -> None:
            tx.usage.add(*spent)
            if answer is not None:
                self._poster.add_to_log(tx, answer, dialogue.answering(tx, answer))
            if forget is not None:
                forget(tx)

        if is_lost:
            await dialogue.close()
        await self._state.transact(step)
        if not is_lost:
            dialogue.recorded = usage_after(dialogue.recorded, end.usage)

    def _answer(
        self, turn: RunningTurn, dialogue: ChatSession, end: TurnEnded
    ) -> ChatMessage | None:
        """The answer, or the words that came of one that was cut off; None without words."""
        is_cut_off, run = end.cause is not EndCause.COMPLETED, self._context.run
        words = turn.text.so_far
        # The words that came stay, but not those of a refusal, or of a turn that is resumed.
        if end.failure is not None and end.failure.kind not in (*_CUT_OFF, FailureKind.REFUSED):
            words = turn.text.broken_off
        if is_cut_off and not words:
            return None
        return self._poster.answer(
            dialogue,
            turn.start.turn,
            words if is_cut_off else turn.text.whole(end),
            end.usage,
            is_cut_off=is_cut_off,
            late_since=None if is_cut_off else run.late_since,
            waited_since=run.waited_since,
            job=run.label,
            began=turn.began,
            remarks=(*turn.notes, run.noted, turn.activity.refused),
            taint=run.read,
        )


def _note_answered(tx: Transaction, jobs: Sequence[JobTurn], over: Notice) -> None:
    """The model works, and so do the jobs; `over` is told if the model had stopped answering."""
    note_answer(tx, over, tx.now)
    if tx.failed_turns.get().for_login(tx.now):
        tx.failed_turns.change(FailedTurns.answered)
    for job in jobs:
        note_success(tx, job.job)


def _is_wanted(
    turn: RunningTurn, asked: Sequence[TurnRequest], end: TurnEnded, inbox: Inbox
) -> bool:
    """Whether the answer is posted; a part of an answer always is."""
    if end.cause is not EndCause.COMPLETED or any(each.wants_answer for each in asked):
        return True
    # Where the turn was to write a report and has, any further words would only repeat it.
    occasions = (each.occasion for each in asked if isinstance(each, ProgramTurn))
    calls = (each for each in inbox.waiting if isinstance(each, CommandCall))
    has_reported = any("summary" in call.arguments for call in calls)
    if has_reported and ProgramTurnReason.FORK_REPORT in occasions:
        return False
    return bool(turn.text.so_far or end.text.strip())


async def _renaming(run: Run, events: AsyncIterator[AgentEvent]) -> AsyncIterator[AgentEvent]:
    """Yield the events unchanged. What is read after a compaction counts for the new session."""
    async for event in events:
        if isinstance(event, Compacted):
            run.session = event.session_id
        yield event


def _no_engine(error: OllimError) -> TurnEnded:
    return TurnEnded(EndCause.FAILED, failure=TurnFailure(FailureKind.OTHER, str(error)))


@dataclass(frozen=True, slots=True)
class TurnInput:
    """The inputs that a turn answers, with everything needed to ask them.

    On a retry, `tools` are the calls that were already made, `unknown` those without a result, and
    `known_in` is the session that has already read the inputs, so that it is only told to continue.
    `left_out` holds the paths of pictures that could not be read. `notes` are sentences for the
    owner, for example about those pictures.
    """

    asked: tuple[TurnRequest, ...]
    attempt: int = 1
    images: tuple[Image, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()
    tools: tuple[ToolCalled, ...] = ()
    unknown: tuple[ToolCalled, ...] = ()
    known_in: SessionId | None = None

    def text(
        self, updates: str, now: datetime, session: SessionId, resumed_at: datetime | None = None
    ) -> str:
        """The prompt for `session`, which with `resumed_at` begins as a branch."""
        if session == self.known_in:
            return continued_prompt(self.tools, now, unknown=self.unknown, updates=updates)
        first = self.asked[0]
        if isinstance(first, ProgramTurn):
            match first.occasion:
                case ProgramTurnReason.FORK_STARTED:
                    return fork_prompt(now, first.topic, updates)
                case ProgramTurnReason.FORK_IDLE:
                    return idle_prompt(now, updates)
                case ProgramTurnReason.FORK_REPORT:
                    return report_prompt(now, updates)
        if isinstance(first, JobTurn):
            # The prompt of this job was never taken, so the job has made no tool call.
            return foreground_prompt(first.as_of(now), now, updates)
        messages = tuple(
            replace(each, attachments=tuple(map(self._as_seen, each.attachments)))
            for each in self.asked
            if isinstance(each, OwnerMessage)
        )
        if self.tools or self.unknown:
            return continued_prompt(
                self.tools, now, unknown=self.unknown, again=messages, updates=updates
            )
        if resumed_at is not None:
            words = (
                button_words(first.text, first.untrusted_quote)
                if first.button
                else owner_words(messages)
            )
            return resumed_fork_prompt(now, resumed_at, words, updates)
        if first.button:
            return button_prompt(first.text, now, updates, first.untrusted_quote, first.subject)
        return owner_prompt(messages, now, updates)

    def _as_seen(self, file: Attachment) -> Attachment:
        """Mark a picture left out: the agent must not believe that it has seen it."""
        if file.path not in self.left_out:
            return file
        return replace(file, name=f"{file.name}, left out since it could not be read")


class _LeftOut(NamedTuple):
    """A file that the agent cannot read, with the sentence that tells the owner so."""

    attachment: Attachment
    sentence: str


class TurnInputs:
    def __init__(self, keeper: AttachmentStore) -> None:
        self._keeper = keeper
        self._reading: asyncio.Future[list[Image | _LeftOut | None]] | None = None

    def hurry(self) -> None:
        """Stop reading pictures: the question under construction will not be asked."""
        if self._reading is not None:
            self._reading.cancel()

    async def with_pictures(self, question: TurnInput) -> TurnInput:
        """The question with the pictures of its messages, unless `hurry` is called meanwhile."""
        messages = (each for each in question.asked if isinstance(each, OwnerMessage))
        attachments = [each for message in messages for each in message.attachments]
        if not attachments:
            return question
        self._reading = asyncio.gather(*map(self._seen, attachments))
        try:
            seen = await self._reading
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return question
        finally:
            self._reading = None
        unseen = [each for each in seen if isinstance(each, _LeftOut)]
        return replace(
            question,
            images=tuple(each for each in seen if isinstance(each, Image)),
            notes=tuple(each.sentence for each in unseen),
            left_out=frozenset(each.attachment.path for each in unseen if each.attachment.is_image),
        )

    async def _seen(self, attachment: Attachment) -> Image | _LeftOut | None:
        """The picture, or why it is left out; None for a file that the agent opens itself."""
        if not attachment.is_image:
            note = attachment.unread_note
            return _LeftOut(attachment, note) if note else None
        try:
            return Image(*await self._keeper.image(attachment))
        except WrongInput as wrong:
            return _LeftOut(attachment, f"{wrong} It was left out.")
