"""Runs jobs in the background: what they say goes through tools, and their text is discarded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from ollim_bot.agent import AgentEngine, Prompt, SessionSpec
from ollim_bot.conversation.background.record import end_facts
from ollim_bot.conversation.background.slots import Slots
from ollim_bot.conversation.notices import Notices
from ollim_bot.domain.events import SessionNamed, TurnEnded, Usage
from ollim_bot.domain.jobs import Chain, Job, Reminder
from ollim_bot.domain.occurrences import LedgerRow, Occurrence, OccurrenceState, SkipReason
from ollim_bot.domain.runs import Run, RunKind, RunPolicy
from ollim_bot.domain.runtime_config import RuntimeConfig
from ollim_bot.domain.sessions import SessionChange, SessionEvent, SessionId
from ollim_bot.domain.tool_policy import DEFAULT_BG_TOOLS, problems
from ollim_bot.domain.updates import PendingUpdates
from ollim_bot.errors import EngineError
from ollim_bot.logs import log_fields
from ollim_bot.ports import Clock
from ollim_bot.prompts.context import READ_ONLY, updates_block
from ollim_bot.prompts.jobs import background_prompt
from ollim_bot.prompts.preamble import Briefing, build_bg_preamble
from ollim_bot.stores import Stores
from ollim_bot.tools.server.bench import Poster, Workbench
from ollim_bot.tools.server.toolset import Gate, toolset

_NOTHING_USED = Usage()

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What background runs need of the world.

    `spec` says what a session is to be like; `gate` makes one of the patterns that a run may use;
    `main` is the main session, if there is one.
    """

    engine: AgentEngine
    stores: Stores
    clock: Clock
    root: Path
    poster: Poster
    notices: Notices
    spec: Callable[[], Awaitable[SessionSpec]]
    gate: Callable[[tuple[str, ...]], Gate]
    is_busy: Callable[[], bool]
    main: Callable[[], SessionId | None]


@dataclass(frozen=True, slots=True)
class Outcome:
    state: OccurrenceState
    usage: Usage = _NOTHING_USED
    error: str = ""


