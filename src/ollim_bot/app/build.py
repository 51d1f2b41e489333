"""Builds the conversation and the schedule from their parts."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path

from ollim_bot.conversation.approvals import Approvals
from ollim_bot.conversation.background import BackgroundRuns
from ollim_bot.conversation.background_attempt import AutoCommit, BackgroundDeps
from ollim_bot.conversation.buttons import Action, ButtonRouter, Uses
from ollim_bot.conversation.chat_sessions import MainSession, conversation_tools, main_run
from ollim_bot.conversation.commands.dispatcher import CommandDispatcher, CommandServices, Queued
from ollim_bot.conversation.commands.help import HelpCommands
from ollim_bot.conversation.commands.jobs import JobCommands
from ollim_bot.conversation.commands.program import (
    PermissionCommands,
    PingCommands,
    ProgramCommands,
    SettingCommands,
    SetUp,
)
from ollim_bot.conversation.commands.sessions import (
    UNDO_CLEAR,
    Compaction,
    ConversationCommands,
    CostCommands,
    SearchCommands,
    SessionCommands,
)
from ollim_bot.conversation.conversation import Conversation
from ollim_bot.conversation.delivery import DeliveryQueue
from ollim_bot.conversation.delivery_queues import DeliveryQueues
from ollim_bot.conversation.digests import DigestButtons
from ollim_bot.conversation.disk_gate import DiskGate
from ollim_bot.conversation.events import EventButtons, EventCalendar
from ollim_bot.conversation.failure_notices import FailureNotices
from ollim_bot.conversation.forks.commands import (
    ForkButtons,
    ForkCommands,
    ForkRequests,
    IdleWatch,
)
from ollim_bot.conversation.forks.forks import Forks, ForkSession, Replies, fork_spec
from ollim_bot.conversation.google import GoogleConnection
from ollim_bot.conversation.greeting import Greeting
from ollim_bot.conversation.intake import MessageIntake
from ollim_bot.conversation.jobs.buttons import JobButtons, JobRemover
from ollim_bot.conversation.jobs.due_items import ItemButtons, UndoExpiry
from ollim_bot.conversation.jobs.echo import ChangeEcho, FormerContents
from ollim_bot.conversation.jobs.foreground import ForegroundJobs, JobRuns, PlainDelivery
from ollim_bot.conversation.jobs.overviews import DaySources, Overviews
from ollim_bot.conversation.message_poster import MessagePoster, with_open_button
from ollim_bot.conversation.notices import Notices
from ollim_bot.conversation.quiet import QuietCommands, QuietWatch
from ollim_bot.conversation.set_up_talk import SetUpTalk
from ollim_bot.conversation.state import ConversationState, StatusBoard
from ollim_bot.conversation.surface_fanout import SurfaceFanout
from ollim_bot.conversation.task_move import TaskMover
from ollim_bot.conversation.tasks import DueTasks, TaskCommands
from ollim_bot.conversation.tool_servers import ServerCards
from ollim_bot.conversation.turns.loop import InputLoop, Recovery
from ollim_bot.conversation.turns.questions import TurnInputs
from ollim_bot.conversation.turns.retries import RETRY_AFTER_LOGIN, LoginMark, Retries
from ollim_bot.conversation.turns.runner import TurnRunner
from ollim_bot.domain.calendar import CalendarCopy
from ollim_bot.domain.jobs import JobKind
from ollim_bot.domain.pasted_addresses import AddressKind, TakeAddress
from ollim_bot.domain.text import with_program
from ollim_bot.errors import StorageError
from ollim_bot.paths import DataPaths
from ollim_bot.ports import (
    AgentEngine,
    AttachmentStore,
    Channel,
    ChatSurface,
    Clock,
    Disk,
    Gate,
    JobRepositories,
    Journal,
    SessionSpec,
    Status,
    TaskList,
)
from ollim_bot.prompts.turns import read_screening, read_set_up
from ollim_bot.schedule.dispatch import Dispatcher, UpcomingReader
from ollim_bot.schedule.due_jobs import DueJobs
from ollim_bot.schedule.extra_times import HeadsUps, Nags
from ollim_bot.schedule.job_index import JobIndex
from ollim_bot.schedule.ledger_records import ArmedJobs, Heartbeat, ScheduleRecords
from ollim_bot.schedule.owner_zone import OwnerZone
from ollim_bot.schedule.run_requests import RunRequests
from ollim_bot.schedule.scheduler import Scheduler
from ollim_bot.schedule.watcher import Events, HandEdits, Watcher, file_events
from ollim_bot.schedule.webhook_runs import WebhookRuns
from ollim_bot.settings import GoogleAddresses
from ollim_bot.store.calendars import readable_copies
from ollim_bot.store.heartbeat import HeartbeatFile
from ollim_bot.store.item_answers import ItemAnswers
from ollim_bot.store.job_files import JobFileChanges
from ollim_bot.store.job_folder import SharedReadings
from ollim_bot.store.run_requests import RequestFolder
from ollim_bot.store.steps import count_in_tainted_turn
from ollim_bot.store.store import Store
from ollim_bot.tools.context import ToolContext
from ollim_bot.tools.gates import Allowed, BackgroundTools, TaintCheck, TaintGuard, Undecided
from ollim_bot.tools.job_validator import JobChecker

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConversationDeps:
    """The collaborators of a conversation.

    `spec` gives the specification of a session as of now. `gate` builds the check that runs before
    each tool call, from what the owner has allowed, from the part that decides everything else, and
    from the check of turns that have read untrusted text. `doctor` examines the whole installation.
    `restart` restarts the bot. `newer_version` is one that is known to exist. `surfaces` follow the
    log; `channels` confirm what is sent.
    `tasks` returns the list of tasks in use now, `events` the calendar whose events can be changed.
    `take_address` uses an address that the owner pasted. `calendars` reads the copies of their
    calendars. `google` takes the place of Google's own addresses. `patience` is how many seconds to
    wait for a slow surface. `zone` is the owner's while the configuration names none.
    """

    engine: AgentEngine
    store: Store
    repositories: JobRepositories
    clock: Clock
    surfaces: Sequence[ChatSurface]
    keeper: AttachmentStore
    spec: Callable[[], Awaitable[SessionSpec]]
    gate: Callable[[Allowed, Undecided, TaintCheck], Gate]
    background_tools: BackgroundTools
    journal: Journal
    job_files: JobChecker
    former: FormerContents
    working_directory: Path
    status: Status
    doctor: Callable[[], Awaitable[str]]
    restart: Callable[[], None]
    update: Callable[[], Awaitable[str]]
    newer_version: Callable[[], Awaitable[str | None]]
    login: LoginMark
    tasks: Callable[[], TaskList]
    events: Callable[[], EventCalendar]
    channels: Sequence[Channel] = ()
    take_address: Mapping[AddressKind, TakeAddress] = field(default_factory=dict)
    calendars: Callable[[], Sequence[CalendarCopy]] = tuple
    webhook_port: int | None = None
    zone: tzinfo = UTC
    google: GoogleAddresses = field(default_factory=GoogleAddresses)
    patience: float = 2.0


@dataclass(frozen=True, slots=True)
class ConversationParts:
    """The conversation, and its parts that other parts of the program use."""

    conversation: Conversation
    state: ConversationState
    fanout: SurfaceFanout
    deliveries: DeliveryQueues
    poster: MessagePoster
    failures: FailureNotices
    notices: Notices
    quiet_watch: QuietWatch
    gate: DiskGate
    board: StatusBoard
    approvals: Approvals
    echo: ChangeEcho
    forks: Forks
    fork_requests: ForkRequests
    runner: TurnRunner
    retries: Retries
    intake: MessageIntake
    dispatcher: CommandDispatcher
    loop: InputLoop
    idle_watch: IdleWatch
    greeting: Greeting
    foreground: ForegroundJobs
    background: BackgroundRuns
    reminders: PlainDelivery
    job_file_changes: JobFileChanges
    manual_runs: JobRuns
    undo_expiry: UndoExpiry
    overviews: Overviews
    server_cards: ServerCards
    task_mover: TaskMover
    task_commands: TaskCommands
    google: GoogleConnection

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits to be answered."""
        return self.state.is_quiet and self.background.is_idle

    async def load(self) -> None:
        """Read the stored state; inputs that were accepted earlier are queued again."""
        await self.fanout.load()
        await self.state.load()
        await self.board.load()
        await self._load_deliveries()
        await self.approvals.load(await self.state.read(lambda tx: with_open_button(tx, "approve")))

    async def _load_deliveries(self) -> None:
        try:
            await self.deliveries.load()
        except StorageError:  # a full disk must not prevent a start
            _logger.warning("The channels could not be noted", exc_info=True)


