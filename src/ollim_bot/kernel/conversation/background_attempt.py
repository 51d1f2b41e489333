"""One attempt of a background run, and the screening of what strangers wrote before it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from ollim_bot.kernel.base.clock import Clock, result_before, wait_until_set, within
from ollim_bot.kernel.base.errors import EngineError, SessionLost
from ollim_bot.kernel.base.ids import SessionId
from ollim_bot.kernel.base.moments import duration_in_words
from ollim_bot.kernel.base.text import shortened
from ollim_bot.kernel.conversation.job_echo import ChangeEcho, ChangeWatch
from ollim_bot.kernel.conversation.message_poster import context_of
from ollim_bot.kernel.conversation.notice_poster import Notices
from ollim_bot.kernel.prompts.prompt_context import READ_ONLY, updates_block
from ollim_bot.kernel.prompts.turn_prompts import (
    Briefing,
    background_prompt,
    build_bg_preamble,
    is_safe,
    screening_prompt,
    sent_data,
    upcoming_lines,
)
from ollim_bot.kernel.store.steps import new_notice, note_reading, quiet_settings, reached_cost_cap
from ollim_bot.kernel.store.store import Store
from ollim_bot.kernel.store.transaction import Transaction
from ollim_bot.kernel.tools.fork_tools import REPORT_UPDATES
from ollim_bot.kernel.tools.gates import BackgroundTools
from ollim_bot.kernel.tools.registry import changes_something
from ollim_bot.kernel.tools.tool_context import Poster, ToolContext
from ollim_bot.kernel.tools.toolset import toolset
from ollim_bot.kernel.values.about_me import OWNERS_WORDS
from ollim_bot.kernel.values.agent_caller import CONVERSATION
from ollim_bot.kernel.values.events import Compacted, EndCause, FailureKind, SessionNamed, TurnEnded
from ollim_bot.kernel.values.hook_jobs import CalledJob
from ollim_bot.kernel.values.jobs import Job, Model, ReportMode
from ollim_bot.kernel.values.notices import Notice
from ollim_bot.kernel.values.occurrences import LedgerRow, Occurrence, OccurrenceState, SkipReason
from ollim_bot.kernel.values.ports import (
    AgentEngine,
    Gate,
    JobRepositories,
    Journal,
    Prompt,
    Refusal,
    SessionSpec,
    Tool,
    ToolAnswer,
    ToolCall,
    Toolset,
)
from ollim_bot.kernel.values.quiet import quiet_until
from ollim_bot.kernel.values.run_history import CUT_SHORT, EFFECT
from ollim_bot.kernel.values.run_words import LOOKED_AT, first_sentence
from ollim_bot.kernel.values.runs import DeliveryRight, Run, RunKind
from ollim_bot.kernel.values.schedule import is_late
from ollim_bot.kernel.values.sessions import SessionChange, SessionEvent, fitting_model
from ollim_bot.kernel.values.upcoming import UpcomingSchedule
from ollim_bot.kernel.values.updates import PendingUpdates
from ollim_bot.kernel.values.usage import (
    Price,
    Usage,
    UsageKind,
    UsageRow,
    dollars,
    micros,
    usage_rows,
)
from ollim_bot.kernel.values.webhook_data import Data, free_values, named_fields

LONGEST_SECONDS = 30.0

_TOO_LONG = f"the check took longer than {LONGEST_SECONDS:.0f} s"


@dataclass(frozen=True, slots=True)
class ScreeningVerdict:
    """Without an `error`, the answer; `kind` says why if the model failed."""

    is_safe: bool = False
    error: str = ""
    kind: FailureKind | None = None


class Screening:
    """One check, in a session without tools, history, settings and record.

    `usage` can be read at any time, also after the check was cut off.
    """

    def __init__(self, engine: AgentEngine, clock: Clock) -> None:
        self.usage = Usage()
        self._engine = engine
        self._clock = clock

    async def verdict(self, prompt: str, instructions: str, usual: SessionSpec) -> ScreeningVerdict:
        """The verdict of the small model, or of the `usual` one where there is no small one."""
        spec = SessionSpec(
            instructions, usual.working_directory, model=Model.HAIKU.value, is_bare=True
        )
        found = await within(LONGEST_SECONDS, self._clock, self._ask(spec, prompt))
        if found and found.kind is FailureKind.MODEL_UNKNOWN and usual.model != spec.model:
            again = self._ask(replace(spec, model=usual.model), prompt)
            found = await within(LONGEST_SECONDS, self._clock, again)
        return found or ScreeningVerdict(error=_TOO_LONG)

    async def _ask(self, spec: SessionSpec, prompt: str) -> ScreeningVerdict:
        before = self.usage.cost_usd
        try:
            async with self._engine.open(spec, Toolset(gate=_refuse)) as agent:
                try:
                    async for event in agent.turn(Prompt(prompt)):
                        match event:
                            case TurnEnded(failure=failure) if failure is not None:
                                return ScreeningVerdict(
                                    error=failure.sentence.removesuffix("."), kind=failure.kind
                                )
                            case TurnEnded(EndCause.COMPLETED, text):
                                return ScreeningVerdict(is_safe(text))
                    return ScreeningVerdict(error="the engine stopped without a word")
                finally:
                    self.usage = agent.usage._replace(cost_usd=before + agent.usage.cost_usd)
        except EngineError as refused:
            return ScreeningVerdict(error=str(refused).removesuffix("."))


async def _refuse(_: ToolCall) -> Refusal | None:
    return Refusal("There are no tools here.")


_WRITING = {"Write": "write", "Edit": "edit", "MultiEdit": "edit"}


class AutoCommit:
    """Notes each markdown file that the agent or one of its subagents may have changed."""

    def __init__(self, journal: Journal, root: Path) -> None:
        self._journal = journal
        self._root = root.resolve()

    def of(self, tools: Toolset, run: Callable[[], Run]) -> Toolset:
        """The same tools; a written file is noted when the call has ended, with what it is from."""

        async def after_call(call: ToolCall, result: str) -> None:
            await tools.after_call(call, result)
            if call.tool in _WRITING:
                path = (self._root / str(call.arguments.get("file_path", ""))).resolve()
                if path.suffix == ".md" and path.is_relative_to(self._root):
                    self._journal.note(
                        path,
                        f"auto: {_WRITING[call.tool]} {path.relative_to(self._root)}",
                        source_of(run()),
                    )

        return replace(tools, after_call=after_call)


def source_of(run: Run) -> str:
    """What a file that the run writes now comes from; empty if no owner has just spoken."""
    if run.read.sources:
        return run.read.mark
    is_of_job = run.job is not None or bool(run.occurrence)
    return "" if is_of_job or run.policy.kind.is_background else OWNERS_WORDS


ENGINE_SILENT = "the engine stopped without a word."
STOPPED = "it was stopped before its end."
BOT_STOPPED = "the bot was stopped in the middle of it."
BUDGET_USED_UP = "the ping budget is used up"
FAULT = "the bot made a mistake. The log says more."


def label(job: Job) -> str:
    """The description, else the message, on one line, short enough for a sentence."""
    return shortened(" ".join(job.spec.title.split()), 60)


def failed(name: str, reason: str) -> str:
    return f"“{name}” did not work: {reason}"


def came_all_the_same(sentence: str) -> str:
    return f"{sentence} The owner is given the reminder all the same."


def not_run(name: str, reason: str) -> str:
    return f"“{name}” was not run: {reason}"


def cost_cap(dollars: str) -> str:
    return (
        f"Today has cost ${dollars} or more, so jobs do not ask the model until tomorrow. "
        "`/config daily_cost_cap` changes that."
    )


def cap_notice(sentence: str, now: datetime, *, for_reminder: bool) -> Notice:
    """The notice of the reached cap, which is told once a day."""
    return new_notice(sentence, key=f"cost cap {now:%Y-%m-%d}", for_reminder=for_reminder)


def unsaid(job: Job, why: str) -> str:
    """The text of a ping that the budget refuses."""
    message = shortened(" ".join(job.spec.message.split()), 2000)
    return f"“{label(job)}” was due and not sent, because {why}. Its text: {message}"


_NOTHING_USED = Usage()


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """`error` says why it did not work, if it did not; `kind` says it if the model failed.

    `skips_for` is the reason of a job that did not begin; without another attempt it is skipped.
    `screened` is what the check of text from outside has used.
    """

    state: OccurrenceState
    usage: Usage = _NOTHING_USED
    error: str = ""
    kind: FailureKind | None = None
    skips_for: SkipReason | None = None
    screened: Usage = _NOTHING_USED

    def usage_rows(self, occurrence: Occurrence, at: datetime) -> list[UsageRow]:
        """The rows of the attempt, which counts from zero."""
        kinds = {UsageKind.SCREENING: self.screened, UsageKind.RUN: self.usage}
        return [
            row
            for kind, used in kinds.items()
            for row in usage_rows(used, Usage(), at, kind, occurrence=occurrence.id)
        ]


def end_facts(
    run: Run, occurrence: Occurrence, outcome: AttemptOutcome, ended: datetime, *, attempts: int
) -> dict[str, object]:
    """The facts of the end row of an attempt, without empty ones."""
    usage = outcome.screened if outcome.usage == _NOTHING_USED else outcome.usage
    # The seconds from the due moment, or from the call of a webhook, to the start.
    due = occurrence.scheduled_at or run.late_since
    late = 0.0 if due is None else (run.began.astimezone(UTC) - due).total_seconds()
    facts: dict[str, object] = {
        "job": run.label,
        "started": run.began.isoformat(),
        "ended": ended.isoformat(),
        "lateness": max(0, int(late)),
        "attempts": attempts,
        "session": run.session,
        "answered": run.has_answered,
        "pings": list(run.pings),
        "refused_pings": [{"reason": one.reason, "text": one.text} for one in run.refused_pings],
        "report": " ".join(run.reports),
        "tools": list(run.tools_used),
        LOOKED_AT: list(run.looked_at),
        "subagents": list(dict.fromkeys(run.subagents)),
        "untrusted": run.taint.mark,
        "tokens": usage.context + usage.output,
        "cost_usd": dollars(micros(outcome.usage.cost_usd) + micros(outcome.screened.cost_usd)),
        "price": "" if usage.price is Price.LISTED else usage.price.value,
        "reason": outcome.skips_for,
        "error": outcome.error,
        "silent_because": why_silent(run, outcome.error),
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [], 0)}


def why_silent(run: Run, error: str) -> str:
    """Why the run sent no message; empty if it sent one."""
    if run.pings or run.has_answered:
        return ""
    if error:
        return CUT_SHORT
    if not run.policy.allow_ping:
        return "pings are switched off for this job"
    if run.refused_pings:
        return f"its ping was refused: {why_refused(run)}"
    if run.reports:
        return "it reported to the main conversation instead"
    if run.policy.report is ReportMode.BLOCKED:
        return "it had nothing to say, and may not report"
    return "it had nothing to say"


def why_refused(run: Run) -> str:
    """Why the last refused ping of the run was refused."""
    return first_sentence(run.refused_pings[-1].reason)


# How many seconds a run that was overtaken has to end by itself.
_TO_END = 120.0
# How many seconds the calls of tools that have begun may take after the end of a run.
_LONGEST_CALL = 5.0


_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackgroundDeps:
    """The collaborators of background runs.

    `spec` gives the specification of a session, `is_busy` says whether the owner is being answered
    now, and `main` gives the main session, if there is one. `screening` are the instructions of the
    model that judges text of strangers; they are empty if there is no such model.
    """

    engine: AgentEngine
    store: Store
    repositories: JobRepositories
    clock: Clock
    root: Path
    poster: Poster
    notices: Notices
    tools: BackgroundTools
    echo: ChangeEcho
    auto_commit: AutoCommit
    spec: Callable[[], Awaitable[SessionSpec]]
    is_busy: Callable[[], bool]
    main: Callable[[], SessionId | None]
    screening: str = ""


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt at an occurrence: its number, how late it is, and its delivery right.

    An attempt that `may_fail` is retried if it fails without effects. `upcoming` gives the schedule
    around the occurrence, and is called in a thread. Once it is `overtaken`, it ends soon.
    """

    number: int = 1
    late_since: datetime | None = None
    delivery_right: DeliveryRight | None = None
    may_fail: bool = False
    upcoming: Callable[[], UpcomingSchedule] | None = None
    overtaken: asyncio.Event | None = None