class BackgroundRuns:
    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._slots = Slots()

    async def run_agent_background(
        self, job: Job, occurrence: Occurrence, *, late_since: datetime | None = None
    ) -> OccurrenceState:
        """Never raises: whatever happens is in the ledger, and told if it went wrong."""
        around = self._around
        if wrong := [error for tool in job.spec.allowed_tools for error in problems(tool).errors]:
            return await self._skip(job, occurrence, " ".join(wrong))
        config = await asyncio.to_thread(around.stores.config.read)
        scheduled = occurrence.scheduled_at or around.clock.now()
        rank = (not isinstance(job, Reminder), scheduled.timestamp())
        async with self._slots.slot(rank, config.bg_concurrency):
            with log_fields(run=occurrence.id):
                return await self._run(job, occurrence, config, late_since)

    async def _run(
        self, job: Job, occurrence: Occurrence, config: RuntimeConfig, late_since: datetime | None
    ) -> OccurrenceState:
        around = self._around
        run = Run(
            RunPolicy.of_job(job, (*DEFAULT_BG_TOOLS, *job.spec.allowed_tools)),
            around.clock.now(),
            label=job.spec.title,
            job=job,
            parent=None if job.spec.isolated else around.main(),
        )
        await self._row(occurrence, OccurrenceState.RUNNING, {"attempt": 1, "job": run.label})
        outcome = await self._limited(run, job, config, late_since)
        await self._settle(run, outcome)
        facts = end_facts(run, around.clock.now(), outcome.usage, attempts=1, error=outcome.error)
        await self._row(occurrence, outcome.state, facts)
        _logger.info("A background run ended: %s", outcome.state)
        return outcome.state

    async def _limited(
        self, run: Run, job: Job, config: RuntimeConfig, late_since: datetime | None
    ) -> Outcome:
        turn = asyncio.ensure_future(self._turn(run, job, late_since))
        alarm = asyncio.ensure_future(self._around.clock.sleep(config.bg_fork_timeout))
        try:
            await asyncio.wait({turn, alarm}, return_when=asyncio.FIRST_COMPLETED)
            if turn.done():
                return turn.result()
            return Outcome(OccurrenceState.TIMED_OUT, error="it took too long and was stopped")
        finally:
            for task in (turn, alarm):
                task.cancel()
            await asyncio.wait({turn, alarm})

    async def _turn(self, run: Run, job: Job, late_since: datetime | None) -> Outcome:
        around = self._around
        try:
            spec = await self._session_for(run, job)
            bench = Workbench(
                run, around.stores, around.clock, around.root, around.poster, around.is_busy
            )
            text = await self._prompt(run, job, late_since)
            tools = toolset(bench, around.gate(run.policy.tools))
            async with around.engine.open(spec, tools) as session:
                async for event in session.turn(Prompt(text, id=str(uuid4()))):
                    if isinstance(event, SessionNamed):
                        await self._named(run, event.session_id)
                    elif isinstance(event, TurnEnded):
                        return _outcome(event)
        except EngineError as error:
            return Outcome(OccurrenceState.FAILED, error=str(error))
        return Outcome(OccurrenceState.FAILED, error="The engine stopped without a word.")

    async def _session_for(self, run: Run, job: Job) -> SessionSpec:
        """A branch of the main session, or a blank one; its name is known before it speaks."""
        base = await self._around.spec()
        model = job.spec.model.value if job.spec.model else base.model
        base = replace(base, model=model, thinking="adaptive" if job.spec.thinking else "off")
        run.session = SessionId(str(uuid4()))
        return replace(base, begin=run.session, branch_of=run.parent)

    async def _prompt(self, run: Run, job: Job, late_since: datetime | None) -> str:
        around, now = self._around, self._around.clock.now()
        budget = await asyncio.to_thread(around.stores.pings.read)
        waiting = PendingUpdates()
        if run.policy.kind is RunKind.BACKGROUND:
            waiting = await asyncio.to_thread(around.stores.updates.read)
        briefing = Briefing(
            run.policy.report,
            run.policy.allow_ping,
            is_busy=around.is_busy(),
            budget=budget.status_line(now),
            allowed_tools=job.spec.allowed_tools,
            skills=job.spec.skills,
            chain=job.chain if isinstance(job, Reminder) else Chain(),
        )
        return background_prompt(
            job,
            now,
            preamble=build_bg_preamble(briefing),
            updates=updates_block(waiting, READ_ONLY, now),
            late_since=late_since,
        )

    async def _named(self, run: Run, session: SessionId) -> None:
        run.session = session
        is_forked = run.parent is not None
        event = SessionChange.BG_FORK if is_forked else SessionChange.ISOLATED_BG
        row = SessionEvent(session, event, self._around.clock.now(), run.parent)
        await asyncio.to_thread(self._around.stores.session_history.append, row)

    async def _settle(self, run: Run, outcome: Outcome) -> None:
        """The duty to report is met by the program if the agent did not, and a failure is told."""
        around = self._around
        if outcome.error:
            await around.notices.tell(
                f"“{run.label}” did not work: {outcome.error}", key=f"run {uuid4().hex}"
            )
        elif run.owes_report:
            sentence = f"“{run.label}” ended without its report."
            await asyncio.to_thread(around.stores.leave_update, sentence, around.clock.now())

    async def _skip(self, job: Job, occurrence: Occurrence, reason: str) -> OccurrenceState:
        sentence = f"“{job.spec.title}” was not run: {reason}"
        await self._around.notices.tell(sentence)
        facts = {"job": job.spec.title, "reason": SkipReason.INVALID_TOOLS.value, "error": reason}
        await self._row(occurrence, OccurrenceState.SKIPPED, facts)
        return OccurrenceState.SKIPPED

    async def _row(
        self, occurrence: Occurrence, state: OccurrenceState, facts: Mapping[str, object]
    ) -> None:
        row = LedgerRow(self._around.clock.now(), state.value, occurrence, facts)
        await asyncio.to_thread(self._around.stores.ledger.append, row)


def _outcome(end: TurnEnded) -> Outcome:
    if end.failure is not None:
        return Outcome(OccurrenceState.FAILED, end.usage, end.failure.sentence)
    return Outcome(OccurrenceState.DONE, end.usage)