def build_conversation(deps: ConversationDeps) -> ConversationParts:
    store, repositories, clock, root = (
        deps.store,
        deps.repositories,
        deps.clock,
        deps.working_directory,
    )

    state = ConversationState(store)
    fanout = SurfaceFanout(store, deps.surfaces, deps.channels, patience=deps.patience)
    queues = [DeliveryQueue(store, channel, clock) for channel in deps.channels]
    poster = MessagePoster(store, fanout, queues, clock, program=deps.status.program)
    board = StatusBoard(store, state, fanout, deps.status, clock)
    notices = Notices(store, state, poster, board, clock)
    gate = DiskGate(store, notices, clock)
    files = JobFileChanges(store, repositories)
    items = ItemAnswers(store, files)

    approvals = Approvals(store, state, poster, clock, root)
    echo = ChangeEcho(
        root,
        deps.job_files,
        deps.former,
        store,
        repositories.reminders,
        poster.post,
        clock,
        deps.webhook_port,
    )
    changes, auto_commit = echo.watch(), AutoCommit(deps.journal, root)
    fork_requests = ForkRequests(state, clock)
    context = ToolContext(
        run=main_run(clock.now()),
        store=store,
        repositories=repositories,
        clock=clock,
        root=root,
        poster=poster,
        is_busy=lambda: state.inbox.is_busy,
        wants=fork_requests.want,
        items=items,
        servers=deps.background_tools.servers,
        show_added=changes.note_added,
    )
    taint = TaintCheck(
        TaintGuard(root, lambda: context.run.taint),
        approvals.decide_tainted,
        lambda: store.run(lambda tx: count_in_tainted_turn(tx, tx.now.date())),
        lambda: context.run.taint,
    )
    tool_gate = deps.gate(approvals.granted, approvals.decide, taint)
    gated = conversation_tools(context, changes.noting(tool_gate), state, clock)
    tools = auto_commit.of(gated)

    main = MainSession(deps.engine, state, clock, spec=deps.spec, tools=tools)
    fork = ForkSession(
        deps.engine, state, poster, clock, spec=fork_spec(deps.spec, store), tools=tools
    )
    forks = Forks(state, main, fork, poster, clock)
    replies = Replies(deps.engine, store, state, forks, clock)

    foreground = ForegroundJobs(repositories, state, clock)
    background = BackgroundRuns(
        BackgroundDeps(
            deps.engine,
            store,
            repositories,
            clock,
            root,
            poster,
            notices,
            deps.background_tools,
            echo,
            auto_commit,
            spec=deps.spec,
            is_busy=lambda: state.inbox.is_busy,
            main=lambda: state.session,
            screening="" if deps.status.is_offline else read_screening(),
        )
    )

    inputs = TurnInputs(deps.keeper)
    runner = TurnRunner(
        state,
        forks,
        fanout,
        poster,
        context,
        foreground,
        clock,
        watch=changes.watching,
        hurry=inputs.hurry,
    )
    set_up, program = with_program(read_set_up(), deps.status.program), deps.status.program
    talk = SetUpTalk(set_up, poster, clock, name=deps.status.bot_name, program=program)

    day = DaySources(deps.calendars, DueTasks(deps.tasks))
    overviews = Overviews(store, repositories, poster, clock, day, deps.webhook_port)
    google = GoogleConnection(DataPaths(root), deps.google, store, poster, notices, clock)
    intake = MessageIntake(
        state,
        deps.keeper,
        replies,
        poster,
        runner,
        board,
        items,
        {AddressKind.GOOGLE_REDIRECT: google.take, **deps.take_address},
        echo.undo,
        clock,
        talk if deps.status.is_offline else None,
    )
    services = _command_services(
        deps,
        google,
        state,
        poster,
        approvals,
        forks,
        ForkCommands(forks, fork_requests, state, poster, clock),
        runner,
        SetUp(set_up, intake.receive),
        overviews,
        board,
    )
    retries = Retries(store, state, forks, poster, clock, login=deps.login)
    dispatcher = CommandDispatcher(
        state,
        poster,
        clock,
        services,
        steps={
            **{name: Queued(run, can_repeat=True) for name, run in services.forks.steps.items()},
            UNDO_CLEAR: Queued(services.conversation.undo_clear, can_repeat=True),
            RETRY_AFTER_LOGIN: Queued(retries.after_login, can_repeat=True),
        },
    )
    recovery = Recovery(state, forks, inputs, runner, poster, dispatcher, clock)
    loop = InputLoop(
        gate,
        state,
        forks,
        replies,
        inputs,
        runner,
        recovery,
        dispatcher,
        board,
    )

    deliveries, manual_runs = DeliveryQueues(store, queues, clock), JobRuns()
    server_cards = ServerCards(store, poster, notices, clock)
    task_mover = TaskMover(store, deps.tasks, poster, clock)
    fork_buttons = ForkButtons(state, fork_requests, runner.stop)
    buttons = _button_router(
        deps,
        poster,
        intake,
        approvals,
        echo,
        manual_runs,
        overviews,
        items,
        {
            **fork_buttons.actions,
            **retries.actions,
            **server_cards.actions,
            **task_mover.actions,
            **services.conversation.actions,
            **services.sessions.actions,
            **services.help.actions,
            **services.tasks.actions,
            **EventButtons(store, deps.events, poster, clock).actions,
        },
    )

    return ConversationParts(
        conversation=Conversation(
            store,
            intake,
            dispatcher,
            buttons,
            runner,
            poster,
            deliveries,
            board,
        ),
        state=state,
        fanout=fanout,
        deliveries=deliveries,
        poster=poster,
        failures=FailureNotices(store, notices.tell),
        notices=notices,
        quiet_watch=QuietWatch(store, state, poster, board, clock),
        gate=gate,
        board=board,
        approvals=approvals,
        echo=echo,
        forks=forks,
        fork_requests=fork_requests,
        runner=runner,
        retries=retries,
        intake=intake,
        dispatcher=dispatcher,
        loop=loop,
        idle_watch=IdleWatch(state, fork_requests, clock),
        greeting=Greeting(store, poster, clock, name=deps.status.bot_name, prompt=set_up),
        foreground=foreground,
        background=background,
        reminders=PlainDelivery(store, poster, gate, clock),
        job_file_changes=files,
        manual_runs=manual_runs,
        undo_expiry=UndoExpiry(store, clock),
        overviews=overviews,
        server_cards=server_cards,
        task_mover=task_mover,
        task_commands=services.tasks,
        google=google,
    )