class Attempt:
    """`run` and `usage` can be read at any time, also after the attempt was cut off."""

    def __init__(self, around: BackgroundDeps, job: Job, run: Run, this: Try) -> None:
        self.run = run
        self._around = around
        self.usage = Usage()
        self._screened_for = Usage()
        self._data: Data = {}
        self._job = job
        self._this = this
        # A report is noted together with the update that it leaves.
        self._noted_tools = {REPORT_UPDATES.full_name}
        self._named: SessionId | None = None
        self._calls: set[asyncio.Future[ToolAnswer]] = set()

    def with_usage(self, outcome: AttemptOutcome) -> AttemptOutcome:
        """The outcome with what the attempt has used until now."""
        return replace(outcome, usage=self.usage, screened=self._screened_for)

    async def inherit_taint(self) -> None:
        """A run that branches from a tainted conversation begins with the same taint."""
        run, parent = self.run, self.run.parent
        if parent is not None:
            standing = await self._around.store.read(lambda tx: tx.marks.of(parent))
            run.taint = run.taint.having_read(*standing)

    async def within(self, seconds: float) -> AttemptOutcome:
        """Run until the limit. The session is closed when this returns or raises."""
        began = self._around.clock.monotonic()
        try:
            outcome = await result_before(self._limit(seconds), self._whole())
        finally:
            if self._calls:
                _, hanging = await asyncio.wait(self._calls, timeout=_LONGEST_CALL)
                for call in hanging:
                    call.cancel()
        if outcome is not None:
            return outcome
        took = timedelta(seconds=min(seconds, self._around.clock.monotonic() - began))
        too_long = f"it took longer than {duration_in_words(took)} and was stopped."
        return AttemptOutcome(OccurrenceState.TIMED_OUT, error=too_long)

    async def _limit(self, seconds: float) -> None:
        """Wait for the limit, or until the run was overtaken and had time to end by itself."""
        clock, overtaken = self._around.clock, self._this.overtaken
        if overtaken is None:
            await clock.sleep(seconds)
            return
        ends_at = clock.monotonic() + seconds
        await wait_until_set(overtaken, clock, seconds)
        if overtaken.is_set():
            await clock.sleep(min(_TO_END, max(0.0, ends_at - clock.monotonic())))

    async def _whole(self) -> AttemptOutcome:
        if isinstance(self._job, CalledJob):
            # Read what was sent, and when it came; a manual run has no data.
            run, occurrence = self.run, Occurrence.parse(self.run.occurrence)
            call = await self._around.store.read(lambda tx: tx.webhook_deliveries.get(occurrence))
            if call is not None:
                self._data = call.fields
                run.late_since = call.at if is_late(call.at, run.began) else None
            refused = await self._screened(self._job)
            if refused is not None:
                return refused
        screened, cap = self._screened_for.cost_usd, None
        if not Occurrence.parse(self.run.occurrence).manual:
            cap = await self._around.store.read(lambda tx: reached_cost_cap(tx, screened))
        if cap is not None:
            # The screening, or what ran while it waited, has reached the daily cap.
            sentence = cost_cap(f"{cap:.2f}")
            return AttemptOutcome(
                OccurrenceState.SKIPPED, error=sentence, skips_for=SkipReason.COST_CAP
            )
        try:
            return await self._turn()
        except SessionLost:
            if self.run.parent is None or self._named is not None:
                raise
            # Without the history, the run can still do most of its work.
            _logger.warning("A background run begins without the history of the main session")
            self.run.parent = None
            return await self._turn()

    async def _screened(self, hook: CalledJob) -> AttemptOutcome | None:
        """Have the free text of the call judged; returns how the attempt ends unless it is safe."""
        free = free_values(hook.fields, self._data)
        if not free:
            return None
        prompt, usual = screening_prompt(hook.spec.title, free), await self._around.spec()
        screening = Screening(self._around.engine, self._around.clock)
        try:
            verdict = await screening.verdict(prompt, self._around.screening, usual)
        finally:
            self._screened_for = screening.usage
        if verdict.is_safe:
            return None
        fields, ends = named_fields(hook.fields, free), OccurrenceState.SKIPPED
        reason = f"the text in {fields} did not pass the check of text from outside."
        if verdict.error:
            reason = f"the text in {fields} could not be checked: {verdict.error}."
            ends = OccurrenceState.FAILED
        return AttemptOutcome(ends, error=reason, kind=verdict.kind, skips_for=SkipReason.SCREENING)

    async def _turn(self) -> AttemptOutcome:
        around, run = self._around, self.run
        spec = await self._session()
        context = ToolContext(
            run,
            around.store,
            around.repositories,
            around.clock,
            around.root,
            around.poster,
            around.is_busy,
            servers=around.tools.servers,
        )
        prompt = Prompt(await self._prompt(), id=str(uuid4()))
        end: TurnEnded | None = None
        watch = ChangeWatch(around.echo, run.occurrence or CONVERSATION)
        tools = toolset(context, watch.noting(around.tools.gate(run)))
        servers = {name: [*map(self._finishing, each)] for name, each in tools.servers.items()}
        gate = self._noting_effects(tools.gate)
        tools = around.auto_commit.of(replace(tools, gate=gate, servers=servers), lambda: run)
        async with around.engine.open(spec, tools) as agent:
            try:
                async for event in watch.watching(agent.turn(prompt), job=run.label):
                    # Record names and numbers only, never the agent's text.
                    match event:
                        case SessionNamed(session_id):
                            await self._name(session_id)
                        case Compacted(session_id=session_id):
                            run.session = session_id
                            await around.store.transact(lambda tx: note_reading(tx, run))
                        case TurnEnded():
                            end = event
            finally:
                self.usage = agent.usage
        if end is not None and end.failure is not None:
            failure = end.failure
            return AttemptOutcome(OccurrenceState.FAILED, error=failure.sentence, kind=failure.kind)
        if end is None or end.cause is not EndCause.COMPLETED:
            reason = ENGINE_SILENT if end is None else STOPPED
            return AttemptOutcome(OccurrenceState.FAILED, error=reason)
        return AttemptOutcome(OccurrenceState.DONE)

    def _finishing(self, tool: Tool) -> Tool:
        """The same tool, whose call goes on after a cancelled run, as long as `within` waits."""

        async def run(arguments: Mapping[str, object]) -> ToolAnswer:
            call = asyncio.ensure_future(tool.run(arguments))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
            return await asyncio.shield(call)

        return replace(tool, run=run)

    def _noting_effects(self, gate: Gate) -> Gate:
        """Write an `effect` row before the first call of each tool that changes something.

        After a crash, only an attempt without such a row is retried; the others say what it did.
        """

        async def noted(call: ToolCall) -> Refusal | None:
            refusal = await gate(call)
            is_new = changes_something(call.tool) and call.tool not in self._noted_tools
            run = self.run
            if refusal is None and is_new and run.occurrence:
                self._noted_tools.add(call.tool)
                occurrence = Occurrence.parse(run.occurrence)
                facts = {"attempt": self._this.number, "tool": call.tool, "session": run.session}
                await self._around.store.transact(
                    lambda tx: tx.ledger.append(LedgerRow(tx.now, EFFECT, occurrence, facts))
                )
            return refusal

        return noted

    async def _session(self) -> SessionSpec:
        """A branch of the main session, or a blank one, with an id chosen in advance."""
        run, job, parent = self.run, self._job.spec, self.run.parent
        base = await self._around.spec()
        run.session = SessionId(str(uuid4()))
        model = job.model.value if job.model else base.model
        if job.model and parent is not None:
            # A larger one, if the history does not fit into that of the job.
            length = await self._around.store.read(lambda tx: context_of(tx, parent))
            model = fitting_model(job.model.value, length)
        return replace(
            base,
            resume=None,
            begin=run.session,
            branch_of=parent,
            model=model,
            thinking="adaptive" if job.thinking else "off",
            occurrence=run.occurrence,
        )

    async def _prompt(self) -> str:
        around, job, policy = self._around, self._job, self.run.policy
        now = around.clock.now()
        # Store the refilled budget, so that a clock set back later takes no token away.
        budget = await around.store.transact(
            lambda tx: tx.budget.change(lambda budget: budget.refilled(now))
        )
        ask = self._this.upcoming
        upcoming = await asyncio.to_thread(ask) if ask is not None else None
        waiting = PendingUpdates()
        if policy.kind is RunKind.BACKGROUND:
            waiting = await around.store.read(lambda tx: tx.updates.get())
        quiet = await around.store.read(quiet_settings)
        briefing = Briefing(
            policy.report,
            policy.allow_ping,
            is_busy=around.is_busy(),
            budget=budget.status_line(now),
            schedule=upcoming_lines(upcoming, budget, quiet) if upcoming else "",
            tools=policy.tools,
            skills=job.spec.skills,
            chain=job.chain,
            must=policy.must,
            is_paid=self.run.occurrence in budget.held,
            quiet_until=quiet_until(quiet, now),
            data=sent_data(self._data) if isinstance(job, CalledJob) else "",
        )
        return background_prompt(
            job,
            now,
            preamble=build_bg_preamble(briefing),
            updates=updates_block(waiting, READ_ONLY, now, hides_untrusted=True),
            late_since=self.run.late_since,
            data=self._data,
        )

    async def _name(self, session: SessionId) -> None:
        run = self.run
        run.session = session
        if self._named == session:
            return
        self._named = session
        is_forked = run.policy.kind is RunKind.BACKGROUND
        event = SessionChange.BG_FORK if is_forked else SessionChange.ISOLATED_BG
        row = SessionEvent(session, event, self._around.clock.now(), run.parent)
        # Again: the conversation may have read something between our look and the branch.
        await self.inherit_taint()

        def step(tx: Transaction) -> None:
            tx.session_history.append(row)
            note_reading(tx, run)

        await self._around.store.transact(step)
