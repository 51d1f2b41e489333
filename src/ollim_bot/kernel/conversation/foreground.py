"""Runs jobs in the main conversation, and knows which jobs run now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from ollim_bot.kernel.base.clock import Clock
from ollim_bot.kernel.base.errors import DeliveryFailed, NotStored, OllimError
from ollim_bot.kernel.base.job_kinds import JobKey
from ollim_bot.kernel.base.moments import late_label
from ollim_bot.kernel.base.text import shortened
from ollim_bot.kernel.conversation.background_attempt import (
    BUDGET_USED_UP,
    AttemptOutcome,
    end_facts,
)
from ollim_bot.kernel.conversation.chat_sessions import main_run
from ollim_bot.kernel.conversation.message_poster import MessagePoster, answer_of
from ollim_bot.kernel.conversation.notice_poster import DiskGate
from ollim_bot.kernel.conversation.state import ConversationState
from ollim_bot.kernel.store.message_log import Sender
from ollim_bot.kernel.store.steps import leave_update
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.values.chat import Author, ChatMessage
from ollim_bot.kernel.values.decision import WITHDRAWN
from ollim_bot.kernel.values.due_items import delivery_id
from ollim_bot.kernel.values.hook_jobs import AcceptedCall, CalledJob
from ollim_bot.kernel.values.inbox import Accepted, Ended, InputEnd, InputId, JobTurn
from ollim_bot.kernel.values.item_messages import item_message
from ollim_bot.kernel.values.jobs import Job
from ollim_bot.kernel.values.occurrences import (
    LedgerRow,
    Occurrence,
    OccurrenceState,
    SkipReason,
    may_follow,
)
from ollim_bot.kernel.values.pings import Charge
from ollim_bot.kernel.values.ports import JobRepositories
from ollim_bot.kernel.values.run_history import PLAINLY
from ollim_bot.kernel.values.runs import DeliveryRight, Run, taint_of_job
from ollim_bot.kernel.values.schedule import ScheduledJob, is_late, key_of
from ollim_bot.kernel.values.taint import marked_taint, untrusted_label, untrusted_message
from ollim_bot.kernel.values.updates import PendingUpdate
from ollim_bot.kernel.values.usage import Usage
from ollim_bot.kernel.values.webhook_data import has_words_of_sender, plain_text

# The time limit of a job in seconds.
LIMIT = 300

_STATES: Mapping[InputEnd, OccurrenceState] = {
    InputEnd.ANSWERED: OccurrenceState.DONE,
    InputEnd.SUPERSEDED: OccurrenceState.INTERRUPTED,
    InputEnd.STOPPED: OccurrenceState.INTERRUPTED,
    InputEnd.FAILED: OccurrenceState.FAILED,
    InputEnd.TIMED_OUT: OccurrenceState.TIMED_OUT,
    InputEnd.WITHDRAWN: OccurrenceState.DONE,
    InputEnd.SET_ASIDE: OccurrenceState.FAILED,
}
_WHY: Mapping[InputEnd, str] = {
    InputEnd.STOPPED: "It was stopped.",
    InputEnd.FAILED: "It failed. The conversation says why.",
    InputEnd.TIMED_OUT: "It took too long and was stopped.",
    InputEnd.SET_ASIDE: "It could not be done in two attempts.",
}

_logger = logging.getLogger(__name__)


class ForegroundJobs:
    """Keeps waiting jobs in the inbox; the ledger has one row for the end of each."""

    def __init__(
        self, repositories: JobRepositories, state: ConversationState, clock: Clock
    ) -> None:
        self._repositories = repositories
        self._state = state
        self._clock = clock
        self._waiting: dict[InputId, asyncio.Future[OccurrenceState]] = {}

    async def run(
        self, job: Job, occurrence: Occurrence, *, late_since: datetime | None = None
    ) -> OccurrenceState:
        """Queue the job, unless it was queued before a crash, and wait for its end."""
        name = InputId(occurrence.id)
        end: asyncio.Future[OccurrenceState] = asyncio.get_running_loop().create_future()
        self._waiting[name] = end
        try:
            turn = JobTurn.of(job, name, self._clock.now(), late_since)

            def accept(tx: Transaction) -> OccurrenceState | None:
                """How it ended, if it was accepted before and has ended."""
                story = tx.ledger.story(occurrence)
                if not tx.inbox.has(name):
                    after = replace(turn, late_since=None, has_waited=True)
                    tx.inbox.append(Accepted(turn.at, after if story.held else turn))
                    return None
                return story.state if story.end is not None else None

            return await self._state.transact(accept) or await end
        finally:
            self._waiting.pop(name, None)

    def has(self, occurrence: Occurrence) -> bool:
        """Whether the job is queued or running."""
        return self._state.inbox.has(InputId(occurrence.id))

    async def withdraw(self, occurrence: Occurrence) -> None:
        """End a queued job that is no longer needed; a running one goes on."""
        run = main_run(self._clock.now())

        def step(tx: Transaction) -> tuple[JobTurn, OccurrenceState] | None:
            waiting = (each for each in tx.inbox.get().waiting if each.id == occurrence.id)
            turn = next((each for each in waiting if isinstance(each, JobTurn)), None)
            if turn is None:
                return None
            state = self.end(tx, turn, InputEnd.WITHDRAWN, run, Usage())
            tx.inbox.append(Ended(tx.now, (turn.id,), InputEnd.WITHDRAWN))
            return turn, state

        if ended := await self._state.transact(step):
            self.note_end(*ended)

    async def begin(self, turn: JobTurn, run: Run) -> None:
        """Write the `running` row, before the agent is asked."""
        run.label, run.late_since = turn.title, turn.as_of(run.began).late_since
        run.waited_since = turn.waited_since
        session, jobs = run.session, self._repositories.of(turn.kind)
        try:
            run.job = (await asyncio.to_thread(jobs.get, turn.job)).item
        except OllimError:
            _logger.warning("The job of a turn is gone", exc_info=True)

        def step(tx: Transaction) -> None:
            story = tx.ledger.story(Occurrence.parse(turn.id))
            if story.state is OccurrenceState.RUNNING:
                tx.ledger.append(_row(tx, turn, OccurrenceState.CUT_OFF, {}))
            begun = {"attempt": story.attempts + 1, "job": turn.title}
            facts = {**begun, "session": session, "limit": LIMIT}
            tx.ledger.append(_row(tx, turn, OccurrenceState.RUNNING, facts))

        await self._state.transact(step)

    def end(
        self, tx: Transaction, turn: JobTurn, how: InputEnd, run: Run, usage: Usage, error: str = ""
    ) -> OccurrenceState:
        """Write how it ended, in the step that ends its input. Call `note_end` after the commit.

        `usage` has the cost of its turn. `error` says why it failed.
        """
        occurrence, state = Occurrence.parse(turn.id), _STATES[how]
        story = tx.ledger.story(occurrence)
        if story.end is not None:
            return state
        outcome = AttemptOutcome(state, usage, error or _WHY.get(how, ""))
        taken = tx.inbox.get().running
        is_taken = taken is not None and turn.id in taken.inputs
        answer = answer_of(tx, taken.turn) if taken and is_taken else None
        run = replace(run, has_answered=answer is not None)
        facts = end_facts(run, occurrence, outcome, tx.now, attempts=story.attempts)
        if not may_follow(story.state, state):
            # The turn was withdrawn before it began.
            state = OccurrenceState.SKIPPED
            facts["reason"] = WITHDRAWN.reason.value
        tx.ledger.append(_row(tx, turn, state, facts))
        return state

    def note_end(self, turn: JobTurn, state: OccurrenceState) -> None:
        waiting = self._waiting.get(turn.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(state)


class JobRuns:
    """The occurrences that run now, and the jobs that the owner wants to run now.

    The buttons request a run; the dispatcher takes the requests, and tracks all runs.
    """

    def __init__(self) -> None:
        self.running: dict[asyncio.Task[None], JobKey] = {}
        self._requested: asyncio.Queue[Job] = asyncio.Queue()
        self._waiting: set[JobKey] = set()

    def track(self, task: asyncio.Task[None], key: JobKey) -> None:
        """Count the task as a run of the job until it ends."""
        self.running[task] = key
        task.add_done_callback(self.running.pop)

    def request(self, job: Job) -> bool:
        """Ask for a run of `job`; False if one runs or waits already."""
        key = key_of(job)
        if key in self.running.values() or key in self._waiting:
            return False
        self._waiting.add(key)
        self._requested.put_nowait(job)
        return True

    async def take(self) -> Job:
        """Wait for the next request. The caller starts the job before it awaits anything else."""
        job = await self._requested.get()
        self._waiting.discard(key_of(job))
        return job


def _row(
    tx: Transaction, turn: JobTurn, state: OccurrenceState, facts: Mapping[str, object]
) -> LedgerRow:
    return LedgerRow(tx.now, state.value, Occurrence.parse(turn.id), facts)


_NOT_KEPT = "The disk cannot be written, so this is not kept."


class PlainDelivery:
    """Delivers what must be delivered exactly once.

    On a full disk it is only shown, and stays owed until the log has it.
    """

    def __init__(self, store: Store, poster: MessagePoster, gate: DiskGate, clock: Clock) -> None:
        self._store = store
        self._poster = poster
        self._gate = gate
        self._clock = clock
        self._shown: set[Occurrence] = set()

    async def deliver(
        self, job: ScheduledJob, occurrence: Occurrence, right: DeliveryRight, reason: str
    ) -> bool:
        """Deliver the text of the job; False if that failed for now.

        `reason` says why the program does it.
        """
        if not right.take() and occurrence not in self._shown:
            return True
        now = self._clock.now()
        message, item = item_message(job, occurrence, now, reason)
        try:
            # What need not come waits for the end of the quiet; of one job, only the newest. What
            # the owner runs by hand does not.
            waits_as = None if job.must or occurrence.manual else f"plain {key_of(job)}"
            await self._poster.send(message, main_run(now), item=item, waits_as=waits_as)
            await self._poster.arrival(message.id)
        except NotStored:
            await self._show(job, occurrence)
            return False
        except DeliveryFailed:
            _logger.warning("A reminder could not be delivered", exc_info=True)
            right.give_back()
            return False
        self._shown.discard(occurrence)
        return True

    async def was_said(self, occurrence: Occurrence) -> bool:
        """Whether the log has a message for the occurrence, from the agent or from the program."""
        return bool(await self._store.read(lambda tx: tx.messages.of_occurrence(occurrence.id)))

    async def flash(self, job: ScheduledJob, occurrence: Occurrence, right: DeliveryRight) -> None:
        """Show the text although it cannot be stored: a full disk must not swallow it."""
        if right.take() or occurrence in self._shown:
            await self._show(job, occurrence)

    async def _show(self, job: ScheduledJob, occurrence: Occurrence) -> None:
        self._shown.add(occurrence)
        now, words = self._clock.now(), "\n".join(filter(None, job.spec.said))
        message = ChatMessage(
            delivery_id(occurrence),
            now,
            Author.BACKGROUND,
            words,
            footer=_NOT_KEPT,
            job=job.spec.short_title,
            must=job.must,
        )
        await self._poster.show_unkept(message)

    async def deliver_call(self, hook: CalledJob, occurrence: Occurrence) -> None:
        """Post the text of the call for one token of the ping budget, and end the occurrence.

        While it is quiet, the message waits for the digest. Without a token the text is left for
        the agent. All of it is one step, so that no crash leads to a second message.
        """

        def step(tx: Transaction) -> None:
            message = _message(hook, occurrence, tx.webhook_deliveries.get(occurrence), tx.now)
            state, mark = OccurrenceState.DONE, taint_of_job(hook).mark
            facts: dict[str, object] = {"job": hook.spec.title, "untrusted": mark}
            if tx.budget.take(lambda budget: budget.spent_by(occurrence.id, tx.now)):
                self._poster.hold_or_add(tx, message, Sender(Charge.TOKEN))
                facts |= {**PLAINLY, "pings": [message.id]}
            else:
                # One update for each hook: its callers decide how often this happens.
                text = shortened(" ".join(message.text.split()), 500)
                said = f"“{message.job}” was called and not shown, because {BUDGET_USED_UP}."
                said = f"{said} Its text: {text}"
                source = message.untrusted.source if message.untrusted else ""
                leave_update(tx, PendingUpdate(tx.now, said, f"budget {hook.spec.id}", source))
                state = OccurrenceState.SKIPPED
                facts["reason"] = SkipReason.BUDGET.value
                facts |= {"silent_because": BUDGET_USED_UP, "report": said}
            tx.ledger.append(LedgerRow(tx.now, state.value, occurrence, facts))

        await self._gate.commit(step)


def _message(
    hook: CalledJob, occurrence: Occurrence, call: AcceptedCall | None, now: datetime
) -> ChatMessage:
    body, data = hook.spec.message, call.fields if call else {}
    # The text of the owner stays trusted; only values of the call make the message untrusted.
    is_from_sender = has_words_of_sender(body, hook.fields, data)
    taint = taint_of_job(hook) if is_from_sender else marked_taint(hook.spec.untrusted)
    late = late_label(call.at, now, is_call=True) if call and is_late(call.at, now) else ""
    return ChatMessage(
        delivery_id(occurrence),
        now,
        Author.BACKGROUND,
        plain_text(body, data),
        footer=" ".join(filter(None, (late, untrusted_label(taint)))),
        # Without a description, the title would be the text itself.
        job=hook.spec.short_title if hook.spec.description else hook.spec.id,
        occurrence=occurrence.id,
        untrusted=untrusted_message(taint),
    )