def _button_router(
    deps: ConversationDeps,
    poster: MessagePoster,
    intake: MessageIntake,
    approvals: Approvals,
    echo: ChangeEcho,
    manual_runs: JobRuns,
    overviews: Overviews,
    items: ItemAnswers,
    others: Mapping[str, Action],
) -> ButtonRouter:
    clock = deps.clock
    jobs = JobButtons(
        deps.store,
        deps.repositories,
        JobRemover(deps.repositories, deps.job_files, deps.former),
        poster.post,
        clock,
        manual_runs,
        overviews,
    )
    return ButtonRouter(
        deps.store,
        poster,
        clock,
        receive=intake.receive,
        actions={
            "approve": Action(approvals.answer, Uses.NOTHING),
            "undo": Action(echo.undo, Uses.NOTHING),
            **ItemButtons(items, clock).actions,
            **DigestButtons(deps.store, poster).actions,
            **jobs.actions,
            **others,
        },
    )


def _command_services(
    deps: ConversationDeps,
    google: GoogleConnection,
    state: ConversationState,
    poster: MessagePoster,
    approvals: Approvals,
    forks: Forks,
    fork_commands: ForkCommands,
    runner: TurnRunner,
    set_up: SetUp,
    overviews: Overviews,
    board: StatusBoard,
) -> CommandServices:
    store, clock = deps.store, deps.clock
    return CommandServices(
        ConversationCommands(store, state, runner, approvals, forks, poster, clock),
        Compaction(store, forks, runner, clock),
        SessionCommands(deps.engine, store, state, poster, forks, clock, deps.working_directory),
        SearchCommands(store, clock),
        CostCommands(store, clock, deps.status.price),
        fork_commands,
        SettingCommands(store, deps.repositories, clock, deps.zone, lambda: board.current),
        PermissionCommands(approvals),
        PingCommands(store, clock),
        QuietCommands(store, clock),
        JobCommands(store, overviews, clock),
        TaskCommands(store, deps.tasks, poster, clock),
        set_up,
        ProgramCommands(deps.doctor, deps.restart, deps.update, deps.newer_version),
        HelpCommands(store, poster),
        google,
    )


def build_schedule(
    paths: DataPaths,
    store: Store,
    repositories: JobRepositories,
    conversation: ConversationParts,
    edits: HandEdits,
    clock: Clock,
    zone: OwnerZone,
    *,
    check_shared: Callable[[], None] = lambda: None,
    events: Events = file_events,
    disk: Disk | None = None,
    shared: Mapping[JobKind, SharedReadings] | None = None,
) -> Scheduler:
    """Build the scheduler; `events` yields the file changes that the system reports.

    `shared` has what the repositories have read of the job files. `check_shared` is as in
    `JobIndex`.
    """
    index = JobIndex(
        paths, clock, conversation.notices, edits, disk, shared, check_shared=check_shared
    )
    dispatch = Dispatcher(
        store,
        conversation.gate,
        conversation.foreground,
        conversation.background,
        conversation.reminders,
        conversation.job_file_changes,
        clock,
        UpcomingReader(index, clock, paths.root, partial(readable_copies, paths)),
        conversation.manual_runs,
    )
    files, poster = conversation.job_file_changes, conversation.poster
    return Scheduler(
        index,
        Watcher(paths, clock, conversation.notices.tell, events=events),
        files,
        (
            Nags(store, index),
            HeadsUps(store, index, poster, clock),
            DueJobs(store, index, dispatch, conversation.gate, files, clock),
        ),
        (
            RunRequests(RequestFolder(paths), repositories, dispatch, clock).run,
            WebhookRuns(store, index, dispatch, conversation.gate, clock).run,
        ),
        ScheduleRecords(
            ArmedJobs(store, clock),
            Heartbeat(store, HeartbeatFile(paths, disk)),
            zone,
        ),
        clock,
    )
